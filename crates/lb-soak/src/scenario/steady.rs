//! Calls at a steady rate, and far too many of them.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

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

/// More clients than there may be calls: what is taken on ends, the rest is told to come again, and then all is well.
pub async fn overload(setup: Setup, size: Size, seed: u64) -> PathBuf {
    let time = size.time(10, 60);
    let mut world = world(&setup, "R3", seed).await;
    let before = callers(&mut world, 12).await;
    let (before, most) = Load::saturate(before, Job::QUICK, WARM_UP).await;
    let slow = Job::QUICK.taking(200).must(Must::ServeOrShed);
    let mut crowd = Vec::new();
    for number in 0..CROWD {
        crowd.push(world.caller(Way::HttpModern, "remote", &format!("crowd{number}")).await);
    }
    world.history().note(format!("{most:.0} calls/s at most; {} calls/s wanted", CROWD * 5));
    let (crowd, _) = Load::saturate(crowd, slow, time).await;
    end(crowd).await;
    // Five seconds are promised.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (before, again) = Load::saturate(before, Job::QUICK, WARM_UP).await;
    end(before).await;
    let history = world.history().clone();
    history.note(format!("{again:.0} calls/s afterwards"));
    history.count("calls/s afterwards in % of before", (again / most.max(1.0) * 100.0) as i64);
    history.bound_count("calls/s afterwards in % of before", 10, i64::MAX);
    history.bound(Measure::Calls { client: "crowd".to_owned(), how: How::Shed }, 1, i64::MAX);
    history.bound(Measure::Calls { client: "crowd".to_owned(), how: How::Result }, 1, i64::MAX);
    world.close().await
}

/// Twice as many as may be answered at one time.
const CROWD: u32 = 2_048;

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
