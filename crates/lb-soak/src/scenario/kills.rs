//! Servers that are children are killed in the middle of calls: one error for each, and nobody else notices.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;
use tokio::task::JoinSet;

use super::{Setup, Size, Turns};
use crate::caller::{Caller, WAYS, Way};
use crate::history::{How, Measure, Must};
use crate::jobs::{Job, Ledger};
use crate::world::{Ground, World, signal};

/// Longer than any kill takes to come.
const LONG_MS: u64 = 30_000;
/// Some of them come before the kill.
const REPORTS: u64 = 3_000;
/// What is measured.
const SLOWEST: &str = "slowest error after a kill in ms (1000 promised)";
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs it.
pub async fn run(setup: Setup, size: Size, seed: u64) -> PathBuf {
    let turns = size.turns(13, 250);
    let ground = Ground::new(&setup, "R4", seed);
    let servers = json!({ "victim": ground.child(&json!({})), "other": ground.child(&json!({})) });
    let mut world = ground.build(servers, &[], &[]).await;
    let stop = Arc::new(AtomicBool::new(false));
    let bystanders = bystanders(&mut world, &stop).await;
    let ledger = Arc::new(Ledger::follow(&world.ground.ledger));
    let mut victims = JoinSet::new();
    for way in WAYS {
        let caller = world.caller(way, "victim", "victim").await;
        victims.spawn(suffer(caller, ledger.clone(), turns));
    }
    let (mut killed, mut slowest) = (0, 0);
    while let Some(suffered) = victims.join_next().await {
        let (count, after) = suffered.expect("a victim's story ends");
        killed += count;
        slowest = slowest.max(after);
    }
    stop.store(true, Ordering::Relaxed);
    bystanders.join_all().await;
    let history = world.history().clone();
    history.count("kills", killed);
    history.bound_count("kills", 52, i64::MAX);
    // A second from the death of a server to the error of its calls is promised. The bound is ten times as wide, as
    // every bound in time is here, because the machine may be busy; the true figure is printed with it.
    history.count(SLOWEST, slowest);
    history.bound_count(SLOWEST, 0, 10_000);
    history.bound(Measure::Calls { client: "victim".to_owned(), how: How::Error }, killed, killed);
    world.close().await
}

/// Calls, has its server killed while it works, is told so, and calls again. Gives how often, and the longest time from
/// a kill to the error, in milliseconds.
async fn suffer(mut caller: Caller, ledger: Arc<Ledger>, turns: Turns) -> (i64, i64) {
    let (mut killed, mut slowest) = (0, 0);
    for _ in turns {
        let open = caller.send(Job::QUICK.taking(LONG_MS).reporting(REPORTS).must(Must::Fail)).await;
        let pid = ledger.entry(&open.marker, PATIENCE).await;
        let at = Instant::now();
        if let Some(pid) = pid {
            signal(pid, Signal::KILL);
            killed += 1;
        }
        caller.finish(open).await;
        slowest = slowest.max(i64::try_from(at.elapsed().as_millis()).unwrap_or(i64::MAX));
        caller.call(Job::QUICK).await;
    }
    caller.end().await;
    (killed, slowest)
}

/// Clients that accept no error: of another server, and of the same with a process of their own.
async fn bystanders(world: &mut World, stop: &Arc<AtomicBool>) -> JoinSet<()> {
    let mut all = JoinSet::new();
    for (way, server) in [(Way::HttpLegacy, "other"), (Way::HttpModern, "other"), (Way::HttpLegacy, "victim")] {
        let mut caller = world.caller(way, server, "bystander").await;
        let stop = stop.clone();
        all.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                caller.call(Job::QUICK).await;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            caller.end().await;
        });
    }
    all
}
