//! The body of an answer that comes from another node: passed on as it comes, and no faster than it is taken.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body as _, SizeHint};
use hyper::body::Incoming;
use lb_wire::sse;

use crate::nodes::{Conn, Node};
use crate::phase::{Level, Phase};

/// The other node broke off. What the client has got is all there is, and it must be able to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another node broke off its answer")]
pub(crate) struct BrokenOff;

/// What is known of a response before its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One document.
    Whole,
    /// The events of a call.
    Events,
    /// Events without an end.
    Endless,
}

/// A body on its way from another node. Dropping it closes the connection to the node, which so learns that the client
/// is gone.
pub(crate) struct Onward {
    body: Incoming,
    conn: Option<Box<Conn>>,
    node: Arc<Node>,
    kind: Kind,
    phase: Arc<Phase>,
    retry_after: Duration,
    /// The last two bytes that went out.
    last: [u8; 2],
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Passing,
    /// It broke off, and what came before has not been written.
    Broken,
    Over,
}

impl Onward {
    pub(crate) fn new(
        body: Incoming,
        conn: Box<Conn>,
        node: Arc<Node>,
        kind: Kind,
        phase: Arc<Phase>,
        retry_after: Duration,
    ) -> Self {
        let (conn, last, state) = (Some(conn), *b"\n\n", State::Passing);
        let mut onward = Self { body, conn, node, kind, phase, retry_after, last, state };
        // A body that is empty is not polled.
        onward.finish_early(&mut Context::from_waker(Waker::noop()));
        onward
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }

    /// The next piece; `None` at the end, when the connection has gone back to the others.
    pub(crate) fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BrokenOff>>> {
        match self.state {
            State::Passing => {}
            State::Broken => {
                self.state = State::Over;
                return Poll::Ready(Some(Err(BrokenOff)));
            }
            State::Over => return Poll::Ready(None),
        }
        if self.is_through() {
            self.state = State::Over;
            return Poll::Ready(None);
        }
        let polled = match self.conn.as_ref().map(|conn| conn.bell().clone()) {
            Some(bell) => bell.poll(cx, |cx| self.poll_piece(cx)),
            None => Poll::Ready(Some(Err(BrokenOff))),
        };
        match &polled {
            Poll::Ready(Some(Ok(data))) => self.note(data),
            Poll::Ready(None) => self.state = State::Over,
            Poll::Ready(Some(Err(_))) => {
                // An error drops what is in the buffer of the client's connection; so that is written before.
                self.state = State::Broken;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Pending => return self.poll_close(),
        }
        polled
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BrokenOff>>> {
        loop {
            let frame = match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(frame) => frame,
                Poll::Pending => {
                    // Bytes come only when the connection is driven. What it had left is still in the body.
                    let over = self.conn.as_mut().is_none_or(|conn| conn.drive(cx));
                    match Pin::new(&mut self.body).poll_frame(cx) {
                        Poll::Ready(frame) => frame,
                        Poll::Pending if over => return Poll::Ready(Some(Err(BrokenOff))),
                        Poll::Pending => return Poll::Pending,
                    }
                }
            };
            match frame {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.finish_early(cx);
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
                Some(Err(error)) => {
                    tracing::debug!(%error, "another node broke off its answer");
                    self.conn = None;
                    return Poll::Ready(Some(Err(BrokenOff)));
                }
                None => {
                    self.finish(cx);
                    return Poll::Ready(None);
                }
            }
        }
    }

    /// A body of known length is not polled again once the client's connection has all of it.
    fn finish_early(&mut self, cx: &mut Context<'_>) {
        if self.body.is_end_stream() {
            self.finish(cx);
        }
    }

    /// Whether all of it has come.
    fn is_through(&self) -> bool {
        self.conn.is_none() && self.body.is_end_stream()
    }

    fn finish(&mut self, cx: &mut Context<'_>) {
        let Some(mut conn) = self.conn.take() else { return };
        if !conn.drive(cx) && conn.is_idle() {
            self.node.put_back(conn);
        }
    }

    fn note(&mut self, data: &[u8]) {
        for byte in data.iter().skip(data.len().saturating_sub(2)) {
            self.last = [self.last[1], *byte];
        }
    }

    /// Ends a stream when the shutdown has come so far. Its client is told when to come back, where that does not fall
    /// into an event.
    fn poll_close(&mut self) -> Poll<Option<Result<Bytes, BrokenOff>>> {
        let limit = if self.kind == Kind::Endless { Level::Draining } else { Level::Closing };
        if self.phase.level() < limit {
            return Poll::Pending;
        }
        (self.state, self.conn) = (State::Over, None);
        match self.kind {
            Kind::Whole => Poll::Ready(Some(Err(BrokenOff))),
            Kind::Events | Kind::Endless if self.last != *b"\n\n" => Poll::Ready(None),
            Kind::Events | Kind::Endless => {
                let mut out = BytesMut::new();
                sse::retry(&mut out, self.retry_after);
                sse::comment(&mut out, "stopping");
                Poll::Ready(Some(Ok(out.freeze())))
            }
        }
    }
}
