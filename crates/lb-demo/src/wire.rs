//! The SDK's line transport with four things added: it counts requests, it tells the session when the client has
//! closed its end, it drops stray messages that come before the first request, and it is silent after a crash.

use std::io;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{ClientRequest, JsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite, ReadHalf, WriteHalf};

use crate::session::Session;

/// One connection as the SDK sees it.
pub(crate) struct Wire<S: AsyncRead + AsyncWrite> {
    lines: AsyncRwTransport<RoleServer, ReadHalf<S>, WriteHalf<S>>,
    session: Arc<Session>,
    /// A request has chosen the era.
    open: bool,
}

impl<S: AsyncRead + AsyncWrite + Send + 'static> Wire<S> {
    pub(crate) fn new(io: S, session: Arc<Session>) -> Self {
        let (read, write) = tokio::io::split(io);
        Self { lines: AsyncRwTransport::new(read, write), session, open: false }
    }
}

impl<S: AsyncRead + AsyncWrite + Send + 'static> Transport<RoleServer> for Wire<S> {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        // Who has crashed says nothing more, whatever the SDK still has to send.
        let sending = (!self.session.has_crashed()).then(|| self.lines.send(item));
        async {
            match sending {
                Some(sending) => sending.await,
                None => Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
    }

    /// Cancel safe: yes; the only await is the SDK's own read, which keeps a partial line.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let Some(message) = self.lines.receive().await else {
                // The SDK waits for running handlers at the end of input, and they wait on this.
                self.session.closed.cancel();
                return None;
            };
            match &message {
                JsonRpcMessage::Request(request) => {
                    self.session.touch();
                    self.open |=
                        !matches!(request.request, ClientRequest::DiscoverRequest(_) | ClientRequest::PingRequest(_));
                }
                // A probe that was given up sends `notifications/cancelled`; the SDK would end the connection over it.
                _ if !self.open => continue,
                _ => {}
            }
            return Some(message);
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.lines.close().await
    }
}
