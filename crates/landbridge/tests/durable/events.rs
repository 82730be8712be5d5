//! Events: told once, whichever process tells them.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::world::{Desk, End, Keep, STRICT, World, one};

/// More notifications than one reply has room for: some are told before the process ends, the others by the next.
async fn untold_events_come_once(keep: Keep) {
    let mut world = World::start(keep, one(), STRICT).await;
    let mut desk = world.desk().await;
    let mut from = 0;
    for (how, gaps) in [(End::Stop, 0), (End::Kill, 1), (End::Stop, 1)] {
        desk.execute("changed", json!({})).await;
        desk.execute("burst", json!({ "from": from, "count": 80 })).await;
        let told = desk.numbers().len() as u64;
        assert!(from < told && told < from + 80, "{how:?}: some are told and some wait: {told}");
        from += 80;
        world.restart(how).await;
        desk.drain().await;
        assert_eq!(desk.numbers(), (0..from).collect::<Vec<_>>(), "{how:?}: each once, in order");
        // A gap is told with the event that follows it, which is here that the server is connected.
        desk.execute("echo", json!({})).await;
        assert_eq!(desk.lost_nodes(), gaps, "{how:?}: {:#?}", desk.of("events_dropped"));
        assert_eq!(desk.ok("get_notifications", json!({})).await.json(), json!([]), "{how:?}");
    }
    let changed =
        desk.of("notification").iter().filter(|e| e["data"]["method"] == "notifications/tools/list_changed").count();
    assert_eq!(changed, 3, "a list that changed is told once each time");
    let ids: Vec<_> = desk.told.iter().filter_map(|event| event["id"].as_str()).collect();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "no id twice");
}

#[tokio::test]
async fn events_that_nobody_was_told_of_come_once_after_a_restart_on_disk() {
    untold_events_come_once(Keep::Disk).await;
}

#[tokio::test]
async fn events_that_nobody_was_told_of_come_once_after_a_restart_on_valkey() {
    untold_events_come_once(Keep::Valkey).await;
}

/// Everything after a cursor, and what the first reply says of events that are gone.
async fn replay(desk: &mut Desk, cursor: &Value) -> (Vec<Value>, Value) {
    let (mut all, mut cursor, mut dropped) = (Vec::new(), cursor.clone(), Value::Null);
    for round in 0..50 {
        let arguments = json!({ "timeout_ms": 100, "last_event_id": cursor });
        let body = desk.ok("await_activity", arguments).await.json();
        if round == 0 {
            dropped = body["dropped"].clone();
        }
        let events = body["events"].as_array().cloned().unwrap_or_default();
        if events.is_empty() {
            return (all, dropped);
        }
        all.extend(events);
        cursor = body["last_event_id"].clone();
    }
    panic!("no end: {all:?}");
}

fn numbers(events: &[Value]) -> Vec<u64> {
    events.iter().filter_map(|event| event["data"]["params"]["n"].as_u64()).collect()
}

async fn cursors_stay_good(keep: Keep) {
    let mut world = World::start(keep, one(), STRICT).await;
    let mut desk = world.desk().await;
    let start = desk.drain().await;
    desk.execute("burst", json!({ "from": 0, "count": 30 })).await;
    let behind = desk.drain().await;
    assert!(start.is_string() && start != behind, "{start} {behind}");
    world.restart(End::Stop).await;

    let (events, dropped) = replay(&mut desk, &start).await;
    assert_eq!((numbers(&events), dropped), ((0..30).collect(), Value::Null), "all that came after it, told or not");
    let (events, _) = replay(&mut desk, &behind).await;
    assert_eq!(numbers(&events), [0_u64; 0], "nothing before it: {events:?}");
    for unknown in ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "nonsense", ""] {
        let refused = desk.call("await_activity", json!({ "timeout_ms": 100, "last_event_id": unknown })).await;
        assert_eq!(refused.code(), "INVALID_ARGUMENT", "{unknown:?}: {refused}");
    }

    // Room for a thousand: what the first cursor stands for goes, and it is said so.
    for round in 1..=25 {
        desk.execute("burst", json!({ "from": round * 100, "count": 45 })).await;
    }
    desk.drain().await;
    world.restart(End::Kill).await;
    let (events, dropped) = replay(&mut desk, &start).await;
    let oldest = events.iter().find(|event| event["type"] != "events_dropped").expect("some are kept");
    assert_eq!(dropped["before"], oldest["id"], "the oldest that is kept");
    let seen = numbers(&events);
    assert!(seen.iter().all(|number| 100 <= *number) && seen.len() <= 1_000, "{} events", seen.len());
    assert!(seen.is_sorted() && seen.last() == Some(&2_544), "the newest, in order: {:?}", seen.last());
}

#[tokio::test]
async fn a_cursor_means_the_same_after_a_restart_on_disk() {
    cursors_stay_good(Keep::Disk).await;
}

#[tokio::test]
async fn a_cursor_means_the_same_after_a_restart_on_valkey() {
    cursors_stay_good(Keep::Valkey).await;
}
