//! `subscribe_resource`: hearing of changes to a resource.

use lb_wire::compose::Object;

use crate::args::Checked;
use crate::catalog::{Hints, Run, Tool};
use crate::plain;
use crate::reply::Reply;
use crate::request::Request;

pub(crate) static TOOL: Tool = Tool {
    name: "subscribe_resource",
    title: "Subscribe to a resource",
    description: "Get told when a resource changes: notifications/resources/updated events in later replies and \
                  await_activity, also after reconnects. Fails if the server has no subscriptions.",
    operation: "subscribe to resource",
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
    let (backend, uri) = (request.backend("server", "resources/subscribe")?, request.args.text("uri")?);
    let server = backend.name().clone();
    request.live().remember();
    let done = backend.subscribe(&uri).await;
    done.map_err(|error| plain::failure_of(&server, error))?;
    request.live().cell().with(|session| session.wish(&server, |wishes| wishes.subscribe(&uri, true)));
    let structured = Object::new().text("server", &server).text("uri", &uri).flag("subscribed", true).finish();
    Ok(Reply::said(&format!("Subscribed to {uri} on server '{}'", &*server), structured).with_session())
}
