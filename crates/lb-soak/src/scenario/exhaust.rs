//! No descriptors left: who is inside goes on, who is outside waits, and nothing spins.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use lb_peers::procs;
use serde_json::json;
use tokio::net::TcpStream;

use super::{Setup, Size};
use crate::caller::Way;
use crate::jobs::Job;
use crate::load::{Load, end};
use crate::world::Ground;

const DESCRIPTORS: &str = "--nofile=256:256";
const KNOCKS: usize = 400;

/// Runs it.
pub async fn run(setup: Setup, size: Size, seed: u64) -> PathBuf {
    let ground = Ground::new(&setup, "R16", seed);
    let servers = json!({ "child": ground.child(&json!({})) });
    let mut world = ground.build(servers, &[], &["prlimit", DESCRIPTORS]).await;
    let history = world.history().clone();
    let mut inside = Vec::new();
    for way in [Way::HttpLegacy, Way::HttpModern, Way::HttpLegacy] {
        let mut caller = world.caller(way, "child", "inside").await;
        caller.call(Job::QUICK).await;
        inside.push(caller);
    }
    let mut rounds = 0;
    for _ in size.turns(1, 10) {
        rounds += 1;
        let before = world.fds();
        let outside = knock(world.gateway.address).await;
        let taken = world.fds().saturating_sub(before);
        history.fault(format!("{} came, {taken} are let in, {} descriptors are in use", outside.len(), world.fds()));
        history.count("clients that wait outside", outside.len().saturating_sub(taken) as i64);
        let (callers, _) = Load::saturate(inside, Job::QUICK, Duration::from_secs(2)).await;
        inside = callers;
        // Nothing to do, and no room: who spins now takes a whole core.
        let before = procs::ticks(world.pid);
        tokio::time::sleep(Duration::from_secs(3)).await;
        let percent = (procs::ticks(world.pid) - before) / 3;
        history.note(format!("{percent} % of a core while there is no room"));
        history.count("% of a core, over all rounds", percent as i64);
        drop(outside);
        let mut late = world.caller(Way::HttpModern, "child", "late").await;
        late.call(Job::QUICK).await;
        end(vec![late]).await;
    }
    end(inside).await;
    history.bound_count("clients that wait outside", rounds, i64::MAX);
    history.bound_count("% of a core, over all rounds", 0, 50 * rounds);
    world.close().await
}

/// Connections until there are enough of them, or no more are taken.
async fn knock(address: SocketAddr) -> Vec<TcpStream> {
    let mut outside = Vec::new();
    while outside.len() < KNOCKS {
        match tokio::time::timeout(Duration::from_secs(2), TcpStream::connect(address)).await {
            Ok(Ok(stream)) => outside.push(stream),
            _ => break,
        }
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    outside
}
