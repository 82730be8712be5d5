//! What a transport is given for a request.

use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use lb_exchange::{EventId, Receipt, SessionId};
use lb_wire::revision::{Era, Revision};
use lb_wire::{Id, Line, Raw, compose};

use crate::get::{Listening, Resumed};
use crate::stream::Live;

/// What a client is told that names a session we do not have, and what it can do.
pub(crate) const NO_SESSION: &str =
    "Session not found: it has ended or never was here. Send initialize without Mcp-Session-Id to begin another";

/// The answer to one HTTP request.
#[derive(Debug)]
pub enum Reply {
    /// A JSON body.
    Json {
        /// The HTTP status.
        status: u16,
        /// The body.
        body: Bytes,
        /// The session that this reply opens.
        session: Option<SessionId>,
        /// To be committed when the transport has taken the body.
        receipt: Option<Receipt>,
    },
    /// No body.
    Empty {
        /// The HTTP status.
        status: u16,
    },
    /// The method does not exist here for this client: 405.
    NotAllowed {
        /// The value of `Allow`.
        allow: &'static str,
        /// The body.
        body: Bytes,
    },
    /// The token of the request may not do that: 403, with a challenge where there is one.
    Forbidden {
        /// The id of the request, where one was read.
        id: Option<Id>,
        /// The scopes that would do; `None` when none would.
        scopes: Option<String>,
        /// The body.
        body: Bytes,
    },
    /// An event stream.
    Stream {
        /// Its frames.
        frames: Frames,
        /// The session that this reply opens.
        session: Option<SessionId>,
    },
}

impl Reply {
    pub(crate) fn json(status: u16, body: &Raw) -> Self {
        Self::Json { status, body: body.bytes().clone(), session: None, receipt: None }
    }

    pub(crate) fn accepted() -> Self {
        Self::Empty { status: 202 }
    }

    pub(crate) fn refuse(era: Era, id: Option<&Id>, status: u16, code: i64, message: &str) -> Self {
        Self::refuse_with(era, id, status, code, message, None)
    }

    pub(crate) fn refuse_with(
        era: Era,
        id: Option<&Id>,
        status: u16,
        code: i64,
        message: &str,
        data: Option<&Raw>,
    ) -> Self {
        Self::json(status, &error_message(era, id, code, message, data))
    }

    pub(crate) fn stream(frames: Frames) -> Self {
        Self::Stream { frames, session: None }
    }
}

/// An error that answers no readable id, in the words of an era.
pub fn error_body(era: Era, code: i64, message: &str) -> Bytes {
    error_message(era, None, code, message, None).bytes().clone()
}

pub(crate) fn error_message(era: Era, id: Option<&Id>, code: i64, message: &str, data: Option<&Raw>) -> Raw {
    let error = compose::error_object(code, message, data);
    match id {
        Some(id) => compose::error(id, &error),
        None => compose::error_without_id(&error, era == Era::Legacy),
    }
}

/// The revisions of one era, as a JSON array of their names.
pub(crate) fn revisions(era: Era) -> Raw {
    let names: Vec<_> = Revision::ALL.iter().filter(|revision| revision.era() == era).map(|r| r.as_str()).collect();
    Raw::value(&names)
}

/// One event of a stream.
#[derive(Debug)]
pub enum Frame {
    /// A message.
    Message {
        /// The message.
        line: Line,
        /// The id under which it can be asked for again.
        event_id: Option<EventId>,
        /// To be committed when the transport has taken the frame.
        receipt: Option<Receipt>,
    },
    /// A cursor, and how long to wait before reconnecting.
    Priming {
        /// The cursor.
        id: EventId,
        /// How long to wait.
        retry: Duration,
    },
    /// How long to wait before reconnecting.
    Retry(Duration),
    /// A sign of life.
    Comment,
}

impl Frame {
    pub(crate) fn event_id(&self) -> Option<&EventId> {
        match self {
            Self::Message { event_id, .. } => event_id.as_ref(),
            Self::Priming { id, .. } => Some(id),
            Self::Retry(_) | Self::Comment => None,
        }
    }

    /// The same for a client that cannot ask for it again.
    pub(crate) fn without_id(self) -> Self {
        match self {
            Self::Message { line, receipt, .. } => Self::Message { line, event_id: None, receipt },
            Self::Priming { retry, .. } => Self::Retry(retry),
            other @ (Self::Retry(_) | Self::Comment) => other,
        }
    }
}

/// The frames of a stream. Nothing happens unless it is polled; dropping it is losing the client.
pub struct Frames(Source);

pub(crate) enum Source {
    /// Calls that this stream's own polls drive.
    Live(Box<Live>),
    /// The standalone stream of a session.
    Listening(Box<Listening>),
    /// The rest of a stored stream.
    Resumed(Box<Resumed>),
    /// One message.
    Once(Option<Line>),
}

impl Frames {
    pub(crate) fn new(source: Source) -> Self {
        Self(source)
    }

    /// The next frame; `None` at the end.
    pub fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Frame>> {
        match &mut self.0 {
            Source::Live(live) => live.poll_frame(cx),
            Source::Listening(listening) => listening.poll_frame(cx),
            Source::Resumed(resumed) => resumed.poll_frame(cx),
            Source::Once(line) => {
                Poll::Ready(line.take().map(|line| Frame::Message { line, event_id: None, receipt: None }))
            }
        }
    }

    /// The next frame; `None` at the end.
    ///
    /// Cancel safe: yes.
    pub async fn next(&mut self) -> Option<Frame> {
        std::future::poll_fn(|cx| self.poll_frame(cx)).await
    }

    /// Whether this stream has no end of its own, so that a server that shuts down need not wait for it.
    pub fn is_endless(&self) -> bool {
        match &self.0 {
            Source::Live(live) => live.is_endless(),
            Source::Listening(_) => true,
            Source::Resumed(_) | Source::Once(_) => false,
        }
    }
}

impl std::fmt::Debug for Frames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Frames")
    }
}
