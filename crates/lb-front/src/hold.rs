//! What must be kept before it goes out, because its client may come back to another process for what follows.
//!
//! Notes go out at once: whoever lost one has only lost a word about something that the lost process did. The first id
//! of a stream waits all the same, whatever it comes with: once the store has the stream, later ids are understood
//! although they were not written.

use std::task::{Context, Poll};
use std::time::Duration;

use lb_exchange::{StreamId, Streams};
use lb_wire::{Message, Shape};
use tokio::time::Instant;

use crate::reply::Frame;

/// How long a frame waits. An answer is worth more than the id under which it could be asked for again.
const WAIT_MAX: Duration = Duration::from_millis(250);

/// The next frame of a stream, until it may go.
#[derive(Default)]
pub(crate) struct Hold {
    frame: Option<Frame>,
    /// Until when it waits, once it has to.
    due: Option<Instant>,
    /// Whether the store has had something of the stream; `None` before anybody waited for that.
    known: Option<bool>,
}

impl Hold {
    /// Of a stream that a client has come back to with an id that was understood.
    pub(crate) fn known() -> Self {
        Self { known: Some(true), ..Self::default() }
    }

    /// Puts in the next one, if there is room for it.
    pub(crate) fn fill(&mut self, next: impl FnOnce() -> Option<Frame>) {
        if self.frame.is_none() {
            self.frame = next();
        }
    }

    pub(crate) fn frame(&self) -> Option<&Frame> {
        self.frame.as_ref()
    }

    /// Takes it out, whether it may go or not.
    pub(crate) fn take(&mut self) -> Option<Frame> {
        self.due = None;
        self.frame.take()
    }

    /// When to poll again even if nothing happens.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The frame when it may go, without its id if that took too long; `None` when there is none.
    pub(crate) fn poll(
        &mut self,
        streams: &dyn Streams,
        stream: StreamId,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Frame>> {
        let Some(frame) = &self.frame else { return Poll::Ready(None) };
        if frame.event_id().is_none() {
            return Poll::Ready(self.take());
        }
        let kept = streams.poll_kept(stream, cx);
        if kept == Poll::Ready(true) {
            self.known = Some(true);
            return Poll::Ready(self.take());
        }
        match self.known {
            Some(true) if !waits(frame) => return Poll::Ready(self.take()),
            Some(false) if !waits(frame) => return Poll::Ready(self.take().map(Frame::without_id)),
            Some(_) | None => {}
        }
        let now = Instant::now();
        if kept.is_pending() && now < *self.due.get_or_insert(now + WAIT_MAX) {
            return Poll::Pending;
        }
        tracing::debug!("a message is sent without an id: the store did not take it in time");
        self.known.get_or_insert(false);
        Poll::Ready(self.take().map(Frame::without_id))
    }
}

/// Requests, answers and mere cursors.
fn waits(frame: &Frame) -> bool {
    match frame {
        Frame::Message { line, .. } => {
            Message::scan(line.clone().into_bytes()).is_ok_and(|message| message.shape() != Shape::Notification)
        }
        Frame::Priming { .. } => true,
        Frame::Retry(_) | Frame::Comment => false,
    }
}
