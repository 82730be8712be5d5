//! A bad network, before the gateway and behind it.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;

use super::{Setup, Size};
use crate::caller::{Caller, Manners, Way};
use crate::history::{How, Measure, Must};
use crate::jobs::Job;
use crate::proxy::{Proxy, Weather};
use crate::world::{Ground, World};

const REPORTS: u64 = 6;

/// Runs it.
pub async fn run(setup: Setup, size: Size, seed: u64) -> PathBuf {
    let calls: u64 = size.pick(200, 5_000);
    let slow = size.pick(40, 200);
    let mut ground = Ground::new(&setup, "R13", seed);
    let remote = ground.remote(0, &[]).await;
    let behind = Proxy::start(remote.address, Weather::Resets(6_000), ground.random.fork()).await;
    let servers = json!({
        "child": ground.child(&json!({})),
        "remote": { "url": remote.url() },
        "shaky": { "url": format!("http://{}/mcp", behind.address) },
    });
    let mut world = ground.build(servers, &[], &[]).await;
    world.peers.push(remote);
    for (name, weather) in
        [("slow", Weather::Slow(slow)), ("sliced", Weather::Slices), ("reset", Weather::Resets(4_000))]
    {
        world.history().fault(format!("{weather:?} between clients and gateway"));
        let random = world.ground.random.fork();
        let proxy = Proxy::start(world.gateway.address, weather, random).await;
        storm(&mut world, name, &proxy, calls, weather).await;
    }
    world.history().fault("resets between gateway and server");
    shaky(&mut world, calls).await;
    let results = |client: &str| Measure::Calls { client: client.to_owned(), how: How::Result };
    let most = i64::try_from(calls).unwrap_or(0);
    let history = world.history().clone();
    history.bound(results("slow"), most, most);
    history.bound(results("sliced"), most, most);
    // Whoever can come back for the rest gets it; the others are cut off now and then.
    history.bound(results("reset"), most / 4, most);
    history.bound_count("resumed", 1, i64::MAX);
    history.bound(results("shaky"), most / 4, most);
    let path = world.close().await;
    drop(behind);
    path
}

async fn storm(world: &mut World, name: &str, proxy: &Proxy, calls: u64, weather: Weather) {
    let must = if matches!(weather, Weather::Resets(_)) { Must::End } else { Must::Succeed };
    let kinds = [
        (Way::HttpLegacy, "child"),
        (Way::HttpLegacy, "remote"),
        (Way::HttpModern, "child"),
        (Way::HttpModern, "remote"),
    ];
    let mut tasks = JoinSet::new();
    for number in 0..8 {
        let Some((way, server)) = kinds.get(number % kinds.len()) else { continue };
        let mut caller = world.caller(*way, server, &format!("{name}{number}")).await;
        caller.manners = Manners { resume: *way == Way::HttpLegacy, ..Manners::default() };
        caller.through(proxy.address);
        tasks.spawn(calls_with_reports(caller, calls / 8, must));
    }
    tasks.join_all().await;
}

/// Every other call reports, so that there is a stream to be cut.
async fn calls_with_reports(mut caller: Caller, count: u64, must: Must) {
    for number in 0..count {
        let job = Job::QUICK.must(must);
        // Over a shared pipe reports of a call that was cut would have no owner; see the sessions of legacy clients.
        let reports = number % 2 == 0 && caller.manners.resume;
        caller.call(if reports { job.taking(30).reporting(REPORTS) } else { job }).await;
    }
    caller.end().await;
}

/// The server is reached by a network that resets connections: one answer for each call all the same, and no call twice.
async fn shaky(world: &mut World, calls: u64) {
    let mut tasks = JoinSet::new();
    for number in 0..8_usize {
        let way = if number % 2 == 0 { Way::HttpLegacy } else { Way::HttpModern };
        let Some(mut caller) = patient(world, way, number).await else { continue };
        tasks.spawn(async move {
            for _ in 0..calls / 8 {
                caller.call(Job::QUICK.must(Must::Answer)).await;
            }
            caller.end().await;
        });
    }
    tasks.join_all().await;
}

/// Opening a session asks the server, which may be out of reach at first.
async fn patient(world: &mut World, way: Way, number: usize) -> Option<Caller> {
    for _ in 0..20 {
        let (door, history, label) = (world.door(), world.history().clone(), format!("shaky{number}"));
        if let Ok(caller) = Caller::open(&door, &history, way, "shaky", &label, &mut world.ground.random).await {
            return Some(caller);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    world.history().note(format!("client {number} found no way to the shaky server"));
    None
}
