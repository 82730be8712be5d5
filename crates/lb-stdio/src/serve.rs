//! One client on stdin and stdout.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::{Buf, BytesMut};
use lb_exchange::{Mount, Receipt, Visitor};
use lb_front::{Connection, Front, Outgoing};
use lb_wire::{Line, LineTooLong, Lines};
use tokio::io::AsyncWrite as _;
use tokio_util::io::poll_read_buf;

use crate::ends::{Input, Output, input, output};

/// Longest line that is taken from a client.
const LINE_BYTES_MAX: usize = 16 << 20;
/// Bytes that are read before they are wanted, so that the end of the input is seen behind them.
const AHEAD_MAX: usize = 64 << 10;
/// Bytes that wait to be written before more are made.
const PENDING_MAX: usize = 256 << 10;

/// Serves one client on stdin and stdout, until its input ends or `shutdown` resolves. When no more comes, `ending` is
/// called: what is under way may go on for a while, as long as the client reads it, and `shutdown` is polled until the
/// end.
///
/// Cancel safe: no, lines may be lost.
///
/// # Errors
/// Stdin or stdout cannot be used.
pub async fn serve(
    front: &Front,
    mount: Mount,
    who: Visitor,
    shutdown: impl Future<Output = ()>,
    ending: impl FnOnce(),
) -> io::Result<()> {
    let mut shutdown = pin!(shutdown);
    let (mut told, mut ending) = (false, Some(ending));
    let mut pump = Pump {
        connection: front.connection(who, mount),
        input: Some(input()?),
        finished: false,
        lines: Lines::new(LINE_BYTES_MAX),
        output: Writer { output: output()?, pending: BytesMut::new(), receipts: Vec::new() },
    };
    poll_fn(|cx| {
        // Also after the end of the input: whoever hears signals for us must go on to hear them.
        if !told && shutdown.as_mut().poll(cx).is_ready() {
            told = true;
            pump.finish();
        }
        let polled = pump.poll(cx);
        if pump.input.is_none()
            && let Some(ending) = ending.take()
        {
            ending();
        }
        polled
    })
    .await
}

struct Pump {
    connection: Connection,
    /// `None` once no more comes.
    input: Option<Input>,
    /// Whether no more lines are taken.
    finished: bool,
    lines: Lines,
    output: Writer,
}

impl Pump {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            // A client that does not read stops everything else here, and only here.
            std::task::ready!(self.output.poll_room(cx))?;
            match self.connection.poll_line(cx) {
                Poll::Ready(Some(outgoing)) => self.output.push(outgoing),
                Poll::Ready(None) => return self.output.poll_flush(cx),
                Poll::Pending => match self.poll_input(cx) {
                    Poll::Ready(()) => {}
                    Poll::Pending => {
                        std::task::ready!(self.output.poll_flush(cx))?;
                        return Poll::Pending;
                    }
                },
            }
        }
    }

    /// Ready when something was taken in.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.finished {
            return Poll::Pending;
        }
        if !self.connection.wants_line() {
            self.read_ahead(cx);
            return Poll::Pending;
        }
        loop {
            match self.lines.next_line() {
                Some(Ok(line)) => {
                    self.connection.take_line(line);
                    return Poll::Ready(());
                }
                Some(Err(LineTooLong { id })) => {
                    self.connection.refuse_line(id.as_ref(), LINE_BYTES_MAX);
                    return Poll::Ready(());
                }
                None if self.input.is_none() => {
                    match self.lines.take_last() {
                        Some(last) => self.connection.take_line(last),
                        None => self.finish(),
                    }
                    return Poll::Ready(());
                }
                None => std::task::ready!(self.poll_read(cx)),
            }
        }
    }

    /// While no line is wanted: whoever waits for a server to start shall know when its client is gone.
    fn read_ahead(&mut self, cx: &mut Context<'_>) {
        while self.input.is_some() && self.lines.buffer().len() < AHEAD_MAX {
            if self.poll_read(cx).is_pending() {
                return;
            }
        }
    }

    /// Ready when some bytes have come, or it is known that no more will.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(input) = &mut self.input else { return Poll::Ready(()) };
        match std::task::ready!(poll_read_buf(Pin::new(input), cx, self.lines.buffer())) {
            Ok(0) | Err(_) => self.input = None,
            Ok(_) => {}
        }
        Poll::Ready(())
    }

    fn finish(&mut self) {
        self.input = None;
        self.finished = true;
        self.connection.finish();
    }
}

/// Lines on their way out, with the receipts that hang on them.
struct Writer {
    output: Output,
    pending: BytesMut,
    receipts: Vec<Receipt>,
}

impl Writer {
    fn push(&mut self, outgoing: Outgoing) {
        let Outgoing { line, receipt } = outgoing;
        self.line(&line);
        self.receipts.extend(receipt);
    }

    fn line(&mut self, line: &Line) {
        self.pending.extend_from_slice(line.as_bytes());
        self.pending.extend_from_slice(b"\n");
    }

    /// Ready when another line may be made.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.pending.len() < PENDING_MAX { Poll::Ready(Ok(())) } else { self.poll_flush(cx) }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.pending.is_empty() {
            let written = std::task::ready!(Pin::new(&mut self.output).poll_write(cx, &self.pending))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.pending.advance(written);
        }
        std::task::ready!(Pin::new(&mut self.output).poll_flush(cx))?;
        for receipt in self.receipts.drain(..) {
            receipt.commit();
        }
        Poll::Ready(Ok(()))
    }
}
