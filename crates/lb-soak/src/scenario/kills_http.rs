//! A server elsewhere is killed in the middle of streams and comes back: as for children, one error for each call.

use std::path::PathBuf;
use std::time::Duration;

use lb_peers::harness::HttpPeer;
use serde_json::json;

use super::{Setup, Size};
use crate::caller::{Caller, Way};
use crate::history::{How, Measure, Must};
use crate::jobs::Job;
use crate::load::{Load, end};
use crate::world::Ground;

const LONG_MS: u64 = 30_000;
const REPORTS: u64 = 3_000;
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs it.
pub async fn run(setup: Setup, size: Size, seed: u64) -> PathBuf {
    let ground = Ground::new(&setup, "R5", seed);
    let mut victim = ground.remote(0, &[]).await;
    let other = ground.remote(0, &[]).await;
    let servers = json!({ "victim": { "url": victim.url() }, "other": { "url": other.url() } });
    let mut world = ground.build(servers, &[], &[]).await;
    world.peers.push(other);
    let mut callers = Vec::new();
    for way in [Way::HttpLegacy, Way::HttpModern] {
        callers.push(world.caller(way, "victim", "victim").await);
    }
    let bystanders = vec![world.caller(Way::HttpLegacy, "other", "bystander").await];
    let load = Load::start(bystanders, Job::QUICK, Duration::from_millis(10));
    let mut kills = 0;
    for _ in size.turns(50, 1_000) {
        kills += 1;
        let fresh = strike(&mut callers, &world.ground, victim).await;
        victim = fresh;
        for caller in &mut callers {
            caller.call(Job::QUICK).await;
        }
    }
    let history = world.history().clone();
    end(load.stop().await.0).await;
    end(callers).await;
    history.count("kills", kills);
    // Some calls report, some do not; each has one error for each kill.
    history.bound(Measure::Calls { client: "victim".to_owned(), how: How::Error }, 2 * kills, 2 * kills);
    history.bound(Measure::Slowest { how: How::Error }, 0, 20_000);
    world.peers.push(victim);
    world.close().await
}

/// All call, the server is killed once it works for all of them, and another takes its place.
async fn strike(callers: &mut [Caller], ground: &Ground, mut victim: HttpPeer) -> HttpPeer {
    let mut open = Vec::new();
    for caller in callers.iter_mut() {
        open.push(caller.send(Job::QUICK.taking(LONG_MS).reporting(REPORTS).must(Must::Fail)).await);
    }
    for call in &open {
        ground.ledger.entry(&call.marker, PATIENCE).await;
    }
    ground.history.fault(format!("kill server {:?}", victim.child.id()));
    let port = victim.address.port();
    victim.child.kill().await.expect("it was there");
    for (caller, call) in callers.iter_mut().zip(open) {
        caller.finish(call).await;
    }
    ground.remote(port, &[]).await
}
