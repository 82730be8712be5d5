//! A server elsewhere whose events have ids is killed, or its connections are cut, in the middle of streams: the gateway
//! goes on where it was, and nobody in front of it notices.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lb_peers::harness::HttpPeer;
use serde_json::json;

use super::{Setup, Size};
use crate::caller::{Caller, Manners, Open, Way};
use crate::jobs::Job;
use crate::load::end;
use crate::proxy::{Proxy, Weather};
use crate::world::{Ground, World};

/// A call reports every few milliseconds, for long enough to be struck on the way.
const CALL_MS: u64 = 400;
const REPORTS: u64 = 40;
const PATIENCE: Duration = Duration::from_secs(20);
/// What is counted.
const RESUMED: &str = "streams that the gateway resumed with Last-Event-ID";

/// Runs it.
pub async fn run(setup: Setup, size: Size, seed: u64) -> PathBuf {
    let mut ground = Ground::new(&setup, "R5-resume", seed);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let streams = folder.path().join("streams");
    let mut victim = start(&ground, 0, &streams).await;
    let network = Proxy::start(victim.address, Weather::Calm, ground.random.fork()).await;
    let servers = json!({ "victim": { "url": format!("http://{}/mcp", network.address) } });
    let mut world = ground.build(servers, &[], &[]).await;
    let mut callers = Vec::new();
    for way in [Way::HttpLegacy, Way::HttpModern, Way::StdioLegacy] {
        let mut caller = world.caller(way, "victim", "victim").await;
        caller.manners = Manners { follow: true, ..Manners::default() };
        callers.push(caller);
    }
    let mut strikes = 0;
    for _ in size.part(2).turns(20, 200) {
        strikes += 1;
        let open = under_way(&mut callers, &mut world).await;
        world.history().fault(format!("kill server {:?}", victim.child.id()));
        let port = victim.address.port();
        victim.child.kill().await.expect("it was there");
        victim = start(&world.ground, port, &streams).await;
        finish(&mut callers, open).await;
    }
    for _ in size.part(2).turns(30, 300) {
        strikes += 1;
        let open = under_way(&mut callers, &mut world).await;
        world.history().fault("cut the connections between gateway and server");
        network.cut();
        finish(&mut callers, open).await;
    }
    end(callers).await;
    let history = world.history().clone();
    history.count("strikes", strikes);
    let text = std::fs::read_to_string(&streams).unwrap_or_default();
    history.count(RESUMED, text.lines().filter(|line| line.starts_with("resumed ")).count() as i64);
    // Every strike hits three streams, unless one was quicker.
    history.bound_count(RESUMED, 2 * strikes, i64::MAX);
    world.peers.push(victim);
    let path = world.close().await;
    drop(network);
    path
}

async fn start(ground: &Ground, port: u16, streams: &Path) -> HttpPeer {
    ground.remote(port, &["--era", "legacy", "--streams", &streams.to_string_lossy()]).await
}

/// All call, and some reports have come: from none to most of them.
async fn under_way(callers: &mut [Caller], world: &mut World) -> Vec<Open> {
    let mut open = Vec::new();
    for caller in callers.iter_mut() {
        open.push(caller.send(Job::QUICK.taking(CALL_MS).reporting(REPORTS)).await);
    }
    for call in &open {
        world.ground.ledger.entry(&call.marker, PATIENCE).await;
    }
    let spread = world.ground.random.below(CALL_MS * 3 / 4);
    tokio::time::sleep(Duration::from_millis(spread)).await;
    open
}

async fn finish(callers: &mut [Caller], open: Vec<Open>) {
    for (caller, call) in callers.iter_mut().zip(open) {
        caller.finish(call).await;
        caller.call(Job::QUICK).await;
    }
}
