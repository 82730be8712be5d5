//! Calls at a steady rate, and far too many of them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use super::{Setup, Size};
use crate::caller::{Caller, Way};
use crate::history::{How, Measure, Must, Quantity};
use crate::jobs::Job;
use crate::load::{Load, end};
use crate::world::{Ground, World};

const WARM_UP: Duration = Duration::from_secs(4);

/// At 70 % of what it can do: no errors, and memory stays where it is.
pub async fn steady(setup: Setup, size: Size, seed: u64) -> PathBuf {
    let time = size.time(20, 600);
    let mut world = world(&setup, "R2", seed).await;
    let callers = callers(&mut world, 12).await;
    let (callers, most) = Load::saturate(callers, Job::QUICK, WARM_UP).await;
    let rate = most * 0.7;
    world.history().note(format!("{most:.0} calls/s at most, {rate:.0} calls/s for {time:?}"));
    world.watch.phase("settling");
    let callers = Load::at_rate(callers, Job::QUICK, rate, WARM_UP).await;
    world.watch.phase("steady");
    let callers = Load::at_rate(callers, Job::QUICK, rate, time).await;
    world.watch.phase("after");
    end(callers).await;
    let phase = "steady".to_owned();
    // The longer it is watched, the less there is of chance in it: from 8 MiB in a third of a minute on.
    let slope = ((8 << 10) * 20 / i64::try_from(time.as_secs()).unwrap_or(20).max(1)).max(512);
    world.history().bound(Measure::PerMinute { of: Quantity::RssKib, phase }, i64::MIN, slope);
    world.close().await
}

/// More clients than there may be calls: what is taken on ends soon, the rest is told at once to come again, and then all
/// is well.
pub async fn overload(setup: Setup, size: Size, seed: u64) -> PathBuf {
    let time = size.time(10, 60);
    let mut world = world(&setup, "R3", seed).await;
    let before = callers(&mut world, 12).await;
    let (before, most) = Load::saturate(before, Job::QUICK, WARM_UP).await;
    let long = Job::QUICK.taking(LONG_MS).must(Must::ServeOrShed);
    let (before, alone) = crowded(before, long, WARM_UP).await;
    let mut crowd = Vec::new();
    for number in 0..CROWD {
        crowd.push(world.caller(Way::HttpModern, "remote", &format!("crowd{number}")).await);
    }
    let (crowd, among_many) = crowded(crowd, long, time).await;
    end(crowd).await;
    // Five seconds are promised.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (before, again) = Load::saturate(before, Job::QUICK, WARM_UP).await;
    end(before).await;
    let history = world.history().clone();
    history.note(format!("{most:.0} calls/s at most, {again:.0} afterwards; alone {alone}, of {CROWD} {among_many}"));
    history.count("calls/s afterwards in % of before", (again / most.max(1.0) * 100.0) as i64);
    history.bound_count("calls/s afterwards in % of before", 10, i64::MAX);
    history.bound(Measure::Calls { client: "crowd".to_owned(), how: How::Shed }, 1, i64::MAX);
    history.bound(Measure::Calls { client: "crowd".to_owned(), how: How::Result }, 1, i64::MAX);
    // Four times as long as alone is promised, and the long form asks for that. The queue is made for it: all are at one
    // server here, where 160 calls wait for 64 places, so that the last takes 3.5 times as long. The short form runs
    // beside all other tests, where a bound in time is ten times as wide as the promise; ten times as long as alone
    // is closer than that, and still tells a queue of another size from a slow machine.
    history.count("p99 of served calls, ms", among_many.served_ms);
    history.bound_count("p99 of served calls, ms", LONG_MS as i64, size.pick(10, 4) * alone.served_ms);
    // 50 ms are promised; ten times as much, with the clients and other tests on the same cores.
    history.count("p99 of refusals, ms", among_many.refused_ms);
    history.bound_count("p99 of refusals, ms", 0, 500);
    world.close().await
}

/// Twice as many as may be answered at one time.
const CROWD: u32 = 2_048;
/// Long enough that as many as may be answered at one time are not more than the machine can do.
const LONG_MS: u64 = 2_000;
/// How long whoever is refused stays away. All of them at once in a circle would measure each other.
const AWAY: Duration = Duration::from_secs(2);

/// What 99 of 100 calls did not exceed, by their end.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    served_ms: i64,
    refused_ms: i64,
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "p99 {} ms served, {} ms refused", self.served_ms, self.refused_ms)
    }
}

/// Calls for some time, as clients do that come again when they are told to.
async fn crowded(callers: Vec<Caller>, job: Job, time: Duration) -> (Vec<Caller>, Times) {
    let (start, count) = (Instant::now(), callers.len().max(1));
    let mut tasks = JoinSet::new();
    for (number, mut caller) in callers.into_iter().enumerate() {
        // Not all in the same moment, which would be about the clients' own way to the door.
        let first = AWAY.mul_f64(number as f64 / count as f64);
        tasks.spawn(async move {
            let mut ended = Vec::new();
            tokio::time::sleep(first).await;
            while start.elapsed() < time {
                let begun = Instant::now();
                let how = caller.call(job).await;
                ended.push((how, i64::try_from(begun.elapsed().as_millis()).unwrap_or(i64::MAX)));
                if how == How::Shed {
                    tokio::time::sleep(AWAY).await;
                }
            }
            (caller, ended)
        });
    }
    let (callers, ended): (Vec<_>, Vec<_>) = tasks.join_all().await.into_iter().unzip();
    let ended: Vec<(How, i64)> = ended.into_iter().flatten().collect();
    (callers, Times { served_ms: worst(&ended, How::Result), refused_ms: worst(&ended, How::Shed) })
}

fn worst(ended: &[(How, i64)], wanted: How) -> i64 {
    let mut times: Vec<i64> = ended.iter().filter(|(how, _)| *how == wanted).map(|(_, ms)| *ms).collect();
    times.sort_unstable();
    times.get(times.len() * 99 / 100).copied().unwrap_or(0)
}

async fn world(setup: &Setup, name: &str, seed: u64) -> World {
    let ground = Ground::new(setup, name, seed);
    let remote = ground.remote(0, &[]).await;
    let servers = json!({ "child": ground.child(&json!({})), "remote": { "url": remote.url() } });
    let mut world = ground.build(servers, &[], &[]).await;
    world.peers.push(remote);
    world
}

/// Of both eras, on both kinds of servers.
async fn callers(world: &mut World, count: usize) -> Vec<Caller> {
    let kinds = [
        (Way::HttpLegacy, "child"),
        (Way::HttpModern, "remote"),
        (Way::HttpModern, "child"),
        (Way::HttpLegacy, "remote"),
    ];
    let mut callers = Vec::new();
    for (number, (way, server)) in kinds.iter().cycle().take(count).enumerate() {
        callers.push(world.caller(*way, server, &format!("c{number}")).await);
    }
    callers
}
