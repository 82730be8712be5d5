//! A server at the other end of a byte stream: a child's stdin and stdout, an embedded server, or one far away that has
//! one stream for all it says.
//!
//! One task per pipe reads, because bytes can arrive unasked; it also flushes what did not fit. Callers write straight
//! into the pipe as long as nobody waits before them, so that a plain call costs no hand-over on its way out.

mod reader;
mod stray;
mod writer;

use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};
use std::time::Instant;

use lb_exchange::{
    Answer, AskKey, Audience, Call, Cancel, Driver, End, ErrorBody, Exchange, Feed, FeedItem, Outcome, Remote, Step,
    Tasks,
};
use lb_wire::revision::Era;
use lb_wire::{Id, Line, Raw, Text, compose};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::calls::Slot;
use crate::commands::{self, Commanded, cancelled_params};
use crate::inbound::{Intake, answer_line, ask_id};
use crate::outbound;
use stray::Stray;
use writer::{WriteError, Writer};

/// What is longer may be refused for its length alone, however well it reads.
const READABLE_MAX: usize = 32 << 10;

/// One open pipe.
pub struct Pipe {
    intake: Intake,
    writer: Writer,
    /// What came that is no message.
    stray: Stray,
    /// The name of the server.
    server: Box<str>,
    runs: Runs,
    /// Since when the other side is known to be gone.
    ended: OnceLock<Instant>,
}

/// Our two ends of a stream, and where its other ends are.
pub struct Ends(pub Input, pub Output, pub Runs);

/// Where a server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// In a process of its own.
    Apart,
    /// In this process: it may ask for what only we can do.
    Within,
    /// Somewhere else: what comes is messages and nothing that it prints.
    Remote,
}

/// The reading side of a stream.
pub type Input = Box<dyn AsyncRead + Send + Unpin>;
/// The writing side of a stream.
pub type Output = Box<dyn AsyncWrite + Send + Unpin>;

impl Pipe {
    /// Opens a pipe and starts its reader. `closed` is awaited when the other side has ended: it gives the error that
    /// open calls are told.
    pub fn open<F>(server: &str, ends: Ends, era: Era, feed: Feed, tasks: &Tasks, closed: F) -> Arc<Self>
    where
        F: Future<Output = Raw> + Send + 'static,
    {
        let Ends(input, output, runs) = ends;
        let pipe = Arc::new_cyclic(|pipe: &Weak<Self>| {
            let feed_asks = commands::feed_asks(pipe.clone(), |pipe, key, answer| pipe.answer(key, answer));
            let intake = Intake { embedded: runs == Runs::Within, ..Intake::new(era, feed, feed_asks) };
            let (writer, stray, server) = (Writer::new(output), Stray::default(), server.into());
            Self { intake, writer, stray, server, runs, ended: OnceLock::new() }
        });
        let reader = reader::Reader::new(pipe.clone(), input);
        tasks.spawn(async move {
            let pipe = reader.run().await;
            pipe.ended.get_or_init(Instant::now);
            let error = closed.await;
            pipe.intake.calls.close(&error);
            let why = error.member("message").and_then(|why| why.to_text().map(|why| Text::from(&*why)));
            // Only asks can be refused by a feed.
            drop(pipe.intake.feed.push(FeedItem::Down(0, why.unwrap_or_else(|| Text::from_static("")))));
        });
        pipe
    }

    /// What messages of this connection touch.
    pub fn intake(&self) -> &Intake {
        &self.intake
    }

    /// Opens a request of a client: it is on its way when this returns. `None` when the other side is gone and nothing
    /// was sent.
    pub fn call(self: &Arc<Self>, call: &Call, log_level: Option<&Raw>) -> Option<Exchange> {
        let calls = &self.intake.calls;
        let (id, slot) = calls.open(outbound::names(call), outbound::is_eligible(call)).ok()?;
        let request = outbound::request(call, id, self.intake.era, log_level);
        if let Err(error) = self.write(request.into_line(), |place| slot.place().set(place)) {
            calls.remove(id);
            return match error {
                WriteError::Closed => None,
                WriteError::Full => Some(Exchange::ready(End::ours(Outcome::Error(error.to_body(&self.server))))),
            };
        }
        let remote = Remote::new();
        Some(Exchange::new(PipeCall { pipe: self.clone(), remote: remote.clone(), open: Some((id, slot)) }, remote))
    }

    /// Makes a request of our own and gives its outcome.
    ///
    /// Cancel safe: yes, the request is cancelled when dropped.
    pub async fn request(self: &Arc<Self>, method: &str, params: Option<&Raw>) -> Outcome {
        let (id, slot) = match self.intake.calls.open(crate::calls::Names::default(), false) {
            Ok(open) => open,
            Err(error) => return Outcome::Error(ErrorBody::from_server(error)),
        };
        let request = compose::request(&Id::number(id), method, params);
        let guard = Forget { pipe: self, id };
        if let Err(error) = self.write(request.into_line(), |place| slot.place().set(place)) {
            return Outcome::Error(error.to_body(&self.server));
        }
        let outcome = loop {
            match std::future::poll_fn(|cx| slot.poll(cx)).await {
                Step::End(end) => break end.outcome,
                Step::Ask(ask) => self.answer(&ask.key, &ask.kind.refusal()),
                Step::Note(_) | Step::Withdraw { .. } | Step::Pause { .. } => {}
            }
        };
        drop(guard);
        outcome
    }

    /// Sends a notification; lost when the server is gone or does not read.
    pub fn notify(&self, method: &str, params: Option<&Raw>) {
        self.send(compose::notification(method, params));
    }

    /// Ends a request of ours that the server did not get.
    pub fn fail(&self, id: u64, error: ErrorBody) {
        if let Some(slot) = self.intake.calls.answered(id) {
            slot.end(End::ours(Outcome::Error(error)));
        }
    }

    /// What the server wrote on its stdout that is no message, in words; empty when there was nothing.
    pub fn stray(&self) -> String {
        self.stray.in_words()
    }

    /// Whether the other side is gone.
    pub fn is_lost(&self) -> bool {
        self.ended.get().is_some() || self.intake.calls.is_closed()
    }

    /// Since when the other side is gone, as far as that is known.
    pub fn ended(&self) -> Option<Instant> {
        self.ended.get().copied()
    }

    /// Closes the server's input, which asks it to end.
    pub fn close(&self) {
        self.writer.close();
    }

    fn answer(&self, key: &AskKey, answer: &Answer) {
        if let Some(id) = ask_id(key) {
            self.send(answer_line(&id, answer));
        }
    }

    fn send(&self, message: Raw) {
        // An error without an id may be about this line.
        let readable = message.as_bytes().len() <= READABLE_MAX
            && serde_json::from_slice::<serde_json::Value>(message.as_bytes()).is_ok();
        let placed = |place| self.intake.calls.unasked(place, readable);
        if let Err(error) = self.write(message.into_line(), placed) {
            tracing::debug!(server = &*self.server, %error, "message to the server lost");
        }
    }

    fn write(&self, line: Line, placed: impl FnOnce(u64)) -> Result<(), WriteError> {
        let sent = self.writer.send(line, placed);
        if let Err(WriteError::Closed) = sent {
            self.ended.get_or_init(Instant::now);
        }
        sent
    }
}

/// Removes a request of ours when nobody waits for it any more.
struct Forget<'a> {
    pipe: &'a Pipe,
    id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.pipe.intake.calls.cancelled(self.id);
    }
}

/// A client's request on a pipe.
struct PipeCall {
    pipe: Arc<Pipe>,
    remote: Remote,
    /// Our id and where steps wait; `None` once it is over.
    open: Option<(u64, Arc<Slot>)>,
}

impl Commanded for PipeCall {
    fn answer(&mut self, key: &AskKey, answer: &Answer) {
        if self.open.as_ref().is_some_and(|(_, slot)| slot.answered(key)) {
            self.pipe.answer(key, answer);
        }
    }

    fn cancel(&mut self, why: &Cancel) {
        if let Some((id, _)) = self.open.take()
            && self.pipe.intake.calls.cancelled(id)
        {
            // What it asked for the call goes with the call.
            self.pipe.notify("notifications/cancelled", Some(&cancelled_params(id, why)));
        }
    }

    fn heard_by(&mut self, audience: Audience) {
        if let Some((_, slot)) = &self.open {
            slot.heard_by(audience);
        }
    }
}

impl PipeCall {
    /// A server that has answered the call and still waits for an answer to what the call asked gets one.
    fn refuse(&self, slot: &Slot) {
        for (key, kind) in slot.take_asks() {
            self.pipe.answer(&key, &kind.refusal());
        }
    }
}

impl Driver for PipeCall {
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        while let Some(command) = self.remote.take() {
            if let Some(end) = self.obey(command) {
                return Poll::Ready(Step::End(end));
            }
        }
        let Some((_, slot)) = &self.open else { return Poll::Pending };
        let step = std::task::ready!(slot.poll(cx));
        if let Step::End(_) = &step
            && let Some((_, slot)) = self.open.take()
        {
            self.refuse(&slot);
        }
        Poll::Ready(step)
    }
}

impl Drop for PipeCall {
    fn drop(&mut self) {
        self.cancel(&Cancel::Gone);
    }
}
