//! Clients of the gateway under test: both transports, both eras, and the fixture behind it.

#![allow(dead_code, reason = "two test binaries share these words, and neither needs all of them")]

use std::any::Any;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lb_peers::harness::{Gateway, HttpPeer, config, peer};
use lb_peers::raw::http::{Headers, headers, modern_headers, post_headers};
use lb_peers::raw::http1::Head;
use lb_peers::raw::sse::Event;
use lb_peers::raw::{RawHttp, RawStdio};
use serde_json::{Value, json};

pub const LANDBRIDGE: &str = env!("CARGO_BIN_EXE_landbridge");
/// Where the server `it` is served.
pub const PATH: &str = "/mcp/server/it";
/// The revision without a handshake.
pub const MODERN: &str = "2026-07-28";
/// The newest revision with one.
pub const LEGACY: &str = "2025-11-25";

/// How the gateway reaches its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    Stdio,
    Http,
}

/// How a client reaches the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    Stdio,
    Http,
}

/// Every way from a client to a server.
pub const PAIRS: [(Wire, Behind); 4] = [
    (Wire::Http, Behind::Http),
    (Wire::Http, Behind::Stdio),
    (Wire::Stdio, Behind::Http),
    (Wire::Stdio, Behind::Stdio),
];

/// A server and its entry in the config. Dropping it ends the server.
pub struct Server {
    pub entry: Value,
    pub peer: Option<HttpPeer>,
}

impl Server {
    /// The fixture, started by the gateway or by us.
    pub async fn fixture(behind: Behind) -> Self {
        Self::of("fixture", behind, &[]).await
    }

    /// Any peer with these arguments.
    pub async fn of(name: &str, behind: Behind, args: &[&str]) -> Self {
        let binary = peer(LANDBRIDGE, name);
        match behind {
            Behind::Stdio => Self { entry: json!({ "command": binary, "args": args }), peer: None },
            Behind::Http => {
                let peer = HttpPeer::start(&binary, args).await;
                Self { entry: json!({ "url": peer.url() }), peer: Some(peer) }
            }
        }
    }

    /// The same server with one more key in its entry.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.entry[key] = value.into();
        self
    }

    /// The gateway in front of it.
    pub async fn gateway(&self) -> Gateway {
        Gateway::serve(LANDBRIDGE, json!({ "it": self.entry })).await
    }
}

/// One client. Over HTTP it has one connection for one request at a time; [`Client::again`] opens another.
pub struct Client {
    pub end: End,
    pub version: String,
    capabilities: Value,
    /// A gateway or a config that lives as long as this client.
    owned: Option<Box<dyn Any + Send>>,
}

/// Ids differ over all clients of one test, so that several connections may share a session.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

pub enum End {
    Http { address: SocketAddr, http: Box<RawHttp>, headers: Headers },
    Stdio(Box<RawStdio>),
}

impl Client {
    /// A client of its own gateway, over either transport.
    pub async fn start(wire: Wire, server: &Server, version: &str, capabilities: Value) -> Self {
        match wire {
            Wire::Http => {
                let gateway = server.gateway().await;
                let mut client = Self::http(gateway.address, version, capabilities).await;
                client.owned = Some(Box::new(gateway));
                client
            }
            Wire::Stdio => Self::stdio(server, version, capabilities).await,
        }
    }

    /// A client over HTTP; a legacy one has a session.
    pub async fn http(address: SocketAddr, version: &str, capabilities: Value) -> Self {
        let http = Box::new(RawHttp::connect(address).await.expect("the gateway listens"));
        let end = End::Http { address, http, headers: post_headers() };
        let mut client = Self::new(end, version, capabilities);
        if version != MODERN {
            client.open_session().await;
        }
        client
    }

    /// `landbridge stdio`, ready for calls.
    pub async fn stdio(server: &Server, version: &str, capabilities: Value) -> Self {
        Self::stdio_with(server, version, capabilities, &[]).await
    }

    /// The same with further flags.
    pub async fn stdio_with(server: &Server, version: &str, capabilities: Value, flags: &[&str]) -> Self {
        let (folder, file) = config(&json!({ "it": server.entry }));
        let mut command = tokio::process::Command::new(LANDBRIDGE);
        command.args(["stdio", "--surface", "server", "--config"]).arg(file).args(flags);
        let mut stdio = RawStdio::spawn(command).expect("the gateway starts");
        stdio.patience = Duration::from_secs(20);
        let mut client = Self::new(End::Stdio(Box::new(stdio)), version, capabilities);
        client.owned = Some(Box::new(folder));
        if version != MODERN {
            let params = client.hello();
            let answer = client.run("initialize", params).await.pop().expect("an answer");
            assert_eq!(answer["result"]["protocolVersion"], version, "{answer}");
            client.notify("notifications/initialized", json!({})).await;
        }
        client
    }

    fn new(end: End, version: &str, capabilities: Value) -> Self {
        Self { end, version: version.to_owned(), capabilities, owned: None }
    }

    fn hello(&self) -> Value {
        json!({
            "protocolVersion": self.version,
            "capabilities": self.capabilities,
            "clientInfo": { "name": "raw", "version": "1" },
        })
    }

    async fn open_session(&mut self) {
        let body = json!({ "jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": self.hello() });
        let End::Http { http, headers: own, .. } = &mut self.end else { return };
        let answer = http.post(PATH, own, body.to_string().as_bytes()).await.expect("an answer");
        let session = answer.head.header("mcp-session-id");
        let session = session.unwrap_or_else(|| panic!("no session: {} {}", answer.head.start, answer.text()));
        own.extend(headers(&[("MCP-Protocol-Version", &self.version), ("Mcp-Session-Id", session)]));
        self.notify("notifications/initialized", json!({})).await;
    }

    /// The same client on a further connection.
    pub async fn again(&self) -> Self {
        let End::Http { address, headers, .. } = &self.end else { panic!("only HTTP has further connections") };
        let http = Box::new(RawHttp::connect(*address).await.expect("the gateway listens"));
        let end = End::Http { address: *address, http, headers: headers.clone() };
        Self::new(end, &self.version, self.capabilities.clone())
    }

    /// The same client on a connection that takes little before somebody reads it.
    pub async fn narrow(&self) -> Self {
        let mut client = self.again().await;
        let End::Http { address, http, .. } = &mut client.end else { return client };
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        // Much smaller, and the system takes ages to fill it again once it was full.
        socket.set_recv_buffer_size(64 * 1024).expect("a small buffer");
        **http = RawHttp::over(socket.connect(*address).await.expect("the gateway listens"), *address);
        client
    }

    /// The connection of an HTTP client.
    pub fn conn(&mut self) -> &mut RawHttp {
        let End::Http { http, .. } = &mut self.end else { panic!("not over HTTP") };
        http
    }

    /// The folder of the config that was written for this client.
    pub fn folder(&self) -> &std::path::Path {
        let folder = self.owned.as_ref().and_then(|owned| owned.downcast_ref::<tempfile::TempDir>());
        folder.expect("a client on stdio").path()
    }

    /// The process of a stdio client.
    pub fn process(&mut self) -> &mut RawStdio {
        let End::Stdio(stdio) = &mut self.end else { panic!("not over stdio") };
        stdio
    }

    /// The headers of this client's requests, with these instead of or beside its own.
    pub fn headers_with(&self, more: &[(&str, &str)]) -> Headers {
        let End::Http { headers: own, .. } = &self.end else { panic!("not over HTTP") };
        let replaced = |name: &str| more.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let mut all: Headers = own.iter().filter(|(name, _)| !replaced(name)).cloned().collect();
        all.extend(headers(more));
        all
    }

    /// Sends a notification, and over HTTP reads its 202.
    pub async fn notify(&mut self, method: &str, params: Value) {
        self.tell(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    /// Answers a request of the server.
    pub async fn answer(&mut self, ask: &Value, result: Value) {
        self.tell(json!({ "jsonrpc": "2.0", "id": ask["id"], "result": result })).await;
    }

    /// Sends a message that gets no answer.
    pub async fn tell(&mut self, message: Value) {
        match &mut self.end {
            End::Stdio(stdio) => stdio.send(message.to_string().as_bytes()).await.expect("it reads"),
            End::Http { http, headers, .. } => {
                let answer = http.post(PATH, headers, message.to_string().as_bytes()).await.expect("an answer");
                assert_eq!((answer.head.status(), answer.text()), (202, String::new()), "{message}");
            }
        }
    }

    /// A request of this client as it goes on the wire.
    pub fn request(&self, method: &str, mut params: Value) -> Value {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        if self.version == MODERN {
            let meta = &mut params["_meta"];
            meta["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
            meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
            meta["io.modelcontextprotocol/clientInfo"] = json!({ "name": "raw", "version": "1" });
        }
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    }

    /// Sends a request; what it brings is read with [`Client::head`] and [`Client::message`]. Gives its id.
    pub async fn send(&mut self, method: &str, params: Value) -> Value {
        let request = self.request(method, params);
        self.send_request(&request).await;
        request["id"].clone()
    }

    /// Sends a request made before.
    pub async fn send_request(&mut self, request: &Value) {
        let bytes = request.to_string().into_bytes();
        let modern = self.version == MODERN;
        match &mut self.end {
            End::Stdio(stdio) => stdio.send(&bytes).await.expect("it reads"),
            End::Http { http, headers, .. } => {
                let method = request["method"].as_str().unwrap_or_default();
                let name = request["params"]["name"].as_str().or_else(|| request["params"]["uri"].as_str());
                let headers = if modern { modern_headers(method, name) } else { headers.clone() };
                http.send("POST", PATH, &headers, &bytes).await.expect("it reads");
            }
        }
    }

    /// The head of the reply to what was sent.
    pub async fn head(&mut self) -> Head {
        self.conn().head().await.expect("a reply")
    }

    /// The next message of a stream or of stdout, with its event id; `None` at the end of the stream.
    pub async fn message(&mut self) -> Option<(Option<String>, Value)> {
        match &mut self.end {
            End::Stdio(stdio) => {
                let line = stdio.text().await.expect("a line");
                Some((None, serde_json::from_str(&line).expect("JSON")))
            }
            End::Http { http, .. } => loop {
                let event = http.event().await.expect("an event or the end")?;
                if let Some(message) = message_of(&event) {
                    return Some((event.id, message));
                }
            },
        }
    }

    /// Sends a request and gives everything up to its response.
    pub async fn run(&mut self, method: &str, params: Value) -> Vec<Value> {
        let id = self.send(method, params).await;
        self.rest(&id).await
    }

    /// Everything up to the response to the request with this id. Over HTTP nothing may follow it.
    pub async fn rest(&mut self, id: &Value) -> Vec<Value> {
        let mut all = Vec::new();
        if let End::Http { http, .. } = &mut self.end {
            let head = http.head().await.expect("a reply");
            if !head.is_sse() {
                let (body, complete) = http.body().await.expect("a body");
                assert!(complete);
                return vec![serde_json::from_slice(&body).expect("JSON")];
            }
            while let Some((_, message)) = self.message().await {
                all.push(message);
            }
            assert_eq!(all.last().map(|last| &last["id"]), Some(id), "{all:?}");
            return all;
        }
        while all.last().is_none_or(|last: &Value| last["id"] != *id || last.get("method").is_some()) {
            all.push(self.message().await.expect("stdout does not end").1);
        }
        all
    }

    /// Calls a tool and gives its result.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let answer = self.run("tools/call", params).await.pop().expect("an answer");
        assert!(answer.get("result").is_some(), "{tool}: {answer}");
        answer["result"].clone()
    }

    /// How often the fixture started, finished and cancelled a tool.
    pub async fn counts(&mut self, tool: &str) -> [u64; 3] {
        let all = self.call("counters", json!({})).await;
        let one = &all["structuredContent"][tool];
        ["started", "finished", "cancelled"].map(|what| one[what].as_u64().unwrap_or(0))
    }

    /// Waits until the fixture's counts of a tool are these; gives how long that took.
    pub async fn await_counts(&mut self, tool: &str, want: [u64; 3]) -> Duration {
        let start = tokio::time::Instant::now();
        loop {
            let counts = self.counts(tool).await;
            if counts == want {
                return start.elapsed();
            }
            assert!(start.elapsed() < Duration::from_secs(10), "{tool}: {counts:?}, not {want:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Opens a GET stream, from the start or behind an event, and gives the head of the reply.
    pub async fn get(&mut self, last_event_id: Option<&str>) -> Head {
        let mut all = self.headers_with(&[("Accept", "text/event-stream")]);
        all.extend(last_event_id.map(|id| ("Last-Event-ID".to_owned(), id.to_owned())));
        self.conn().send("GET", PATH, &all, b"").await.expect("it reads");
        self.head().await
    }

    /// Resumes a stream that will end: all its messages with their ids.
    pub async fn resume(&mut self, last_event_id: &str) -> Vec<(Option<String>, Value)> {
        let head = self.get(Some(last_event_id)).await;
        assert!(head.is_sse(), "{}", head.start);
        let mut all = Vec::new();
        while let Some(message) = self.message().await {
            all.push(message);
        }
        all
    }
}

/// The JSON of an event; none in comments and priming events.
pub fn message_of(event: &Event) -> Option<Value> {
    let data = event.data.as_deref().filter(|data| !data.is_empty())?;
    Some(serde_json::from_slice(data).expect("JSON"))
}

/// Parameters of a call with a progress token.
pub fn with_token(tool: &str, arguments: Value) -> Value {
    json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": "p" } })
}

/// Whether the long forms of the tests are wanted.
pub fn long() -> bool {
    std::env::var_os("LANDBRIDGE_LONG").is_some_and(|value| value == "1")
}
