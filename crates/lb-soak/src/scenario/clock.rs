//! The clock on the wall jumps by hours: nothing that takes time takes more or less of it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lb_peers::raw::RawHttp;
use serde_json::json;

use super::{Setup, Size};
use crate::caller::Way;
use crate::history::Must;
use crate::jobs::Job;
use crate::load::{Load, end};
use crate::world::{Ground, World};

/// The library of Debian's package `faketime`.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";
const TIMEOUT: Duration = Duration::from_millis(1_500);

/// Runs it.
pub async fn run(setup: Setup, size: Size, seed: u64) -> PathBuf {
    let ground = Ground::new(&setup, "R15", seed);
    let folder = tempfile::tempdir().expect("a folder");
    let offset = folder.path().join("offset");
    std::fs::write(&offset, "+0").expect("written");
    let library = library().expect("libfaketime is not installed: run `cargo xtask peers`");
    let preload = format!("LD_PRELOAD={}", library.display());
    let file = format!("FAKETIME_TIMESTAMP_FILE={}", offset.display());
    let fixed = ["FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1"];
    let servers = json!({
        "child": ground.child(&json!({})),
        "timed": ground.child(&json!({ "timeout_ms": TIMEOUT.as_millis() as u64 })),
    });
    let before = ["env", &preload, &file, fixed[0], fixed[1], fixed[2]];
    let mut world = ground.build(servers, &[], &before).await;
    let mut callers = Vec::new();
    for way in [Way::HttpLegacy, Way::HttpModern] {
        callers.push(world.caller(way, "child", "c").await);
    }
    let load = Load::start(callers, Job::QUICK, Duration::from_millis(10));
    let mut jumps = 0;
    for _ in size.turns(1, 10) {
        for hours in [2, -2, 0] {
            jump(&mut world, &offset, hours, &before).await;
            jumps += 1;
        }
    }
    end(load.stop().await.0).await;
    world.history().bound_count("jumps that were seen", jumps, i64::MAX);
    world.history().bound_count("jumps that the gateway told", 1, i64::MAX);
    world.history().count("timeouts at the wrong time", 0);
    world.history().bound_count("timeouts at the wrong time", 0, 0);
    world.close().await
}

/// A call waits for its deadline while the clock jumps.
async fn jump(world: &mut World, offset: &Path, hours: i64, before: &[&str]) {
    let history = world.history().clone();
    let mut timed = world.caller(Way::HttpModern, "timed", "timed").await;
    let start = Instant::now();
    let open = timed.send(Job::QUICK.taking(120_000).must(Must::Fail)).await;
    std::fs::write(offset, format!("{hours:+}h")).expect("written");
    history.fault(format!("the clock goes {hours:+} h wrong"));
    let (seen, told) = (beside(before).await, wall(world).await);
    timed.finish(open).await;
    end(vec![timed]).await;
    let took = start.elapsed();
    history.note(format!(
        "{hours:+} h: seen as {seen:+} h, told by the gateway as {told:+} h; a deadline of {TIMEOUT:?} came after {took:.2?}"
    ));
    history.count("jumps that were seen", i64::from(seen == hours));
    // The date in responses never goes back, so that only the way forward shows there.
    history.count("jumps that the gateway told", i64::from(told == hours && 0 < hours));
    let wrong = took < TIMEOUT || 10 * TIMEOUT < took;
    history.count("timeouts at the wrong time", i64::from(wrong));
}

/// By how many hours a clock is wrong, given the seconds since some midnight that it shows.
fn hours_off(shown: i64) -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let apart = shown - (now.as_secs() % 86_400) as i64;
    ((apart + 1_800).rem_euclid(86_400) / 3_600 + 12).rem_euclid(24) - 12
}

/// As a process sees it that was started like the gateway.
async fn beside(before: &[&str]) -> i64 {
    let mut command = tokio::process::Command::new(before.first().copied().unwrap_or("env"));
    let output = command.args(before.iter().skip(1)).args(["date", "+%s"]).output().await.expect("date runs");
    let shown: i64 = String::from_utf8_lossy(&output.stdout).trim().parse().expect("seconds");
    hours_off(shown % 86_400)
}

/// As the `Date` of the gateway's responses tells. Its text is made anew once a second.
async fn wall(world: &World) -> i64 {
    let mut wire = RawHttp::connect(world.gateway.address).await.expect("the gateway listens");
    let mut hours = 0;
    for _ in 0..30 {
        let response = wire.request("GET", "/health", &[], b"").await.expect("health");
        hours = response.head.header("date").and_then(seconds_of_day).map_or(0, hours_off);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    hours
}

/// Of `Sun, 06 Nov 1994 08:49:37 GMT`.
fn seconds_of_day(date: &str) -> Option<i64> {
    let clock = date.split(' ').nth(4)?;
    let parts: Vec<i64> = clock.split(':').filter_map(|part| part.parse().ok()).collect();
    if let [hour, minute, second] = parts.as_slice() { Some(hour * 3_600 + minute * 60 + second) } else { None }
}

/// Where it is, if it is installed.
pub fn library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?;
    folders.filter_map(|entry| Some(entry.ok()?.path().join(LIBRARY))).find(|path| path.exists())
}
