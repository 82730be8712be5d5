//! The port between the fronts and the middle.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lb_wire::{Message, Raw};

use crate::call::{Call, Caller, Hello, Mount};
use crate::desk::Desk;
use crate::exchange::Exchange;
use crate::server::ServerName;
use crate::step::{Cancel, ErrorBody};
use crate::streams::Streams;
use crate::visitor::Visitor;

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The middle, as the fronts see it.
pub trait Middle: Send + Sync {
    /// Opens a modern request. Connecting happens inside the exchange.
    fn open(&self, call: Call) -> Exchange;

    /// Seats a legacy client.
    fn begin(&self, hello: Hello) -> BoxFuture<'_, Result<Welcome, Refusal>>;

    /// Finds a legacy session, by id, path, principal and client together.
    fn seat(&self, id: &str, mount: &Mount, who: &Visitor) -> Option<Arc<dyn Seat>>;

    /// The one server that a path leads to; `None` where it leads to a surface of ours, or nowhere.
    fn server_of(&self, mount: &Mount, who: &Visitor) -> Option<ServerName> {
        let _ = who;
        match mount {
            Mount::Server(name) => Some(name.clone()),
            Mount::Default | Mount::Tools => None,
        }
    }

    /// Takes over work that must go on without a front.
    fn adopt(&self, pump: BoxFuture<'static, ()>);

    /// The servers that somebody can name in a path. Those of others, and those that the rules keep from them, are not
    /// among them.
    fn servers(&self, who: &Visitor) -> Vec<String>;

    /// Whether a path leads anywhere.
    fn has(&self, mount: &Mount) -> bool;

    /// Whether it leads somewhere for this one: also to a server of theirs that nobody else sees.
    fn serves(&self, mount: &Mount, who: &Visitor) -> bool {
        let _ = who;
        self.has(mount)
    }

    /// Whether a session is here, as far as is known without asking anybody. True also where sessions are only ever
    /// here.
    fn is_here(&self, session: &str) -> bool {
        let _ = session;
        true
    }

    /// Finds out where a session is, and wakes it here if it is nobody's. [`Place::Here`] also when there is none: the
    /// front says so.
    fn locate<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Place> {
        let _ = session;
        Box::pin(std::future::ready(Place::Here))
    }

    /// Whether what a modern call needs beside itself is here, as far as is known without asking anybody.
    fn is_unseated_here(&self, call: &Unseated<'_>) -> bool {
        let _ = call;
        true
    }

    /// Finds out where that is, and wakes or begins it here if it is nobody's.
    fn locate_unseated<'a>(&'a self, call: Unseated<'a>) -> BoxFuture<'a, Place> {
        let _ = call;
        Box::pin(std::future::ready(Place::Here))
    }
}

/// A modern call of a tool, as far as its headers tell: it has no seat, and may need one.
#[derive(Clone, Copy, Debug)]
pub struct Unseated<'a> {
    /// Where it came in.
    pub mount: &'a Mount,
    /// Who is calling.
    pub who: &'a Visitor,
    /// The tool.
    pub tool: &'a str,
}

/// Where what a request names is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Here, or nowhere.
    Here,
    /// On another node: the base URL of that node's own listener.
    Node(Arc<str>),
    /// Nobody can tell: what would know does not answer. Try again after this time.
    Away(Duration),
    /// It would be here, and too many others are. Try again after this time.
    Full(Duration),
}

/// What a seated client is told.
pub struct Welcome {
    /// Its session.
    pub seat: Arc<dyn Seat>,
    /// The result of `initialize`.
    pub result: Raw,
}

/// A client that cannot be seated.
#[derive(Debug)]
pub struct Refusal {
    /// What it is told.
    pub error: ErrorBody,
    /// Whether a later attempt may work: a 503 instead of a 200 with an error.
    pub busy: bool,
}

/// One legacy client's place: its session, as the fronts see it.
pub trait Seat: Send + Sync {
    /// Its id.
    fn id(&self) -> &SessionId;

    /// Facts about the client.
    fn caller(&self) -> &Arc<Caller>;

    /// Calls and asks under ids that the client knows.
    fn desk(&self) -> &Desk;

    /// Its resumable streams.
    fn streams(&self) -> &dyn Streams;

    /// Opens a request. Connecting happens inside the exchange.
    fn open(self: Arc<Self>, call: Call) -> Exchange;

    /// Whether a call whose client is gone can be kept for it in another way than by a stream.
    fn keeps_calls(&self) -> bool {
        false
    }

    /// A notification of the client, other than a cancel.
    fn notified(&self, message: Message);

    /// What belongs to no request, as an exchange that never ends by itself. At most one is held at a time: a second
    /// one ends the first.
    fn listen(&self) -> Exchange;

    /// Whether it takes no more requests: it ends, and what runs on it may still come to its end.
    fn is_leaving(&self) -> bool {
        false
    }

    /// Ends the session; safe to call twice.
    fn end(&self, why: Cancel);

    /// Waits, within reason, until a session that was ended is gone from wherever it is kept.
    fn ended(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Names a legacy session: 256 random bits, a bearer secret.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SessionId(Arc<str>);

impl SessionId {
    /// A new one, from the system's random source.
    pub fn random() -> Self {
        let bytes: [u8; 32] = rand::random();
        Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into())
    }

    /// One that a client named, and that is known to be one of ours.
    pub fn from_client(text: &str) -> Self {
        Self(text.into())
    }

    /// The text; never for logs.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for SessionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionId(***)")
    }
}
