//! `remove_server`: forgets a server.

use lb_gateway::RemoveError;
use lb_wire::compose::Object;

use crate::args::Checked;
use crate::catalog::{Hints, Run, Tool};
use crate::failure::{FORBIDDEN, Failure};
use crate::reply::Reply;
use crate::request::Request;

pub(crate) static TOOL: Tool = Tool {
    name: "remove_server",
    title: "Remove a server",
    description: "Disconnect a server and forget it, for all your sessions. Its tasks fail and its open requests are \
                  withdrawn. Use reconnect_server instead if it only misbehaves.",
    operation: "remove server",
    input: r#"{ "name": { "type": "string", "description": "Server name" } }"#,
    required: &["name"],
    output: Some(r#"{ "removed": { "type": "boolean" } }"#),
    hints: Hints::Ends,
    run: Run::Waits(|request| Box::pin(async move { run(request).await.into() })),
};

async fn run(request: Request) -> Checked<Reply> {
    let name = request.args.text("name")?;
    let added_by = request.live().servers().into_iter().find(|view| *view.name == *name).and_then(|view| view.added_by);
    request.live().remove_server(&name).await.map_err(|error| match &error {
        RemoveError::NoServer(none) => Failure::no_server(none),
        RemoveError::Others(_) => Failure::new(FORBIDDEN, error.to_string()),
    })?;
    let structured = Object::new().text("name", &name).flag("removed", true).finish();
    // What the operator defined comes back with the next start.
    let until =
        if added_by.is_none() { ", which is in the configuration, until landbridge is started again" } else { "" };
    Ok(Reply::said(&format!("Removed server '{name}'{until}"), structured))
}
