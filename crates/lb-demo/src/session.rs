//! What one connection remembers: its notes, results, counters and who listens for what. Nothing here does IO.

#![expect(deprecated, reason = "logging is on its way out of the protocol, and clients still have it")]

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rmcp::model::{LoggingLevel, RequestId};
use rmcp::service::SubscriptionSink;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Notes kept per connection; the oldest falls out.
const NOTES_MAX: usize = 50;
/// Open `subscriptions/listen` requests per connection; one more is refused.
const LISTENERS_MAX: usize = 16;
/// Resources subscribed to per connection; one more is refused.
const SUBSCRIPTIONS_MAX: usize = 64;
/// Results of `echo` kept per connection; the oldest falls out.
const RESULTS_MAX: usize = 50;

/// State of one connection, shared by the transport (which counts) and the tools (which read and write).
pub(crate) struct Session {
    id: u64,
    /// Milliseconds since 1970.
    created_at: u64,
    activity: Mutex<Activity>,
    /// Newest first.
    notes: Mutex<VecDeque<String>>,
    results: Mutex<Results>,
    listeners: Mutex<Vec<SubscriptionSink>>,
    subscriptions: Mutex<HashSet<String>>,
    log_level: Mutex<LoggingLevel>,
    /// The code of the tool `crash`, once it was called.
    crash: watch::Sender<Option<u8>>,
    /// Cancelled when the client has closed its end: nothing that waits may outlive it.
    pub(crate) closed: CancellationToken,
}

/// Results of `echo`, oldest first, with their ids.
#[derive(Default)]
struct Results {
    kept: VecDeque<(u64, Value)>,
    last_id: u64,
}

struct Activity {
    last_at: u64,
    request_count: u64,
}

/// The body of `session://overview`; times are milliseconds since 1970.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Overview {
    session_id: String,
    created_at: u64,
    last_activity: u64,
    request_count: u64,
    note_count: usize,
}

impl Session {
    pub(crate) fn new() -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let now = unix_ms();
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            created_at: now,
            activity: Mutex::new(Activity { last_at: now, request_count: 0 }),
            notes: Mutex::default(),
            results: Mutex::default(),
            listeners: Mutex::default(),
            subscriptions: Mutex::default(),
            log_level: Mutex::new(LoggingLevel::Info),
            crash: watch::Sender::new(None),
            closed: CancellationToken::new(),
        }
    }

    /// Counts a request that arrived.
    pub(crate) fn touch(&self) {
        let mut activity = self.activity.lock();
        activity.request_count += 1;
        activity.last_at = unix_ms();
    }

    pub(crate) fn overview(&self) -> Overview {
        let note_count = self.notes.lock().len();
        let activity = self.activity.lock();
        Overview {
            session_id: format!("demo-{}", self.id),
            created_at: self.created_at,
            last_activity: activity.last_at,
            request_count: activity.request_count,
            note_count,
        }
    }

    /// Puts a note in front and says how many there are now.
    pub(crate) fn add_note(&self, note: String) -> usize {
        let mut notes = self.notes.lock();
        notes.push_front(note);
        notes.truncate(NOTES_MAX);
        notes.len()
    }

    /// All notes, newest first.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.notes.lock().iter().cloned().collect()
    }

    pub(crate) fn note(&self, index: usize) -> Option<String> {
        self.notes.lock().get(index).cloned()
    }

    /// The notes as a list for people: numbered from 1, one per line; `None` when there are none.
    pub(crate) fn numbered_notes(&self) -> Option<String> {
        let notes = self.notes.lock();
        let lines: Vec<_> = notes.iter().zip(1..).map(|(note, number)| format!("{number}. {note}")).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    /// Keeps a result of `echo` and gives it an id.
    pub(crate) fn keep_result(&self, result: Value) -> u64 {
        let mut results = self.results.lock();
        results.last_id += 1;
        let id = results.last_id;
        results.kept.push_back((id, result));
        if RESULTS_MAX < results.kept.len() {
            results.kept.pop_front();
        }
        id
    }

    pub(crate) fn result(&self, id: u64) -> Option<Value> {
        self.results.lock().kept.iter().find(|(kept, _)| *kept == id).map(|(_, result)| result.clone())
    }

    pub(crate) fn result_ids(&self) -> Vec<u64> {
        self.results.lock().kept.iter().map(|(id, _)| *id).collect()
    }

    pub(crate) fn log_level(&self) -> LoggingLevel {
        *self.log_level.lock()
    }

    pub(crate) fn set_log_level(&self, level: LoggingLevel) {
        *self.log_level.lock() = level;
    }

    /// Remembers a subscription to a resource; `false` when there are too many.
    pub(crate) fn subscribe(&self, uri: String) -> bool {
        let mut subscriptions = self.subscriptions.lock();
        let room = subscriptions.len() < SUBSCRIPTIONS_MAX || subscriptions.contains(&uri);
        if room {
            subscriptions.insert(uri);
        }
        room
    }

    pub(crate) fn unsubscribe(&self, uri: &str) {
        self.subscriptions.lock().remove(uri);
    }

    pub(crate) fn is_subscribed(&self, uri: &str) -> bool {
        self.subscriptions.lock().contains(uri)
    }

    /// Ends the connection as a crash would.
    pub(crate) fn crash(&self, code: u8) {
        self.crash.send_replace(Some(code));
    }

    pub(crate) fn has_crashed(&self) -> bool {
        self.crash.borrow().is_some()
    }

    /// The code of a crash, when there is one.
    ///
    /// Cancel safe: yes.
    pub(crate) async fn crashed(&self) -> u8 {
        match self.crash.subscribe().wait_for(Option::is_some).await.map(|code| *code) {
            Ok(Some(code)) => code,
            // The sender lives as long as this.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Remembers an open subscription; `false` when there are too many.
    pub(crate) fn listen(&self, sink: SubscriptionSink) -> bool {
        let mut listeners = self.listeners.lock();
        if LISTENERS_MAX <= listeners.len() {
            return false;
        }
        listeners.push(sink);
        true
    }

    pub(crate) fn unlisten(&self, id: &RequestId) {
        self.listeners.lock().retain(|sink| sink.id() != id);
    }

    pub(crate) fn listeners(&self) -> Vec<SubscriptionSink> {
        self.listeners.lock().clone()
    }
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
