//! A hand-written HTTP/1.1 connection, for either side.
//!
//! It reads heads and bodies as they are and writes whatever it is given: half responses, wrong lengths and broken
//! streams are the reason it exists. It knows no MCP.

use std::io::{Error, ErrorKind, Result};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longest head that is read before the connection counts as broken.
const HEAD_BYTES_MAX: usize = 256 * 1024;

/// The start line and headers of a request or a response.
#[derive(Clone, Debug)]
pub struct Head {
    /// The bytes as received, up to and including the empty line.
    pub raw: Bytes,
    /// The first line, without its line end.
    pub start: String,
    /// Names as written, values trimmed, in the order received.
    pub headers: Vec<(String, String)>,
}

impl Head {
    fn parse(raw: Bytes) -> Result<Self> {
        let text = String::from_utf8_lossy(&raw);
        let mut lines = text.lines();
        let start = lines.next().unwrap_or_default().to_owned();
        let mut headers = Vec::new();
        for line in lines.take_while(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').ok_or_else(|| bad("a header line without a colon"))?;
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        Ok(Self { start, headers, raw: raw.clone() })
    }

    /// The first header of that name, compared without case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The status of a response, or 0 where the start line has none.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.start.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
    }

    /// The method of a request.
    #[must_use]
    pub fn method(&self) -> &str {
        self.start.split(' ').next().unwrap_or_default()
    }

    /// The path of a request, without its query.
    #[must_use]
    pub fn path(&self) -> &str {
        let target = self.start.split(' ').nth(1).unwrap_or_default();
        target.split('?').next().unwrap_or_default()
    }

    /// Whether the body is an event stream.
    #[must_use]
    pub fn is_sse(&self) -> bool {
        self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"))
    }

    fn framing(&self) -> Option<Framing> {
        if self.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
            return Some(Framing::ChunkSize);
        }
        self.header("content-length")?.parse().ok().map(Framing::Length)
    }
}

/// How much of the current body is still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Done,
    Length(u64),
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailers,
    UntilClose,
}

/// One TCP connection that carries HTTP/1.1 messages.
#[derive(Debug)]
pub struct Conn {
    stream: TcpStream,
    buffer: BytesMut,
    body: Framing,
}

impl Conn {
    /// Wraps a connected socket.
    #[must_use]
    pub fn new(stream: TcpStream) -> Self {
        // Small writes must leave at once: a slow answer is meant to arrive byte by byte.
        if let Err(error) = stream.set_nodelay(true) {
            eprintln!("set_nodelay: {error}");
        }
        Self { stream, buffer: BytesMut::new(), body: Framing::Done }
    }

    /// Writes exactly these bytes.
    ///
    /// # Errors
    /// When the peer is gone.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Ends our direction of the connection.
    ///
    /// # Errors
    /// When the peer is gone.
    pub async fn shutdown(&mut self) -> Result<()> {
        self.stream.shutdown().await
    }

    /// Reads the head of a request; `None` when the peer closed instead. Its body comes with [`Conn::piece`].
    ///
    /// Cancel safe: yes, what was read stays in the buffer.
    ///
    /// # Errors
    /// On a broken connection or a malformed head.
    pub async fn request_head(&mut self) -> Result<Option<Head>> {
        let head = self.head().await?;
        if let Some(head) = &head {
            self.body = head.framing().unwrap_or(Framing::Done);
        }
        Ok(head)
    }

    /// Reads the head of a response to a request of `method`; `None` when the peer closed instead.
    ///
    /// Cancel safe: yes.
    ///
    /// # Errors
    /// On a broken connection or a malformed head.
    pub async fn response_head(&mut self, method: &str) -> Result<Option<Head>> {
        let head = self.head().await?;
        if let Some(head) = &head {
            let bodyless = method == "HEAD" || matches!(head.status(), 100..=199 | 204 | 304);
            self.body = if bodyless { Framing::Done } else { head.framing().unwrap_or(Framing::UntilClose) };
        }
        Ok(head)
    }

    async fn head(&mut self) -> Result<Option<Head>> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                return Head::parse(self.buffer.split_to(end + 4).freeze()).map(Some);
            }
            if HEAD_BYTES_MAX < self.buffer.len() {
                return Err(bad("the head is too long"));
            }
            if self.fill().await? == 0 {
                return if self.buffer.is_empty() { Ok(None) } else { Err(ErrorKind::UnexpectedEof.into()) };
            }
        }
    }

    /// The next bytes of the current body, without chunk framing; `None` at its end.
    ///
    /// Cancel safe: yes.
    ///
    /// # Errors
    /// `UnexpectedEof` when the connection ends before the body does.
    pub async fn piece(&mut self) -> Result<Option<Bytes>> {
        loop {
            match self.body {
                Framing::Done | Framing::Length(0) => {
                    self.body = Framing::Done;
                    return Ok(None);
                }
                Framing::Length(left) => {
                    let piece = self.take(left).await?;
                    self.body = Framing::Length(left - piece.len() as u64);
                    return Ok(Some(piece));
                }
                Framing::Chunk(0) => self.body = Framing::ChunkEnd,
                Framing::Chunk(left) => {
                    let piece = self.take(left).await?;
                    self.body = Framing::Chunk(left - piece.len() as u64);
                    return Ok(Some(piece));
                }
                Framing::ChunkSize => self.chunk_size().await?,
                Framing::ChunkEnd => {
                    self.line().await?;
                    self.body = Framing::ChunkSize;
                }
                Framing::Trailers => {
                    if self.line().await?.is_empty() {
                        self.body = Framing::Done;
                    }
                }
                Framing::UntilClose => {
                    if self.buffer.is_empty() && self.fill().await? == 0 {
                        self.body = Framing::Done;
                        return Ok(None);
                    }
                    return Ok(Some(self.buffer.split().freeze()));
                }
            }
        }
    }

    /// Reads the rest of the current body. The flag says whether it was complete when the connection ended.
    ///
    /// # Errors
    /// On an error of the connection other than its early end.
    pub async fn rest(&mut self) -> Result<(Vec<u8>, bool)> {
        let mut all = Vec::new();
        loop {
            match self.piece().await {
                Ok(Some(piece)) => all.extend_from_slice(&piece),
                Ok(None) => return Ok((all, true)),
                Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
                    return Ok((all, false));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until the peer closes or sends something; `true` when it closed.
    ///
    /// Cancel safe: yes.
    pub async fn peer_closed(&mut self) -> bool {
        self.fill().await.unwrap_or(0) == 0
    }

    async fn chunk_size(&mut self) -> Result<()> {
        let line = self.line().await?;
        let text = String::from_utf8_lossy(&line);
        let digits = text.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(digits, 16).map_err(|_| bad("a chunk size that is not hex"))?;
        self.body = if size == 0 { Framing::Trailers } else { Framing::Chunk(size) };
        Ok(())
    }

    /// At least one and at most `limit` buffered bytes.
    async fn take(&mut self, limit: u64) -> Result<Bytes> {
        if self.buffer.is_empty() && self.fill().await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let length = self.buffer.len().min(limit);
        Ok(self.buffer.split_to(length).freeze())
    }

    async fn line(&mut self) -> Result<Bytes> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n") {
                let line = self.buffer.split_to(end).freeze();
                self.buffer.advance(2);
                return Ok(line);
            }
            if self.fill().await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    async fn fill(&mut self) -> Result<usize> {
        self.buffer.reserve(16 * 1024);
        self.stream.read_buf(&mut self.buffer).await
    }
}

/// A complete response with a `Content-Length`.
#[must_use]
pub fn response(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes = response_head(status, headers, &format!("Content-Length: {}", body.len()));
    bytes.extend_from_slice(body);
    bytes
}

/// The head of a chunked event stream.
#[must_use]
pub fn sse_head() -> Vec<u8> {
    let headers = [("Content-Type", "text/event-stream"), ("Cache-Control", "no-cache")];
    response_head(200, &headers, "Transfer-Encoding: chunked")
}

/// One message as an event in a chunk of its own. `data` must not contain a line end.
#[must_use]
pub fn sse_chunk(data: &str) -> Vec<u8> {
    let event = format!("event: message\ndata: {data}\n\n");
    format!("{:x}\r\n{event}\r\n", event.len()).into_bytes()
}

/// The same with an id, which a client can name to go on after it.
#[must_use]
pub fn sse_chunk_with_id(id: &str, data: &str) -> Vec<u8> {
    let event = format!("id: {id}\nevent: message\ndata: {data}\n\n");
    format!("{:x}\r\n{event}\r\n", event.len()).into_bytes()
}

/// The chunk that ends a chunked body.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The head of a response whose length is told by `framing`, a whole header line.
#[must_use]
pub fn response_head(status: u16, headers: &[(&str, &str)], framing: &str) -> Vec<u8> {
    let reason = match status {
        200 => "OK",
        202 => "Accepted",
        204 => "No Content",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        _ => "Status",
    };
    let mut head = format!("HTTP/1.1 {status} {reason}\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("{framing}\r\n\r\n"));
    head.into_bytes()
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn bad(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}
