//! More events than are kept: what is gone is counted, whichever process counts it and whichever tells it.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use lb_peers::tools::{Settings, ToolClient};
use serde_json::{Value, json};

use crate::world::{Desk, End, Keep, STRICT, World, one};

/// How many events a session was told that it has lost to its limits.
fn dropped(desk: &Desk) -> u64 {
    let all = desk.of("events_dropped");
    let of_limits = all.iter().filter(|event| event["data"]["cause"] != "node_lost");
    of_limits.filter_map(|event| event["data"]["count"].as_u64()).sum()
}

/// A hundred notifications of a server are kept for somebody who does not read.
async fn notifications_overflow(keep: Keep) {
    let mut world = World::start(keep, one(), STRICT).await;
    let mut desk = world.desk().await;
    let mut from = 0;
    for how in [End::Stop, End::Kill] {
        desk.execute("burst", json!({ "from": from, "count": 250 })).await;
        from += 250;
        world.restart(how).await;
        desk.drain().await;
        let numbers = desk.numbers();
        assert_eq!(numbers.len() as u64 + dropped(&desk), from, "{how:?}: told or owned up to: {numbers:?}");
        assert!(numbers.is_sorted_by(|a, b| a < b), "{how:?}: once, in order: {numbers:?}");
        assert_eq!(numbers.last(), Some(&(from - 1)), "{how:?}: the newest are kept");
    }
}

#[tokio::test]
async fn notifications_that_were_too_many_are_owned_up_to_after_a_restart_on_disk() {
    notifications_overflow(Keep::Disk).await;
}

#[tokio::test]
async fn notifications_that_were_too_many_are_owned_up_to_after_a_restart_on_valkey() {
    notifications_overflow(Keep::Valkey).await;
}

/// The timers of `timer_expired`, each with how often it had fired.
fn fires(desk: &Desk) -> Vec<(String, u64)> {
    let of =
        |event: &Value| Some((event["data"]["timerId"].as_str()?.to_owned(), event["data"]["fireCount"].as_u64()?));
    desk.of("timer_expired").iter().filter_map(of).collect()
}

/// A hundred timers fire every second: nobody reads, then somebody reads all, then nobody reads more than is kept.
async fn log_overflows(keep: Keep) {
    let mut world = World::start(keep, json!({}), STRICT).await;
    let mut desk = Desk::new(ToolClient::at(world.address(), Settings::default()).await);
    for _ in 0..100 {
        desk.ok("set_timer", json!({ "duration_ms": 1_000, "message": "tick", "interval": true })).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    desk.drain().await;
    assert_eq!(dropped(&desk), 0, "{:?}", desk.of("events_dropped"));
    for seconds in [4, 8] {
        world.restart(End::Stop).await;
        // Wakes the session, and takes nothing from it.
        assert_eq!(desk.client.request("ping", json!({})).await.status, 200);
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }
    world.restart(End::Stop).await;
    let body = desk.ok("await_activity", json!({ "timeout_ms": 100 })).await.json();
    assert_eq!(body["events"][0]["type"], "events_dropped", "it comes first: {}", body["events"][0]);
    desk.drain().await;
    let fires = fires(&desk);
    assert_eq!(fires.iter().collect::<HashSet<_>>().len(), fires.len(), "each fire once");
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for (timer, count) in &fires {
        let before = last.insert(timer, *count);
        assert!(before < Some(*count), "in order: {timer} {before:?} {count}");
    }
    let (told, fired) = (desk.of("timer_expired").len() as u64, last.values().sum::<u64>());
    assert_eq!(last.len(), 100);
    assert!(0 < dropped(&desk), "a thousand are kept: {told} of {fired} are told");
    assert_eq!(told + dropped(&desk), fired, "told or owned up to: {:?}", desk.of("events_dropped"));
}

#[tokio::test]
async fn events_that_were_too_many_are_owned_up_to_over_restarts_on_disk() {
    log_overflows(Keep::Disk).await;
}

#[tokio::test]
async fn events_that_were_too_many_are_owned_up_to_over_restarts_on_valkey() {
    log_overflows(Keep::Valkey).await;
}
