//! The table of tools, held against the real binary over both transports, in both eras.

use std::time::Duration;

use lb_peers::harness::{Gateway, HttpPeer, peer};
use lb_peers::suite::{self, World};
use lb_peers::tools::{Settings, ToolClient};
use serde_json::{Value, json};

use crate::world::BIN;

/// Fewer checks than this mean that a part of the suite did not run.
const CHECKS_MIN: usize = 2_000;
/// A run of the suite takes a few seconds.
const RUN_MAX: Duration = Duration::from_secs(100);

/// The fixture, and a server that has nothing but tools.
fn servers(folder: &tempfile::TempDir) -> Value {
    let record = folder.path().join("record");
    json!({
        "fix": { "command": peer(BIN, "fixture"), "args": ["--era", "legacy"] },
        "plain": { "command": peer(BIN, "recorder"), "args": ["--era", "legacy", "--record", record] },
    })
}

async fn judge(label: &str, client: ToolClient, may_spawn: bool) {
    let peer = HttpPeer::start(&peer(BIN, "fixture"), &["--era", "legacy"]).await;
    let world = World { may_spawn, url: peer.url() };
    let tally = tokio::time::timeout(RUN_MAX, suite::run(&client, &world)).await.expect("the suite ends");
    eprintln!("{label}: {} checks, {} faults", tally.checks, tally.faults.len());
    assert!(tally.faults.is_empty(), "{label}: {} faults:\n{}", tally.faults.len(), tally.faults.join("\n"));
    assert!(CHECKS_MIN <= tally.checks, "{label}: only {} checks ran", tally.checks);
}

#[tokio::test]
async fn every_tool_keeps_its_contract_over_http() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::serve_tools(BIN, servers(&folder), &[]).await;
    judge("http", ToolClient::http(&gateway).await, false).await;
}

#[tokio::test]
async fn every_tool_keeps_its_contract_over_stdio() {
    let folder = tempfile::tempdir().unwrap();
    judge("stdio", ToolClient::stdio(BIN, Some(servers(&folder)), &[]).await, true).await;
}

#[tokio::test]
async fn every_tool_keeps_its_contract_for_modern_clients_over_http() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::serve_tools(BIN, servers(&folder), &[]).await;
    judge("modern http", ToolClient::http_as(&gateway, Settings::modern()).await, false).await;
}

#[tokio::test]
async fn every_tool_keeps_its_contract_for_modern_clients_over_stdio() {
    let folder = tempfile::tempdir().unwrap();
    let client = ToolClient::stdio_as(BIN, Some(servers(&folder)), &[], Settings::modern()).await;
    judge("modern stdio", client, true).await;
}
