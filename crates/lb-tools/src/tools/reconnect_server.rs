//! `reconnect_server`: a fresh connection, whatever state the old one is in.

use lb_gateway::ReconnectError;
use lb_wire::compose::Object;

use crate::args::Checked;
use crate::catalog::{Hints, Run, Tool};
use crate::failure::Failure;
use crate::reply::Reply;
use crate::request::Request;

pub(crate) static TOOL: Tool = Tool {
    name: "reconnect_server",
    title: "Reconnect a server",
    description: "Close the connection to a server (restarting its program, if any) and connect again now. Use it \
                  when a server hangs or keeps failing; its running tasks fail.",
    operation: "reconnect server",
    input: r#"{ "name": { "type": "string", "description": "Server name" } }"#,
    required: &["name"],
    output: Some(r#"{ "status": { "type": "string" } }"#),
    hints: Hints::Acts,
    run: Run::Waits(|request| Box::pin(async move { run(request).await.into() })),
};

async fn run(request: Request) -> Checked<Reply> {
    let name = request.args.text("name")?;
    // It ends what others of the same principal have running.
    request.backend_of(&name, "tools/call", None)?;
    request.live().reconnect_server(&name).await.map_err(|error| match error {
        ReconnectError::NoServer(error) => Failure::no_server(&error),
        ReconnectError::Failed(why) => Failure::unavailable(&name, &why),
    })?;
    let structured = Object::new()
        .text("name", &name)
        .text("status", "connected")
        .number("attemptsTaken", 0)
        .flag("forced", true)
        .finish();
    Ok(Reply::said(&format!("Reconnected to server '{name}'"), structured))
}
