//! The task of a pipe: reads lines, hands messages on, and flushes what waits.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use lb_exchange::{End, ErrorBody, Outcome, Whence};
use lb_wire::revision::code;
use lb_wire::Message;
use tokio_util::io::poll_read_buf;

use super::{Input, Pipe};

/// Longest line that is taken from a server.
const LINE_MAX: usize = 16 << 20;
/// How much is read at once.
const CHUNK: usize = 64 << 10;
/// Lines handled before other tasks get their turn.
const LINES_PER_TURN: usize = 128;

/// Reads one pipe to its end.
pub struct Reader {
    pipe: Arc<Pipe>,
    input: Input,
    buffer: BytesMut,
    /// How much of the buffer is known to hold no line end.
    searched: usize,
    /// Inside a line that is too long: everything up to its end is thrown away.
    skipping: bool,
}

impl Reader {
    pub fn new(pipe: Arc<Pipe>, input: Input) -> Self {
        Self { pipe, input, buffer: BytesMut::new(), searched: 0, skipping: false }
    }

    /// Runs until the server closes its output, or we close its input.
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
            match self.take_line() {
                Some(line) => self.take(line),
                None => match self.poll_fill(cx) {
                    Poll::Ready(true) => {}
                    Poll::Ready(false) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                },
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads once; false at the end of input.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        self.buffer.reserve(CHUNK);
        match std::task::ready!(poll_read_buf(Pin::new(&mut self.input), cx, &mut self.buffer)) {
            Ok(read) => Poll::Ready(read != 0),
            Err(error) => {
                tracing::debug!(%error, "server output unreadable");
                Poll::Ready(false)
            }
        }
    }

    fn take_line(&mut self) -> Option<Bytes> {
        loop {
            let found = memchr::memchr(b'\n', self.buffer.get(self.searched..)?);
            let Some(at) = found else {
                self.searched = self.buffer.len();
                self.bound();
                return None;
            };
            let mut line = self.buffer.split_to(self.searched + at + 1);
            self.searched = 0;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            line.truncate(line.len() - 1);
            return Some(line.freeze());
        }
    }

    /// Throws the start of an endless line away, after telling the call it would have answered.
    fn bound(&mut self) {
        if self.buffer.len() <= LINE_MAX && !self.skipping {
            return;
        }
        if !std::mem::replace(&mut self.skipping, true) {
            self.refuse_long_line();
        }
        self.buffer.clear();
        self.searched = 0;
    }

    fn refuse_long_line(&self) {
        tracing::warn!(limit = LINE_MAX, "server sent a line that is too long");
        let head = self.buffer.get(..4096).unwrap_or_default();
        let slot = Message::id_in_prefix(head).and_then(|id| id.to_number()).and_then(|id| self.pipe.intake.calls.remove(id));
        let error = ErrorBody::new(code::INTERNAL_ERROR, "the server's answer is longer than 16 MiB", None);
        match slot {
            Some(slot) => slot.end(End::ours(Outcome::Error(error))),
            None => self.pipe.intake.calls.close(&error.raw),
        }
    }

    fn take(&self, line: Bytes) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        match Message::scan(line.clone()) {
            Ok(message) => self.take_message(&message),
            Err(error) => match Message::batch(&line) {
                // Servers of 2025-03-26 may answer with arrays.
                Ok(Some(parts)) => parts.into_iter().filter_map(|part| Message::scan(part).ok()).for_each(|message| self.take_message(&message)),
                _ => tracing::debug!(%error, bytes = line.len(), "line of the server skipped"),
            },
        }
    }

    fn take_message(&self, message: &Message) {
        tracing::trace!(?message, "from server");
        if let Some(reply) = self.pipe.intake.take(message, Whence::Shared) {
            self.pipe.send(reply);
        }
    }
}
