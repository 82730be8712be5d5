//! The task of a pipe: reads lines, hands messages on, and flushes what waits.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use lb_exchange::{End, ErrorBody, Outcome, Output, Whence};
use lb_process::printable;
use lb_wire::revision::code;
use lb_wire::{Id, LineTooLong, Lines, Message};
use tokio_util::io::poll_read_buf;

use super::{Input, Pipe, Runs};
use crate::pace::Pace;

/// Longest line that is taken from a server.
const LINE_BYTES_MAX: usize = 16 << 20;
/// Characters shown of a line that is no message.
const SHOWN_CHARS_MAX: usize = 100;
/// Lines handled before other tasks get their turn.
const LINES_PER_TURN: usize = 128;

/// Reads one pipe to its end.
pub struct Reader {
    pipe: Arc<Pipe>,
    input: Input,
    lines: Lines,
    pace: Pace,
}

impl Reader {
    pub fn new(pipe: Arc<Pipe>, input: Input) -> Self {
        Self { pipe, input, lines: Lines::new(LINE_BYTES_MAX), pace: Pace::default() }
    }

    /// Runs until the server closes its output.
    pub async fn run(mut self) -> Arc<Pipe> {
        poll_fn(|cx| self.poll(cx)).await;
        self.pipe
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // A failed write shows on the next read as an end, or on the next call as an error.
        match self.pipe.writer.poll_flush(cx) {
            Poll::Ready(_) | Poll::Pending => {}
        }
        for _ in 0..LINES_PER_TURN {
            ready!(self.pace.poll_ready(cx));
            match self.lines.next_line() {
                Some(Ok(line)) => {
                    self.take(line);
                    self.pace.step();
                }
                Some(Err(too_long)) => self.refuse(&too_long),
                None => match self.poll_fill(cx) {
                    Poll::Ready(true) => {}
                    Poll::Ready(false) => {
                        if let Some(last) = self.lines.take_last() {
                            self.take(last);
                        }
                        return Poll::Ready(());
                    }
                    Poll::Pending => return Poll::Pending,
                },
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads once; false at the end of input.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let buffer = self.lines.buffer();
        match ready!(poll_read_buf(Pin::new(&mut self.input), cx, buffer)) {
            Ok(read) => Poll::Ready(read != 0),
            Err(error) => {
                tracing::debug!(server = &*self.pipe.server, %error, "server output unreadable");
                Poll::Ready(false)
            }
        }
    }

    /// Tells the call that a line would have answered; all of them, if nobody knows which.
    fn refuse(&self, too_long: &LineTooLong) {
        let message = format!("server {:?}: its answer is longer than 16 MiB", self.pipe.server);
        tracing::warn!("{message}");
        let calls = &self.pipe.intake.calls;
        let error = ErrorBody::new(code::INTERNAL_ERROR, &message, None);
        match too_long.id.as_ref().and_then(Id::to_number).and_then(|id| calls.answered(id)) {
            Some(slot) => slot.end(End::ours(Outcome::Error(error))),
            None => calls.close(&error.raw),
        }
    }

    fn take(&self, line: Bytes) {
        if line.trim_ascii().is_empty() {
            return;
        }
        match Message::scan(line.clone()) {
            Ok(message) => self.take_message(&message),
            Err(error) => match Message::batch(&line) {
                // Servers of 2025-03-26 may answer with arrays.
                Ok(Some(parts)) => {
                    for message in parts.into_iter().filter_map(|part| Message::scan(part).ok()) {
                        self.take_message(&message);
                    }
                }
                _ => {
                    let (server, start) = (&*self.pipe.server, printable(&line, SHOWN_CHARS_MAX));
                    tracing::debug!(server, %error, bytes = line.len(), "no message: {start}");
                    if self.pipe.runs != Runs::Remote {
                        self.pipe.stray.line(&line);
                        self.pipe.intake.output(Output::Stdout, &line);
                    }
                }
            },
        }
    }

    fn take_message(&self, message: &Message) {
        tracing::trace!(?message, "from server");
        self.pipe.stray.message();
        if let Some(reply) = self.pipe.intake.take(message, Whence::Shared) {
            self.pipe.send(reply);
        }
    }
}
