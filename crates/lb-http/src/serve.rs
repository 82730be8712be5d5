//! Serving on some listeners until the shutdown, and the way down.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use futures_util::future::join_all;
use lb_exchange::Tasks;
use lb_front::Front;

use crate::accept::Door;
use crate::listen::{Farewell, Listener};
use crate::phase::Level;
use crate::server::Server;
use crate::settings::Settings;
use crate::shed::Shed;

/// How long streams may take to say that they close, and late callers to hear that they are.
const CLOSE_MAX: Duration = Duration::from_secs(1);

/// The HTTP side of a gateway.
pub struct Http {
    server: Arc<Server>,
}

/// What can be done to it while it serves. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    server: Arc<Server>,
}

impl Handle {
    /// Replaces the settings: the next request sees them.
    pub fn update(&self, settings: Settings) {
        self.server.settings.replace(settings);
    }

    /// The settings that count now.
    #[must_use]
    pub fn settings(&self) -> Arc<Settings> {
        self.server.settings.load()
    }

    /// Connections that are open now.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.server.connections.len()
    }

    /// What was not taken on.
    #[must_use]
    pub fn shed(&self) -> Arc<Shed> {
        self.server.shed.clone()
    }

    /// Requests so far that were sent on to another node and answered there.
    #[must_use]
    pub fn forwarded(&self) -> Arc<AtomicU64> {
        self.server.nodes.forwarded.clone()
    }

    /// Calls that are being answered now.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.server.in_flight.len()
    }
}

impl Http {
    /// The HTTP side in front of this front.
    #[must_use]
    pub fn new(front: Arc<Front>, settings: Settings) -> Self {
        Self { server: Arc::new(Server::new(front, settings)) }
    }

    /// For whoever changes settings later.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle { server: self.server.clone() }
    }

    /// Serves clients until `shutdown` resolves, then lets requests in flight end for a while.
    ///
    /// While they do, the health page says `draining`, open connections are served one more request, and whoever
    /// connects is told to come back later, unless another process has the address too.
    ///
    /// Cancel safe: dropping it stops accepting; connections go on until `tasks` is closed.
    pub async fn serve(self, listeners: Vec<Listener>, tasks: Tasks, shutdown: impl Future<Output = ()>) {
        let server = self.server;
        let door = Door::new(server.clone(), tasks.clone());
        {
            let receiving = pin!(join_all(listeners.iter().map(|listener| door.receive(listener))));
            let shutdown = pin!(shutdown);
            // In this order: once the shutdown has begun, nobody is let in as if it had not.
            tokio::select! {
                biased;
                () = shutdown => {}
                () = tasks.stopping() => {}
                () = server.nodes.tend() => {}
                _ = receiving => {}
            }
        }
        let (staying, leaving): (Vec<_>, Vec<_>) =
            listeners.into_iter().partition(|listener| listener.farewell == Farewell::Refuse);
        for listener in leaving {
            door.leave(listener);
        }
        server.phase.set(Level::Draining);
        {
            let refusing = join_all(staying.iter().map(|listener| door.receive(listener)));
            // Nobody is left to refuse when another process has all addresses; then only the draining is waited for.
            let refusing = async {
                refusing.await;
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = refusing => {}
                () = drain(&server) => {}
            }
        }
        drop(staying);
        if tokio::time::timeout(CLOSE_MAX, server.connections.all_ended()).await.is_err() {
            server.phase.set(Level::Aborting);
            server.connections.all_ended().await;
        }
    }
}

/// Serves on one listener. See [`Http::serve`].
///
/// Cancel safe: dropping it stops accepting; connections go on until `tasks` is closed.
pub async fn serve(
    listener: impl Into<Listener>,
    front: Arc<Front>,
    settings: Settings,
    tasks: Tasks,
    shutdown: impl Future<Output = ()>,
) {
    Http::new(front, settings).serve(vec![listener.into()], tasks, shutdown).await;
}

/// Lets what is in flight end, in steps.
async fn drain(server: &Server) {
    let settings = server.settings.load();
    let linger = settings.drain_linger.min(settings.drain_max);
    let steps = [
        // Requests that are on their way on open connections are served.
        (Level::Draining, linger),
        (Level::Finishing, settings.drain_max - linger),
        (Level::Closing, CLOSE_MAX),
    ];
    for (level, limit) in steps {
        if level == Level::Closing {
            // First: what is polled because of the phase finds its end.
            server.front.end_calls();
        }
        server.phase.set(level);
        if tokio::time::timeout(limit, server.connections.timely_ended()).await.is_ok() {
            return;
        }
    }
    tracing::warn!(left = server.connections.len(), "connections outlived the shutdown");
    server.phase.set(Level::Aborting);
    server.connections.timely_ended().await;
}
