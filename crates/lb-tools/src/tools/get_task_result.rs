//! `get_task_result`: waits for a task and passes its result on.

use std::future::poll_fn;
use std::time::Duration;

use lb_session::{Session, Task, TaskStatus, Ulid};
use lb_wire::compose::Object;
use lb_wire::{Raw, splice};

use super::get_task::{no_task, task_id};
use crate::args::Checked;
use crate::asked::AskedBy;
use crate::catalog::{Hints, Run, Tool};
use crate::failure::{self, Failure};
use crate::reply::Reply;
use crate::request::Request;
use crate::running::question;

pub(crate) static TOOL: Tool = Tool {
    name: "get_task_result",
    title: "Get the result of a task",
    description: "Wait for a background task and return the tool's own result. If still working at the timeout, or at \
                  once if it asks something, returns {status: 'working'}: do something else or answer, then call \
                  again. Repeatable for 5 minutes.",
    operation: "get task result",
    input: r#"{
        "task_id": { "type": "string", "description": "taskId from execute_tool or list_tasks" },
        "timeout_ms": {
            "type": "integer", "minimum": 0, "maximum": 900000, "default": 30000, "description": "How long to wait"
        }
    }"#,
    required: &["task_id"],
    output: None,
    hints: Hints::Reads,
    run: Run::Listens(|request| Box::pin(async move { run(request).await.into() })),
};

const WAIT: Duration = Duration::from_secs(30);

async fn run(request: Request) -> Checked<Reply> {
    let within = request.args.millis("timeout_ms", 0..=900_000)?.unwrap_or(WAIT);
    let (id, text) = task_id(&request)?;
    match ended(&request, id, within).await {
        Waited::Ended(reply) => reply,
        Waited::Unknown => Err(no_task(&text)),
        Waited::Closed => {
            let details = Object::new().text("trigger", "shutdown").finish();
            Err(Failure::new(failure::SESSION_NOT_FOUND, "the session has ended").with(details))
        }
        Waited::Working(row) => Ok(Reply::object(row)),
        Waited::Asking(row, questions) => {
            let sentence = format!("Task '{text}' waits for input. {questions} The answer returns the tool's result.");
            Ok(Reply::said(&sentence, row.clone()).with_block(Some(&row)))
        }
    }
}

/// What came of waiting for a task.
pub(crate) enum Waited {
    Ended(Checked<Reply>),
    Working(Raw),
    /// It waits for an answer; what it asks, in words.
    Asking(Raw, String),
    Unknown,
    Closed,
}

/// Waits until a task has ended, or waits itself for what another tool answers. No event is consumed.
///
/// Cancel safe: yes.
pub(crate) async fn ended(request: &Request, id: Ulid, within: Duration) -> Waited {
    let mut watch = request.live().cell().watch();
    let asked = &request.asked;
    let end = poll_fn(|cx| {
        watch.poll(cx, |session| look(session, id).or_else(|| asking(session, id, asked, Duration::ZERO)))
    });
    match tokio::time::timeout(within, end).await {
        Ok(waited) => waited,
        Err(_) => {
            let row = request.live().cell().with(|session| session.task(id).map(Task::row));
            row.map_or(Waited::Unknown, Waited::Working)
        }
    }
}

/// What there is to see of it; `None` while it works.
pub(crate) fn look(session: &Session, id: Ulid) -> Option<Waited> {
    match session.task(id) {
        Some(task) if task.is_working() && session.is_closed() => Some(Waited::Closed),
        Some(task) if task.is_working() => None,
        Some(task) => Some(Waited::Ended(outcome(task))),
        None if session.is_closed() => Some(Waited::Closed),
        None => Some(Waited::Unknown),
    }
}

/// What a task asks, or its server outside of any call since then; `None` while that is nothing.
pub(crate) fn asking(session: &Session, id: Ulid, asked: &AskedBy, since: Duration) -> Option<Waited> {
    let task = session.task(id)?;
    let questions: Vec<_> = asked.open_of(session, task, since).map(question).collect();
    let row = || splice::with(&task.row(), &[("waiting_for_input", Raw::from_static("true"))]);
    (!questions.is_empty()).then(|| Waited::Asking(row(), questions.join(" ")))
}

/// A task that has ended, as the call would have ended.
fn outcome(task: &Task) -> Checked<Reply> {
    match (task.status(), task.result()) {
        (TaskStatus::Completed, Some(result)) => Ok(Reply::kept(result.clone())),
        (status, _) => {
            let code = if status == TaskStatus::Expired { failure::TIMEOUT } else { failure::EXECUTION_FAILED };
            let error = task.error().unwrap_or("the task has no result");
            let message = format!("Task '{}' {}: {error}", task.id(), status.as_str());
            let details = Object::new().text("taskId", &task.id().to_string()).text("status", status.as_str());
            Err(Failure::new(code, message).with(details.finish()))
        }
    }
}
