//! One request of a server that waits for its answer.

use std::borrow::Cow;
use std::time::Duration;

use lb_exchange::{AskKey, Remote};
use lb_wire::compose::Object;
use lb_wire::{Raw, Text};

use super::{NewRequest, PendingKind};
use crate::happening::Cause;
use crate::moment::{Moment, rfc3339};
use crate::ulid::Ulid;

/// What is shown of a sampling request, as its server wrote it.
const SAMPLING: [&str; 9] = [
    "maxTokens",
    "systemPrompt",
    "temperature",
    "stopSequences",
    "messages",
    "modelPreferences",
    "includeContext",
    "tools",
    "toolChoice",
];
/// What is shown of an elicitation beside its mode and message.
const ELICITATION: [&str; 3] = ["requestedSchema", "elicitationId", "url"];

/// A request of a server that waits.
#[derive(Debug)]
pub struct Pending {
    id: Ulid,
    created: Moment,
    wait: Duration,
    /// Shown with every response, so that it is looked up once.
    message: Option<Raw>,
    url: bool,
    new: NewRequest,
}

impl Pending {
    pub(super) fn new(id: Ulid, mut new: NewRequest, wait: Duration, now: Moment) -> Self {
        // Both may be slices of a message that need not be kept for them.
        new.server = Text::from(&*new.server);
        new.params = new.params.detached();
        let url = new.params.member("mode").is_some_and(|mode| mode.to_text().as_deref() == Some("url"));
        Self { id, created: now, wait, message: new.params.member("message"), url, new }
    }

    /// Its name, which is not the one that its server gave it.
    pub fn id(&self) -> Ulid {
        self.id
    }

    /// Who asks.
    pub fn server(&self) -> &Text {
        &self.new.server
    }

    /// What kind of answer is wanted.
    pub fn kind(&self) -> PendingKind {
        self.new.kind
    }

    /// What is asked, as the server wrote it.
    pub fn params(&self) -> &Raw {
        &self.new.params
    }

    /// When it came.
    pub fn created(&self) -> Moment {
        self.created
    }

    /// The task it belongs to, where its server said so.
    pub fn related_task(&self) -> Option<Ulid> {
        self.new.related_task
    }

    /// When it can no longer be answered, on the clock of [`Moment::up`].
    pub fn due(&self) -> Duration {
        self.created.up + self.wait
    }

    /// How an elicitation wants its answer: by a form, or behind a link.
    pub fn mode(&self) -> &'static str {
        if self.url { "url" } else { "form" }
    }

    /// What an elicitation says to the person it asks.
    pub fn message(&self) -> Cow<'_, str> {
        self.message.as_ref().and_then(Raw::to_text).unwrap_or_default()
    }

    /// As a row of a list.
    pub fn row(&self) -> Raw {
        let row = self
            .named()
            .text("timestamp", &rfc3339(self.created.unix))
            .text("expiresAt", &rfc3339(self.created.unix + self.wait));
        let row = match self.kind() {
            PendingKind::Elicitation => {
                let row = row.text("mode", self.mode()).text("message", &self.message());
                self.passed(row, &ELICITATION)
            }
            PendingKind::Sampling => self.passed(row, &SAMPLING),
        };
        match self.related_task() {
            Some(task) => row.text("relatedTaskId", &task.to_string()).finish(),
            None => row.finish(),
        }
    }

    /// Its name and who asks.
    pub(super) fn named(&self) -> Object {
        Object::new().text("requestId", &self.id.to_string()).text("server", self.server())
    }

    /// Why it can no longer be answered.
    pub(super) fn reason(&self, cause: Cause) -> String {
        let kind = self.kind().as_str();
        match cause {
            Cause::Timeout => format!("{kind} request timed out after {}ms", self.wait.as_millis()),
            Cause::Cancelled => format!("{kind} request was cancelled"),
            Cause::ServerDisconnected => "Server disconnected".into(),
            Cause::ServerRemoved => "Server removed".into(),
            Cause::ServerCancelled => "Server withdrew the request".into(),
            Cause::Shutdown => "Session ended".into(),
            Cause::NodeLost => "Node lost".into(),
        }
    }

    pub(super) fn into_parts(self) -> (Text, Remote, AskKey) {
        (self.new.server, self.new.remote, self.new.key)
    }

    fn passed(&self, row: Object, names: &[&str]) -> Object {
        names.iter().fold(row, |row, name| row.maybe(name, self.params().member(name).as_ref()))
    }
}
