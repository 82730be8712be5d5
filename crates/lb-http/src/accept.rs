//! Accepting connections: who gets in, and what is done when there is no room.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lb_exchange::Tasks;
use tokio::net::{TcpStream, UnixStream};

use crate::connection::serve_connection;
use crate::listen::{Farewell, Listener, Side, Source};
use crate::peer::Peer;
use crate::phase::Level;
use crate::server::Server;
use crate::shed::Why;
use crate::tls::Tls;

/// How long accepting rests when the system has no room, unless a connection ends before.
const REST: Duration = Duration::from_millis(100);
/// How often the same trouble is told.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// How often certificates are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// A socket that was accepted, before any handshake.
pub(crate) enum Accepted {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Where connections come in.
pub(crate) struct Door {
    server: Arc<Server>,
    tasks: Tasks,
    told: Mutex<Option<Instant>>,
}

impl Door {
    pub(crate) fn new(server: Arc<Server>, tasks: Tasks) -> Self {
        Self { server, tasks, told: Mutex::default() }
    }

    /// Accepts for ever. Those who come when there is no room wait in the system's queue.
    ///
    /// Cancel safe: yes.
    pub(crate) async fn receive(&self, listener: &Listener) {
        tokio::join!(self.accept(listener), self.tend(listener));
    }

    async fn accept(&self, listener: &Listener) {
        loop {
            let max = self.server.settings.load().connections_max;
            if max <= self.server.connections.of(listener.side) {
                self.tell(&"too many are open", "connections wait to be accepted");
                self.server.connections.fewer_than(listener.side, max).await;
            }
            match accept(listener).await {
                Ok((socket, peer)) => {
                    // Other nodes send on what only this one can answer, and so are served for longer.
                    let last = match listener.side {
                        Side::Clients => Level::Serving,
                        Side::Nodes => Level::Draining,
                    };
                    let late = last < self.server.phase.level();
                    self.start(socket, Peer { late, side: listener.side, ..peer }, listener.tls.as_ref());
                }
                Err(error) => self.rest_after(&error).await,
            }
        }
    }

    /// Uses new certificates when there are some: they are replaced by others, often without a word.
    async fn tend(&self, listener: &Listener) {
        let Some(tls) = &listener.tls else { return };
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            match tls.reload_if_changed() {
                Ok(false) => {}
                Ok(true) => tracing::info!("certificate_reloaded"),
                Err(error) => tracing::warn!(%error, "certificate_reload_failed"),
            }
        }
    }

    /// Stops listening where another process goes on.
    pub(crate) fn leave(&self, listener: Listener) {
        let Listener { source, tls, farewell, side } = listener;
        let (Farewell::Empty, Source::Tcp(listener)) = (farewell, source) else { return };
        let (Ok(own), Ok(listener)) = (listener.local_addr(), listener.into_std()) else { return };
        // What the system has queued for us it gives to nobody else.
        while let Ok((socket, peer)) = listener.accept() {
            let socket = socket.set_nonblocking(true).and_then(|()| TcpStream::from_std(socket));
            if let Ok(socket) = socket {
                self.start(Accepted::Tcp(socket), Peer { side, ..Peer::new(Some(own), peer) }, tls.as_ref());
            }
        }
    }

    fn start(&self, socket: Accepted, peer: Peer, tls: Option<&Tls>) {
        let settings = self.server.settings.load();
        let counted = peer.counted(&settings.trusted_proxies);
        let entered = self.server.connections.enter(counted, settings.connections_per_ip_max, peer);
        let Some(entered) = entered else {
            self.server.shed.add(Why::Connections);
            self.tell(&"too many from one address", "connection refused");
            return;
        };
        let peer = Peer { secure: tls.is_some(), ..peer };
        // Spawned as it is: a block that awaited it would hold it twice, for as long as the connection lasts.
        self.tasks.spawn(serve_connection(socket, tls.map(Tls::acceptor), peer, self.server.clone(), entered));
    }

    /// A peer that gave up is nothing; being out of descriptors passes only with time.
    async fn rest_after(&self, error: &io::Error) {
        use io::ErrorKind::{ConnectionAborted, ConnectionReset};
        if !matches!(error.kind(), ConnectionAborted | ConnectionReset) {
            self.tell(error, "could not accept a connection");
            tokio::select! {
                () = tokio::time::sleep(REST) => {}
                () = self.server.connections.next_end() => {}
            }
        }
    }

    /// Says what is wrong, now and then.
    fn tell(&self, why: &dyn std::fmt::Display, what: &'static str) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|told| TELL_EVERY <= told.elapsed()) {
            *told = Some(Instant::now());
            tracing::warn!(open = self.server.connections.len(), %why, "{what}");
        }
    }
}

async fn accept(listener: &Listener) -> io::Result<(Accepted, Peer)> {
    match &listener.source {
        Source::Tcp(socket) => {
            let (socket, peer) = socket.accept().await?;
            Ok((Accepted::Tcp(socket), Peer::new(listener.address(), peer)))
        }
        Source::Unix { listener, .. } => loop {
            let (socket, _) = listener.accept().await?;
            if is_own_user(&socket) {
                return Ok((Accepted::Unix(socket), Peer::OWN_USER));
            }
            tracing::warn!("connection refused: a process of another user");
        },
    }
}

/// The folder keeps others out; should it be opened to them, this still does.
fn is_own_user(socket: &UnixStream) -> bool {
    socket.peer_cred().is_ok_and(|peer| peer.uid() == rustix::process::geteuid().as_raw())
}
