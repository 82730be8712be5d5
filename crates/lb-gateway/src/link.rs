//! A connection that is made when needed, made again when lost, and made once however many ask for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lb_backend::{ConnectError, Connection, Connector, Server, Wish};
use lb_exchange::{Call, End, Exchange, Feed, FeedItem, List, Note, Outcome, Target};
use lb_wire::revision::Era;
use lb_wire::{Raw, Text, compose};
use parking_lot::Mutex;

use crate::convert::mirrored;

/// The way to one server, for one session or for all that share it.
pub struct Link {
    connector: Connector,
    wish: Wish,
    current: Mutex<Option<Arc<Connection>>>,
    connecting: tokio::sync::Mutex<()>,
    connections: AtomicU64,
    restore: Mutex<Restore>,
    watched: std::sync::atomic::AtomicBool,
}

/// What a server was told and must be told again after a restart.
#[derive(Debug, Default)]
struct Restore {
    log_level: Option<Raw>,
    subscriptions: Vec<Raw>,
}

/// Subscriptions of one link; a client that wants more is refused by the server or by memory.
const SUBSCRIPTIONS_MAX: usize = 1000;

impl Link {
    /// A link that is not connected yet.
    pub fn new(server: Arc<Server>, wish: Wish) -> Arc<Self> {
        Arc::new(Self {
            connector: Connector::new(server),
            wish,
            current: Mutex::new(None),
            connecting: tokio::sync::Mutex::new(()),
            connections: AtomicU64::new(0),
            restore: Mutex::default(),
            watched: std::sync::atomic::AtomicBool::new(false),
        })
    }

    /// What belongs to no request, over all connections that this link makes.
    pub fn feed(&self) -> &Feed {
        &self.wish.feed
    }

    /// The connection, if there is one that works.
    pub fn current(&self) -> Option<Arc<Connection>> {
        self.current.lock().clone().filter(|connection| !connection.is_lost())
    }

    /// The connection, made if there is none.
    ///
    /// Cancel safe: yes; whoever waits behind a cancelled attempt starts another.
    pub async fn connection(&self) -> Result<Arc<Connection>, ConnectError> {
        if let Some(connection) = self.current() {
            return Ok(connection);
        }
        let _single_flight = self.connecting.lock().await;
        if let Some(connection) = self.current() {
            return Ok(connection);
        }
        let lost = self.current.lock().clone();
        if let Some(lost) = lost {
            self.connector.lost(&lost).await;
            *self.current.lock() = None;
        }
        let connection = self.connector.connect(&self.wish).await?;
        if 0 < self.connections.fetch_add(1, Ordering::Relaxed) {
            self.restored(&connection);
        }
        if self.watched.load(Ordering::Relaxed) {
            connection.watch();
        }
        *self.current.lock() = Some(connection.clone());
        Ok(connection)
    }

    /// Opens a request on the connection; connecting happens inside.
    pub fn open(self: &Arc<Self>, call: Call, before: Before) -> Exchange {
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
    async fn open_anew(&self, mut call: Box<Call>, before: Before) -> Exchange {
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
        ours(ConnectError::Exited { exit: "it ends as soon as it has started".to_owned(), stderr: String::new() })
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

    /// Remembers what a request tells the server for longer than itself.
    pub fn remember(&self, call: &Call) {
        let mut restore = self.restore.lock();
        match call.message.method() {
            "logging/setLevel" => restore.log_level = call.message.body(),
            "resources/subscribe" => {
                let uri = call.message.member("uri");
                if let Some(uri) = uri.filter(|uri| !restore.subscriptions.contains(uri))
                    && restore.subscriptions.len() < SUBSCRIPTIONS_MAX
                {
                    restore.subscriptions.push(uri);
                }
            }
            "resources/unsubscribe" => {
                let uri = call.message.member("uri");
                restore.subscriptions.retain(|known| Some(known) != uri.as_ref());
            }
            _ => {}
        }
    }

    /// Ends the connection.
    pub async fn close(&self) {
        let current = self.current.lock().take();
        if let Some(connection) = current {
            connection.close().await;
        }
    }

    /// After a restart: the server is told again what it was told, and the client that it may have missed something.
    fn restored(&self, connection: &Arc<Connection>) {
        tracing::info!(server = self.name(), "server restarted");
        if connection.era() == Era::Legacy && self.wish.client_says_initialized {
            connection.notify("notifications/initialized", None);
        }
        let restore = self.restore.lock();
        let mut again: Vec<(&'static str, Raw)> = Vec::new();
        let legacy = connection.era() == Era::Legacy;
        match restore.log_level.clone() {
            Some(params) if legacy => again.push(("logging/setLevel", params)),
            // There the level goes with every call.
            Some(params) => params.member("level").into_iter().for_each(|level| connection.set_log_level(level)),
            None => {}
        }
        // A modern server was never asked for them.
        for uri in restore.subscriptions.iter().filter(|_| legacy) {
            again.push(("resources/subscribe", compose::object(&[("uri", uri)])));
            let note =
                Note::new(Text::from_static("notifications/resources/updated"), Some(compose::object(&[("uri", uri)])));
            let uri = uri.to_text().map(|uri| Text::from(&*uri)).unwrap_or_else(|| Text::from_static(""));
            drop(self.feed().push(FeedItem::Updated(uri, note)));
        }
        drop(restore);
        if !again.is_empty() {
            let connection = connection.clone();
            self.wish.tasks.spawn(async move {
                for (method, params) in again {
                    connection.request(method, Some(&params)).await;
                }
            });
        }
        for (list, capability, method) in CHANGES {
            if connection.declares(capability, Some("listChanged")) {
                drop(self.feed().push(FeedItem::Changed(*list, Note::new(Text::from_static(method), None))));
            }
        }
    }
}

const CHANGES: &[(List, &str, &str)] = &[
    (List::Tools, "tools", "notifications/tools/list_changed"),
    (List::Prompts, "prompts", "notifications/prompts/list_changed"),
    (List::Resources, "resources", "notifications/resources/list_changed"),
];

/// What is done to a call where the eras of client and server differ: it is changed, or answered.
pub type Before = fn(&Connection, Call) -> Result<Call, End>;
