//! A gateway with the fixture server behind it, and the proof that it is well afterwards.

use std::time::Duration;

use lb_peers::harness::{Gateway, HttpPeer, peer};
use lb_peers::raw::RawHttp;
use lb_peers::raw::http::Session;
use serde_json::json;

pub const LANDBRIDGE: &str = env!("CARGO_BIN_EXE_landbridge");
/// Where the fixture is.
pub const PATH: &str = "/mcp/server/it";
/// How long any one answer may take.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// What bad input may leave behind in memory, in KiB.
const GROWTH_MAX: u64 = 64 * 1024;

pub struct World {
    pub gateway: Gateway,
    rss_at_start: u64,
    _fixture: HttpPeer,
}

impl World {
    /// A gateway that has served a first session.
    pub async fn start() -> Self {
        let fixture = HttpPeer::start(&peer(LANDBRIDGE, "fixture"), &[]).await;
        let gateway = Gateway::serve(LANDBRIDGE, json!({ "it": { "url": fixture.url() } })).await;
        let mut world = Self { gateway, rss_at_start: 0, _fixture: fixture };
        world.works().await;
        world.rss_at_start = rss(world.gateway.pid());
        world
    }

    pub async fn connect(&self) -> RawHttp {
        let mut http = RawHttp::connect(self.gateway.address).await.expect("it listens");
        http.patience = PATIENCE;
        http
    }

    /// A new client on a new connection is served.
    pub async fn works(&self) {
        let mut http = self.connect().await;
        let session = http.initialize(PATH, "2025-11-25").await.expect("a session");
        echo(&mut http, &session, "still here").await;
        let ended = http.request("DELETE", PATH, &session.headers(), b"").await.expect("an answer");
        assert_eq!(ended.head.status(), 200, "{}", ended.text());
    }

    /// Checks that all is well.
    pub async fn end(self) {
        self.works().await;
        assert_calm(&self.gateway.said());
        let grown = rss(self.gateway.pid()).saturating_sub(self.rss_at_start);
        eprintln!("resident memory: {} KiB at first, {grown} KiB more now", self.rss_at_start);
        assert!(grown < GROWTH_MAX, "resident memory has grown by {grown} KiB");
    }
}

/// A call that must be answered as always.
pub async fn echo(http: &mut RawHttp, session: &Session, text: &str) {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":"good","method":"tools/call","params":{{"name":"echo","arguments":{{"message":"{text}"}}}}}}"#
    );
    let want = format!(r#"{{"jsonrpc":"2.0","id":"good","result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#);
    let answer = http.post(PATH, &session.headers(), body.as_bytes()).await.expect("a good request is answered");
    let events = answer.events();
    let said = if answer.head.is_sse() { events.last().expect("an event").text() } else { answer.text() };
    assert_eq!((answer.head.status(), said), (200, want));
}

/// Nobody panicked.
pub fn assert_calm(stderr: &str) {
    assert!(!stderr.contains("panicked") && !stderr.contains("overflow"), "stderr says:\n{stderr}");
}

/// Resident memory in KiB.
pub fn rss(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// How many inputs: the usual number, or ten times as many.
pub fn times(usual: u64) -> u64 {
    if std::env::var_os("LANDBRIDGE_LONG").is_some() { usual * 10 } else { usual }
}
