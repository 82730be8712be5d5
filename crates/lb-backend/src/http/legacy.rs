//! A client's request on a legacy session: resumed when its stream breaks, sent again when the session was gone.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use lb_exchange::{End, FeedItem, Step, Yield};
use lb_wire::{Raw, compose};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::outbox::{self, Outbox};
use super::reply::{Events, Heard, Reply};
use super::running::{Running, What};
use super::session::Session;
use super::watch::Watch;
use super::{Access, HttpConnection, Wire, handshake};
use crate::error::ConnectError;

/// Attempts to resume a stream: at once, and after 1, 2, 4 and 8 seconds.
const RESUMES_MAX: u32 = 5;
/// How long the attempts to resume may take together.
const RESUME_GRACE: Duration = Duration::from_secs(15);
/// Wait before a stream is resumed that its server closed without saying how long.
const RETRY_DEFAULT: Duration = Duration::from_secs(1);
/// Shortest wait before a stream is resumed on which nothing came.
const RETRY_MIN: Duration = Duration::from_millis(100);
/// How often in a row a stream may end without having brought anything.
const EMPTY_MAX: u32 = 30;

/// What a legacy connection remembers.
pub struct Legacy {
    hello: Raw,
    session: Mutex<Arc<Session>>,
    /// Held while the session is opened anew.
    healing: tokio::sync::Mutex<()>,
    /// The params of `notifications/initialized`, once it was said.
    said: Mutex<Option<Option<Raw>>>,
    /// False while the server has yet to hear it.
    heard: watch::Sender<bool>,
    pub outbox: Outbox,
    pub watch: Watch,
}

impl Legacy {
    /// For a session that was just opened.
    pub fn new(hello: Raw, session: Session, welcome: &Raw) -> Self {
        Self {
            hello,
            session: Mutex::new(Arc::new(session)),
            healing: tokio::sync::Mutex::default(),
            said: Mutex::default(),
            heard: watch::Sender::new(true),
            outbox: Outbox::default(),
            watch: Watch::new(welcome),
        }
    }

    /// The session of now.
    pub fn session(&self) -> Arc<Session> {
        self.session.lock().clone()
    }

    /// Says `notifications/initialized`.
    pub fn initialized(&self, connection: &Arc<HttpConnection>, params: Option<Raw>) {
        let message = compose::notification("notifications/initialized", params.as_ref());
        *self.said.lock() = Some(params);
        self.heard.send_replace(false);
        let heard = self.heard.clone();
        self.outbox.post_then(connection, message, move || {
            heard.send_replace(true);
        });
    }

    /// Whether the server has heard `notifications/initialized`, if it was said.
    fn is_settled(&self) -> bool {
        *self.heard.borrow()
    }

    /// Waits until the server has heard `notifications/initialized`, if it was said.
    pub async fn settled(&self) {
        if !self.is_settled() {
            // An error means that the sender is gone, and with it the connection.
            drop(self.heard.subscribe().wait_for(|heard| *heard).await);
        }
    }

    /// Opens a new session in place of one that the server no longer knows. Many may ask, one does it.
    ///
    /// # Errors
    /// The server does not open another one.
    pub async fn heal(&self, connection: &HttpConnection, gone: &Session) -> Result<(), ConnectError> {
        let healing = self.healing.lock().await;
        if self.session().generation != gone.generation {
            return Ok(());
        }
        let generation = gone.generation + 1;
        let opened = handshake::initialize(&connection.access, &self.hello, generation).await;
        let session = match opened {
            Ok((_, session)) => Arc::new(session),
            Err(error) => return Err(error.into_inner()),
        };
        tracing::info!(server = connection.endpoint.called(), "session was gone and is opened anew");
        let said = self.said.lock().clone();
        if let Some(params) = said {
            let message = compose::notification("notifications/initialized", params.as_ref());
            outbox::send(&connection.access, &session, &message).await;
        }
        *self.session.lock() = session;
        drop(healing);
        connection.intake.lists.invalidate_all();
        // Only asks can be refused by a feed.
        drop(connection.intake.feed.push(FeedItem::Up(generation)));
        Ok(())
    }
}

/// Makes a request.
pub async fn run(connection: Arc<HttpConnection>, what: What, out: Yield) -> End {
    let (mut running, message) = match Running::open(connection, &what, out) {
        Ok(opened) => opened,
        Err(end) => return end,
    };
    let may_change = may_change_lists(what.method());
    drop(what);
    let end = answer(&mut running, message).await;
    if may_change {
        running.connection.intake.lists.invalidate_all();
    }
    running.over(end)
}

/// Whether a list that is known may be another after this request. The server says so on a stream of its own, which can
/// be later than the answer: whoever asks for the list right after the answer would get the old one.
fn may_change_lists(method: &str) -> bool {
    matches!(method, "tools/call" | "tasks/get" | "tasks/result")
}

async fn answer(running: &mut Running, message: Bytes) -> Result<End, End> {
    let (reply, session) = reply(running, message).await?;
    match reply.status {
        StatusCode::ACCEPTED | StatusCode::NO_CONTENT => {
            Box::pin(running.stray(running.no_answer("it accepts the request and answers nothing"))).await
        }
        status if !status.is_success() => Box::pin(running.refused(reply)).await,
        _ if reply.is_events() => Box::pin(events(running, reply, &session)).await,
        _ => running.json(reply).await,
    }
}

/// Sends the request. A 404 proves that it was not run: it is sent once more in a new session.
async fn reply(running: &mut Running, message: Bytes) -> Result<(Reply, Arc<Session>), End> {
    let connection = running.connection.clone();
    let Wire::Legacy(legacy) = &connection.wire else { return Err(running.failed("it is not a legacy server")) };
    if !legacy.is_settled() {
        Box::pin(running.during(legacy.settled())).await?;
    }
    let mut healed = false;
    loop {
        let session = legacy.session();
        running.known = true;
        let mut request = session.post(message.clone());
        running.trace(request.headers_mut());
        let sent = running.during(connection.access.send_by(request)).await?;
        let reply = sent.map_err(|error| running.error(error.to_body(&connection.endpoint)))?;
        if healed || !session.has_id() || !reply.status.is_client_error() {
            return Ok((reply, session));
        }
        match Box::pin(heal(running, legacy, reply, &session)).await? {
            Some(reply) => return Ok((reply, session)),
            None => healed = true,
        }
    }
}

/// Opens a new session if this response says that there is none; otherwise gives the response back.
async fn heal(running: &mut Running, legacy: &Legacy, mut reply: Reply, gone: &Session) -> Result<Option<Reply>, End> {
    if !running.during(is_gone(&mut reply)).await? {
        return Ok(Some(reply));
    }
    running.known = false;
    let connection = running.connection.clone();
    if let Err(error) = running.during(legacy.heal(&connection, gone)).await? {
        let error = error.to_body_of(connection.endpoint.called());
        connection.intake.calls.close(&error.raw);
        return Err(running.error(error));
    }
    Ok(None)
}

/// Whether the server says that it does not know the session: 404, or as many servers do, a 400 that names it.
async fn is_gone(reply: &mut Reply) -> bool {
    match reply.status {
        StatusCode::NOT_FOUND => {
            reply.peek().await;
            true
        }
        StatusCode::BAD_REQUEST => {
            let page = String::from_utf8_lossy(reply.peek().await).to_ascii_lowercase();
            page.contains("session") && page.contains("-32000")
        }
        _ => false,
    }
}

/// Reads the call's stream to the answer, over as many connections as the server likes.
async fn events(running: &mut Running, reply: Reply, session: &Session) -> Result<End, End> {
    let mut events = Events::new(reply);
    let mut empty = 0;
    loop {
        match running.during(events.next()).await? {
            Heard::Message(data) => {
                if let Some(end) = running.take(data).await {
                    events.release();
                    return Ok(end);
                }
                continue;
            }
            Heard::TooLong => return Err(running.failed("one of its events is longer than 16 MiB")),
            Heard::Closed if events.last_id().is_none() => {
                return running.stray(running.gone()).await;
            }
            Heard::Broken(why) if events.last_id().is_none() => return Err(running.closed(&why)),
            Heard::Closed => {
                empty = if events.is_news() { 0 } else { empty + 1 };
                if EMPTY_MAX < empty {
                    return Err(running.closed("nothing comes on a stream that is resumed again and again"));
                }
                let retry = events.retry();
                running.step(Step::Pause { retry }).await;
                let least = if empty == 0 { Duration::ZERO } else { RETRY_MIN };
                running.pause(retry.unwrap_or(RETRY_DEFAULT).max(least)).await?;
            }
            Heard::Broken(why) => tracing::debug!(why, "stream of a call broke and is resumed"),
        }
        resume(running, &mut events, session).await?;
    }
}

async fn resume(running: &mut Running, events: &mut Events, session: &Session) -> Result<(), End> {
    let access = running.connection.access.clone();
    let until = Instant::now() + RESUME_GRACE;
    for attempt in 0..RESUMES_MAX {
        if 0 < attempt {
            let wait = events.retry().unwrap_or(RETRY_DEFAULT).max(RETRY_DEFAULT * (1 << (attempt - 1)));
            running.during(tokio::time::sleep_until((Instant::now() + wait).min(until))).await?;
        }
        let got = tokio::time::timeout_at(until, get(&access, session, events.last_id()));
        match running.during(got).await? {
            Ok(Ok(reply)) => {
                events.resume(reply);
                return Ok(());
            }
            Ok(Err(NoStream::Never(status))) => {
                return Err(running.closed(&format!("it does not resume streams: HTTP {status}")));
            }
            Ok(Err(NoStream::Now)) => {}
            Err(_) => break,
        }
    }
    Err(running.closed("its stream could not be resumed"))
}

/// Why a GET gave no stream.
pub enum NoStream {
    /// The server will not have one.
    Never(u16),
    /// Another attempt may work.
    Now,
}

/// Opens a stream by GET.
pub async fn get(access: &Access, session: &Session, last_id: Option<&[u8]>) -> Result<Reply, NoStream> {
    let mut reply = access.send(session.get(last_id)).await.map_err(|error| {
        tracing::debug!(?error, "stream of the server could not be opened");
        NoStream::Now
    })?;
    if reply.status.is_success() && reply.is_events() {
        return Ok(reply);
    }
    let status = reply.status;
    drop(reply.page().await);
    let passing = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    Err(if passing { NoStream::Now } else { NoStream::Never(status.as_u16()) })
}
