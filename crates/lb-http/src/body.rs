//! Bodies of responses: nothing, bytes, or a stream that is polled for its frames.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::SizeHint;
use lb_exchange::Receipt;
use lb_front::{Frame, Frames};
use lb_wire::{Line, sse};

use crate::onward::{BrokenOff, Kind, Onward};
use crate::phase::{Level, Phase};
use crate::pulse::Work;

/// The body of a response. While it lives, its request is being answered.
pub(crate) struct Body {
    content: Content,
    _work: Option<Work>,
}

enum Content {
    Bytes { bytes: Bytes, receipt: Option<Receipt> },
    Stream(Box<Stream>),
    Onward(Box<Onward>),
    Over,
}

/// What is held back of a long body until the rest of it is taken.
const TAIL: usize = 16 * 1024;

impl Body {
    pub(crate) fn empty() -> Self {
        Self { content: Content::Over, _work: None }
    }

    pub(crate) fn bytes(bytes: Bytes, receipt: Option<Receipt>) -> Self {
        Self { content: Content::Bytes { bytes, receipt }, _work: None }
    }

    pub(crate) fn stream(frames: Frames, phase: Arc<Phase>, retry_after: Duration) -> Self {
        let (out, receipts) = (BytesMut::new(), Vec::new());
        let stream = Stream { frames, phase, retry_after, out, receipts, large: None, closing: false };
        Self { content: Content::Stream(Box::new(stream)), _work: None }
    }

    /// The answer of another node.
    pub(crate) fn onward(onward: Onward) -> Self {
        Self { content: Content::Onward(Box::new(onward)), _work: None }
    }

    pub(crate) fn is_stream(&self) -> bool {
        match &self.content {
            Content::Stream(_) => true,
            Content::Onward(onward) => onward.kind() != Kind::Whole,
            Content::Bytes { .. } | Content::Over => false,
        }
    }

    /// The connection is busy until this body is gone. What has no end is not in flight.
    pub(crate) fn hold(&mut self, mut work: Work) {
        let is_endless = match &self.content {
            Content::Stream(stream) => stream.frames.is_endless(),
            Content::Onward(onward) => onward.kind() == Kind::Endless,
            Content::Bytes { .. } | Content::Over => false,
        };
        if is_endless {
            work.uncount();
        }
        self._work = Some(work);
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, BrokenOff>>> {
        let data = match &mut self.content {
            Content::Over => None,
            Content::Bytes { bytes, receipt: Some(_) } if TAIL * 4 < bytes.len() => {
                // The end of a long one is asked for only when most of it has gone out.
                Some(bytes.split_to(bytes.len() - TAIL))
            }
            Content::Bytes { bytes, receipt } => {
                // Handing it over is all that can be known of its delivery.
                if let Some(receipt) = receipt.take() {
                    receipt.commit();
                }
                let bytes = std::mem::take(bytes);
                self.content = Content::Over;
                Some(bytes)
            }
            Content::Stream(stream) => {
                let data = std::task::ready!(stream.poll_data(cx));
                if data.is_none() {
                    self.content = Content::Over;
                }
                data
            }
            Content::Onward(onward) => match std::task::ready!(onward.poll_data(cx)) {
                Some(Ok(data)) => Some(data),
                Some(Err(error)) => {
                    self.content = Content::Over;
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    self.content = Content::Over;
                    None
                }
            },
        };
        Poll::Ready(data.map(|data| Ok(http_body::Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.content, Content::Over)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Over => SizeHint::with_exact(0),
            Content::Bytes { bytes, .. } => SizeHint::with_exact(bytes.len() as u64),
            Content::Stream(_) => SizeHint::default(),
            Content::Onward(onward) => onward.size_hint(),
        }
    }
}

/// Server-sent events: what is ready goes out as one piece, large messages without being copied.
struct Stream {
    frames: Frames,
    phase: Arc<Phase>,
    retry_after: Duration,
    out: BytesMut,
    receipts: Vec<Receipt>,
    /// A message that follows `out` on its own.
    large: Option<Bytes>,
    /// The client has been told when to come back; nothing follows.
    closing: bool,
}

impl Stream {
    /// From this size on a message is not copied into the piece.
    const LARGE: usize = 16 * 1024;

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if !self.out.is_empty() || self.large.is_some() {
            return Poll::Ready(self.take());
        }
        if self.closing {
            return Poll::Ready(None);
        }
        while self.out.len() < Self::LARGE && self.large.is_none() {
            match self.frames.poll_frame(cx) {
                Poll::Ready(Some(frame)) => self.write(frame),
                Poll::Ready(None) if self.out.is_empty() => return Poll::Ready(None),
                Poll::Ready(None) => break,
                Poll::Pending if self.out.is_empty() && self.should_close() => {
                    sse::retry(&mut self.out, self.retry_after);
                    sse::comment(&mut self.out, "stopping");
                    self.closing = true;
                }
                Poll::Pending if self.out.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        Poll::Ready(self.take())
    }

    /// The shutdown has come so far that this stream must end.
    fn should_close(&self) -> bool {
        let limit = if self.frames.is_endless() { Level::Draining } else { Level::Closing };
        limit <= self.phase.level() && !self.closing
    }

    fn take(&mut self) -> Option<Bytes> {
        if !self.out.is_empty() {
            let data = self.out.split().freeze();
            if self.large.is_none() {
                self.commit();
            }
            return Some(data);
        }
        let data = self.large.take();
        self.out.extend_from_slice(sse::MESSAGE_TAIL);
        data
    }

    fn commit(&mut self) {
        self.receipts.drain(..).for_each(Receipt::commit);
    }

    fn write(&mut self, frame: Frame) {
        match frame {
            Frame::Message { line, event_id, receipt } => {
                self.message(event_id.as_ref().map(|id| &*id.0), line);
                self.receipts.extend(receipt);
            }
            Frame::Priming { id, retry } => sse::priming(&mut self.out, &id.0, retry),
            Frame::Retry(delay) => sse::retry(&mut self.out, delay),
            Frame::Comment => sse::comment(&mut self.out, "keep-alive"),
        }
    }

    fn message(&mut self, id: Option<&str>, line: Line) {
        if line.as_bytes().len() < Self::LARGE {
            sse::message(&mut self.out, id, &line);
        } else {
            sse::message_head(&mut self.out, id);
            self.large = Some(line.into_bytes());
        }
    }
}
