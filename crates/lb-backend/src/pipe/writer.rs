//! The way into a pipe: straight through while it is free, a bounded backlog while it is not.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, BytesMut};
use lb_exchange::ErrorBody;
use lb_wire::Line;
use lb_wire::revision::code;
use parking_lot::Mutex;
use tokio::io::AsyncWrite;

use super::Output;
use crate::error;

/// Bytes that may wait for a server that does not read.
const BACKLOG_MAX: usize = 32 << 20;

/// The writing side of a pipe.
pub struct Writer(Mutex<State>);

struct State {
    /// `None` once closed.
    output: Option<Output>,
    backlog: BytesMut,
    /// Lines so far.
    lines: u64,
    /// The reader task, which flushes the backlog.
    flusher: Option<Waker>,
}

/// Why a message could not be written.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub enum WriteError {
    /// The other side is gone, or we closed it.
    #[error("the server's input is closed")]
    Closed,
    /// The server has not read for too long.
    #[error("the server does not read its input")]
    Full,
}

impl WriteError {
    /// What the client is told.
    pub fn to_body(self, server: &str) -> ErrorBody {
        let reason = match self {
            Self::Closed => "backend_closed",
            Self::Full => "backend_stuck",
        };
        ErrorBody::new(
            code::INTERNAL_ERROR,
            &format!("server {server:?}: {self}"),
            Some(&error::data(reason, None, None)),
        )
    }
}

impl Writer {
    pub fn new(output: Output) -> Self {
        Self(Mutex::new(State { output: Some(output), backlog: BytesMut::new(), lines: 0, flusher: None }))
    }

    /// Writes one line, or queues what does not fit behind what already waits. `placed` hears its place in the order of
    /// lines, before anybody can have read it.
    pub fn send(&self, line: Line, placed: impl FnOnce(u64)) -> Result<(), WriteError> {
        let mut state = self.0.lock();
        if state.output.is_none() {
            return Err(WriteError::Closed);
        }
        if BACKLOG_MAX < state.backlog.len() + line.as_bytes().len() {
            return Err(WriteError::Full);
        }
        state.lines += 1;
        placed(state.lines);
        let done = if state.backlog.is_empty() { state.write_now(line.as_bytes())? } else { 0 };
        state.queue(line.as_bytes(), done);
        let waker = if state.backlog.is_empty() { None } else { state.flusher.take() };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// Closes the pipe; what still waits is lost.
    pub fn close(&self) {
        let output = self.0.lock().output.take();
        if let Some(mut output) = output {
            // An embedded server's stream is one with what the reader holds: dropping our half would not end it. Neither
            // kind of pipe has to wait for this.
            match Pin::new(&mut output).poll_shutdown(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(_) | Poll::Pending => {}
            }
        }
    }

    /// Writes what waits, and remembers whom to wake when more comes.
    pub fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        let mut state = self.0.lock();
        let State { output, backlog, .. } = &mut *state;
        let Some(output) = output else { return Poll::Ready(Err(WriteError::Closed)) };
        while !backlog.is_empty() {
            match Pin::new(&mut *output).poll_write(cx, backlog) {
                Poll::Ready(Ok(written)) if 0 < written => backlog.advance(written),
                Poll::Ready(_) => {
                    state.output = None;
                    return Poll::Ready(Err(WriteError::Closed));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        state.flusher = Some(cx.waker().clone());
        Poll::Ready(Ok(()))
    }
}

impl State {
    /// How many bytes of the line and its end went straight into the pipe.
    fn write_now(&mut self, line: &[u8]) -> Result<usize, WriteError> {
        let Some(output) = &mut self.output else { return Err(WriteError::Closed) };
        // Nobody is woken by this attempt: what does not fit goes to the backlog, and its flusher asks again.
        let mut cx = Context::from_waker(Waker::noop());
        let parts = [io::IoSlice::new(line), io::IoSlice::new(b"\n")];
        match Pin::new(output).poll_write_vectored(&mut cx, &parts) {
            Poll::Ready(Ok(written)) => Ok(written),
            Poll::Ready(Err(_)) => {
                self.output = None;
                Err(WriteError::Closed)
            }
            Poll::Pending => Ok(0),
        }
    }

    fn queue(&mut self, line: &[u8], done: usize) {
        if line.len() < done {
            return;
        }
        self.backlog.extend_from_slice(line.get(done..).unwrap_or_default());
        self.backlog.extend_from_slice(b"\n");
    }
}
