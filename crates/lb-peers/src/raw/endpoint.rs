//! The rules of the `/mcp` endpoint for a server: sessions in the legacy era, mirrored headers in the modern one.
//!
//! It decides what a request is and leaves the answering, and the misbehaving, to its caller.

use std::collections::BTreeMap;
use std::io::Result;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::handshake::{Era, Hello, Refusal};
use super::http1::{Conn, Head, response};
use super::message::{self, Message};

const SESSIONS_MAX: usize = 10_000;

/// What an admitted request asks for.
#[derive(Debug)]
pub enum Verdict {
    /// Send these bytes and be done with it.
    Reply(Vec<u8>),
    /// A request to answer, in a legacy session where there is one.
    Request {
        /// The request.
        message: Message,
        /// Its era.
        era: Era,
        /// The session it came in; for `initialize` the new one.
        session: Option<String>,
    },
    /// A notification or response: to be taken in and answered with [`accepted`].
    OneWay(Message),
    /// A legacy GET for the stream of this session.
    Stream(String),
}

/// Reads one request with its whole body; `None` when the peer has closed.
///
/// # Errors
/// On a broken connection or malformed HTTP.
pub async fn read(conn: &mut Conn) -> Result<Option<(Head, Vec<u8>)>> {
    let Some(head) = conn.request_head().await? else { return Ok(None) };
    if head.header("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
        conn.write(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    let (body, complete) = conn.rest().await?;
    Ok(complete.then_some((head, body)))
}

/// The response to a notification.
#[must_use]
pub fn accepted() -> Vec<u8> {
    response(202, &[], b"")
}

/// A JSON body, with the session header after `initialize`.
#[must_use]
pub fn json(status: u16, session: Option<&str>, body: &[u8]) -> Vec<u8> {
    let kind = ("Content-Type", "application/json");
    match session {
        Some(session) => response(status, &[kind, ("Mcp-Session-Id", session)], body),
        None => response(status, &[kind], body),
    }
}

/// The legacy sessions of one server, and what it knows of each.
#[derive(Debug)]
pub struct Endpoint<S> {
    hello: Hello,
    sessions: Mutex<(u64, BTreeMap<String, S>)>,
}

impl<S: Default> Endpoint<S> {
    /// An endpoint without sessions.
    #[must_use]
    pub fn new(hello: Hello) -> Self {
        Self { hello, sessions: Mutex::default() }
    }

    /// Runs `work` on what is known of all sessions.
    pub fn with_sessions<R>(&self, work: impl FnOnce(&mut BTreeMap<String, S>) -> R) -> R {
        work(&mut self.lock().1)
    }

    /// Knows a session that an earlier process opened; those opened from now on have other names.
    pub fn restore(&self, session: String) {
        let mut sessions = self.lock();
        sessions.0 += 1;
        sessions.1.insert(session, S::default());
    }

    /// Decides what a request is.
    #[must_use]
    pub fn admit(&self, head: &Head, body: &[u8]) -> Verdict {
        if head.path() != "/mcp" {
            return Verdict::Reply(response(404, &[], b"not found"));
        }
        let session = head.header("mcp-session-id");
        match head.method() {
            "POST" => self.admit_post(head, body),
            "GET" | "DELETE" if !self.known(session) => {
                Verdict::Reply(response(if session.is_some() { 404 } else { 405 }, &[("Allow", "POST")], b""))
            }
            "GET" => Verdict::Stream(session.unwrap_or_default().to_owned()),
            "DELETE" => {
                self.lock().1.remove(session.unwrap_or_default());
                Verdict::Reply(response(204, &[], b""))
            }
            _ => Verdict::Reply(response(405, &[("Allow", "POST, GET, DELETE")], b"")),
        }
    }

    fn admit_post(&self, head: &Head, body: &[u8]) -> Verdict {
        let Some(message) = Message::parse(body) else {
            return Verdict::Reply(json(400, None, message::error("null", -32700, "parse error", None).as_bytes()));
        };
        let checked = self.hello.check(&message, head.header("mcp-protocol-version"));
        let session = head.header("mcp-session-id");
        let refusal = match checked {
            Ok(Era::Modern) => mirrored(head, &message).err(),
            Ok(Era::Legacy) if message.method() == "initialize" => None,
            Ok(Era::Legacy) if self.known(session) => None,
            Ok(Era::Legacy) if session.is_some() => Some(Refusal::new(404, -32600, "unknown session")),
            Ok(Era::Legacy) => Some(Refusal::new(400, -32600, "no session")),
            Err(ref refusal) => Some(Refusal { data: refusal.data.clone(), ..*refusal }),
        };
        if let Some(refusal) = refusal {
            let id = message.id.as_deref().unwrap_or("null");
            return Verdict::Reply(json(refusal.status, None, refusal.response(id).as_bytes()));
        }
        let era = checked.unwrap_or(Era::Legacy);
        if message.id.is_none() || message.method.is_none() {
            return Verdict::OneWay(message);
        }
        let session = match (era, message.method()) {
            (Era::Modern, _) => None,
            (Era::Legacy, "initialize") => self.open(),
            (Era::Legacy, _) => session.map(str::to_owned),
        };
        Verdict::Request { message, era, session }
    }

    /// Makes a session, the oldest one giving way when there are too many.
    fn open(&self) -> Option<String> {
        let mut sessions = self.lock();
        sessions.0 += 1;
        let id = format!("session-{:08}", sessions.0);
        if SESSIONS_MAX <= sessions.1.len() {
            sessions.1.pop_first();
        }
        sessions.1.insert(id.clone(), S::default());
        Some(id)
    }

    fn known(&self, session: Option<&str>) -> bool {
        session.is_some_and(|session| self.lock().1.contains_key(session))
    }

    fn lock(&self) -> MutexGuard<'_, (u64, BTreeMap<String, S>)> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compares `Mcp-Method` and `Mcp-Name` with the body. A base64 name is taken on trust: no tool here needs one.
fn mirrored(head: &Head, message: &Message) -> std::result::Result<(), Refusal> {
    if message.id.is_none() {
        return Ok(());
    }
    if head.header("mcp-method") != Some(message.method()) {
        return Err(Refusal::new(400, -32020, "Mcp-Method differs from the body"));
    }
    let name = head.header("mcp-name");
    let encoded = name.is_some_and(|name| name.starts_with("=?base64?"));
    if message.method() == "tools/call" && !encoded && name != message.text_param("name").as_deref() {
        return Err(Refusal::new(400, -32020, "Mcp-Name differs from the body"));
    }
    Ok(())
}
