//! What the tests of this crate's state share.

use std::sync::Arc;
use std::time::Duration;

use lb_exchange::{Answer, AskKey, Command, Remote};
use lb_wire::{Raw, Text};
use parking_lot::Mutex;
use serde_json::Value;

use crate::effect::Effect;
use crate::events::Filter;
use crate::moment::Moment;
use crate::pending::{NewRequest, PendingKind};
use crate::session::Session;
use crate::tasks::NewTask;
use crate::ulid::Ulid;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// This long after the clocks started.
pub(crate) fn at(up: Duration) -> Moment {
    Moment { up, unix: Duration::from_secs(1_800_000_000) + up }
}

/// The commands that servers got, each as a line that starts with the name of its remote.
#[derive(Clone, Default)]
pub(crate) struct Wire(Arc<Mutex<Vec<String>>>);

impl Wire {
    pub(crate) fn remote(&self, name: &str) -> Remote {
        let (lines, name) = (self.0.clone(), name.to_owned());
        Remote::sink(move |command| {
            lines.lock().push(match command {
                Command::Answer(key, Answer::Result(raw)) => format!("{name} result {} {}", &*key.0, raw.as_str()),
                Command::Answer(key, Answer::Error(raw)) => format!("{name} error {} {}", &*key.0, raw.as_str()),
                Command::Cancel(why) => format!("{name} cancel {why:?}"),
                other => format!("{name} {other:?}"),
            });
            true
        })
    }

    /// Does what a session wants done, and returns what that led to since the last time.
    pub(crate) fn run(&self, session: &mut Session) -> Vec<String> {
        session.effects.drain(..).for_each(Effect::run);
        std::mem::take(&mut self.0.lock())
    }
}

/// The events since the last time: type, server and what they say.
pub(crate) fn events(session: &mut Session) -> Vec<(&'static str, String, Value)> {
    let taken = session.events.take(&Filter::All, usize::MAX, usize::MAX);
    if let Some(lease) = taken.lease {
        session.events.commit(lease);
    }
    taken.events.iter().map(|event| (event.kind, event.server.as_str().to_owned(), json(&event.data))).collect()
}

/// The types of the events since the last time.
pub(crate) fn kinds(session: &mut Session) -> Vec<&'static str> {
    events(session).into_iter().map(|(kind, _, _)| kind).collect()
}

pub(crate) fn json(raw: &Raw) -> Value {
    raw.read().expect("what we write is JSON")
}

pub(crate) fn raw(text: &str) -> Raw {
    Raw::parse(bytes::Bytes::copy_from_slice(text.as_bytes())).expect("a JSON value")
}

pub(crate) fn task(server: &str, ttl: Option<Duration>, remote: Remote) -> NewTask {
    NewTask { server: server.into(), tool: Text::from_static("dig"), args: raw(r#"{"deep":1}"#), ttl, remote }
}

pub(crate) fn ask(server: &str, kind: PendingKind, remote: Remote) -> NewRequest {
    let params = match kind {
        PendingKind::Elicitation => raw(r#"{"message":"who?","requestedSchema":{"type":"object"}}"#),
        PendingKind::Sampling => raw(r#"{"messages":[],"maxTokens":5}"#),
    };
    NewRequest { server: server.into(), kind, params, remote, key: AskKey("k".into()), related_task: None }
}

/// Ticks exactly when the session wants it, up to a time; returns when that was.
pub(crate) fn run_to(session: &mut Session, end: Duration) -> Vec<Duration> {
    let mut times = Vec::new();
    while let Some(due) = session.next_deadline().filter(|due| *due <= end) {
        assert!(times.last() != Some(&due), "a tick at {due:?} did not do what was due");
        session.tick(at(due));
        times.push(due);
    }
    times
}

/// An id that nothing has.
pub(crate) fn nobody() -> Ulid {
    Ulid::parse("00000000000000000000000000").expect("an id")
}
