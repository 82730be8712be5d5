//! One task.

mod keep;

pub use self::keep::KeptTask;

use std::time::Duration;

use lb_exchange::Remote;
use lb_wire::compose::Object;
use lb_wire::{Raw, Text};

use super::NewTask;
use crate::moment::{Moment, rfc3339};
use crate::ulid::Ulid;

/// How a task is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words explain themselves")]
pub enum TaskStatus {
    Working,
    Completed,
    Failed,
    Cancelled,
    Expired,
}

impl TaskStatus {
    const ALL: [Self; 5] = [Self::Working, Self::Completed, Self::Failed, Self::Cancelled, Self::Expired];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// From its word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// A call that became a task. The handle of the call goes when it ends, and is never shown.
#[derive(Debug)]
pub struct Task {
    id: Ulid,
    server: Text,
    tool: Text,
    args: Raw,
    ttl: Duration,
    created: Moment,
    updated: Moment,
    message: Option<Box<str>>,
    state: State,
    /// When it expires unless something puts that off; kept after its end because it is shown.
    due: Duration,
}

#[derive(Debug)]
pub(super) enum State {
    Working(Remote),
    Ended { how: TaskStatus, result: Option<Raw>, error: Option<Box<str>> },
}

impl Task {
    pub(super) fn new(id: Ulid, new: NewTask, ttl: Duration, now: Moment) -> Self {
        Self {
            id,
            // All of these may be slices of a message that need not be kept for them.
            server: Text::from(&*new.server),
            tool: Text::from(&*new.tool),
            args: new.args.detached(),
            ttl,
            created: now,
            updated: now,
            message: None,
            state: State::Working(new.remote),
            due: now.up + ttl,
        }
    }

    /// Its name.
    pub fn id(&self) -> Ulid {
        self.id
    }

    /// The server it runs on.
    pub fn server(&self) -> &Text {
        &self.server
    }

    /// The tool, by the server's name for it.
    pub fn tool(&self) -> &Text {
        &self.tool
    }

    /// What the tool was called with.
    pub fn args(&self) -> &Raw {
        &self.args
    }

    /// How long it may take, from its promotion.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// When it was promoted.
    pub fn created(&self) -> Moment {
        self.created
    }

    /// When it expires unless a request of its server puts that off, on the clock of [`Moment::up`].
    pub fn due(&self) -> Duration {
        self.due
    }

    /// How it is doing.
    pub fn status(&self) -> TaskStatus {
        match &self.state {
            State::Working(_) => TaskStatus::Working,
            State::Ended { how, .. } => *how,
        }
    }

    /// Whether it has not ended.
    pub fn is_working(&self) -> bool {
        matches!(self.state, State::Working(_))
    }

    /// What the tool returned.
    pub fn result(&self) -> Option<&Raw> {
        match &self.state {
            State::Working(_) => None,
            State::Ended { result, .. } => result.as_ref(),
        }
    }

    /// What it keeps of others' words.
    pub(crate) fn bytes(&self) -> usize {
        self.args.as_bytes().len() + self.result().map_or(0, |result| result.as_bytes().len())
    }

    /// Why there is no result, or not all of it.
    pub fn error(&self) -> Option<&str> {
        match &self.state {
            State::Working(_) => None,
            State::Ended { error, .. } => error.as_deref(),
        }
    }

    /// As a row of a list.
    pub fn row(&self) -> Raw {
        let expires = self.created.unix + self.due.saturating_sub(self.created.up);
        self.head(false)
            .text("expiresAt", &rfc3339(expires))
            .maybe_text("error", self.error())
            .flag("hasResult", self.result().is_some())
            .finish()
    }

    /// In few words.
    pub fn brief(&self) -> Raw {
        Object::new()
            .text("taskId", &self.id.to_string())
            .text("toolName", &self.tool)
            .text("status", self.status().as_str())
            .text("createdAt", &rfc3339(self.created.unix))
            .finish()
    }

    /// All there is to say of it, beside what its server asks for.
    pub fn detail(&self, pending_elicitations: &Raw) -> Raw {
        self.head(true)
            .maybe_text("error", self.error())
            .maybe("result", self.result())
            .raw("pending_elicitations", pending_elicitations)
            .finish()
    }

    fn head(&self, with_args: bool) -> Object {
        Object::new()
            .text("taskId", &self.id.to_string())
            .text("server", &self.server)
            .text("toolName", &self.tool)
            .maybe("args", with_args.then_some(&self.args))
            .text("status", self.status().as_str())
            .maybe_text("statusMessage", self.message.as_deref())
            .text("createdAt", &rfc3339(self.created.unix))
            .text("lastUpdatedAt", &rfc3339(self.updated.unix))
            .number("ttl", u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn progressed(&mut self, message: Option<&str>, now: Moment) {
        self.updated = now;
        if let Some(message) = message {
            self.message = Some(message.into());
        }
    }

    pub(super) fn put_off(&mut self, due: Duration) {
        self.due = self.due.max(due);
    }

    /// Ends it and hands out the handle of its call; `None`, and nothing changes, when it has ended before.
    pub(super) fn end(&mut self, state: State, now: Moment) -> Option<Remote> {
        match std::mem::replace(&mut self.state, state) {
            State::Working(remote) => {
                self.updated = now;
                Some(remote)
            }
            before @ State::Ended { .. } => {
                self.state = before;
                None
            }
        }
    }
}
