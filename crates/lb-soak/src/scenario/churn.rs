//! Sessions that come and go: what they took is given back.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use super::{Setup, Size};
use crate::caller::{Caller, Door, Way};
use crate::history::{History, Measure, Quantity};
use crate::jobs::Job;
use crate::random::Random;
use crate::world::{Ground, World};

const WARM_UP: Duration = Duration::from_secs(8);
const SETTLE_MAX: Duration = Duration::from_secs(20);

/// Runs it.
pub async fn run(setup: Setup, size: Size, seed: u64) -> PathBuf {
    let time = Duration::from_secs(size.pick(30, 3_600));
    let ground = Ground::new(&setup, "R18", seed);
    let remote = ground.remote(0, &[]).await;
    let servers = json!({ "child": ground.child(&json!({})), "remote": { "url": remote.url() } });
    let mut world = ground.build(servers, &[], &[]).await;
    world.peers.push(remote);
    world.watch.phase("warming");
    churn(&mut world, WARM_UP).await;
    settle(&world).await;
    world.watch.phase("warm");
    let before = (world.fds(), world.processes());
    world.watch.phase("churn");
    let count = churn(&mut world, time).await;
    settle_to(&world, before).await;
    world.watch.phase("settled");
    let history = world.history().clone();
    history.note(format!("{count} sessions in {time:?}, {:.0} a second", count as f64 / time.as_secs_f64()));
    let grown = |of| Measure::Growth { of, from: "warm".to_owned(), to: "settled".to_owned() };
    history.bound(grown(Quantity::Fds), i64::MIN, 4);
    history.bound(grown(Quantity::Processes), i64::MIN, 0);
    history.bound(grown(Quantity::RssKib), i64::MIN, size.pick(8 << 10, 4 << 10));
    history.bound(
        Measure::PerMinute { of: Quantity::RssKib, phase: "churn".to_owned() },
        i64::MIN,
        size.pick(16 << 10, 64),
    );
    world.close().await
}

/// Three clients of a server elsewhere and one whose sessions each have a process: how many sessions there were.
async fn churn(world: &mut World, time: Duration) -> u64 {
    let mut tasks = JoinSet::new();
    for (number, server) in ["remote", "remote", "remote", "child"].into_iter().enumerate() {
        let (door, history) = (world.door(), world.history().clone());
        let random = world.ground.random.fork();
        tasks.spawn(come_and_go(door, history, server, number, random, time));
    }
    tasks.join_all().await.into_iter().sum()
}

async fn come_and_go(
    door: Door,
    history: History,
    server: &'static str,
    number: usize,
    mut random: Random,
    time: Duration,
) -> u64 {
    let (start, mut count) = (Instant::now(), 0);
    while start.elapsed() < time {
        count += 1;
        let label = format!("{server}{number}-{count}");
        let caller = Caller::open(&door, &history, Way::HttpLegacy, server, &label, &mut random).await;
        let mut caller = caller.unwrap_or_else(|error| panic!("{label}: no session: {error}"));
        caller.call(Job::QUICK).await;
        caller.end().await;
    }
    count
}

/// Until no process of a session is there any more.
async fn settle(world: &World) {
    let start = Instant::now();
    while 0 < world.processes() && start.elapsed() < SETTLE_MAX {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Connections that clients left a moment ago are closed by then.
    tokio::time::sleep(Duration::from_secs(1)).await;
}

async fn settle_to(world: &World, (fds, processes): (usize, usize)) {
    let start = Instant::now();
    while (fds + 4 < world.fds() || processes < world.processes()) && start.elapsed() < SETTLE_MAX {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
