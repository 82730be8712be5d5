//! One HTTP/1.1 connection, driven by whoever uses it: no task of its own.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use lb_exchange::Bell;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// A request with its whole body.
pub type Outgoing = Request<Full<Bytes>>;

/// An open connection to a server.
pub struct Conn {
    sender: http1::SendRequest<Full<Bytes>>,
    wire: http1::Connection<TokioIo<Stream>, Full<Bytes>>,
    /// The wire has ended and must not be polled again.
    over: bool,
    bell: Arc<Bell>,
}

/// What became of a request that got no response.
pub enum Unanswered {
    /// Nothing of it was sent: it can go out on another connection.
    Unsent(Box<Outgoing>),
    /// It may have reached the server.
    Broken(String),
}

impl Conn {
    /// Speaks HTTP over a fresh stream.
    pub async fn open(stream: Stream) -> Result<Box<Self>, hyper::Error> {
        let (sender, wire) = http1::handshake(TokioIo::new(stream)).await?;
        Ok(Box::new(Self { sender, wire, over: false, bell: Arc::default() }))
    }

    /// Sends a request and gives the head of its response.
    ///
    /// Cancel safe: dropping it closes the connection.
    pub async fn send(mut self: Box<Self>, request: Outgoing) -> Result<(Box<Self>, Response<Incoming>), Unanswered> {
        let bell = self.bell.clone();
        // One look at the socket tells whether the server closed it while it was idle.
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

    /// The bell of this connection, for whoever polls a body that comes over it.
    pub fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }

    /// Moves bytes in both directions; true once the connection is over.
    pub fn drive(&mut self, cx: &mut Context<'_>) -> bool {
        self.over = self.over || Pin::new(&mut self.wire).poll(cx).is_ready();
        self.over
    }

    /// Whether another request can be sent.
    pub fn is_idle(&self) -> bool {
        !self.over && self.sender.is_ready()
    }
}

/// An error and what lies behind it, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// A TCP stream, perhaps under TLS.
pub enum Stream {
    /// `http`
    Plain(TcpStream),
    /// `https`
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
