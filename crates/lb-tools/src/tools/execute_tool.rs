//! `execute_tool`: calls a tool of a server.

use std::time::Duration;

use lb_exchange::{End, Yield};
use lb_gateway::{Kind, Tracked};
use lb_wire::compose::Object;
use lb_wire::{Raw, Text};

use crate::args::Checked;
use crate::catalog::{Hints, Run, Tool};
use crate::reply::Reply;
use crate::request::Request;
use crate::running::{Limit, Running, Work};
use crate::surface::finish;

pub(crate) static TOOL: Tool = Tool {
    name: "execute_tool",
    title: "Call a tool of a server",
    description: "Call a tool of a server and return its result unchanged. list_tools shows names and input schemas. A \
                  call that takes too long or needs an answer from you or the user continues in the background: you \
                  get a taskId; use get_task_result, or respond_to_elicitation if it asks something.",
    operation: "execute tool",
    input: r#"{
        "server": { "type": "string", "description": "Name of the server" },
        "tool": { "type": "string", "description": "Name of the tool, as in list_tools" },
        "args": { "type": "object", "default": {}, "description": "Arguments that fit the tool's inputSchema" },
        "timeout_ms": { "type": "integer", "minimum": 100, "maximum": 900000, "default": 120000, "description": "Wait this long before it becomes a task (45 s if left out and no progress is requested)" },
        "task_ttl_ms": { "type": "integer", "minimum": 1000, "default": 600000, "description": "How long the task may then take, at most 30 minutes" }
    }"#,
    required: &["server", "tool"],
    output: None,
    hints: Hints::Acts,
    run: Run::Drives(|request, out, tracked| Box::pin(run(request, out, tracked))),
};

/// How long a caller waits who says nothing and hears of progress.
const TIMEOUT: Duration = Duration::from_secs(120);

async fn run(request: Request, out: Yield, tracked: Tracked) -> End {
    match start(&request) {
        Ok((work, limit)) => Running::new(request, out, tracked, work, limit).run().await,
        Err(failure) => finish(Reply::failed(failure), &request.seen, tracked),
    }
}

fn start(request: &Request) -> Checked<(Work, Limit)> {
    let args = &request.args;
    let (server, tool) = (args.text("server")?, args.text("tool")?);
    let arguments = args.object("args")?.unwrap_or_else(Raw::empty_object);
    let timeout = args.millis("timeout_ms", 100..=900_000)?;
    // The session knows the longest there is.
    let ttl = args.millis("task_ttl_ms", 1_000..=u64::MAX)?;
    let backend = request.backend_of(&server)?;
    let live = request.live();
    let patience = live.policy().patience.filter(|_| request.token.is_none());
    let limit = Limit { timeout: timeout.or(patience).unwrap_or(TIMEOUT), ttl };
    let params = Object::new().text("name", &tool).raw("arguments", &arguments).finish();
    let name = backend.name().clone();
    let tracked =
        live.tracker().begin(live.hash(), Kind::BackendTool, &tool, Some(&name), Some(&arguments), live.now());
    let exchange = backend.call(live, "tools/call", params, request.token.clone());
    let called = (name, Text::from(&*tool), arguments);
    Ok((Work::new(live, &request.asked, called, exchange, tracked), limit))
}
