//! [`ToolClient`]: a client of the gateway's tools, over HTTP or stdio, of any revision.
//!
//! One handle for all of it: cheap to clone, used from many tasks at once. Each HTTP request has a connection of its own,
//! so clones are also several clients of one session. It is written on the raw clients and knows no MCP library.
//!
//! ```no_run
//! use lb_peers::{harness::Gateway, tools::ToolClient};
//! use serde_json::json;
//!
//! # async fn demo(gateway: Gateway) {
//! let client = ToolClient::http(&gateway).await;
//! let servers = client.call("list_servers", json!({})).await;
//! assert!(!servers.is_error(), "{servers}");
//! let running = client.start("await_activity", json!({ "timeout_ms": 60_000 })).await;
//! running.cancel().await;
//! # }
//! ```

mod http;
mod reply;
mod stdio;

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;

pub use self::reply::Reply;
use crate::harness::Gateway;
use crate::raw::handshake::MODERN;
use crate::raw::message::{META_CAPABILITIES, META_VERSION};

/// Messages of the server that are kept until they are read; the oldest go first.
const KEPT_MAX: usize = 10_000;

/// What a client says of itself.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The revision it speaks.
    pub revision: String,
    /// The capabilities it declares.
    pub capabilities: Value,
    /// How long a reply may take.
    pub patience: Duration,
    /// The path of the endpoint over HTTP.
    pub path: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            revision: "2025-11-25".to_owned(),
            capabilities: json!({}),
            // Less than a test may take, so that what is missing is told.
            patience: Duration::from_secs(40),
            path: "/mcp".to_owned(),
        }
    }
}

impl Settings {
    /// A client of the given revision.
    #[must_use]
    pub fn revision(revision: &str) -> Self {
        Self { revision: revision.to_owned(), ..Self::default() }
    }

    /// A client of 2026-07-28.
    #[must_use]
    pub fn modern() -> Self {
        Self::revision(MODERN)
    }

    /// The same with declared capabilities.
    #[must_use]
    pub fn with(self, capabilities: Value) -> Self {
        Self { capabilities, ..self }
    }

    fn is_modern(&self) -> bool {
        self.revision == MODERN
    }
}

/// A request of the server towards the client.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Its id.
    pub id: Value,
    /// `elicitation/create`, `sampling/createMessage`, `roots/list` or `ping`.
    pub method: String,
    /// Its parameters.
    pub params: Value,
}

/// A client of the tools. Clones share the session and everything that arrives.
#[derive(Clone)]
pub struct ToolClient {
    shared: Arc<Shared>,
}

struct Shared {
    settings: Settings,
    wire: Wire,
    inbox: Arc<Inbox>,
    ids: AtomicU64,
    /// The result of `initialize`; null for a modern client.
    hello: Mutex<Value>,
    /// Streams that are read in the background.
    tasks: Mutex<JoinSet<()>>,
}

enum Wire {
    Http(http::Http),
    Stdio(Box<stdio::Stdio>),
}

/// What the server sent without being asked.
#[derive(Debug, Default)]
struct Inbox {
    asks: Mutex<VecDeque<Ask>>,
    notes: Mutex<VecDeque<Value>>,
    arrived: Notify,
}

impl Inbox {
    /// Files a message that answers nothing.
    fn put(&self, message: Value) {
        let kept = |len: usize| KEPT_MAX <= len;
        if message.get("id").is_some() {
            let text = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
            let ask = Ask { id: message["id"].clone(), method: text("method"), params: message["params"].clone() };
            let mut asks = lock(&self.asks);
            if kept(asks.len()) {
                asks.pop_front();
            }
            asks.push_back(ask);
        } else {
            let mut notes = lock(&self.notes);
            if kept(notes.len()) {
                notes.pop_front();
            }
            notes.push_back(message);
        }
        self.arrived.notify_waiters();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ToolClient {
    /// A client of 2025-11-25 without capabilities.
    ///
    /// # Panics
    /// When the session cannot be opened.
    pub async fn http(gateway: &Gateway) -> Self {
        Self::http_as(gateway, Settings::default()).await
    }

    /// A client with these settings.
    ///
    /// # Panics
    /// When the session cannot be opened.
    pub async fn http_as(gateway: &Gateway, settings: Settings) -> Self {
        Self::at(gateway.address, settings).await
    }

    /// A client of whatever listens there.
    ///
    /// # Panics
    /// When the session cannot be opened.
    pub async fn at(address: SocketAddr, settings: Settings) -> Self {
        let client = Self::new(settings, Arc::default(), Wire::Http(http::Http::new(address)));
        client.hello().await;
        client
    }

    /// A further client of a session that was opened by another, with ids of its own.
    #[must_use]
    pub fn join(address: SocketAddr, session: &str, settings: Settings) -> Self {
        let client = Self::new(settings, Arc::default(), Wire::Http(http::Http::new(address)));
        if let Wire::Http(http) = &client.shared.wire {
            http.enter(session.to_owned());
        }
        client.shared.ids.store(1_000_000, Ordering::Relaxed);
        client
    }

    /// `landbridge stdio` with these `mcpServers`, or without a config file, and further arguments.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn stdio(binary: &str, servers: Option<Value>, args: &[&str]) -> Self {
        Self::stdio_as(binary, servers, args, Settings::default()).await
    }

    /// The same with settings.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn stdio_as(binary: &str, servers: Option<Value>, args: &[&str], settings: Settings) -> Self {
        let inbox = Arc::<Inbox>::default();
        let stdio = stdio::Stdio::start(binary, servers.as_ref(), args, &inbox);
        let client = Self::new(settings, inbox, Wire::Stdio(Box::new(stdio)));
        client.hello().await;
        client
    }

    fn new(settings: Settings, inbox: Arc<Inbox>, wire: Wire) -> Self {
        let (ids, hello, tasks) = (AtomicU64::new(1), Mutex::default(), Mutex::default());
        Self { shared: Arc::new(Shared { settings, wire, inbox, ids, hello, tasks }) }
    }

    async fn hello(&self) {
        let settings = &self.shared.settings;
        if settings.is_modern() {
            return;
        }
        let params = json!({
            "protocolVersion": settings.revision,
            "capabilities": settings.capabilities,
            "clientInfo": { "name": "tool-client", "version": "1" },
        });
        let reply = self.request("initialize", params).await;
        assert!(reply.rpc_error().is_none() && !reply.result().is_null(), "initialize: {reply}");
        *lock(&self.shared.hello) = reply.result().clone();
        self.notify("notifications/initialized", json!({})).await;
    }

    /// The result of `initialize`; null for a modern client.
    #[must_use]
    pub fn initialize_result(&self) -> Value {
        lock(&self.shared.hello).clone()
    }

    /// The id of the HTTP session.
    #[must_use]
    pub fn session_id(&self) -> Option<String> {
        match &self.shared.wire {
            Wire::Http(http) => http.session(),
            Wire::Stdio(_) => None,
        }
    }

    /// The process behind a stdio client.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        match &self.shared.wire {
            Wire::Http(_) => None,
            Wire::Stdio(stdio) => stdio.pid(),
        }
    }

    /// What the process behind a stdio client has written to stderr.
    #[must_use]
    pub fn said(&self) -> String {
        match &self.shared.wire {
            Wire::Http(_) => String::new(),
            Wire::Stdio(stdio) => stdio.said(),
        }
    }

    /// Calls a tool and waits for its reply.
    ///
    /// # Panics
    /// When no reply comes in time.
    pub async fn call(&self, name: &str, arguments: Value) -> Reply {
        self.start(name, arguments).await.wait().await
    }

    /// Calls a tool with members for `_meta`, such as a progress token.
    ///
    /// # Panics
    /// When no reply comes in time.
    pub async fn call_with_meta(&self, name: &str, arguments: Value, meta: Value) -> Reply {
        let params = json!({ "name": name, "arguments": arguments, "_meta": meta });
        self.start_request("tools/call", params).await.wait().await
    }

    /// Sends a call whose reply is awaited later, or never.
    pub async fn start(&self, name: &str, arguments: Value) -> Running {
        self.start_request("tools/call", json!({ "name": name, "arguments": arguments })).await
    }

    /// Answers the questions of an `input_required` reply, by key, and waits for the next reply.
    ///
    /// # Panics
    /// When no reply comes in time.
    pub async fn retry(&self, name: &str, arguments: Value, asked: &Reply, answers: Value) -> Reply {
        let mut params = json!({ "name": name, "arguments": arguments, "inputResponses": answers });
        if let Some(state) = asked.result().get("requestState") {
            params["requestState"] = state.clone();
        }
        self.request("tools/call", params).await
    }

    /// Sends any request and waits for its reply.
    ///
    /// # Panics
    /// When no reply comes in time.
    pub async fn request(&self, method: &str, params: Value) -> Reply {
        self.start_request(method, params).await.wait().await
    }

    /// Sends any request whose reply is awaited later. When this returns, the bytes have left.
    pub async fn start_request(&self, method: &str, params: Value) -> Running {
        let id = self.shared.ids.fetch_add(1, Ordering::Relaxed);
        let params = self.stamped(params);
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let mut task = JoinSet::new();
        match &self.shared.wire {
            Wire::Http(http) => {
                let sent = http.send(&self.shared.settings, &body).await;
                let (shared, method) = (self.shared.clone(), method.to_owned());
                task.spawn(async move {
                    let Wire::Http(http) = &shared.wire else { return Reply::default() };
                    http.receive(&shared, sent, id, method == "initialize").await
                });
            }
            Wire::Stdio(stdio) => {
                let answer = stdio.send(id, &body).await;
                task.spawn(async move { Reply::new(200, answer.await.unwrap_or_default()) });
            }
        }
        Running { id, client: self.clone(), task }
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str, params: Value) {
        let params = self.stamped(params);
        self.post(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    /// Answers a request of the server.
    pub async fn answer(&self, ask: &Ask, result: Value) {
        self.post(json!({ "jsonrpc": "2.0", "id": ask.id, "result": result })).await;
    }

    /// Answers a request of the server with an error.
    pub async fn refuse(&self, ask: &Ask, code: i64, message: &str) {
        self.post(json!({ "jsonrpc": "2.0", "id": ask.id, "error": { "code": code, "message": message } })).await;
    }

    /// The next request of the server, in the order they came.
    ///
    /// # Panics
    /// When none comes in time.
    pub async fn next_ask(&self) -> Ask {
        let next = async {
            loop {
                let arrived = self.shared.inbox.arrived.notified();
                tokio::pin!(arrived);
                arrived.as_mut().enable();
                if let Some(ask) = lock(&self.shared.inbox.asks).pop_front() {
                    return ask;
                }
                arrived.await;
            }
        };
        tokio::time::timeout(self.shared.settings.patience, next).await.expect("the server asks the client")
    }

    /// How many requests of the server wait to be read.
    #[must_use]
    pub fn asks_waiting(&self) -> usize {
        lock(&self.shared.inbox.asks).len()
    }

    /// The notifications that came so far, oldest first; they are not asked for again.
    #[must_use]
    pub fn notes(&self) -> Vec<Value> {
        lock(&self.shared.inbox.notes).drain(..).collect()
    }

    /// Opens the stream of the session on which the server speaks first; for legacy clients over HTTP.
    ///
    /// # Panics
    /// When the server refuses it.
    pub async fn listen(&self) {
        let Wire::Http(http) = &self.shared.wire else { return };
        let stream = http.open_stream(&self.shared.settings, None).await.expect("the stream opens");
        let inbox = self.shared.inbox.clone();
        lock(&self.shared.tasks).spawn(http::read_stream(stream, inbox));
    }

    /// Ends the session of a legacy HTTP client, or closes the input of a stdio one. Returns the HTTP status.
    pub async fn end(&self) -> u16 {
        match &self.shared.wire {
            Wire::Http(http) => http.delete(&self.shared.settings).await,
            Wire::Stdio(stdio) => {
                stdio.close().await;
                200
            }
        }
    }

    async fn post(&self, message: Value) {
        match &self.shared.wire {
            Wire::Http(http) => http.post(&self.shared.settings, &message).await,
            Wire::Stdio(stdio) => stdio.write(&message).await,
        }
    }

    /// Adds what a modern request carries in `_meta`.
    fn stamped(&self, mut params: Value) -> Value {
        let settings = &self.shared.settings;
        if settings.is_modern() {
            let meta = &mut params["_meta"];
            meta[META_VERSION] = settings.revision.clone().into();
            meta[META_CAPABILITIES] = settings.capabilities.clone();
            meta["io.modelcontextprotocol/clientInfo"] = json!({ "name": "tool-client", "version": "1" });
        }
        params
    }
}

impl fmt::Debug for ToolClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolClient").field("settings", &self.shared.settings).finish_non_exhaustive()
    }
}

/// A request under way. Dropping it closes its HTTP connection; on stdio it only forgets the reply.
#[derive(Debug)]
pub struct Running {
    /// The id of the request.
    pub id: u64,
    client: ToolClient,
    task: JoinSet<Reply>,
}

impl Running {
    /// Waits for the reply.
    ///
    /// # Panics
    /// When none comes in time.
    pub async fn wait(mut self) -> Reply {
        let patience = self.client.shared.settings.patience + Duration::from_secs(1);
        let reply = tokio::time::timeout(patience, self.task.join_next()).await;
        let reply = reply.unwrap_or_else(|_| panic!("no reply to request {} in time: {}", self.id, self.client.said()));
        reply.expect("one task").expect("the reply is read")
    }

    /// The reply, if it comes within `patience`.
    pub async fn within(&mut self, patience: Duration) -> Option<Reply> {
        tokio::time::timeout(patience, self.task.join_next()).await.ok().flatten()?.ok()
    }

    /// Says `notifications/cancelled` for this request; the reply can still be awaited.
    pub async fn tell_cancelled(&self, reason: &str) {
        let params = json!({ "requestId": self.id, "reason": reason });
        self.client.notify("notifications/cancelled", params).await;
    }

    /// Cancels: says so and forgets the request. A modern HTTP client cancels by closing the connection.
    pub async fn cancel(self) {
        let modern_http = self.client.shared.settings.is_modern() && matches!(self.client.shared.wire, Wire::Http(_));
        if !modern_http {
            self.tell_cancelled("test").await;
        }
    }
}
