//! [`RawHttp`]: an HTTP client that sends the bytes it is told to and shows the bytes that came back.

use std::future::Future;
use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;

use super::handshake::MODERN;
use super::http1::{Conn, Head};
use super::message::{META_CAPABILITIES, META_VERSION, Message};
use super::sse::{Event, Events};

/// Header names and values, written in this order.
pub type Headers = Vec<(String, String)>;

/// Builds [`Headers`] from text.
#[must_use]
pub fn headers(pairs: &[(&str, &str)]) -> Headers {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The headers every POST of any era carries.
#[must_use]
pub fn post_headers() -> Headers {
    headers(&[("Accept", "application/json, text/event-stream"), ("Content-Type", "application/json")])
}

/// The headers of a 2026-07-28 request; `name` is the tool, prompt or resource where the method has one.
#[must_use]
pub fn modern_headers(method: &str, name: Option<&str>) -> Headers {
    let mut all = post_headers();
    all.extend(headers(&[("MCP-Protocol-Version", MODERN), ("Mcp-Method", method)]));
    all.extend(name.map(|name| ("Mcp-Name".to_owned(), name.to_owned())));
    all
}

/// The `_meta` object a 2026-07-28 request must carry, as JSON text with `more` members (`,"key":value`) at its end.
#[must_use]
pub fn modern_meta(more: &str) -> String {
    let info = r#""io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"}"#;
    format!(r#"{{"{META_VERSION}":"{MODERN}","{META_CAPABILITIES}":{{}},{info}{more}}}"#)
}

/// A whole response.
#[derive(Clone, Debug)]
pub struct Response {
    /// Start line and headers.
    pub head: Head,
    /// The body without chunk framing.
    pub body: Vec<u8>,
    /// Whether the body ended as announced, rather than with the connection.
    pub complete: bool,
}

impl Response {
    /// The body as text, for messages and comparisons.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The events of an event-stream body.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        let mut events = Events::default();
        events.push(&self.body);
        std::iter::from_fn(|| events.next_event()).collect()
    }
}

/// A legacy session as `initialize` opened it.
#[derive(Clone, Debug)]
pub struct Session {
    /// The session header, where the server gave one.
    pub id: Option<String>,
    /// The version the server answered with.
    pub version: String,
    /// The whole answer to `initialize`.
    pub response: Response,
}

impl Session {
    /// Headers for POST and GET requests in this session.
    #[must_use]
    pub fn headers(&self) -> Headers {
        let mut all = post_headers();
        all.extend(headers(&[("MCP-Protocol-Version", &self.version)]));
        all.extend(self.id.iter().map(|id| ("Mcp-Session-Id".to_owned(), id.clone())));
        all
    }
}

/// One kept-alive connection. Every read ends after [`RawHttp::patience`] with `TimedOut`.
#[derive(Debug)]
pub struct RawHttp {
    conn: Conn,
    address: SocketAddr,
    method: String,
    events: Events,
    /// How long one read may take; 10 s at first.
    pub patience: Duration,
}

impl RawHttp {
    /// Connects.
    ///
    /// # Errors
    /// When nothing listens there.
    pub async fn connect(address: SocketAddr) -> Result<Self> {
        Ok(Self::over(TcpStream::connect(address).await?, address))
    }

    /// Speaks over a connection made by the caller, such as one with small buffers.
    #[must_use]
    pub fn over(stream: TcpStream, address: SocketAddr) -> Self {
        let patience = Duration::from_secs(10);
        Self { conn: Conn::new(stream), address, method: String::new(), events: Events::default(), patience }
    }

    /// Sends exactly these bytes, whatever they are. For a response to anything but GET and HEAD this is enough.
    ///
    /// # Errors
    /// When the peer is gone.
    pub async fn send_raw(&mut self, bytes: &[u8]) -> Result<()> {
        self.conn.write(bytes).await
    }

    /// Sends a request: `Host` first, then the given headers, then `Content-Length` where there is a body.
    ///
    /// # Errors
    /// When the peer is gone.
    pub async fn send(&mut self, method: &str, path: &str, headers: &[(String, String)], body: &[u8]) -> Result<()> {
        let mut bytes = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.address).into_bytes();
        for (name, value) in headers {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        if !body.is_empty() || method == "POST" {
            bytes.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(body);
        method.clone_into(&mut self.method);
        self.send_raw(&bytes).await
    }

    /// Reads the head of the next response.
    ///
    /// # Errors
    /// `UnexpectedEof` when the connection closed instead, `TimedOut` when nothing came.
    pub async fn head(&mut self) -> Result<Head> {
        self.events = Events::default();
        let patience = self.patience;
        let head = within(patience, self.conn.response_head(&self.method)).await?;
        head.ok_or_else(|| ErrorKind::UnexpectedEof.into())
    }

    /// Reads the rest of the body: the bytes, and whether they ended as announced.
    ///
    /// # Errors
    /// `TimedOut` when it does not end in time.
    pub async fn body(&mut self) -> Result<(Vec<u8>, bool)> {
        within(self.patience, self.conn.rest()).await
    }

    /// Reads the next event of an event stream; `None` when the stream ended properly.
    ///
    /// Cancel safe: yes.
    ///
    /// # Errors
    /// `UnexpectedEof` when the connection broke off, `TimedOut` when no event came in time.
    pub async fn event(&mut self) -> Result<Option<Event>> {
        within(self.patience, async {
            loop {
                if let Some(event) = self.events.next_event() {
                    return Ok(Some(event));
                }
                match self.conn.piece().await? {
                    Some(piece) => self.events.push(&piece),
                    None => return Ok(None),
                }
            }
        })
        .await
    }

    /// Reads one piece of the body as it arrived, for tests of pace; `None` at the end.
    ///
    /// # Errors
    /// As [`RawHttp::event`].
    pub async fn piece(&mut self) -> Result<Option<Vec<u8>>> {
        Ok(within(self.patience, self.conn.piece()).await?.map(|piece| piece.to_vec()))
    }

    /// Sends a request and reads the whole response.
    ///
    /// # Errors
    /// As [`RawHttp::head`] and [`RawHttp::body`].
    pub async fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: &[u8],
    ) -> Result<Response> {
        self.send(method, path, headers, body).await?;
        let head = self.head().await?;
        let (body, complete) = self.body().await?;
        Ok(Response { head, body, complete })
    }

    /// [`RawHttp::request`] with POST.
    ///
    /// # Errors
    /// As [`RawHttp::request`].
    pub async fn post(&mut self, path: &str, headers: &[(String, String)], body: &[u8]) -> Result<Response> {
        self.request("POST", path, headers, body).await
    }

    /// Opens a legacy session: `initialize`, then `notifications/initialized`. The answer may be JSON or an event.
    ///
    /// # Errors
    /// As [`RawHttp::request`], and `InvalidData` when the answer is no `initialize` result.
    pub async fn initialize(&mut self, path: &str, version: &str) -> Result<Session> {
        let body = initialize_request("0", version);
        let response = self.post(path, &post_headers(), body.as_bytes()).await?;
        let version = negotiated(&response).ok_or_else(|| Error::new(ErrorKind::InvalidData, response.text()))?;
        let id = response.head.header("mcp-session-id").map(str::to_owned);
        let session = Session { id, version, response };
        let note = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        self.post(path, &session.headers(), note).await?;
        Ok(session)
    }
}

/// An `initialize` request without capabilities.
#[must_use]
pub fn initialize_request(id: &str, version: &str) -> String {
    let params =
        format!(r#"{{"protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"raw","version":"1"}}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{params}}}"#)
}

/// The version in the answer to `initialize`, found by reading the result as if it were parameters.
fn negotiated(response: &Response) -> Option<String> {
    let answer = if response.head.is_sse() {
        response.events().iter().map(Event::text).find(|text| text.contains("\"result\""))?
    } else {
        response.text()
    };
    let members: super::message::Members = serde_json::from_str(&answer).ok()?;
    let wrapped = format!(r#"{{"params":{}}}"#, members.get("result")?.get());
    Message::parse(wrapped.as_bytes())?.text_param("protocolVersion")
}

/// `work`, or `TimedOut`.
pub(super) async fn within<T>(patience: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(patience, work).await.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
}
