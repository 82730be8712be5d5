//! A server for one test, and a client that writes HTTP by hand.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lb_exchange::Tasks;
use lb_front::Front;
use lb_http::{Listener, Settings};
use lb_session::streams::SharedStreams;
use lb_testkit::ScriptedMiddle;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// Longer than anything here should take.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct Server {
    pub addr: SocketAddr,
    pub middle: Arc<ScriptedMiddle>,
    pub stop: CancellationToken,
    pub stopped: CancellationToken,
    pub handle: lb_http::Handle,
}

impl Server {
    pub async fn start() -> Self {
        Self::with(Settings::default(), lb_front::Settings::default()).await
    }

    pub async fn with(settings: Settings, front: lb_front::Settings) -> Self {
        Self::on("127.0.0.1:0", settings, front).await
    }

    pub async fn on(address: &str, settings: Settings, front: lb_front::Settings) -> Self {
        let listener = Listener::bind(&address.parse().expect("a place")).await.expect("a free port");
        Self::behind(listener, settings, front)
    }

    /// Serves on this listener.
    pub fn behind(listener: Listener, settings: Settings, front: lb_front::Settings) -> Self {
        let middle = ScriptedMiddle::new(|| Arc::new(SharedStreams::default()));
        let addr = listener.address().unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
        let front = Arc::new(Front::new(middle.clone(), front));
        let http = lb_http::Http::new(front, settings);
        let handle = http.handle();
        let (tasks, stop, stopped) = (Tasks::default(), CancellationToken::new(), CancellationToken::new());
        let serving = {
            let (tasks, stop, stopped) = (tasks.clone(), stop.clone(), stopped.clone());
            async move {
                http.serve(vec![listener], tasks, stop.cancelled()).await;
                stopped.cancel();
            }
        };
        tasks.spawn(serving);
        Self { addr, middle, stop, stopped, handle }
    }

    pub async fn connect(&self) -> Peer {
        Peer::over(TcpStream::connect(self.addr).await.expect("a connection"), &self.addr.to_string())
    }

    /// A connection and the session of a new legacy client.
    pub async fn seated(&self, version: &str) -> (Peer, String) {
        let mut peer = self.connect().await;
        let params = json!({ "protocolVersion": version, "capabilities": { "elicitation": {} } });
        let response = peer.post(&[], &request(0, "initialize", params)).await;
        let session = response.header("mcp-session-id").expect("a session").to_owned();
        (peer, session)
    }
}

pub fn request(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

pub fn tool_call(id: u64, tool: &str) -> Value {
    request(id, "tools/call", json!({ "name": tool }))
}

/// Whatever carries bytes.
pub trait Carrier: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Carrier for T {}

pub struct Peer {
    socket: Box<dyn Carrier>,
    buffer: Vec<u8>,
    host: String,
}

#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn code(&self) -> (u16, i64) {
        (self.status, self.json()["error"]["code"].as_i64().unwrap_or_default())
    }
}

impl Peer {
    /// A client on this connection, which names this host.
    pub fn over(socket: impl Carrier + 'static, host: &str) -> Self {
        Self { socket: Box::new(socket), buffer: Vec::new(), host: host.to_owned() }
    }

    pub async fn send(&mut self, text: &str) {
        self.socket.write_all(text.as_bytes()).await.expect("written");
    }

    /// The head of a request with the usual headers and these.
    pub fn head(&self, line: &str, headers: &[(&str, &str)]) -> String {
        let mut head = format!("{line} HTTP/1.1\r\n");
        let usual = [
            ("Host", self.host.as_str()),
            ("Accept", "application/json, text/event-stream"),
            ("Content-Type", "application/json"),
        ];
        let given = |name: &str| headers.iter().any(|(key, _)| key.eq_ignore_ascii_case(name));
        for (name, value) in usual.iter().filter(|(name, _)| !given(name)).chain(headers) {
            if !value.is_empty() {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        head
    }

    pub async fn send_post(&mut self, headers: &[(&str, &str)], body: &str) {
        let head = self.head("POST /mcp", headers);
        self.send(&format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())).await;
    }

    pub async fn post(&mut self, headers: &[(&str, &str)], body: &Value) -> Response {
        self.send_post(headers, &body.to_string()).await;
        self.response().await
    }

    pub async fn ask(&mut self, line: &str, headers: &[(&str, &str)]) -> Response {
        let head = self.head(line, headers);
        self.send(&format!("{head}\r\n")).await;
        self.response().await
    }

    /// A whole response, or nothing when the connection was reset before any byte of it.
    pub async fn try_response(&mut self) -> Option<Response> {
        let mut byte = [0];
        match self.socket.read(&mut byte).await {
            Ok(1) => self.buffer.push(byte[0]),
            Ok(_) | Err(_) => return None,
        }
        Some(self.response().await)
    }

    /// A whole response.
    pub async fn response(&mut self) -> Response {
        let mut response = self.response_head().await;
        if response.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk().await {
                response.body.extend_from_slice(&chunk);
            }
        } else {
            let length = response.header("content-length").map_or(0, |length| length.parse().expect("a length"));
            response.body = self.take(length).await;
        }
        response
    }

    pub async fn response_head(&mut self) -> Response {
        let head = self.until(b"\r\n\r\n").await;
        let head = String::from_utf8(head).expect("text");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Response { status, head, body: Vec::new() }
    }

    /// The next chunk; `None` at the end.
    pub async fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = String::from_utf8(self.until(b"\r\n").await).expect("text");
        let size = usize::from_str_radix(size.trim(), 16).expect("a size");
        let data = self.take(size).await;
        self.take(2).await;
        (size != 0).then_some(data)
    }

    /// Events until the stream has said this.
    pub async fn events_until(&mut self, what: &str) -> String {
        let mut seen = String::new();
        while !seen.contains(what) {
            let chunk = self.chunk().await.unwrap_or_else(|| panic!("ended before {what:?}: {seen}"));
            seen.push_str(&String::from_utf8(chunk).expect("text"));
        }
        seen
    }

    /// Whether the other side has closed, after reading what it still said.
    pub async fn closed(&mut self) -> Vec<u8> {
        let mut rest = std::mem::take(&mut self.buffer);
        match tokio::time::timeout(PATIENCE, self.socket.read_to_end(&mut rest)).await {
            Ok(_) => rest,
            Err(_) => panic!("still open after {rest:?}"),
        }
    }

    async fn take(&mut self, count: usize) -> Vec<u8> {
        while self.buffer.len() < count {
            self.fill().await;
        }
        self.buffer.drain(..count).collect()
    }

    async fn until(&mut self, end: &[u8]) -> Vec<u8> {
        loop {
            if let Some(at) = self.buffer.windows(end.len()).position(|window| window == end) {
                return self.buffer.drain(..at + end.len()).collect();
            }
            self.fill().await;
        }
    }

    async fn fill(&mut self) {
        let read = tokio::time::timeout(PATIENCE, self.socket.read_buf(&mut self.buffer)).await;
        assert_ne!(
            read.expect("in time").expect("read"),
            0,
            "closed after {:?}",
            String::from_utf8_lossy(&self.buffer)
        );
    }
}
