//! Nodes on one store, and a client that goes to any of them.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lb_peers::harness::Gateway;
use lb_peers::raw::RawHttp;
use lb_peers::raw::http::Session;
use serde_json::{Value, json};
use tokio::process::Command;

pub const LANDBRIDGE: &str = env!("CARGO_BIN_EXE_landbridge");
/// What everything on a server is sealed with.
pub const KEY: &str = "0123456789abcdef0123456789abcdef-nodes";
/// How long a test waits for something to happen.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// With a door for the other nodes.
pub const DOOR: &[&str] = &["--node-listen", "127.0.0.1:0"];

/// Starts a process on this store.
pub async fn start(store: &str, args: &[&str]) -> Gateway {
    start_with(store, &json!({}), args).await
}

/// Starts a process with these servers on this store.
pub async fn start_with(store: &str, servers: &Value, args: &[&str]) -> Gateway {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("mcp.json");
    std::fs::write(&config, json!({ "mcpServers": servers }).to_string()).expect("written");
    let mut command = Command::new(LANDBRIDGE);
    command.args(["serve", "--listen", "127.0.0.1:0", "--durability", "event", "--store", store, "--config"]);
    command.arg(config).args(args).env("LANDBRIDGE_KEY", KEY).stdin(Stdio::null());
    Gateway::launch(command, folder).await
}

/// What a process says that does not start on this store.
pub async fn refused(store: &str, args: &[&str]) -> String {
    let mut command = Command::new(LANDBRIDGE);
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", store]).args(args).env("LANDBRIDGE_KEY", KEY);
    let output = tokio::time::timeout(PATIENCE, command.stdin(Stdio::null()).kill_on_drop(true).output()).await;
    let output = output.expect("it ends").expect("it runs");
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Ends a process as the system does that is out of memory.
pub async fn kill(mut gateway: Gateway) {
    gateway.child().kill().await.expect("it is ours");
}

/// Ids differ over all clients of one test.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A session, wherever it is.
pub struct Client {
    session: Session,
    /// Whom a proxy says that the requests come from.
    pub from: Option<Ipv4Addr>,
}

impl Client {
    /// Begins a session at a node.
    pub async fn begin(at: SocketAddr) -> Self {
        let mut http = RawHttp::connect(at).await.expect("it listens");
        let session = http.initialize("/mcp", "2025-11-25").await.expect("a session");
        assert!(session.id.is_some(), "{}", session.response.text());
        Self { session, from: None }
    }

    /// Calls a tool at a node; the status, and what it answered.
    pub async fn call(&self, at: SocketAddr, tool: &str, arguments: Value) -> (u16, String) {
        let params = json!({ "name": tool, "arguments": arguments });
        // Calls of one session may run at the same time.
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string();
        let mut headers = self.session.headers();
        headers.extend(self.from.map(|from| ("X-Forwarded-For".to_owned(), from.to_string())));
        let mut http = RawHttp::connect(at).await.expect("it listens");
        let answer = http.post("/mcp", &headers, call.as_bytes()).await.expect("an answer");
        (answer.head.status(), answer.text())
    }

    /// Sets a timer that does not expire.
    pub async fn remember(&self, at: SocketAddr, word: &str) {
        let (status, text) = self.call(at, "set_timer", json!({ "duration_ms": 3_600_000, "message": word })).await;
        assert!(status == 200 && text.contains("timer"), "{status} {text}");
    }

    /// The timers at a node.
    pub async fn timers(&self, at: SocketAddr) -> (u16, String) {
        self.call(at, "list_timers", json!({})).await
    }

    /// Asks a node until it answers.
    pub async fn timers_soon(&self, at: SocketAddr) -> (String, Duration) {
        let began = Instant::now();
        loop {
            let (status, text) = self.timers(at).await;
            if status == 200 {
                return (text, began.elapsed());
            }
            assert!(status == 503 && began.elapsed() < PATIENCE, "{status} {text}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
