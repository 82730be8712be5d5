//! What was asked of the gateway lately: one row per request, for people who look at the waterfall.
//!
//! Rows are copies of facts (who, what, when, how it ended), never steps or results. Time is an argument, nothing here
//! starts a task, and beginning or ending a row takes one lock and reads no JSON, since it is done on every call.

mod redact;
mod table;

use std::sync::Arc;
use std::time::Duration;

use lb_wire::Raw;
use parking_lot::Mutex;
use tokio::time::Instant;

pub use lb_session::{Moment, rfc3339};
use redact::redacted_json;
pub use redact::redacted_text;
pub use table::Row;
use table::{Outcome, Table};

/// Rows that are kept of one session.
pub const SESSION_ROWS_MAX: usize = 100;
/// Rows that are kept of all sessions together.
pub const ROWS_MAX: usize = 1_000;
/// What is kept of the arguments of a request, if they are kept at all.
const ARGS_BYTES_MAX: usize = 1024;
/// What is kept of an error or a summary.
const TEXT_CHARS_MAX: usize = 300;
/// What is kept of a name; those of resources can be long.
const NAME_CHARS_MAX: usize = 200;
/// What is kept of the name of a session or a server; ours are shorter.
const LABEL_CHARS_MAX: usize = 64;

/// What kind of request a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A client called a tool of the gateway.
    ToolCall,
    /// A client read a resource of the gateway.
    ResourceRead,
    /// A client asked for a prompt of the gateway.
    PromptGet,
    /// A tool of a server was called.
    BackendTool,
    /// A resource of a server was read.
    BackendResource,
    /// A prompt of a server was asked for.
    BackendPrompt,
    /// Tools were searched for with code.
    CodemodeSearch,
    /// Code was run.
    CodemodeExecute,
}

impl Kind {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Self; 8] = [
        Self::ToolCall,
        Self::ResourceRead,
        Self::PromptGet,
        Self::BackendTool,
        Self::BackendResource,
        Self::BackendPrompt,
        Self::CodemodeSearch,
        Self::CodemodeExecute,
    ];

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::ToolCall => "tool_call",
            Self::ResourceRead => "resource_read",
            Self::PromptGet => "prompt_get",
            Self::BackendTool => "backend_tool",
            Self::BackendResource => "backend_resource",
            Self::BackendPrompt => "backend_prompt",
            Self::CodemodeSearch => "codemode_search",
            Self::CodemodeExecute => "codemode_execute",
        }
    }
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// It runs.
    Pending,
    /// It ended well.
    Completed,
    /// It ended badly, or was given up.
    Failed,
    /// It took so long that it goes on in the background.
    Timeout,
}

impl Status {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Completed, Self::Failed, Self::Timeout];

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Timeout => "timeout",
        }
    }
}

/// The rows of all sessions. Clones share them.
#[derive(Clone)]
pub struct Tracker {
    table: Arc<Mutex<Table>>,
    record_args: bool,
}

impl Tracker {
    /// Without rows. Arguments are left out unless `record_args` says otherwise: they hold what users say.
    pub fn new(record_args: bool) -> Self {
        Self { table: Arc::default(), record_args }
    }

    /// A request begins. `session` is the short hash that people may see, never the id.
    #[must_use = "dropping it says that the request was given up"]
    pub fn begin(
        &self,
        session: &str,
        kind: Kind,
        name: &str,
        server: Option<&str>,
        args: Option<&Raw>,
        now: Moment,
    ) -> Tracked {
        let args = args.filter(|_| self.record_args).map(|args| redacted_json(args.as_str(), ARGS_BYTES_MAX));
        let row = Row {
            id: 0,
            session: first_chars(session, LABEL_CHARS_MAX).into(),
            kind,
            name: redacted_text(first_chars(name, NAME_CHARS_MAX)).into(),
            server: server.map(|server| first_chars(server, LABEL_CHARS_MAX).into()),
            args,
            started: now,
            ended: None,
            status: Status::Pending,
            error: None,
            summary: None,
        };
        let id = self.table.lock().insert(row);
        Tracked { table: self.table.clone(), id, started: now, since: Instant::now(), ended: false }
    }

    /// Forgets a session that has ended. What of it still runs leaves no row behind.
    pub fn clear_session(&self, session: &str) {
        self.table.lock().clear_session(session);
    }

    /// Copies of the rows, of one session or of all, in the order in which they began.
    pub fn snapshot(&self, session: Option<&str>) -> Vec<Row> {
        self.table.lock().rows(session)
    }
}

impl std::fmt::Debug for Tracker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracker").field("record_args", &self.record_args).finish_non_exhaustive()
    }
}

/// A request that runs. Dropped without an end it counts as cancelled, so that no row stays pending for ever.
pub struct Tracked {
    table: Arc<Mutex<Table>>,
    id: u64,
    started: Moment,
    /// For `Drop` alone, which nobody can tell the time.
    since: Instant,
    ended: bool,
}

impl Tracked {
    /// It ended well.
    pub fn completed(mut self, summary: Option<String>, now: Moment) {
        let summary = summary.map(|text| short_text(&text));
        self.end(Outcome::Completed(summary), now.up);
    }

    /// It ended badly.
    pub fn failed(mut self, error: &str, now: Moment) {
        self.end(Outcome::Failed(short_text(error)), now.up);
    }

    /// It goes on in the background; how it ends is still to be said.
    pub fn promoted(&mut self, now: Moment) {
        let took = now.up.saturating_sub(self.started.up);
        self.table.lock().promote(self.id, took);
    }

    fn end(&mut self, outcome: Outcome, up: Duration) {
        self.ended = true;
        let took = up.saturating_sub(self.started.up);
        self.table.lock().end(self.id, outcome, took);
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        if !self.ended {
            let up = self.started.up + self.since.elapsed();
            self.end(Outcome::Failed("cancelled".into()), up);
        }
    }
}

impl std::fmt::Debug for Tracked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracked").field("id", &self.id).finish_non_exhaustive()
    }
}

fn short_text(text: &str) -> Box<str> {
    let redacted = redacted_text(first_chars(text, TEXT_CHARS_MAX));
    first_chars(&redacted, TEXT_CHARS_MAX).into()
}

fn first_chars(text: &str, count: usize) -> &str {
    match text.char_indices().nth(count) {
        Some((end, _)) => text.get(..end).unwrap_or_default(),
        None => text,
    }
}

#[cfg(test)]
mod tests;
