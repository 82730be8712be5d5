//! What an operator can set about the HTTP side.

use std::sync::Arc;
use std::time::Duration;

use crate::pages::Pages;

/// Further members of `/health`, such as the number of sessions.
pub type HealthSource = Arc<dyn Fn() -> Vec<(&'static str, serde_json::Value)> + Send + Sync>;

/// Limits, times and names of the HTTP side.
#[derive(Clone)]
pub struct Settings {
    /// Where the protocol is served; everything else hangs below it.
    pub mcp_path: String,
    /// Hosts under which we may be addressed, without port, in lower case.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may call us, beside those on our own host or on loopback; `*` for any.
    pub allowed_origins: Vec<String>,
    /// The largest body.
    pub body_bytes_max: usize,
    /// How long a body may take to arrive.
    pub body_read_max: Duration,
    /// How long the head of a request may take to arrive, from its first byte.
    pub head_read_max: Duration,
    /// How long a connection may be idle.
    pub idle_max: Duration,
    /// How long a client may refuse to take what we write.
    pub write_stall_max: Duration,
    /// How long requests may go on after the shutdown began.
    pub drain_max: Duration,
    /// Connections at one time; further ones are closed at once.
    pub connections_max: usize,
    /// How long clients of a stream that we close shall wait before they come back.
    pub retry_after: Duration,
    /// What `/health` says beside the usual.
    pub health: Option<HealthSource>,
    /// Pages for operators; only for those who need no login.
    pub pages: Vec<Pages>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mcp_path: "/mcp".into(),
            allowed_hosts: vec!["localhost".into(), "127.0.0.1".into(), "[::1]".into()],
            allowed_origins: Vec::new(),
            body_bytes_max: 4 << 20,
            body_read_max: Duration::from_secs(30),
            head_read_max: Duration::from_secs(10),
            idle_max: Duration::from_secs(75),
            write_stall_max: Duration::from_secs(30),
            drain_max: Duration::from_secs(10),
            connections_max: 10_000,
            retry_after: Duration::from_secs(3),
            health: None,
            pages: Vec::new(),
        }
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").field("mcp_path", &self.mcp_path).finish_non_exhaustive()
    }
}
