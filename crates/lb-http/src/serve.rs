//! Accepting connections, and stopping.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lb_exchange::Tasks;
use lb_front::Front;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

use crate::connection::serve_connection;
use crate::pages::Reach;
use crate::phase::Level;
use crate::service::Server;
use crate::settings::Settings;

/// How long streams may take to say that they close.
const CLOSE_MAX: Duration = Duration::from_secs(1);

/// Serves clients until `shutdown` resolves, then lets requests in flight end for a while.
///
/// Cancel safe: dropping it stops accepting; connections go on until `tasks` is closed.
pub async fn serve(
    listener: TcpListener,
    front: Arc<Front>,
    settings: Settings,
    tasks: Tasks,
    shutdown: impl Future<Output = ()>,
) {
    let server = Arc::new(Server::new(front, settings));
    let connections = TaskTracker::new();
    let own = listener.local_addr().ok();
    {
        let mut shutdown = pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = &mut shutdown => break,
                () = tasks.stopping() => break,
            };
            match accepted {
                Ok((socket, peer)) => start(socket, reach(own, peer), &server, &connections, &tasks),
                Err(error) => pause_after(&error).await,
            }
        }
    }
    drop(listener);
    connections.close();
    let ended = |limit| tokio::time::timeout(limit, connections.wait());
    for (level, limit) in [(Level::Draining, server.settings.drain_max), (Level::Closing, CLOSE_MAX)] {
        server.phase.set(level);
        if ended(limit).await.is_ok() {
            return;
        }
    }
    tracing::warn!(left = connections.len(), "connections outlived the shutdown");
    server.phase.set(Level::Aborting);
    connections.wait().await;
}

fn start(socket: TcpStream, reach: Reach, server: &Arc<Server>, connections: &TaskTracker, tasks: &Tasks) {
    if server.settings.connections_max <= connections.len() {
        tracing::warn!(open = connections.len(), "connection refused: too many are open");
        return;
    }
    let connection = serve_connection(socket, reach, server.clone());
    tasks.spawn(connections.track_future(connection));
}

/// How a peer reached us, from both addresses.
fn reach(own: Option<SocketAddr>, peer: SocketAddr) -> Reach {
    let is_loopback = |address: SocketAddr| address.ip().to_canonical().is_loopback();
    match (is_loopback(peer), own.is_some_and(is_loopback)) {
        (false, _) => Reach::Remote,
        (true, false) => Reach::Open,
        (true, true) => Reach::Loopback,
    }
}

/// A peer that gave up is nothing; being out of descriptors passes only with time.
async fn pause_after(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionReset) {
        tracing::warn!(%error, "could not accept a connection");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
