//! `get_timer`: one timer.

use lb_session::{Timer, Ulid};

use crate::args::Checked;
use crate::catalog::{Hints, Run, Tool};
use crate::failure::{self, Failure};
use crate::reply::Reply;
use crate::request::Request;

pub(crate) static TOOL: Tool = Tool {
    name: "get_timer",
    title: "Get a timer",
    description: "Show one timer: its status, how often it fired and when it fires next.",
    operation: "get timer",
    input: r#"{ "timer_id": { "type": "string", "description": "timerId from set_timer" } }"#,
    required: &["timer_id"],
    output: Some(r#"{ "id": { "type": "string" }, "status": { "type": "string" } }"#),
    hints: Hints::Reads,
    run: Run::Now(|request| run(request).into()),
};

fn run(request: &Request) -> Checked<Reply> {
    let (id, text) = timer_id(request)?;
    let row = request.live().cell().with(|session| session.timer(id).map(Timer::row));
    row.map(Reply::object).ok_or_else(|| no_timer(&text))
}

/// The timer that is meant.
pub(crate) fn timer_id(request: &Request) -> Checked<(Ulid, String)> {
    let text = request.args.text("timer_id")?;
    let id = Ulid::parse(&text).ok_or_else(|| no_timer(&text))?;
    Ok((id, text))
}

/// A timer that never was, or is forgotten.
pub(crate) fn no_timer(id: &str) -> Failure {
    Failure::new(failure::TIMER_NOT_FOUND, format!("Timer '{id}' not found"))
}
