//! A server that starts very many processes: none of them outlives it, or us.

use std::time::Duration;

use lb_peers::harness::{Gateway, peer};
use lb_peers::procs;
use lb_peers::raw::RawHttp;
use serde_json::json;
use tokio::time::Instant;

use crate::LANDBRIDGE;
use crate::client::LEGACY;

const LEAVES: usize = 1_000;

/// Starts the leaves, every tenth in a session of its own, and then is a good server.
fn entry(mark: &str) -> serde_json::Value {
    let script = format!(
        "i=0; while [ $i -lt {LEAVES} ]; do \
         if [ $((i % 10)) -eq 0 ]; then setsid sleep 600 & else sleep 600 & fi; i=$((i + 1)); done \
         </dev/null >/dev/null 2>&1; exec {}",
        peer(LANDBRIDGE, "fixture")
    );
    json!({ "command": "sh", "args": ["-c", script], "env": { "LANDBRIDGE_TEST_MARK": mark } })
}

async fn gateway(mark: &str) -> (Gateway, RawHttp) {
    let gateway = Gateway::serve(LANDBRIDGE, json!({ "it": entry(mark) })).await;
    let mut http = RawHttp::connect(gateway.address).await.expect("it listens");
    http.initialize("/mcp/server/it", LEGACY).await.expect("a session");
    procs::until(Duration::from_secs(30), "all leaves", || LEAVES <= procs::marked(mark).len()).await;
    (gateway, http)
}

#[tokio::test]
async fn a_thousand_descendants_are_gone_after_a_stop() {
    let mark = format!("calls-stop-{}", std::process::id());
    let (gateway, _http) = gateway(&mark).await;
    let begun = Instant::now();
    let killed = std::process::Command::new("kill").args(["-TERM", &gateway.pid().to_string()]).status();
    assert!(killed.expect("kill runs").success());
    procs::gone(Duration::from_secs(50), || procs::marked(&mark)).await;
    println!("gone after {:?}", begun.elapsed());
}

#[tokio::test]
async fn a_thousand_descendants_are_gone_after_kill_9_of_the_gateway() {
    let mark = format!("calls-kill-{}", std::process::id());
    let (gateway, _http) = gateway(&mark).await;
    let begun = Instant::now();
    let killed = std::process::Command::new("kill").args(["-KILL", &gateway.pid().to_string()]).status();
    assert!(killed.expect("kill runs").success());
    procs::gone(Duration::from_secs(50), || procs::marked(&mark)).await;
    println!("gone after {:?}", begun.elapsed());
}
