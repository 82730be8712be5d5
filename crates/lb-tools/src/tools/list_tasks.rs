//! `list_tasks`: calls that go on in the background.

use lb_session::TaskStatus;
use lb_wire::Raw;

use crate::args::Checked;
use crate::catalog::{Hints, Run, Tool};
use crate::fanout;
use crate::reply::Reply;
use crate::request::Request;

pub(crate) static TOOL: Tool = Tool {
    name: "list_tasks",
    title: "List tasks",
    description: "List calls that became background tasks, newest first: [{taskId, server, toolName, status, \
                  statusMessage, expiresAt, hasResult}]. Only working ones by default; ended ones are kept 5 \
                  minutes. Fetch results with get_task_result.",
    operation: "list tasks",
    input: r#"{
        "include_completed": { "type": "boolean", "default": false, "description": "Also ended ones" },
        "server": { "type": "string", "description": "Only this server" },
        "status": {
            "enum": ["working", "completed", "failed", "cancelled", "expired"],
            "description": "Only this state"
        }
    }"#,
    required: &[],
    output: Some(r#"{ "tasks": { "type": "array" } }"#),
    hints: Hints::Reads,
    run: Run::Now(|request| run(request).into()),
};

const WORDS: [&str; 5] = ["working", "completed", "failed", "cancelled", "expired"];

fn run(request: &Request) -> Checked<Reply> {
    let all = request.args.flag("include_completed", false)?;
    let server = request.args.maybe_text("server")?;
    let status = request.args.word("status", &WORDS)?.and_then(TaskStatus::parse);
    let rows: Vec<Raw> = request.live().cell().with(|session| {
        let tasks = session.tasks().filter(|task| server.as_deref().is_none_or(|name| &**task.server() == name));
        let tasks = tasks.filter(|task| request.knows(task.server()));
        // Asking for a state is asking for its tasks, ended or not.
        let shown = tasks.filter(|task| match status {
            Some(status) => task.status() == status,
            None => all || task.is_working(),
        });
        shown.map(lb_session::Task::row).collect()
    });
    Ok(fanout::listed(request, "tasks", &rows, &[], "No tasks"))
}
