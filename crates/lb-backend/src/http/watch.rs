//! The stream of what belongs to no request of a legacy session, kept open by a task of its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use lb_exchange::{FeedItem, List, Note, Tasks, Whence};
use lb_wire::{Message, Raw, Text};

use super::legacy::{self, NoStream};
use super::reply::{Events, Heard};
use super::session::Session;
use super::{Access, HttpConnection, Wire};

/// Shortest and longest wait before the stream is opened again.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// State of the stream.
pub struct Watch {
    started: AtomicBool,
    open: AtomicBool,
    over: AtomicBool,
    /// The lists of which the server tells changes.
    lists: Vec<List>,
}

impl Watch {
    /// For a server with this answer to `initialize`.
    pub fn new(welcome: &Raw) -> Self {
        let capabilities = welcome.member("capabilities").unwrap_or_else(Raw::empty_object);
        let tells = |name: &str| {
            let flag = capabilities.member(name).and_then(|capability| capability.member("listChanged"));
            flag.is_some_and(|flag| flag.as_bytes() == b"true")
        };
        let lists = [("tools", List::Tools), ("prompts", List::Prompts), ("resources", List::Resources)];
        let lists = lists.into_iter().filter(|(name, _)| tells(name)).map(|(_, list)| list).collect();
        let (started, open, over) = Default::default();
        Self { started, open, over, lists }
    }

    /// True for the first who asks, who is to start the task.
    pub fn start(&self) -> bool {
        !self.started.swap(true, Ordering::AcqRel)
    }

    /// Whether the stream is open, or will be.
    pub fn is_wanted(&self) -> bool {
        self.started.load(Ordering::Acquire) && !self.over.load(Ordering::Acquire)
    }

    /// Whether the stream is open now.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }
}

/// Keeps the stream open until the connection is closed, dropped, or the server says that it has none.
pub async fn run(connection: Weak<HttpConnection>, tasks: Tasks) {
    tokio::select! {
        () = tasks.stopping() => {}
        () = keep_open(&connection) => {}
    }
    if let Some(connection) = connection.upgrade()
        && let Wire::Legacy(legacy) = &connection.wire
    {
        legacy.watch.open.store(false, Ordering::Release);
        legacy.watch.over.store(true, Ordering::Release);
    }
}

/// What to do after the stream could not be opened, or has ended.
enum After {
    /// Open it again, after this wait if the server named one.
    Again(Option<Duration>),
    /// It could not be opened now.
    Refused,
    /// Leave it.
    Leave,
}

async fn keep_open(connection: &Weak<HttpConnection>) {
    let mut events: Option<Events> = None;
    let mut missed = false;
    let mut wait = BACKOFF.0;
    let mut refusals = 0;
    loop {
        let after = open(connection, &mut events, missed).await;
        refusals = if matches!(after, After::Refused) { refusals + 1 } else { 0 };
        if refusals == REFUSALS_MAX {
            unheard(connection);
        }
        match after {
            After::Leave => return,
            After::Refused | After::Again(_) => {
                let retry = if let After::Again(retry) = after { retry } else { None };
                let news = events.as_ref().is_some_and(Events::is_news);
                wait = if news { BACKOFF.0 } else { wait };
                tokio::time::sleep(retry.map_or(wait, |retry| retry.clamp(BACKOFF.0 / 10, BACKOFF.1))).await;
                wait = (wait * 2).min(BACKOFF.1);
                missed = true;
            }
        }
    }
}

/// Attempts to open the stream that may fail before it is told.
const REFUSALS_MAX: u32 = 3;

/// Says that the server may be out of reach.
fn unheard(connection: &Weak<HttpConnection>) {
    if let Some(connection) = connection.upgrade() {
        let why = Text::from_static("its stream of events cannot be opened");
        // Only asks can be refused by a feed.
        drop(connection.intake.feed.push(FeedItem::Down(0, why)));
    }
}

/// Opens the stream and reads it to its end. The connection is held only while there is something to do with it, so
/// that dropping it ends the wait for the server.
async fn open(connection: &Weak<HttpConnection>, events: &mut Option<Events>, missed: bool) -> After {
    let Some((access, session)) = greeted(connection).await else { return After::Leave };
    let last_id = events.as_ref().and_then(Events::last_id).map(<[u8]>::to_vec);
    match legacy::get(&access, &session, last_id.as_deref()).await {
        Ok(reply) => match events {
            Some(events) => events.resume(reply),
            None => *events = Some(Events::new(reply)),
        },
        Err(NoStream::Never(404)) if session.has_id() => {
            // The cursor belonged to the session that is gone.
            *events = None;
            return heal(connection, &session).await;
        }
        Err(NoStream::Never(400)) if last_id.is_some() => {
            *events = None;
            return After::Again(None);
        }
        Err(NoStream::Never(status)) => {
            tracing::debug!(status, server = access.endpoint().called(), "server has no stream of its own");
            return After::Leave;
        }
        Err(NoStream::Now) => return After::Refused,
    }
    opened(connection, missed && last_id.is_none());
    match events {
        Some(events) => read(connection, events).await,
        None => After::Leave,
    }
}

/// Where to open the stream, once the server has heard the greeting.
async fn greeted(connection: &Weak<HttpConnection>) -> Option<(Access, Arc<Session>)> {
    let connection = connection.upgrade()?;
    let Wire::Legacy(legacy) = &connection.wire else { return None };
    legacy.settled().await;
    Some((connection.access.clone(), legacy.session()))
}

async fn heal(connection: &Weak<HttpConnection>, gone: &Session) -> After {
    let Some(connection) = connection.upgrade() else { return After::Leave };
    let Wire::Legacy(legacy) = &connection.wire else { return After::Leave };
    match legacy.heal(&connection, gone).await {
        Ok(()) => After::Again(None),
        Err(error) => {
            connection.intake.calls.close(&error.to_body_of(connection.endpoint.called()).raw);
            After::Leave
        }
    }
}

/// Notes that the stream is open. What changed while it was not is unknown to whoever has no cursor.
fn opened(connection: &Weak<HttpConnection>, missed: bool) {
    let Some(connection) = connection.upgrade() else { return };
    let Wire::Legacy(legacy) = &connection.wire else { return };
    legacy.watch.open.store(true, Ordering::Release);
    if missed {
        connection.intake.lists.invalidate_all();
        for list in &legacy.watch.lists {
            // Only asks can be refused by a feed.
            drop(connection.intake.feed.push(changed(*list)));
        }
    }
}

/// What a client is told about lists that may have changed unheard.
fn changed(list: List) -> FeedItem {
    let method = match list {
        List::Tools => "notifications/tools/list_changed",
        List::Prompts => "notifications/prompts/list_changed",
        List::Resources => "notifications/resources/list_changed",
    };
    FeedItem::Changed(list, Note::new(Text::from_static(method), None))
}

async fn read(connection: &Weak<HttpConnection>, events: &mut Events) -> After {
    let after = loop {
        match events.next().await {
            Heard::Message(data) => {
                let Some(connection) = connection.upgrade() else { return After::Leave };
                take(&connection, data);
            }
            Heard::Closed => break After::Again(events.retry()),
            Heard::Broken(why) => {
                tracing::debug!(why, "stream of the server broke");
                break After::Again(None);
            }
            Heard::TooLong => break After::Again(None),
        }
    };
    if let Some(connection) = connection.upgrade()
        && let Wire::Legacy(legacy) = &connection.wire
    {
        legacy.watch.open.store(false, Ordering::Release);
    }
    after
}

fn take(connection: &Arc<HttpConnection>, data: Bytes) {
    let messages = match Message::scan(data.clone()) {
        Ok(message) => vec![message],
        Err(error) => match Message::batch(&data) {
            Ok(Some(parts)) => parts.into_iter().filter_map(|part| Message::scan(part).ok()).collect(),
            _ => {
                tracing::debug!(%error, bytes = data.len(), "message of the server skipped");
                return;
            }
        },
    };
    for message in &messages {
        if let Some(reply) = connection.intake.take(message, Whence::Shared) {
            connection.post(reply);
        }
    }
}
