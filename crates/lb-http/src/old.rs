//! HTTP+SSE, the transport of 2024-11-05, towards clients: a stream that is a session, and the way of messages to it.
//!
//! A GET opens the stream and with it the session; its first event names where messages are posted to. Like every stream
//! it is polled by the connection that carries it, and when that is gone so is the session.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::HeaderValue;
use http::{HeaderName, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use lb_exchange::{Mount, Principal, Receipt, Visitor};
use lb_front::{Connection, Outgoing};
use lb_wire::revision::Era;
use lb_wire::sse;
use tokio::time::{Instant, Sleep};

use crate::body::Body;
use crate::inbound::{self, BodyError};
use crate::phase::{Level, Phase};
use crate::reply::{EVENTS, TEXT, page, refuse};
use crate::service::{Visit, no_body};
use crate::shed::Why;
use crate::throttle;

/// Where it is served.
pub(crate) const PATH: &str = "/sse";

/// Messages of one session that may wait to be taken in, and their bytes; further ones are refused.
const WAITING_MAX: usize = 64;
const WAITING_BYTES_MAX: usize = 8 << 20;
/// From this size on what is ready goes out.
const PIECE: usize = 16 * 1024;
/// After what time of silence a comment is sent. A stream on which nobody has begun a session by then is closed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The sessions that are open, by the secret in the URL of each.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<Box<str>, Arc<Inbox>>>);

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    /// There is no such session, or it is somebody else's.
    Unknown,
    /// Too many wait.
    Full,
}

impl Sessions {
    fn open(self: &Arc<Self>, connection: Connection, visitor: &Visitor, path: &str, phase: Arc<Phase>) -> Session {
        let key: Box<str> = format!("{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>()).into();
        let owner = (visitor.principal.clone(), visitor.client.clone());
        let inbox = Arc::new(Inbox { owner, waiting: Mutex::default() });
        lock(&self.0).insert(key.clone(), inbox.clone());
        let mut out = BytesMut::new();
        sse::endpoint(&mut out, &format!("{path}?session={key}"));
        let silence = Box::pin(tokio::time::sleep(KEEP_ALIVE));
        let (sessions, receipts) = (self.clone(), Vec::new());
        Session { connection, inbox, key, sessions, phase, out, receipts, silence, finished: false }
    }

    fn post(&self, key: &str, visitor: &Visitor, message: Bytes) -> Result<(), Refused> {
        let inbox = lock(&self.0).get(key).cloned().ok_or(Refused::Unknown)?;
        if inbox.owner.0 != visitor.principal || inbox.owner.1 != visitor.client {
            return Err(Refused::Unknown);
        }
        inbox.put(visitor.clone(), message)
    }
}

/// What waits for one session.
struct Inbox {
    /// Who has opened it, and the client that speaks for them.
    owner: (Principal, Option<Arc<str>>),
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// Each with whoever has sent it: what a token may do can change.
    messages: VecDeque<(Visitor, Bytes)>,
    bytes: usize,
    /// The connection that carries the stream.
    waker: Option<Waker>,
}

impl Inbox {
    fn put(&self, visitor: Visitor, message: Bytes) -> Result<(), Refused> {
        let waker = {
            let mut waiting = lock(&self.waiting);
            if WAITING_MAX <= waiting.messages.len() || WAITING_BYTES_MAX < waiting.bytes + message.len() {
                return Err(Refused::Full);
            }
            waiting.bytes += message.len();
            waiting.messages.push_back((visitor, message));
            waiting.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// The next message; without one the task is woken when there is.
    fn poll_take(&self, cx: &mut Context<'_>) -> Poll<(Visitor, Bytes)> {
        let mut waiting = lock(&self.waiting);
        match waiting.messages.pop_front() {
            Some((visitor, message)) => {
                waiting.bytes -= message.len();
                Poll::Ready((visitor, message))
            }
            None => {
                waiting.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// One stream, which is a session. Dropping it ends the session and cancels its calls.
pub(crate) struct Session {
    connection: Connection,
    inbox: Arc<Inbox>,
    key: Box<str>,
    sessions: Arc<Sessions>,
    phase: Arc<Phase>,
    out: BytesMut,
    receipts: Vec<Receipt>,
    silence: Pin<Box<Sleep>>,
    /// No more messages are taken.
    finished: bool,
}

impl Session {
    /// The next piece of the stream; `None` at its end.
    pub(crate) fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        while self.out.len() < PIECE {
            match self.connection.poll_line(cx) {
                Poll::Ready(Some(Outgoing { line, receipt })) => {
                    sse::message(&mut self.out, None, &line);
                    self.receipts.extend(receipt);
                }
                Poll::Ready(None) if self.out.is_empty() => return Poll::Ready(None),
                Poll::Ready(None) => break,
                Poll::Pending if self.takes_message(cx) => {}
                Poll::Pending if !self.out.is_empty() => break,
                Poll::Pending if !self.finished && Level::Draining <= self.phase.level() => {
                    self.finished = true;
                    self.connection.finish();
                }
                Poll::Pending => {
                    std::task::ready!(self.silence.as_mut().poll(cx));
                    if !self.connection.is_begun() {
                        return Poll::Ready(None);
                    }
                    sse::comment(&mut self.out, "keep-alive");
                }
            }
        }
        self.silence.as_mut().reset(Instant::now() + KEEP_ALIVE);
        // Handing it over is all that can be known of its delivery.
        self.receipts.drain(..).for_each(Receipt::commit);
        Poll::Ready(Some(self.out.split().freeze()))
    }

    fn takes_message(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.connection.wants_line() {
            return false;
        }
        let Poll::Ready((visitor, message)) = self.inbox.poll_take(cx) else { return false };
        self.connection.set_visitor(visitor);
        self.connection.take_line(message);
        true
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        lock(&self.sessions.0).remove(&self.key);
    }
}

impl Visit<'_> {
    /// What follows the path of this transport; `None` for every other path, and where it is off.
    pub(crate) fn below_old<'p>(&self, path: &'p str) -> Option<&'p str> {
        let is_on = self.settings.sse && self.settings.mcp_path != PATH;
        let rest = path.strip_prefix(PATH).filter(|_| is_on)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    }

    /// Opens a stream, or takes a message for one.
    pub(crate) async fn old(&self, request: &mut Request<Incoming>, mount: Mount) -> Response<Body> {
        match *request.method() {
            Method::GET => self.open_old(request, mount),
            _ => self.post_old(request).await,
        }
    }

    fn open_old(&self, request: &Request<Incoming>, mount: Mount) -> Response<Body> {
        let (server, visitor) = (self.server, self.visitor());
        let connection = server.front.session(visitor.clone(), mount);
        let session = server.old.open(connection, &visitor, request.uri().path(), server.phase.clone());
        let mut response = page(StatusCode::OK, EVENTS, Body::session(session));
        response.headers_mut().insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
        response
    }

    async fn post_old(&self, request: &mut Request<Incoming>) -> Response<Body> {
        if !inbound::is_json(request.headers()) {
            let message = "Unsupported Media Type: the body must be application/json";
            return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, Era::Legacy, message);
        }
        let read = inbound::body(request, self.settings, self.settings.body_bytes_max, &self.server.bodies).await;
        let body = match read {
            Ok(body) => body,
            Err(error) => {
                if matches!(error, BodyError::Crowded) {
                    self.server.shed.add(Why::Bodies);
                }
                return no_body(error, Era::Legacy);
            }
        };
        let key = request.uri().query().and_then(session_of);
        match key.map(|key| self.server.old.post(key, &self.visitor(), body)) {
            Some(Ok(())) => page(StatusCode::ACCEPTED, TEXT, Body::bytes("Accepted".into(), None)),
            Some(Err(Refused::Full)) => {
                self.server.shed.add(Why::Busy);
                throttle::busy(Era::Legacy, "too many messages of this session wait")
            }
            Some(Err(Refused::Unknown)) => refuse(StatusCode::NOT_FOUND, Era::Legacy, "Session not found"),
            None => {
                let message = "Bad Request: a message goes to where the stream of a GET says";
                refuse(StatusCode::BAD_REQUEST, Era::Legacy, message)
            }
        }
    }
}

/// The session that a query names.
fn session_of(query: &str) -> Option<&str> {
    query.split('&').find_map(|pair| pair.strip_prefix("session="))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
