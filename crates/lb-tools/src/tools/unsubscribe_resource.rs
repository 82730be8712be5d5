//! `unsubscribe_resource`: no longer hearing of changes to a resource.

use lb_wire::compose::Object;

use crate::args::Checked;
use crate::catalog::{Hints, Run, Tool};
use crate::plain;
use crate::reply::Reply;
use crate::request::Request;

pub(crate) static TOOL: Tool = Tool {
    name: "unsubscribe_resource",
    title: "Unsubscribe from a resource",
    description: "Stop hearing of changes to a resource. Unsubscribing from what was never subscribed is no error.",
    operation: "unsubscribe from resource",
    input: r#"{
        "server": { "type": "string", "description": "Server name" },
        "uri": { "type": "string", "description": "URI of the resource" }
    }"#,
    required: &["server", "uri"],
    output: Some(r#"{ "subscribed": { "type": "boolean" } }"#),
    hints: Hints::Sets,
    run: Run::Waits(|request| Box::pin(async move { run(request).await.into() })),
};

async fn run(request: Request) -> Checked<Reply> {
    let (backend, uri) = (request.backend("server", "resources/unsubscribe")?, request.args.text("uri")?);
    let server = backend.name().clone();
    request.live().cell().with(|session| session.wish(&server, |wishes| wishes.subscribe(&uri, false)));
    let done = backend.unsubscribe(&uri).await;
    done.map_err(|error| plain::failure_of(&server, error))?;
    let structured = Object::new().text("server", &server).text("uri", &uri).flag("subscribed", false).finish();
    Ok(Reply::said(&format!("Unsubscribed from {uri} on server '{}'", &*server), structured))
}
