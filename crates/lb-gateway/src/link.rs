//! A connection that is made when needed, made again when lost, and made once however many ask for it.

mod again;
mod tend;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Shared, WeakShared};
use lb_backend::{ConnectError, Connection, Connector, Dismissal, Server, Wish};
use lb_exchange::{BoxFuture, Call, Caller, End, Exchange, Feed, Outcome, ServerSpec, Target, Tasks};
use lb_wire::Message;
use lb_wire::revision::Era;
use parking_lot::Mutex;

use self::again::Restore;
pub(crate) use self::again::tells;
use crate::cache::Cache;
use crate::cache::view::Kept;
use crate::convert::mirrored;

/// The way to one server, for one session or for all that share it.
pub struct Link {
    connector: Connector,
    wish: Wish,
    state: Mutex<State>,
    /// The attempt to connect that is under way: gone when nobody waits for it any more.
    attempt: Mutex<Option<WeakShared<Attempt>>>,
    /// Held while it is connected, or goes to rest.
    connecting: tokio::sync::Mutex<()>,
    connections: AtomicU64,
    restore: Mutex<Restore>,
    watched: AtomicBool,
    /// Whether a program that ends before it answers is started some more times for one call.
    stubborn: bool,
    /// After what time of no use it rests.
    idle_after: Option<Duration>,
    /// What is kept of the server, where something is.
    pub(crate) kept: Option<Kept>,
}

/// The connection, and whether the client is ready for it: under one lock, so that the server is told exactly once.
#[derive(Default)]
struct State {
    connection: Option<Arc<Connection>>,
    /// Owner of what looks after that connection.
    tending: Option<Tasks>,
    /// Whether the client has said `notifications/initialized`.
    client_is_ready: bool,
    /// Nobody will use the link any more, and why.
    closed: Option<Closed>,
}

/// Why a link is used by nobody any more.
#[derive(Clone, Copy, Debug)]
enum Closed {
    /// Its session is over, or we stop.
    Over,
    /// Its server is.
    Dismissed(Dismissal),
}

impl From<Closed> for ConnectError {
    fn from(closed: Closed) -> Self {
        match closed {
            Closed::Over => Self::Stopping,
            Closed::Dismissed(why) => Self::Dismissed(why),
        }
    }
}

impl State {
    fn stop_tending(&mut self) {
        if let Some(tending) = self.tending.take() {
            tending.stop();
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.stop_tending();
    }
}

/// One attempt to connect, whose outcome all get who wait for it.
type Attempt = BoxFuture<'static, Result<Arc<Connection>, ConnectError>>;

/// How long a link is there that one more call has needed, where the server has no such time of its own.
const SPARE_FOR: Duration = Duration::from_secs(60);

impl Link {
    /// A link that is not connected yet, to a server of which this is kept.
    pub fn new(server: Arc<Server>, wish: Wish, cache: Option<&Arc<Cache>>) -> Arc<Self> {
        let kept = cache.map(|cache| Kept::new(cache.clone(), &wish.caller));
        let idle_after = server.spec().idle_timeout.filter(|_| matches!(server.spec().target, Target::Child { .. }));
        Arc::new(Self {
            connector: Connector::new(server),
            stubborn: kept.is_some(),
            idle_after,
            wish,
            state: Mutex::default(),
            attempt: Mutex::default(),
            connecting: tokio::sync::Mutex::new(()),
            connections: AtomicU64::new(0),
            restore: Mutex::default(),
            watched: AtomicBool::new(false),
            kept,
        })
    }

    /// Another one like it, beside it for a while: it keeps nothing, and rests when it is not used.
    pub fn another(&self) -> Arc<Self> {
        let idle_after = self.idle_after.unwrap_or(SPARE_FOR);
        let mut link =
            Self::new(self.connector.server().clone(), Wish { feed: Feed::default(), ..self.wish.clone() }, None);
        if let Some(link) = Arc::get_mut(&mut link) {
            (link.stubborn, link.idle_after) = (self.stubborn, Some(idle_after));
        }
        link
    }

    /// What belongs to no request, over all connections that this link makes.
    pub fn feed(&self) -> &Feed {
        &self.wish.feed
    }

    /// The client that it was made for.
    pub(crate) fn caller(&self) -> &Arc<Caller> {
        &self.wish.caller
    }

    /// Owner of what is done in the background.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.wish.tasks
    }

    /// The definition of its server.
    pub(crate) fn spec(&self) -> &Arc<ServerSpec> {
        self.connector.server().spec()
    }

    /// The connection, if there is one that works.
    pub fn current(&self) -> Option<Arc<Connection>> {
        self.state.lock().connection.clone().filter(|connection| !connection.is_lost())
    }

    /// The connection, made if there is none. All who wait for it at the same time get what comes of one attempt.
    ///
    /// Cancel safe: yes; an attempt goes on for as long as anybody waits for it.
    pub async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>, ConnectError> {
        match self.current() {
            Some(connection) => Ok(connection),
            None => self.attempt().await,
        }
    }

    /// The attempt that is under way, or a new one.
    fn attempt(self: &Arc<Self>) -> Shared<Attempt> {
        let mut known = self.attempt.lock();
        let going_on = known.as_ref().and_then(WeakShared::upgrade).filter(|attempt| attempt.peek().is_none());
        if let Some(attempt) = going_on {
            return attempt;
        }
        let link = self.clone();
        let attempt: Attempt = Box::pin(async move {
            tokio::select! {
                connected = link.connect() => connected,
                () = link.tasks().stopping() => Err(ConnectError::Stopping),
            }
        });
        let attempt = attempt.shared();
        *known = attempt.downgrade();
        attempt
    }

    async fn connect(self: &Arc<Self>) -> Result<Arc<Connection>, ConnectError> {
        let _nobody_rests = self.connecting.lock().await;
        if let Some(connection) = self.current() {
            return Ok(connection);
        }
        let (lost, closed) = {
            let state = self.state.lock();
            (state.connection.clone(), state.closed)
        };
        if let Some(closed) = closed {
            return Err(closed.into());
        }
        if let Some(lost) = lost {
            self.connector.lost(&lost).await;
            self.state.lock().connection = None;
        }
        let connection = match self.stubborn {
            true => self.connector.connect_stubbornly(&self.wish).await?,
            false => self.connector.connect(&self.wish).await?,
        };
        self.put(&connection).await?;
        Ok(connection)
    }

    /// A new connection: the server is told what it must know, and from here on it is used.
    async fn put(self: &Arc<Self>, connection: &Arc<Connection>) -> Result<(), ConnectError> {
        let is_first = self.connections.fetch_add(1, Ordering::Relaxed) == 0;
        if let Some(kept) = &self.kept {
            kept.connected(connection);
            // Changes are heard whether a client listens or not.
            connection.watch();
        }
        let is_ready = {
            let mut state = self.state.lock();
            if let Some(closed) = state.closed {
                Err(closed)
            } else {
                let is_ready = state.client_is_ready || !is_first;
                if is_ready && connection.era() == Era::Legacy && self.wish.client_says_initialized {
                    connection.notify("notifications/initialized", None);
                }
                state.connection = Some(connection.clone());
                Ok(is_ready || !self.wish.client_says_initialized)
            }
        };
        let is_ready = match is_ready {
            Ok(is_ready) => is_ready,
            Err(closed) => {
                connection.close().await;
                return Err(closed.into());
            }
        };
        if !is_first {
            self.restored(connection).await;
        }
        if self.watched.load(Ordering::Relaxed) {
            connection.watch();
        }
        let listens = self.tend(connection);
        // Whoever listens first asks for the lists when nothing can be missed any more.
        if is_ready && !listens {
            self.refresh_once(connection);
        }
        Ok(())
    }

    /// A notification of the client that the link was made for.
    pub fn notified(self: &Arc<Self>, message: &Message) {
        let is_ready = message.method() == "notifications/initialized";
        let connection = {
            let mut state = self.state.lock();
            state.client_is_ready |= is_ready;
            state.connection.clone()
        };
        // One that is started later is told that the client is ready, and asks for the rest itself.
        let connection = connection.filter(|connection| !connection.is_lost() && connection.era() == Era::Legacy);
        let Some(connection) = connection else { return };
        connection.notify(message.method(), message.body().as_ref());
        if is_ready {
            self.refresh_once(&connection);
        }
    }

    /// Opens a request on the connection; connecting happens inside.
    pub fn open(self: &Arc<Self>, call: Call, before: Before) -> Exchange {
        match self.open_kept(&call) {
            Some(exchange) => exchange,
            None => self.open_live(call, before),
        }
    }

    /// Opens a request that what is kept answers; `None` when the server is to be asked.
    pub fn open_kept(self: &Arc<Self>, call: &Call) -> Option<Exchange> {
        self.answer(call).map(|exchange| exchange.with_server(Some(self.spec().clone())))
    }

    /// Opens a request that only the server can answer.
    pub fn open_live(self: &Arc<Self>, call: Call, before: Before) -> Exchange {
        let opened = match self.current() {
            Some(connection) => self.open_on(&connection, call, before),
            None => Err(Box::new(call)),
        };
        let exchange = opened.unwrap_or_else(|call| {
            let link = self.clone();
            Exchange::deferred(async move { link.open_anew(call, before).await })
        });
        exchange.with_server(Some(self.connector.server().spec().clone()))
    }

    /// Opens a request that nothing has been sent of.
    async fn open_anew(self: &Arc<Self>, mut call: Box<Call>, before: Before) -> Exchange {
        let ours = |error: ConnectError| Exchange::ready(End::ours(Outcome::Error(error.to_body(self.name()))));
        // A server may be gone again before it could be told; once more, and then it is its own affair.
        for _ in 0..2 {
            let connection = match self.connection().await {
                Ok(connection) => connection,
                Err(error) => return ours(error),
            };
            call = match self.open_on(&connection, *call, before) {
                Ok(exchange) => return exchange,
                Err(unsent) => unsent,
            };
        }
        let (exit, stderr, stdout) = ("it ends as soon as it has started".to_owned(), String::new(), String::new());
        ours(ConnectError::Exited { exit, stderr, stdout })
    }

    fn open_on(&self, connection: &Arc<Connection>, call: Call, before: Before) -> Result<Exchange, Box<Call>> {
        let over_http = matches!(self.connector.server().spec().target, Target::Http { .. });
        match before(connection, call) {
            Ok(call) if over_http && call.headers.is_none() && connection.era() == Era::Modern => {
                mirrored::open(connection, call, self.name())
            }
            Ok(call) => connection.open(call),
            Err(end) => Ok(Exchange::ready(end)),
        }
    }

    /// Whether it leads to this server.
    pub fn is_to(&self, server: &Arc<Server>) -> bool {
        Arc::ptr_eq(self.connector.server(), server)
    }

    /// The name of the server.
    pub fn name(&self) -> &str {
        self.connector.server().spec().name.as_str()
    }

    /// Makes sure that what belongs to no request arrives, now and after every restart.
    pub fn watch(&self) {
        self.watched.store(true, Ordering::Relaxed);
        if let Some(connection) = self.current() {
            connection.watch();
        }
    }

    /// Whether a session can do without it until its client comes back: it is not connected, or to a server that has no
    /// session with us. Not while the server may still say what somebody has subscribed to.
    pub(crate) fn can_rest(&self) -> bool {
        let hears = |connection: &Connection| connection.may_hear() && self.has_subscriptions();
        self.current().is_none_or(|connection| connection.is_expendable() && !hears(&connection))
    }

    /// Whether a client's call is under way that comes to an end by itself.
    pub fn is_working(&self) -> bool {
        self.current().is_some_and(|connection| connection.is_working())
    }

    /// Ends the connection, for good.
    pub async fn close(&self) {
        self.end(Closed::Over).await;
    }

    /// The same because its server is not served any more, which whoever still waits is told.
    pub async fn dismiss(&self, why: Dismissal) {
        self.end(Closed::Dismissed(why)).await;
    }

    /// Whoever ends the link from now on does so because its server is not served any more.
    pub(crate) fn condemn(&self, why: Dismissal) {
        self.state.lock().closed.get_or_insert(Closed::Dismissed(why));
    }

    /// Only the first reason counts.
    async fn end(&self, why: Closed) {
        let (why, connection) = {
            let mut state = self.state.lock();
            state.stop_tending();
            (*state.closed.get_or_insert(why), state.connection.take())
        };
        match (connection, why) {
            (None, _) => {}
            (Some(connection), Closed::Over) => connection.close().await,
            (Some(connection), Closed::Dismissed(why)) => connection.cut_off(&why.cut_off(self.name())).await,
        }
    }
}

/// What is done to a call where the eras of client and server differ: it is changed, or answered.
pub type Before = fn(&Connection, Call) -> Result<Call, End>;
