//! The port to a session's resumable streams.

use std::sync::Arc;
use std::task::{Context, Poll};

use lb_wire::{Id, Line};

/// Names one SSE stream within its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u64);

/// The id of one stored message: opaque to clients, visible ASCII, ordered like the messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(pub Arc<str>);

/// A stored message.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its id.
    pub id: EventId,
    /// The message.
    pub line: Line,
}

/// Why a stream cannot be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResumeError {
    /// The id was never given out in this session, or what followed it is gone.
    #[error("Cannot resume: unknown or expired event id")]
    Unknown,
}

/// The streams of one session.
pub trait Streams: Send + Sync {
    /// A new stream for the reply to a POST, in which these requests are answered.
    fn open(&self, requests: &mut dyn Iterator<Item = &Id>) -> StreamId;

    /// The stream of what belongs to no request.
    fn standalone(&self) -> StreamId;

    /// Stores a message before it is sent, or with `None` a mere cursor. `None` when it could not be stored: it is then
    /// sent without an id.
    fn append(&self, stream: StreamId, line: Option<Line>) -> Option<EventId>;

    /// Whether everything appended to a stream so far is where it outlives this process, or need not be. False when it is
    /// not known when it will. A stream has one who waits: an earlier one is forgotten.
    fn poll_kept(&self, stream: StreamId, cx: &mut Context<'_>) -> Poll<bool> {
        let (_, _) = (stream, cx);
        Poll::Ready(true)
    }

    /// Nothing more will be appended.
    fn finish(&self, stream: StreamId);

    /// Removes a stream that no client can ask for.
    fn forget(&self, stream: StreamId);

    /// Everything after the event with this id, then what is appended from now on. An earlier tail of the same stream
    /// ends.
    ///
    /// # Errors
    /// The id is unknown here.
    fn resume(&self, last: &str) -> Result<Box<dyn Tail>, ResumeError>;
}

/// The rest of a stream, stored first, then live.
pub trait Tail: Send {
    /// Which stream this is the rest of.
    fn stream(&self) -> StreamId;

    /// The next message; `None` when the stream has ended or another tail took over.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Stored>>;
}
