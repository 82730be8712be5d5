//! Sessions of the surface of tools, and strangers from ever new addresses.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lb_peers::raw::RawHttp;
use lb_peers::raw::http::{Session, headers};
use serde_json::{Value, json};

use crate::jobs::UNCOUNTED;
use crate::random::Random;

const TOOLS: &str = "/mcp/tools";
const PATIENCE: Duration = Duration::from_secs(30);
/// Strangers that ask before the first of them is answered.
const AT_ONCE: u64 = 100;
/// Between strangers while others work: less than two hundred a second.
const TRICKLE: Duration = Duration::from_millis(20);
const TRICKLE_EACH: u64 = 3;

/// Opens sessions of tools one after the other and uses them; every fourth is left to itself instead of being ended.
pub async fn sessions_of_tools(address: SocketAddr, url: String, mut random: Random, time: Duration) -> u64 {
    let (start, mut count) = (Instant::now(), 0);
    while start.elapsed() < time {
        count += 1;
        let name = format!("s{:x}", random.bits() >> 24);
        if let Err(problem) = one_session(address, &url, &name, count).await {
            panic!("session {count} of tools: {problem}");
        }
    }
    count
}

async fn one_session(address: SocketAddr, url: &str, name: &str, number: u64) -> std::io::Result<()> {
    let mut wire = RawHttp::connect(address).await?;
    wire.patience = PATIENCE;
    let session = wire.initialize(TOOLS, "2025-11-25").await?;
    // Its stream is open as long as it is used.
    let mut stream = RawHttp::connect(address).await?;
    stream.patience = PATIENCE;
    stream.send("GET", TOOLS, &session.headers(), b"").await?;
    stream.head().await?;
    // A trace of a call, an event in the log, and lists of tools.
    let arguments = json!({ "marker": UNCOUNTED });
    call(&mut wire, &session, "execute_tool", &json!({ "server": "remote", "tool": "work", "args": arguments }))
        .await?;
    call(&mut wire, &session, "set_timer", &json!({ "duration_ms": 1, "message": "an event" })).await?;
    call(&mut wire, &session, "list_tools", &json!({ "server": "remote" })).await?;
    if number.is_multiple_of(8) {
        call(&mut wire, &session, "add_server", &json!({ "name": name, "url": url })).await?;
        call(&mut wire, &session, "list_tools", &json!({ "server": name })).await?;
        call(&mut wire, &session, "remove_server", &json!({ "name": name })).await?;
    }
    if !number.is_multiple_of(4) {
        wire.request("DELETE", TOOLS, &session.headers(), b"").await?;
    }
    Ok(())
}

async fn call(wire: &mut RawHttp, session: &Session, tool: &str, arguments: &Value) -> std::io::Result<()> {
    let params = json!({ "name": tool, "arguments": arguments });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    let response = wire.post(TOOLS, &session.headers(), body.as_bytes()).await?;
    let text = response.text();
    if response.head.status() == 200 && text.contains("\"result\"") && !text.contains("\"isError\":true") {
        return Ok(());
    }
    Err(std::io::Error::other(format!("{tool}: {} {text}", response.head.start)))
}

/// Requests that are refused, each from an address that was never seen before.
#[derive(Debug)]
pub struct Strangers {
    gateway: SocketAddr,
    next: AtomicU32,
}

impl Strangers {
    /// Nobody has come yet.
    pub fn new(gateway: SocketAddr) -> Self {
        Self { gateway, next: AtomicU32::new(0) }
    }

    /// How many have come.
    pub fn count(&self) -> u64 {
        self.next.load(Ordering::Relaxed).into()
    }

    /// So many come, one behind the other.
    pub async fn come(&self, count: u64) {
        let mut wire = RawHttp::connect(self.gateway).await.expect("the gateway listens");
        wire.patience = PATIENCE;
        let mut left = count;
        while 0 < left {
            let some = left.min(AT_ONCE);
            left -= some;
            for _ in 0..some {
                // Of 11.0.0.0/8 and on: addresses that are nobody's neighbours.
                let address = Ipv4Addr::from_bits(0x0b00_0000 + self.next.fetch_add(1, Ordering::Relaxed));
                let from = headers(&[("X-Forwarded-For", &address.to_string())]);
                wire.send("GET", "/mcp/server/remote", &from, b"").await.expect("the gateway reads");
            }
            for _ in 0..some {
                let head = wire.head().await.expect("an answer");
                wire.body().await.expect("a body");
                let told = head.header("ratelimit-remaining");
                assert_eq!((head.status(), told.is_some()), (400, true), "{head:?}");
            }
        }
    }

    /// Some come now and again.
    pub async fn trickle(&self, time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            self.come(TRICKLE_EACH).await;
            tokio::time::sleep(TRICKLE).await;
        }
    }
}
