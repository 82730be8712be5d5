//! Everything that can come and go does: sessions of both surfaces, ended or left to themselves, servers that are added
//! and removed, events, traces, and strangers from ever new addresses. What they took is given back, and memory does not
//! grow with their number.

mod guests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use self::guests::{Strangers, sessions_of_tools};
use super::{Setup, Size};
use crate::caller::{Caller, Door, Way};
use crate::history::{History, Measure, Quantity};
use crate::jobs::Job;
use crate::random::Random;
use crate::watch::connections;
use crate::world::{Ground, World};

const WARM_UP: Duration = Duration::from_secs(10);
const SETTLE_MAX: Duration = Duration::from_secs(20);
/// Sessions that nobody ends are soon over; strangers are known by what the proxy, which is us, says of them.
const ARGS: &[&str] = &["--session-ttl", "2s", "--cleanup-interval", "500ms", "--trusted-proxies", "127.0.0.1"];
/// More addresses than the limiter remembers, 65,536, so that it is full before anything is measured; and so many more
/// that the table it writes to has just been made larger, with room for all who come while it is.
const ADDRESSES: u64 = 80_000;
/// What is counted.
const SESSIONS: &str = "sessions";
const DESCRIPTORS: &str = "growth of descriptors from warm to settled, idle connections to servers apart";
const STRANGERS: &str = "addresses that came";

/// Runs it.
pub async fn run(setup: Setup, size: Size, seed: u64) -> PathBuf {
    let time = size.time(60, 3_600);
    let ground = Ground::new(&setup, "R18", seed);
    let remote = ground.remote(0, &[]).await;
    let servers = json!({ "child": ground.child(&json!({})), "remote": { "url": remote.url() } });
    let mut world = ground.build(servers, ARGS, &[]).await;
    let (url, strangers) = (remote.url(), Arc::new(Strangers::new(world.gateway.address)));
    let port = remote.address.port();
    world.peers.push(remote);
    world.watch.phase("warming");
    strangers.come(ADDRESSES).await;
    churn(&mut world, &url, &strangers, WARM_UP).await;
    settle(&world).await;
    world.watch.phase("warm");
    let before = (descriptors(&world, port), world.processes());
    world.watch.phase("churn");
    let count = churn(&mut world, &url, &strangers, time).await;
    world.watch.phase("leaving");
    settle_to(&world, port, before).await;
    world.watch.phase("settled");
    let more = descriptors(&world, port) as i64 - before.0 as i64;
    world.history().count(DESCRIPTORS, more);
    world.history().bound_count(DESCRIPTORS, i64::MIN, 4);
    judge(&world, time, count, strangers.count());
    world.close().await
}

fn judge(world: &World, time: Duration, count: u64, strangers: u64) {
    let history = world.history();
    history.note(format!("{count} sessions in {time:?}, {:.0} a second", count as f64 / time.as_secs_f64()));
    let sessions = i64::try_from(count).unwrap_or(i64::MAX);
    history.count(SESSIONS, sessions);
    history.count(STRANGERS, i64::try_from(strangers).unwrap_or(i64::MAX));
    history.bound_count(STRANGERS, i64::try_from(ADDRESSES).unwrap_or(0), i64::MAX);
    let grown = |of| Measure::Growth { of, from: "warm".to_owned(), to: "settled".to_owned() };
    history.bound(grown(Quantity::Processes), i64::MIN, 0);
    history.bound(grown(Quantity::RssKib), i64::MIN, 8 << 10);
    // A kibibyte that each session left behind would be twice as steep as this.
    let a_minute = sessions * 60 / i64::try_from(time.as_secs()).unwrap_or(1).max(1);
    let (of, phase) = (Quantity::RssKib, "churn".to_owned());
    history.bound(Measure::Steady { of, phase: phase.clone() }, i64::MIN, a_minute / 2);
    // The whole of it, with what grows for once.
    history.bound(Measure::PerMinute { of, phase }, i64::MIN, (a_minute / 2).max(8 << 10));
}

/// Three clients of a server elsewhere, one whose sessions each have a process, two of the tools, and strangers all the
/// while: how many sessions there were.
async fn churn(world: &mut World, url: &str, strangers: &Arc<Strangers>, time: Duration) -> u64 {
    let mut tasks = JoinSet::new();
    for (number, server) in ["remote", "remote", "remote", "child"].into_iter().enumerate() {
        let (door, history) = (world.door(), world.history().clone());
        let random = world.ground.random.fork();
        tasks.spawn(come_and_go(door, history, server, number, random, time));
    }
    for _ in 0..2 {
        tasks.spawn(sessions_of_tools(world.gateway.address, url.to_owned(), world.ground.random.fork(), time));
    }
    let strangers = strangers.clone();
    tasks.spawn(async move {
        strangers.trickle(time).await;
        0
    });
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
        // Every other call is answered by a stream, whose events are kept.
        caller.call(if count % 2 == 0 { Job::QUICK.reporting(5) } else { Job::QUICK }).await;
        caller.end().await;
    }
    count
}

/// Descriptors beside the connections to the server elsewhere: idle ones are kept for a minute, and there is a bound to
/// them that has nothing to do with sessions.
fn descriptors(world: &World, port: u16) -> usize {
    world.fds().saturating_sub(connections(port))
}

/// Until no process of a session is there any more.
async fn settle(world: &World) {
    let start = Instant::now();
    while 0 < world.processes() && start.elapsed() < SETTLE_MAX {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Connections that clients left a moment ago are closed by then, and sessions that were left to themselves are over.
    tokio::time::sleep(Duration::from_secs(3)).await;
}

async fn settle_to(world: &World, port: u16, (fds, processes): (usize, usize)) {
    let start = Instant::now();
    let too_many = || fds + 4 < descriptors(world, port) || processes < world.processes();
    while too_many() && start.elapsed() < SETTLE_MAX {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // As above: what was left to itself is over.
    tokio::time::sleep(Duration::from_secs(3)).await;
}
