//! Words for scripts.

use std::time::Duration;

use bytes::Bytes;
use lb_exchange::{Answer, Ask, AskKey, AskKind, Cancel, Command, End, ErrorBody, Note, Outcome, Resume, Step, Yield};
use lb_wire::revision::Era;
use lb_wire::{Raw, Text};
use serde_json::Value;

/// A JSON value as it travels.
pub fn raw(value: &Value) -> Raw {
    Raw::parse(Bytes::from(value.to_string())).unwrap_or_else(|_| Raw::empty_object())
}

/// A result that a legacy server wrote.
pub fn result(value: &Value) -> End {
    End::from_server(Outcome::Result(raw(value)), Era::Legacy)
}

/// A result that a modern server wrote.
pub fn modern_result(value: &Value) -> End {
    End::from_server(Outcome::Result(raw(value)), Era::Modern)
}

/// An error that a server of this era wrote.
pub fn error(value: &Value, era: Era) -> End {
    End::from_server(Outcome::Error(ErrorBody::from_server(raw(value))), era)
}

/// A notification for the client.
pub fn note(method: &str, params: &Value) -> Step {
    Step::Note(Note::new(Text::from(method), Some(raw(params))))
}

/// A request to the client that someone waits for.
pub fn ask(key: &str, method: &str, params: &Value) -> Step {
    asking(key, method, params, Resume::Live)
}

/// A request to the client that is answered by sending everything again.
pub fn replay(key: &str, method: &str, params: &Value) -> Step {
    asking(key, method, params, Resume::Replay { state: None })
}

/// Takes back a request to the client.
pub fn withdraw(key: &str) -> Step {
    Step::Withdraw { key: AskKey(Text::from(key)) }
}

/// The server would like to go on later.
pub fn pause(retry: Duration) -> Step {
    Step::Pause { retry: Some(retry) }
}

/// Waits for the answer to an ask and gives its text; errors start with `error `.
///
/// Cancel safe: no, a command may be lost.
pub async fn wait_for_answer(script: &Yield) -> String {
    loop {
        match script.command().await {
            Command::Answer(_, Answer::Result(raw)) => return raw.as_str().to_owned(),
            Command::Answer(_, Answer::Error(raw)) => return format!("error {}", raw.as_str()),
            Command::Cancel(why) => return format!("cancelled {why:?}"),
            Command::Back | Command::Away | Command::Alone => {}
        }
    }
}

/// Waits until somebody cancels, and ends as a call does that was cancelled.
///
/// Cancel safe: no, a command may be lost.
pub async fn wait_for_cancel(script: &Yield) -> (Cancel, End) {
    loop {
        if let Command::Cancel(why) = script.command().await {
            return (why, End::ours(Outcome::Cancelled));
        }
    }
}

fn asking(key: &str, method: &str, params: &Value, resume: Resume) -> Step {
    Step::Ask(Ask {
        key: AskKey(Text::from(key)),
        kind: AskKind::of(method),
        method: Text::from(method),
        params: Some(raw(params)),
        resume,
    })
}
