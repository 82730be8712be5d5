//! One HTTP/1.1 connection to a node, driven by the request that uses it: no task of its own.

use std::convert::Infallible;
use std::future::Future as _;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use lb_exchange::Bell;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// What is read ahead of a response whose client is slow, and the longest head of one.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// An open connection.
pub(crate) struct Conn {
    sender: http1::SendRequest<Whole>,
    wire: http1::Connection<TokioIo<Line>, Whole>,
    /// The wire has ended and must not be polled again.
    over: bool,
    bell: Arc<Bell>,
}

/// What became of a request that got no response.
pub(super) enum Unanswered {
    /// Nothing of it was sent.
    Unsent(Box<Request<Whole>>),
    /// It may have reached the node.
    Broken(String),
}

impl Conn {
    pub(super) async fn open(line: Line) -> Result<Box<Self>, hyper::Error> {
        let mut builder = http1::Builder::new();
        builder.max_buf_size(BUFFER_BYTES_MAX);
        let (sender, wire) = builder.handshake(TokioIo::new(line)).await?;
        Ok(Box::new(Self { sender, wire, over: false, bell: Arc::default() }))
    }

    /// Sends a request and gives the head of its response.
    ///
    /// Cancel safe: dropping it closes the connection.
    pub(super) async fn send(
        mut self: Box<Self>,
        request: Request<Whole>,
    ) -> Result<(Box<Self>, Response<Incoming>), Unanswered> {
        let bell = self.bell.clone();
        // One look at the socket tells whether it was closed while nobody used it.
        if std::future::poll_fn(|cx| bell.poll(cx, |cx| Poll::Ready(self.drive(cx)))).await {
            return Err(Unanswered::Unsent(Box::new(request)));
        }
        let answer = {
            let mut response = pin!(self.sender.try_send_request(request));
            let (wire, over) = (&mut self.wire, &mut self.over);
            let mut poll = |cx: &mut Context<'_>| {
                *over = *over || Pin::new(&mut *wire).poll(cx).is_ready();
                match response.as_mut().poll(cx) {
                    Poll::Ready(answer) => Poll::Ready(Some(answer)),
                    Poll::Pending if *over => Poll::Ready(None),
                    Poll::Pending => Poll::Pending,
                }
            };
            std::future::poll_fn(|cx| bell.poll(cx, &mut poll)).await
        };
        match answer {
            Some(Ok(response)) => Ok((self, response)),
            Some(Err(mut error)) => Err(match error.take_message() {
                Some(request) => Unanswered::Unsent(Box::new(request)),
                None => Unanswered::Broken(chain(error.error())),
            }),
            None => Err(Unanswered::Broken("the connection ended without a response".to_owned())),
        }
    }

    /// For whoever polls a body that comes over it.
    pub(crate) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }

    /// Moves bytes in both directions; true once the connection is over.
    pub(crate) fn drive(&mut self, cx: &mut Context<'_>) -> bool {
        self.over = self.over || Pin::new(&mut self.wire).poll(cx).is_ready();
        self.over
    }

    /// Whether another request can be sent.
    pub(crate) fn is_idle(&self) -> bool {
        !self.over && self.sender.is_ready()
    }
}

/// An error and what lies behind it, in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// The body of a request, which is there as a whole.
pub(super) struct Whole(Option<Bytes>);

impl Whole {
    pub(super) fn new(bytes: Bytes) -> Self {
        Self(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

impl http_body::Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

/// A TCP stream, perhaps under TLS.
pub(super) enum Line {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Does the same to whatever is inside.
macro_rules! inside {
    ($line:expr, $stream:ident => $act:expr) => {
        match $line {
            Line::Plain($stream) => $act,
            Line::Tls($stream) => $act,
        }
    };
}

impl AsyncRead for Line {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        inside!(self.get_mut(), stream => Pin::new(stream).poll_read(cx, buf))
    }
}

impl AsyncWrite for Line {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        inside!(self.get_mut(), stream => Pin::new(stream).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        inside!(self.get_mut(), stream => Pin::new(stream).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        inside!(self, stream => stream.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inside!(self.get_mut(), stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inside!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(cx))
    }
}
