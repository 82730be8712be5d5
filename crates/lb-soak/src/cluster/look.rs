//! What a node says of itself: how many requests it sent on, and which sessions it has.

use std::net::SocketAddr;
use std::time::Duration;

use lb_peers::raw::RawHttp;
use serde_json::Value;

/// How long a node may take to say it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Requests that only one node could answer, and those of them that another one had sent on to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// All of them.
    pub all: u64,
    /// Those that came to a node which sent them on.
    pub forwarded: u64,
}

impl Sent {
    /// How many in a hundred were sent on.
    pub fn percent(self) -> i64 {
        i64::try_from(self.forwarded * 100 / self.all.max(1)).unwrap_or(i64::MAX)
    }

    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Self { all: self.all + other.all, forwarded: self.forwarded + other.forwarded }
    }
}

/// How many requests a node has sent on since it started.
pub async fn forwarded(node: SocketAddr) -> Option<u64> {
    let page = page(node, "/metrics").await?;
    let line = page.lines().find_map(|line| line.strip_prefix("landbridge_forwarded_total "))?;
    line.trim().parse().ok()
}

/// The sessions that a node has, by the names that operators see.
pub async fn sessions(node: SocketAddr) -> Option<Vec<String>> {
    let page: Value = serde_json::from_str(&page(node, "/sessions").await?).ok()?;
    page["sessions"].as_array()?.iter().map(|session| session["id"].as_str().map(str::to_owned)).collect()
}

async fn page(node: SocketAddr, path: &str) -> Option<String> {
    let asked = async {
        let mut http = RawHttp::connect(node).await?;
        http.patience = PATIENCE;
        http.request("GET", path, &Vec::new(), b"").await
    };
    let response = tokio::time::timeout(PATIENCE, asked).await.ok()?.ok()?;
    (response.head.status() == 200).then(|| response.text())
}
