//! What a server says on its one stream, as lines for a pipe.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::buf::Chain;
use bytes::{Buf as _, Bytes, BytesMut};
use http::Uri;
use lb_wire::sse::{Decoder, Event};
use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::Over;
use crate::http::endpoint::Endpoint;
use crate::http::reply::{BODY_MAX, Reply};
use crate::pace::Pace;

/// Longest text that names where to post.
const ENDPOINT_BYTES_MAX: usize = 8 << 10;

/// The events of the stream. Read as bytes it gives one message on each line.
pub struct Incoming {
    /// `None` once it has ended.
    reply: Option<Reply>,
    decoder: Decoder,
    pace: Pace,
    /// What is left of the line in hand.
    line: Chain<Bytes, &'static [u8]>,
    /// Where messages go, once that is settled.
    settled: Option<(Uri, Arc<Endpoint>)>,
    over: Over,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Incoming {
    pub fn new(reply: Reply, over: Over) -> Self {
        let ended = Box::pin(over.token().clone().cancelled_owned());
        Self {
            reply: Some(reply),
            decoder: Decoder::new(BODY_MAX),
            pace: Pace::default(),
            line: line(Bytes::new()),
            settled: None,
            over,
            ended,
        }
    }

    /// The first event that says where to post. What comes before it is not for us: nobody has asked anything.
    pub async fn endpoint(&mut self) -> Result<String, String> {
        loop {
            let event = std::future::poll_fn(|cx| self.poll_event(cx)).await;
            let Some(event) = event else {
                let why = self.over.why().unwrap_or("its stream ended");
                return Err(format!("{why}, before it said where to post messages"));
            };
            if !is_endpoint(&event) {
                continue;
            }
            if ENDPOINT_BYTES_MAX < event.data.len() {
                return Err("what it says about where to post messages is longer than 8 KiB".to_owned());
            }
            let text = String::from_utf8(event.data.to_vec());
            return text.map_err(|_| "what it says about where to post messages is no text".to_owned());
        }
    }

    /// From here on another place to post to ends the link.
    pub fn names_only(&mut self, post_to: Uri, endpoint: Arc<Endpoint>) {
        self.settled = Some((post_to, endpoint));
    }

    /// The next event; `None` when there will be none.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        loop {
            ready!(self.pace.poll_ready(cx));
            match self.decoder.next() {
                Some(Ok(event)) => {
                    self.pace.step();
                    return Poll::Ready(Some(event));
                }
                Some(Err(_)) => return self.end(format!("one of its events is longer than {} MiB", BODY_MAX >> 20)),
                None => {}
            }
            let Some(reply) = &mut self.reply else { return Poll::Ready(None) };
            match ready!(reply.poll_chunk(cx)) {
                Some(Ok(chunk)) => self.decoder.push(chunk),
                Some(Err(why)) => {
                    tracing::debug!(why, "stream of the server broke");
                    return self.end("");
                }
                None => return self.end(""),
            }
        }
    }

    fn end(&mut self, why: impl Into<String>) -> Poll<Option<Event>> {
        self.reply = None;
        self.over.end(why);
        Poll::Ready(None)
    }

    /// The next message; `None` when there will be none.
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if self.ended.as_mut().poll(cx).is_ready() {
                self.reply = None;
                return Poll::Ready(None);
            }
            match ready!(self.poll_event(cx)) {
                None => return Poll::Ready(None),
                Some(event) if is_endpoint(&event) => {
                    if !self.is_settled_on(&event) {
                        drop(self.end("it wants messages posted somewhere else than it said first"));
                    }
                }
                Some(event) if event.is_message() && !event.data.is_empty() => return Poll::Ready(Some(event.data)),
                Some(_) => {}
            }
        }
    }

    fn is_settled_on(&self, event: &Event) -> bool {
        let Some((post_to, endpoint)) = &self.settled else { return false };
        let text = std::str::from_utf8(&event.data).ok();
        text.is_some_and(|text| endpoint.beside(text).is_ok_and(|uri| uri == *post_to))
    }
}

impl AsyncRead for Incoming {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.line.has_remaining() {
            match ready!(this.poll_message(cx)) {
                Some(data) => this.line = line(data),
                None => return Poll::Ready(Ok(())),
            }
        }
        let chunk = this.line.chunk();
        let fits = chunk.len().min(buffer.remaining());
        buffer.put_slice(chunk.get(..fits).unwrap_or_default());
        this.line.advance(fits);
        Poll::Ready(Ok(()))
    }
}

fn is_endpoint(event: &Event) -> bool {
    event.event.as_deref() == Some(b"endpoint")
}

/// A message and the end of its line; nothing for no message. Breaks between the tokens of a message become spaces, which
/// changes no value.
fn line(data: Bytes) -> Chain<Bytes, &'static [u8]> {
    if data.is_empty() {
        return bytes::Buf::chain(data, b"");
    }
    if memchr::memchr2(b'\r', b'\n', &data).is_none() {
        return bytes::Buf::chain(data, b"\n");
    }
    let mut copy = BytesMut::from(data.as_ref());
    for byte in copy.iter_mut().filter(|byte| matches!(**byte, b'\r' | b'\n')) {
        *byte = b' ';
    }
    bytes::Buf::chain(copy.freeze(), b"\n")
}
