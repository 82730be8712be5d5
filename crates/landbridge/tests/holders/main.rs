//! Who holds a call, and what becomes of it: every row of the table that one server and one era can reach.
//!
//! What happens at the server is seen through the fixture's own counts, over a connection of the same gateway or
//! straight at the fixture.

#[path = "../order/client.rs"]
mod client;

mod cancel;
mod deadline;
mod lost;
mod session;

use std::net::SocketAddr;

use client::{Client, LEGACY, Server};
use serde_json::json;

/// A client of the fixture itself, past the gateway.
async fn straight(server: &Server) -> Direct {
    let address = server.peer.as_ref().expect("the fixture serves HTTP").address;
    Direct::connect(address).await
}

/// Reads the fixture's counts without the gateway.
struct Direct {
    http: lb_peers::raw::RawHttp,
    headers: lb_peers::raw::http::Headers,
}

impl Direct {
    async fn connect(address: SocketAddr) -> Self {
        let mut http = lb_peers::raw::RawHttp::connect(address).await.expect("the fixture listens");
        let session = http.initialize("/mcp", LEGACY).await.expect("a session");
        Self { http, headers: session.headers() }
    }

    /// How often a tool was started, finished and cancelled.
    async fn counts(&mut self, tool: &str) -> [u64; 3] {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "counters" } });
        let answer = self.http.post("/mcp", &self.headers, body.to_string().as_bytes()).await.expect("an answer");
        let answer: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
        let one = &answer["result"]["structuredContent"][tool];
        ["started", "finished", "cancelled"].map(|what| one[what].as_u64().unwrap_or(0))
    }

    /// Waits until the counts of `sleep` are these.
    async fn await_sleep(&mut self, want: [u64; 3], within: std::time::Duration) {
        let start = tokio::time::Instant::now();
        loop {
            let counts = self.counts("sleep").await;
            if counts == want {
                return;
            }
            assert!(start.elapsed() < within, "{counts:?}, not {want:?} within {within:?}");
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
}

/// A call that outlasts every test unless it is ended.
fn long_sleep() -> serde_json::Value {
    json!({ "name": "sleep", "arguments": { "ms": 60_000 } })
}

/// Starts the long call on a further connection and waits until the server runs it.
async fn started(client: &mut Client) -> (Client, serde_json::Value) {
    let before = client.counts("sleep").await[0];
    let mut calling = client.again().await;
    let id = calling.send("tools/call", long_sleep()).await;
    let start = tokio::time::Instant::now();
    while client.counts("sleep").await[0] == before {
        assert!(start.elapsed().as_secs() < 10, "the call does not start");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    (calling, id)
}
