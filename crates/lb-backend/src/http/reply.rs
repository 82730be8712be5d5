//! A response: its head, its body as a whole or as events, and the way of its connection back into the pool.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use lb_wire::sse::Decoder;

use super::conn::{Conn, chain};
use super::endpoint::Endpoint;
use super::words;
use crate::pace::Pace;

/// Longest body or event that is taken from a server.
pub const BODY_MAX: usize = 16 << 20;
/// How much of an error page is read.
const ERROR_PAGE_MAX: usize = 64 << 10;
/// How long an error page may take.
const ERROR_PAGE_WAIT: Duration = Duration::from_secs(5);

/// How long the end of a body may take that nobody reads any more.
const REST_WAIT: Duration = Duration::from_secs(5);

/// A response whose body is still on the wire. Dropping it closes the connection.
pub struct Reply {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    body: Incoming,
    /// The start of the body, when it was read as an error page.
    page: Option<Bytes>,
    conn: Option<Box<Conn>>,
    endpoint: Arc<Endpoint>,
}

/// Why a body could not be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Longer than allowed.
    #[error("its answer is longer than {} MiB", BODY_MAX >> 20)]
    TooLong,
    /// The connection broke.
    #[error("{0}")]
    Broken(String),
}

impl Reply {
    /// A response whose head has come.
    pub fn new(endpoint: Arc<Endpoint>, conn: Box<Conn>, response: Response<Incoming>) -> Self {
        let (head, body) = response.into_parts();
        Self { status: head.status, headers: head.headers, body, page: None, conn: Some(conn), endpoint }
    }

    /// Whether the body is a stream of events.
    pub fn is_events(&self) -> bool {
        words::has_type(&self.headers, b"text/event-stream")
    }

    /// The next piece of the body; `None` at its end, when the connection has gone back to the pool.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, String>>> {
        match self.conn.as_ref().map(|conn| conn.bell().clone()) {
            Some(bell) => bell.poll(cx, |cx| self.poll_data(cx)),
            None => self.poll_data(cx),
        }
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, String>>> {
        loop {
            let frame = match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(frame) => frame,
                Poll::Pending => {
                    // Bytes only come when the connection is driven. What it had left is still in the body.
                    let over = self.conn.as_mut().is_none_or(|conn| conn.drive(cx));
                    match Pin::new(&mut self.body).poll_frame(cx) {
                        Poll::Ready(frame) => frame,
                        Poll::Pending if over => return Poll::Ready(Some(Err("the connection ended".to_owned()))),
                        Poll::Pending => return Poll::Pending,
                    }
                }
            };
            match frame {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => return Poll::Ready(Some(Ok(data))),
                    Err(_trailers) => {}
                },
                Some(Err(error)) => {
                    self.conn = None;
                    return Poll::Ready(Some(Err(chain(&error))));
                }
                None => {
                    self.finish(cx);
                    return Poll::Ready(None);
                }
            }
        }
    }

    fn finish(&mut self, cx: &mut Context<'_>) {
        let Some(mut conn) = self.conn.take() else { return };
        let keep = keep_alive(&self.headers);
        if keep != Some(Duration::ZERO) && !conn.drive(cx) && conn.is_idle() {
            self.endpoint.put_back(conn, None, keep);
        }
    }

    /// Lets the connection be used again once the server has ended a body of which the rest is not needed.
    pub fn release(mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        while let Poll::Ready(chunk) = self.poll_chunk(&mut cx) {
            match chunk {
                Some(Ok(_)) => {}
                // Ended, and back in the pool; or broken.
                Some(Err(_)) | None => return,
            }
        }
        let Some(conn) = self.conn.take() else { return };
        self.endpoint.clone().put_back(conn, Some(Rest(self.body)), Some(REST_WAIT));
    }

    /// The whole body.
    pub async fn whole(&mut self) -> Result<Bytes, ReadError> {
        let announced = self.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let announced: usize = announced.unwrap_or(0);
        if BODY_MAX < announced {
            return Err(ReadError::TooLong);
        }
        let mut first = None;
        let mut joined = BytesMut::new();
        loop {
            match std::future::poll_fn(|cx| self.poll_chunk(cx)).await {
                Some(Ok(chunk)) if first.is_none() => first = Some(chunk),
                Some(Ok(chunk)) => {
                    if joined.is_empty() {
                        let start = first.as_ref().map(Bytes::as_ref).unwrap_or_default();
                        joined.reserve(announced.max(start.len() + chunk.len()));
                        joined.extend_from_slice(start);
                    }
                    joined.extend_from_slice(&chunk);
                }
                Some(Err(why)) => return Err(ReadError::Broken(why)),
                None if joined.is_empty() => return Ok(first.unwrap_or_default()),
                None => return Ok(joined.freeze()),
            }
            if BODY_MAX < joined.len() {
                return Err(ReadError::TooLong);
            }
        }
    }

    /// The start of an error page, or of the answer to something that needs none; the connection is kept if that is
    /// all there was.
    pub async fn page(&mut self) -> Bytes {
        match self.page.take() {
            Some(page) => page,
            None => self.read_page().await,
        }
    }

    /// As [`Reply::page`], to be read again.
    pub async fn peek(&mut self) -> &[u8] {
        let page = self.page().await;
        self.page.insert(page)
    }

    async fn read_page(&mut self) -> Bytes {
        let mut page = BytesMut::new();
        let read = async {
            while let Some(Ok(chunk)) = std::future::poll_fn(|cx| self.poll_chunk(cx)).await {
                page.extend_from_slice(&chunk);
                if ERROR_PAGE_MAX < page.len() {
                    return;
                }
            }
        };
        if tokio::time::timeout(ERROR_PAGE_WAIT, read).await.is_err() {
            tracing::debug!("error page of the server is slow and was cut");
        }
        page.freeze()
    }
}

/// The rest of a body that nobody reads.
pub struct Rest(Incoming);

impl Rest {
    /// Whether the body has ended and its connection can be used: `None` when it goes on. Nobody is woken when it ends.
    pub fn ended(&mut self, conn: &mut Conn) -> Option<bool> {
        let bell = conn.bell().clone();
        let look = |cx: &mut Context<'_>| self.look(conn, cx).map_or(Poll::Pending, Poll::Ready);
        match bell.poll(&mut Context::from_waker(Waker::noop()), look) {
            Poll::Ready(usable) => Some(usable),
            Poll::Pending => None,
        }
    }

    fn look(&mut self, conn: &mut Conn, cx: &mut Context<'_>) -> Option<bool> {
        let over = conn.drive(cx);
        loop {
            match Pin::new(&mut self.0).poll_frame(cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(_))) => return Some(false),
                Poll::Ready(None) => return Some(!conn.drive(cx) && conn.is_idle()),
                Poll::Pending => return if over { Some(false) } else { None },
            }
        }
    }
}

/// How long the server says that it keeps the connection, less a second, so that we are not the ones to find out.
fn keep_alive(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("keep-alive")?.to_str().ok()?;
    let timeout = text.split(',').find_map(|part| part.trim().strip_prefix("timeout="))?;
    timeout.trim().parse::<u64>().ok().map(|seconds| Duration::from_secs(seconds.saturating_sub(1)))
}

/// The events of a response, and of those that resume it.
pub struct Events {
    reply: Option<Reply>,
    decoder: Decoder,
    /// Events since the last start or resume.
    heard: u64,
    pace: Pace,
}

/// What came next on a stream.
#[derive(Debug)]
pub enum Heard {
    /// A message, not looked into.
    Message(Bytes),
    /// The server ended the stream.
    Closed,
    /// The connection broke.
    Broken(String),
    /// One event is too long to be taken; the stream has lost its place.
    TooLong,
}

impl Events {
    /// The events of this response.
    pub fn new(reply: Reply) -> Self {
        Self { reply: Some(reply), decoder: Decoder::new(BODY_MAX), heard: 0, pace: Pace::default() }
    }

    /// Goes on with a response that resumes the stream.
    pub fn resume(&mut self, reply: Reply) {
        self.decoder.finish();
        self.heard = 0;
        self.reply = Some(reply);
    }

    /// The id to resume from; `None` when the server gave none.
    pub fn last_id(&self) -> Option<&[u8]> {
        Some(self.decoder.last_event_id()).filter(|id| !id.is_empty())
    }

    /// How long the server asked to wait before resuming.
    pub fn retry(&self) -> Option<Duration> {
        self.decoder.retry()
    }

    /// Whether anything came since the last start or resume.
    pub fn is_news(&self) -> bool {
        self.heard != 0
    }

    /// Stops reading: what was wanted has come.
    pub fn release(self) {
        if let Some(reply) = self.reply {
            reply.release();
        }
    }

    /// What comes next.
    ///
    /// Cancel safe: yes.
    pub async fn next(&mut self) -> Heard {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Heard> {
        loop {
            ready!(self.pace.poll_ready(cx));
            match self.decoder.next() {
                Some(Ok(event)) => {
                    self.heard += 1;
                    self.pace.step();
                    if event.is_message() && !event.data.is_empty() {
                        return Poll::Ready(Heard::Message(event.data));
                    }
                    continue;
                }
                Some(Err(_)) => {
                    self.reply = None;
                    return Poll::Ready(Heard::TooLong);
                }
                None => {}
            }
            let Some(reply) = &mut self.reply else { return Poll::Ready(Heard::Closed) };
            match ready!(reply.poll_chunk(cx)) {
                Some(Ok(chunk)) => self.decoder.push(chunk),
                Some(Err(why)) => {
                    self.reply = None;
                    return Poll::Ready(Heard::Broken(why));
                }
                None => {
                    self.reply = None;
                    return Poll::Ready(Heard::Closed);
                }
            }
        }
    }
}
