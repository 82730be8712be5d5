//! `set_log_level`: how much a server logs.

use lb_session::Level;
use lb_wire::compose::Object;

use crate::args::Checked;
use crate::catalog::{Hints, Run, Tool};
use crate::plain;
use crate::reply::Reply;
use crate::request::Request;

pub(crate) static TOOL: Tool = Tool {
    name: "set_log_level",
    title: "Set log level",
    description: "Tell a server which log messages to send, from the given level up. Read them with get_logs. Fails if \
                  the server has no logging.",
    operation: "set log level",
    input: r#"{
        "server": { "type": "string", "description": "Server name" },
        "level": {
            "enum": ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"],
            "description": "Lowest level to send"
        }
    }"#,
    required: &["server", "level"],
    output: Some(r#"{ "level": { "type": "string" } }"#),
    hints: Hints::Sets,
    run: Run::Waits(|request| Box::pin(async move { run(request).await.into() })),
};

async fn run(request: Request) -> Checked<Reply> {
    let backend = request.backend("server", "logging/setLevel")?;
    let level = request.args.need_word("level", &Level::ALL.map(Level::as_str))?;
    let server = backend.name().clone();
    let done = backend.set_log_level(level).await;
    done.map_err(|error| plain::failure_of(&server, error))?;
    request.live().cell().with(|session| session.wish(&server, |wishes| wishes.log_level = Some(level.to_owned())));
    let structured = Object::new().text("server", &server).text("level", level).finish();
    Ok(Reply::said(&format!("Server '{}' logs from level {level} on", &*server), structured))
}
