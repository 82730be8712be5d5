//! Sessions that go on calling while something goes wrong beside them, and accept no error.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lb_peers::harness::Gateway;
use lb_peers::raw::handshake::Era;
use tokio::task::JoinSet;

use crate::desk::Client;

/// Calls that each of them makes at least.
const CALLS_MIN: u64 = 3;
/// Breath between two calls, so that they disturb but do not starve the others.
const PACE: Duration = Duration::from_millis(20);

/// Clients in tasks of their own.
pub struct Crowd {
    clients: JoinSet<u64>,
    stop: Arc<AtomicBool>,
}

impl Crowd {
    /// One client for each server named; all of them have been answered once when this returns.
    pub async fn gather(gateway: &Gateway, servers: &[(&str, Era)]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = JoinSet::new();
        for (number, (server, era)) in servers.iter().enumerate() {
            let mut client = Client::open(gateway, server, *era).await;
            let name = format!("bystander {number} of {server}");
            client.calm(&name).await;
            clients.spawn(go_on(client, name, stop.clone()));
        }
        Self { clients, stop }
    }

    /// Lets them finish, and fails if any of them saw anything wrong.
    pub async fn leave(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(calls) = self.clients.join_next().await {
            let calls = calls.expect("no bystander sees an error");
            assert!(CALLS_MIN <= calls, "a bystander made only {calls} calls");
        }
    }
}

async fn go_on(mut client: Client, name: String, stop: Arc<AtomicBool>) -> u64 {
    let mut calls = 0;
    while calls < CALLS_MIN || !stop.load(Ordering::Relaxed) {
        client.calm(&format!("{name}, call {calls}")).await;
        calls += 1;
        tokio::time::sleep(PACE).await;
    }
    client.end().await;
    calls
}
