//! A bad network, before the gateway and behind it.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;

use super::{Setup, Size, Turns};
use crate::caller::{Caller, Manners, Way};
use crate::history::{How, Measure, Must};
use crate::jobs::Job;
use crate::proxy::{Proxy, Weather};
use crate::world::{Ground, World};

const REPORTS: u64 = 6;
const CLIENTS: usize = 8;
/// How slow a slow network is: so many ms for every piece, half as many more or less.
const SLOW_MS: u64 = 200;
/// The fewest calls of one kind of weather.
const CALLS: i64 = 200;

/// Runs it.
pub async fn run(setup: Setup, size: Size, seed: u64) -> PathBuf {
    let part = size.part(4);
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
        [("slow", Weather::Slow(SLOW_MS)), ("sliced", Weather::Slices), ("reset", Weather::Resets(4_000))]
    {
        world.history().fault(format!("{weather:?} between clients and gateway"));
        let random = world.ground.random.fork();
        let proxy = Proxy::start(world.gateway.address, weather, random).await;
        let calls = storm(&mut world, name, &proxy, part, weather).await;
        // Whoever can come back for the rest gets it; of the others some are cut off where there are resets.
        let least = if name == "reset" { calls / 4 } else { calls };
        world.history().bound(results(name), least, calls);
    }
    world.history().fault("resets between gateway and server");
    let calls = shaky(&mut world, part).await;
    let history = world.history().clone();
    history.bound_count("resumed", 1, i64::MAX);
    history.bound(results("shaky"), calls.max(CALLS) / 4, calls);
    let path = world.close().await;
    drop(behind);
    path
}

fn results(client: &str) -> Measure {
    Measure::Calls { client: client.to_owned(), how: How::Result }
}

/// Gives how many calls there were.
async fn storm(world: &mut World, name: &str, proxy: &Proxy, size: Size, weather: Weather) -> i64 {
    let must = if matches!(weather, Weather::Resets(_)) { Must::End } else { Must::Succeed };
    let kinds = [
        (Way::HttpLegacy, "child"),
        (Way::HttpLegacy, "remote"),
        (Way::HttpModern, "child"),
        (Way::HttpModern, "remote"),
    ];
    let (mut tasks, turns) = (JoinSet::new(), size.turns(25, 625));
    for number in 0..CLIENTS {
        let Some((way, server)) = kinds.get(number % kinds.len()) else { continue };
        let mut caller = world.caller(*way, server, &format!("{name}{number}")).await;
        caller.manners = Manners { resume: *way == Way::HttpLegacy, ..Manners::default() };
        caller.through(proxy.address);
        tasks.spawn(calls_with_reports(caller, turns, must));
    }
    tasks.join_all().await.into_iter().sum()
}

/// Every other call reports, so that there is a stream to be cut.
async fn calls_with_reports(mut caller: Caller, turns: Turns, must: Must) -> i64 {
    let mut count = 0;
    for number in turns {
        count += 1;
        let job = Job::QUICK.must(must);
        // Over a shared pipe reports of a call that was cut would have no owner; see the sessions of legacy clients.
        let reports = number % 2 == 0 && caller.manners.resume;
        caller.call(if reports { job.taking(30).reporting(REPORTS) } else { job }).await;
    }
    caller.end().await;
    count
}

/// The server is reached by a network that resets connections: one answer for each call all the same, and no call twice.
async fn shaky(world: &mut World, size: Size) -> i64 {
    let (mut tasks, turns) = (JoinSet::new(), size.turns(25, 625));
    for number in 0..CLIENTS {
        let way = if number % 2 == 0 { Way::HttpLegacy } else { Way::HttpModern };
        let Some(mut caller) = patient(world, way, number).await else { continue };
        tasks.spawn(async move {
            let mut count = 0;
            for _ in turns {
                caller.call(Job::QUICK.must(Must::Answer)).await;
                count += 1;
            }
            caller.end().await;
            count
        });
    }
    tasks.join_all().await.into_iter().sum()
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
