//! `get_task`: everything about one task.

use lb_session::{PendingKind, Ulid};

use lb_wire::Text;

use super::get_server_status::asked;
use crate::args::Checked;
use crate::catalog::{Hints, Run, Tool};
use crate::failure::{self, Failure};
use crate::reply::Reply;
use crate::request::Request;

pub(crate) static TOOL: Tool = Tool {
    name: "get_task",
    title: "Get a task",
    description: "Show one background task: status, progress, arguments, result or error, and what its server asks \
                  (answer with respond_to_elicitation). Returns at once; use get_task_result to wait for the end.",
    operation: "get task",
    input: r#"{ "task_id": { "type": "string", "description": "taskId from execute_tool or list_tasks" } }"#,
    required: &["task_id"],
    output: Some(
        r#"{ "taskId": { "type": "string" }, "status": { "type": "string" }, "error": { "type": ["string", "object"] } }"#,
    ),
    hints: Hints::Reads,
    run: Run::Now(|request| run(request).into()),
};

fn run(request: &Request) -> Checked<Reply> {
    let (id, text) = task_id(request)?;
    let detail = request.live().cell().with(|session| {
        let task = session.task(id)?;
        Some(task.detail(&asked(session, task.server(), PendingKind::Elicitation)))
    });
    detail.map(Reply::object).ok_or_else(|| no_task(&text))
}

/// The task that is meant.
pub(crate) fn task_id(request: &Request) -> Checked<(Ulid, String)> {
    let text = request.args.text("task_id")?;
    let id = Ulid::parse(&text).ok_or_else(|| no_task(&text))?;
    match server_of(request, id) {
        Some(server) if request.knows(&server) => Ok((id, text)),
        Some(_) | None => Err(no_task(&text)),
    }
}

/// The server that a task runs at.
pub(crate) fn server_of(request: &Request, id: Ulid) -> Option<Text> {
    request.live().cell().with(|session| session.task(id).map(|task| task.server().clone()))
}

/// A task that never was, or is forgotten.
pub(crate) fn no_task(id: &str) -> Failure {
    Failure::new(failure::TASK_NOT_FOUND, format!("Task '{id}' not found"))
}
