//! A reply that is a stream: the calls are driven by whoever polls for frames.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lb_exchange::{EventId, Happened, Holder, Loss, Receipt, Seat, StreamId};
use lb_wire::Line;
use tokio::time::Instant;

use crate::alarm::Alarm;
use crate::calls::Calls;
use crate::hold::Hold;
use crate::open::Batch;
use crate::pump;
use crate::registry::{Attached, Shared};
use crate::reply::Frame;
use crate::running::{Client, Said};

/// Why a reply became a stream.
pub(crate) enum Start {
    /// There is something to say.
    With(Said),
    /// It had nothing to say for a while.
    Waiting,
    /// The client or the method wants a stream from the start.
    Silent,
}

/// Where the messages of a legacy stream are stored before they are sent.
#[derive(Clone)]
pub(crate) struct Sink {
    pub(crate) seat: Arc<dyn Seat>,
    pub(crate) stream: StreamId,
}

impl Sink {
    pub(crate) fn append(&self, line: Option<Line>) -> Option<EventId> {
        self.seat.streams().append(self.stream, line)
    }

    pub(crate) fn poll_kept(&self, hold: &mut Hold, cx: &mut Context<'_>) -> Poll<Option<Frame>> {
        hold.poll(self.seat.streams(), self.stream, cx)
    }

    pub(crate) fn finish(&self) {
        self.seat.streams().finish(self.stream);
    }

    pub(crate) fn forget(&self) {
        self.seat.streams().forget(self.stream);
    }
}

/// The calls of a stream that a client reads. Dropping it is losing the client.
pub(crate) struct Live {
    shared: Arc<Shared>,
    client: Client,
    calls: Option<Calls>,
    holder: Holder,
    sink: Option<Sink>,
    attached: Option<Arc<Attached>>,
    queue: VecDeque<Frame>,
    /// The one before those of the queue.
    hold: Hold,
    /// Whether the client has been given a cursor that carries no message.
    primed: bool,
    /// The server wants the connection closed once the queue is empty.
    pausing: bool,
    endless: bool,
    alarm: Alarm,
    alive_at: Instant,
}

impl Live {
    pub(crate) fn new(
        shared: Arc<Shared>,
        client: Client,
        calls: Calls,
        holder: Holder,
        early: Batch,
        start: Start,
    ) -> Self {
        let alive_at = Instant::now() + shared.settings.keep_alive_every;
        let open = |seat: &Arc<dyn Seat>| seat.streams().open(&mut calls.ids());
        let sink = client.seat().map(|seat| Sink { seat: seat.clone(), stream: open(seat) });
        let attached = sink.as_ref().map(|sink| shared.returns.attach(&*sink.seat, sink.stream));
        let endless = calls.are_endless();
        let (queue, hold) = (VecDeque::new(), Hold::default());
        let alarm = Alarm::new(alive_at);
        let calls = Some(calls);
        let (primed, pausing) = (false, false);
        let mut live = Self {
            shared,
            client,
            calls,
            holder,
            sink,
            attached,
            queue,
            hold,
            primed,
            pausing,
            endless,
            alarm,
            alive_at,
        };
        live.begin(early, start);
        live
    }

    fn begin(&mut self, early: Batch, start: Start) {
        let pause = match &start {
            Start::With(Said::Pause(retry)) => *retry,
            _ => None,
        };
        self.prime(pause);
        // The last of the early answers stands for the delivery of all of them.
        let mut receipt = Receipt::all(early.receipts);
        let last = early.answers.len().saturating_sub(1);
        for (n, answer) in early.answers.into_iter().enumerate() {
            self.message(answer.into_line(), if n == last { receipt.take() } else { None });
        }
        match start {
            Start::With(said) => self.say(said),
            Start::Waiting if self.queue.is_empty() => self.queue.push_back(Frame::Comment),
            Start::Waiting | Start::Silent => {}
        }
    }

    /// Whether it has no end of its own.
    pub(crate) fn is_endless(&self) -> bool {
        self.endless
    }

    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Frame>> {
        loop {
            if self.attached.as_ref().is_some_and(|attached| attached.is_replaced(cx)) {
                match self.pausing {
                    true => self.step_aside(),
                    false => self.lose(),
                }
                return Poll::Ready(None);
            }
            match self.poll_queue(cx) {
                Poll::Ready(None) => {}
                Poll::Ready(Some(frame)) => return Poll::Ready(Some(self.hand_out(frame))),
                Poll::Pending => {
                    let due = self.hold.due().map_or(self.alive_at, |due| due.min(self.alive_at));
                    std::task::ready!(self.alarm.poll(due, cx));
                    if self.alive_at <= Instant::now() {
                        return Poll::Ready(Some(self.hand_out(Frame::Comment)));
                    }
                    continue;
                }
            }
            if self.pausing {
                self.step_aside();
                return Poll::Ready(None);
            }
            let Some(calls) = &mut self.calls else { return Poll::Ready(None) };
            match calls.poll(cx, true) {
                Poll::Ready(Some(said)) => self.say(said),
                Poll::Ready(None) => {
                    self.finish();
                    return Poll::Ready(None);
                }
                Poll::Pending => {
                    let due = calls.due().map_or(self.alive_at, |due| due.min(self.alive_at));
                    std::task::ready!(self.alarm.poll(due, cx));
                    if self.alive_at <= Instant::now() {
                        self.queue.push_back(Frame::Comment);
                    }
                }
            }
        }
    }

    /// The next frame of the queue, when it may go.
    fn poll_queue(&mut self, cx: &mut Context<'_>) -> Poll<Option<Frame>> {
        self.hold.fill(|| self.queue.pop_front());
        let Some(sink) = &self.sink else { return Poll::Ready(self.hold.take()) };
        let is_priming = matches!(self.hold.frame(), Some(Frame::Priming { .. }));
        let frame = std::task::ready!(sink.poll_kept(&mut self.hold, cx));
        if is_priming && frame.as_ref().is_some_and(|frame| frame.event_id().is_none()) {
            // It has no cursor to come back with.
            (self.primed, self.pausing) = (false, false);
        }
        Poll::Ready(frame)
    }

    fn hand_out(&mut self, frame: Frame) -> Frame {
        self.alive_at = Instant::now() + self.shared.settings.keep_alive_every;
        if frame.event_id().is_some()
            && let Holder::Front(front) = &mut self.holder
            && let Loss::Keeps { cursor } = &mut front.loss
        {
            *cursor = true;
        }
        frame
    }

    fn say(&mut self, said: Said) {
        match said {
            Said::Note(line) | Said::Ask(line) => self.message(line, None),
            Said::Pause(retry) => self.pause(retry),
            Said::End(ended) => {
                if let Some(answer) = ended.answer {
                    self.message(answer.into_line(), ended.receipt);
                }
            }
        }
    }

    fn message(&mut self, line: Line, receipt: Option<Receipt>) {
        let event_id = self.sink.as_ref().and_then(|sink| sink.append(Some(line.clone())));
        self.queue.push_back(Frame::Message { line, event_id, receipt });
    }

    /// Gives clients that know it a cursor before anything else.
    fn prime(&mut self, retry: Option<Duration>) {
        let Some(sink) = &self.sink else { return };
        if self.primed || !sink.seat.caller().revision.priming() {
            return;
        }
        if let Some(id) = sink.append(None) {
            let retry = retry.unwrap_or(self.shared.settings.retry_after);
            self.queue.push_back(Frame::Priming { id, retry });
            self.primed = true;
        }
    }

    /// Closes the connection where the client knows how to come back; others just wait on.
    fn pause(&mut self, retry: Option<Duration>) {
        if !self.primed {
            return;
        }
        let told = self.hold.frame().into_iter().chain(&self.queue).any(|frame| matches!(frame, Frame::Priming { .. }));
        if let (false, Some(retry)) = (told, retry) {
            self.queue.push_back(Frame::Retry(retry));
        }
        self.pausing = true;
    }

    /// The call goes on in its stored stream until the client is back.
    fn step_aside(&mut self) {
        if let (Some(sink), Some(call)) = (&self.sink, self.calls.as_ref().and_then(Calls::first)) {
            self.shared.returns.pause(&*sink.seat, sink.stream, &call.remote());
        }
        self.lose();
    }

    fn finish(&mut self) {
        self.calls = None;
        self.holder = self.holder.on(Happened::Ended);
        if let Some(sink) = self.take_sink() {
            sink.finish();
        }
    }

    /// This connection has no reader any more.
    fn lose(&mut self) {
        let Some(calls) = self.calls.take() else { return };
        let cursor = matches!(self.holder.on(Happened::Lost), Holder::Stream { cursor: true });
        // With a cursor the stored copy is the delivery of what was not taken; without, it must not come twice.
        for frame in self.hold.take().into_iter().chain(self.queue.drain(..)) {
            if let (true, Frame::Message { receipt: Some(receipt), .. }) = (cursor, frame) {
                receipt.commit();
            }
        }
        let sink = self.take_sink();
        pump::lose(&self.shared, &self.client, calls, self.holder, sink);
    }

    fn take_sink(&mut self) -> Option<Sink> {
        let sink = self.sink.take()?;
        self.attached = None;
        self.shared.returns.detach(&*sink.seat, sink.stream);
        Some(sink)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.lose();
    }
}
