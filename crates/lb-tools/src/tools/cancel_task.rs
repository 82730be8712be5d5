//! `cancel_task`: ends a call that goes on in the background.

use lb_session::TaskError;
use lb_wire::compose::Object;

use super::get_task::{no_task, server_of, task_id};
use crate::args::Checked;
use crate::catalog::{Hints, Run, Tool};
use crate::failure::{self, Failure};
use crate::reply::Reply;
use crate::request::Request;

pub(crate) static TOOL: Tool = Tool {
    name: "cancel_task",
    title: "Cancel a task",
    description: "Stop a working background task. The server is told to cancel the call; what it has done already \
                  stays done.",
    operation: "cancel task",
    input: r#"{ "task_id": { "type": "string", "description": "taskId from execute_tool or list_tasks" } }"#,
    required: &["task_id"],
    output: Some(r#"{ "success": { "type": "boolean" } }"#),
    hints: Hints::Ends,
    run: Run::Now(|request| run(request).into()),
};

fn run(request: &Request) -> Checked<Reply> {
    let (id, text) = task_id(request)?;
    if let Some(server) = server_of(request, id) {
        request.allows("tools/call", &server, None)?;
    }
    let now = request.now();
    request.live().cell().with(|session| session.cancel_task(id, now)).map_err(|error| match error {
        TaskError::NotFound(_) => no_task(&text),
        TaskError::Ended(status) => {
            let message = format!("Task '{text}' is already {}", status.as_str());
            Failure::new(failure::EXECUTION_FAILED, message)
        }
    })?;
    let structured = Object::new().flag("success", true).text("taskId", &text).finish();
    Ok(Reply::said(&format!("Cancelled task '{text}'"), structured))
}
