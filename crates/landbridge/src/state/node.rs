//! How other nodes reach this one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lb_config::settings::Settings;
use lb_exchange::{Secret, Tasks};
use lb_http::{Listener, NodeClock, NodeKeys, NodeSettings, Place, Tls};
use lb_store::Store;

use crate::run::Failure;

/// A listener for other nodes, and what they call it.
pub struct NodeDoor {
    /// The listener.
    pub listener: Listener,
    /// What the HTTP side is told, its URL among that.
    pub settings: NodeSettings,
}

impl NodeDoor {
    /// Listens where the settings say; `None` where they say nothing.
    ///
    /// # Errors
    /// It cannot listen there, or nobody could call it by that address.
    pub async fn open(settings: &Settings, keys: &[Secret], tls: Option<&Tls>) -> Result<Option<Self>, Failure> {
        let node = &settings.state.node;
        let (Some(listen), [first, rest @ ..]) = (&node.listen, keys) else { return Ok(None) };
        let keys = NodeKeys::derive(first.expose().as_bytes(), rest.first().map(|key| key.expose().as_bytes()));
        let mut door = NodeSettings {
            listen: Place::Tcp(listen.clone()),
            url: node.url.clone(),
            keys,
            insecure: node.insecure,
            authorities: node.ca.clone(),
            together: None,
            clock: Arc::default(),
        };
        let bound = Listener::bind_for_nodes(&door).await;
        let listener =
            bound.map_err(|error| Failure::runtime(format!("cannot listen for nodes on {listen}: {error}")))?;
        // Whoever calls it by https without anything in between meets our own certificate.
        let speaks_tls = node.url.as_ref().is_some_and(|url| url.starts_with("https://"));
        let listener = match tls {
            Some(tls) if speaks_tls => listener.with_tls(tls.clone()),
            _ => listener,
        };
        if door.url.is_none() {
            door.url = Some(url_of(listener.address())?);
        }
        Ok(Some(Self { listener, settings: door }))
    }
}

fn url_of(address: Option<SocketAddr>) -> Result<String, Failure> {
    match address {
        Some(address) if !address.ip().is_unspecified() => Ok(format!("http://{address}")),
        _ => Err(Failure::usage(
            "--node-listen is every address: say with --node-url by which of them other nodes call it",
        )),
    }
}

/// How often the clock of the store is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How long that may take.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// Keeps to the clock of the store where nodes speak to each other: that of a machine may be wrong by hours.
pub async fn keep_time(store: &Arc<dyn Store>, clock: &Arc<NodeClock>, tasks: &Tasks) {
    look(store, clock).await;
    let (store, clock, until) = (store.clone(), clock.clone(), tasks.clone());
    tasks.spawn(async move {
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => look(&store, &clock).await,
                () = until.stopping() => return,
            }
        }
    });
}

async fn look(store: &Arc<dyn Store>, clock: &NodeClock) {
    // While it does not answer, what was seen last is counted on.
    if let Ok(Ok(Some(time))) = tokio::time::timeout(LOOK_MAX, store.time()).await {
        clock.set(time);
    }
}
