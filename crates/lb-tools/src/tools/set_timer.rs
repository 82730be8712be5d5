//! `set_timer`: an event at a later time.

use lb_session::{Timer, TimerError};

use crate::args::{Checked, refuse};
use crate::catalog::{Hints, Run, Tool};
use crate::failure::{self, Failure};
use crate::reply::Reply;
use crate::request::Request;

pub(crate) static TOOL: Tool = Tool {
    name: "set_timer",
    title: "Set a timer",
    description: "Remind yourself: after duration_ms the message comes back as a timer_expired event in a later \
                  reply or await_activity; with interval true, again and again (every second at most).",
    operation: "set timer",
    input: r#"{
        "duration_ms": { "type": "integer", "minimum": 1, "maximum": 86400000, "description": "When, from now" },
        "message": { "type": "string", "minLength": 1, "maxLength": 500, "description": "What to say then" },
        "interval": { "type": "boolean", "default": false, "description": "Repeat until deleted" }
    }"#,
    required: &["duration_ms", "message"],
    output: Some(r#"{ "timerId": { "type": "string" }, "expiresAt": { "type": "string" } }"#),
    hints: Hints::Adds,
    run: Run::Now(|request| run(request).into()),
};

fn run(request: &Request) -> Checked<Reply> {
    let duration = request.args.millis("duration_ms", 1..=86_400_000)?;
    let duration = duration.ok_or_else(|| refuse("duration_ms", "is required"))?;
    let message = request.args.text("message")?;
    let interval = request.args.flag("interval", false)?;
    let now = request.now();
    request.live().remember();
    let set = request.live().cell().with(|session| {
        let id = session.set_timer(duration, &message, interval, now)?;
        Ok(session.timer(id).map(Timer::receipt))
    });
    match set {
        Ok(Some(receipt)) => Ok(Reply::object(receipt).with_session()),
        Ok(None) | Err(TimerError::Closed) => Err(Failure::new(failure::SESSION_NOT_FOUND, "the session has ended")),
        Err(error @ TimerError::TooMany(_)) => Err(Failure::new(failure::LIMIT_EXCEEDED, error.to_string())),
        Err(error @ TimerError::Duration { .. }) => Err(refuse("duration_ms", &format!("is out of range: {error}"))),
        Err(error @ TimerError::Message) => Err(refuse("message", &format!("is out of range: {error}"))),
    }
}
