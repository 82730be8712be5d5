//! Streams that a legacy client opens with GET: its standalone stream, and the rest of a stored one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use lb_exchange::{EventId, Seat, Stored, StreamId, Tail};
use lb_wire::revision::{Era, code};
use tokio::time::Instant;

use crate::alarm::Alarm;
use crate::front::{Front, Request};
use crate::hold::Hold;
use crate::registry::{Claim, Shared};
use crate::reply::{Frame, Frames, Reply, Source};
use crate::running::{Client, Running, Said};

impl Front {
    /// Opens a standalone stream, or resumes a stored one.
    pub(crate) fn legacy_get(&self, request: &Request<'_>) -> Reply {
        let seat = match self.seat(request, None) {
            Ok(seat) => seat,
            Err(reply) => return reply,
        };
        if let Err(forbidden) = self.allows_listening(request) {
            return forbidden.reply(Era::Legacy, None);
        }
        if !request.headers.accept.takes_stream() {
            return refuse(406, "Not Acceptable: a stream is sent as text/event-stream");
        }
        match request.headers.last_event_id {
            Some(last) => self.resume(seat, last),
            None => self.listen(seat),
        }
    }

    fn resume(&self, seat: Arc<dyn Seat>, last: &[u8]) -> Reply {
        let tail = std::str::from_utf8(last).ok().and_then(|last| seat.streams().resume(last).ok());
        let Some(tail) = tail else {
            return refuse(400, "Cannot resume: unknown or expired event id");
        };
        let source = if tail.stream() == seat.streams().standalone() {
            let Some(claim) = Claim::new(&self.shared, seat.id(), true) else { return refuse(409, TAKEN) };
            Source::Listening(Box::new(Listening::new(&self.shared, seat, tail, claim, VecDeque::new())))
        } else {
            Source::Resumed(Box::new(Resumed::new(&self.shared, seat, tail)))
        };
        Reply::stream(Frames::new(source))
    }

    fn listen(&self, seat: Arc<dyn Seat>) -> Reply {
        let Some(claim) = Claim::new(&self.shared, seat.id(), false) else { return refuse(409, TAKEN) };
        let streams = seat.streams();
        let cursor = streams.append(streams.standalone(), None);
        let tail = cursor.as_ref().and_then(|id| streams.resume(&id.0).ok());
        let (Some(id), Some(tail)) = (cursor, tail) else {
            return Reply::refuse(Era::Legacy, None, 404, -32001, crate::reply::NO_SESSION);
        };
        let first = self.greeting(&*seat, id);
        Reply::stream(Frames::new(Source::Listening(Box::new(Listening::new(&self.shared, seat, tail, claim, first)))))
    }

    fn greeting(&self, seat: &dyn Seat, id: EventId) -> VecDeque<Frame> {
        let retry = self.shared.settings.retry_after;
        if seat.caller().revision.priming() {
            VecDeque::from([Frame::Priming { id, retry }])
        } else {
            VecDeque::from([Frame::Comment, Frame::Retry(retry)])
        }
    }
}

const TAKEN: &str = "Conflict: the session already has a standalone stream";

fn refuse(status: u16, message: &str) -> Reply {
    Reply::refuse(Era::Legacy, None, status, code::SERVER_ERROR, message)
}

/// The standalone stream: drives the session's listen into the stored stream, and reads that.
pub(crate) struct Listening {
    seat: Arc<dyn Seat>,
    listen: Running,
    tail: Box<dyn Tail>,
    claim: Claim,
    queue: VecDeque<Frame>,
    hold: Hold,
    alive: KeepAlive,
}

impl Listening {
    fn new(
        shared: &Arc<Shared>,
        seat: Arc<dyn Seat>,
        tail: Box<dyn Tail>,
        claim: Claim,
        queue: VecDeque<Frame>,
    ) -> Self {
        let listen = Running::listen(seat.listen(), Client::Legacy(seat.clone()), &shared.settings);
        let hold = if queue.is_empty() { Hold::known() } else { Hold::default() };
        Self { seat, listen, tail, claim, queue, hold, alive: KeepAlive::new(shared) }
    }

    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Frame>> {
        let frame = std::task::ready!(self.poll_next(cx));
        let now = Instant::now();
        self.alive.touch(now);
        self.claim.touch(now);
        Poll::Ready(frame)
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Frame>> {
        loop {
            if let Poll::Ready(next) = self.poll_stored(cx) {
                return Poll::Ready(next);
            }
            if self.hold.frame().is_some() {
                std::task::ready!(self.alive.poll(self.hold.due(), cx));
                match self.alive.is_due() {
                    true => return Poll::Ready(Some(Frame::Comment)),
                    false => continue,
                }
            }
            match self.listen.poll(cx, true) {
                Poll::Ready(Said::Note(line) | Said::Ask(line)) => {
                    let streams = self.seat.streams();
                    if streams.append(streams.standalone(), Some(line.clone())).is_none() {
                        self.queue.push_back(Frame::Message { line, event_id: None, receipt: None });
                    }
                }
                Poll::Ready(Said::Pause(_)) => {}
                Poll::Ready(Said::End(_)) => return Poll::Ready(None),
                Poll::Pending => {
                    std::task::ready!(self.alive.poll(self.listen.due(), cx));
                    if self.alive.is_due() {
                        return Poll::Ready(Some(Frame::Comment));
                    }
                }
            }
        }
    }
}

impl Listening {
    /// What is said first, then what is stored, when it may go; `None` when another connection has taken over.
    fn poll_stored(&mut self, cx: &mut Context<'_>) -> Poll<Option<Frame>> {
        let streams = self.seat.streams();
        self.hold.fill(|| self.queue.pop_front());
        if self.hold.frame().is_none() {
            let Some(stored) = std::task::ready!(self.tail.poll_next(cx)) else { return Poll::Ready(None) };
            self.hold.fill(|| Some(message(stored)));
        }
        self.hold.poll(streams, streams.standalone(), cx)
    }
}

/// The rest of the stream of a call.
pub(crate) struct Resumed {
    shared: Arc<Shared>,
    seat: Arc<dyn Seat>,
    stream: StreamId,
    tail: Box<dyn Tail>,
    hold: Hold,
    alive: KeepAlive,
}

impl Resumed {
    fn new(shared: &Arc<Shared>, seat: Arc<dyn Seat>, tail: Box<dyn Tail>) -> Self {
        let stream = tail.stream();
        shared.returns.arrive(&*seat, stream);
        Self { shared: shared.clone(), seat, stream, tail, hold: Hold::known(), alive: KeepAlive::new(shared) }
    }

    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Frame>> {
        loop {
            let frame = match self.poll_stored(cx) {
                Poll::Ready(frame) => frame,
                Poll::Pending => {
                    std::task::ready!(self.alive.poll(self.hold.due(), cx));
                    match self.alive.is_due() {
                        true => Some(Frame::Comment),
                        false => continue,
                    }
                }
            };
            self.alive.touch(Instant::now());
            return Poll::Ready(frame);
        }
    }

    fn poll_stored(&mut self, cx: &mut Context<'_>) -> Poll<Option<Frame>> {
        if self.hold.frame().is_none() {
            let Some(stored) = std::task::ready!(self.tail.poll_next(cx)) else { return Poll::Ready(None) };
            self.hold.fill(|| Some(message(stored)));
        }
        self.hold.poll(self.seat.streams(), self.stream, cx)
    }
}

impl Drop for Resumed {
    fn drop(&mut self) {
        self.shared.returns.depart(&*self.seat, self.stream);
    }
}

fn message(stored: Stored) -> Frame {
    Frame::Message { line: stored.line, event_id: Some(stored.id), receipt: None }
}

/// When a stream says something although there is nothing to say.
struct KeepAlive {
    every: std::time::Duration,
    at: Instant,
    alarm: Alarm,
}

impl KeepAlive {
    fn new(shared: &Shared) -> Self {
        let every = shared.settings.keep_alive_every;
        let at = Instant::now() + every;
        Self { every, at, alarm: Alarm::new(at) }
    }

    fn touch(&mut self, now: Instant) {
        self.at = now + self.every;
    }

    fn is_due(&self) -> bool {
        self.at <= Instant::now()
    }

    /// Ready when it is due, or something else is.
    fn poll(&mut self, other: Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        let due = other.map_or(self.at, |other| other.min(self.at));
        self.alarm.poll(due, cx)
    }
}
