//! What a session keeps, and what it does when there is more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span;

use crate::client::types;
use crate::world::{World, minutes, pass, seconds};

/// Counts warnings that speak of the event log.
#[derive(Clone, Default)]
struct Warnings(Arc<AtomicUsize>);

struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, _: &Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!("{value:?} "));
    }
}

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut words = Words(String::new());
        event.record(&mut words);
        if words.0.contains("nearly full") {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn a_log_that_fills_up_is_warned_of_once_until_it_was_emptied() {
    let warnings = Warnings::default();
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let world = World::new();
    let client = world.client().await;
    // A stream keeps the session while nobody calls.
    let listening = client.listen();
    let so_far = || warnings.0.load(Ordering::Relaxed);
    for round in 1..=2 {
        let mut timers = Vec::new();
        for _ in 0..100 {
            let set = client.call("set_timer", json!({ "duration_ms": 1_000, "message": "x", "interval": true })).await;
            timers.push(set.json(0)["timerId"].clone());
        }
        pass(seconds(7) + Duration::from_millis(500)).await;
        assert_eq!(so_far(), round - 1, "700 events");
        pass(seconds(1)).await;
        assert_eq!(so_far(), round, "800 events");
        pass(seconds(5)).await;
        assert_eq!(so_far(), round, "full, and told");
        for timer in timers {
            client.call("delete_timer", json!({ "timer_id": timer })).await;
        }
        client.events().await;
        // Half an hour later they are forgotten, read or not.
        pass(minutes(40)).await;
        assert_eq!(so_far(), round);
    }
    drop(listening);
}

#[tokio::test(start_paused = true)]
async fn notifications_beyond_a_hundred_are_counted_as_lost() {
    let world = World::new();
    let client = world.client().await;
    for number in 0..130 {
        world.one.say(json!({ "jsonrpc": "2.0", "method": format!("notifications/custom{number}") }));
        pass(seconds(0)).await;
    }
    world.two.notify("notifications/other");
    pass(seconds(1)).await;
    let events = client.events().await;
    assert_eq!(events[0]["type"], "events_dropped", "{}", events[0]);
    assert_eq!(events[0]["data"]["count"], 30);
    let of = |server: &str| events.iter().filter(|e| e["type"] == "notification" && e["server"] == server).count();
    assert_eq!((of("one"), of("two")), (100, 1));
    let first = events.iter().find(|event| event["type"] == "notification").expect("one");
    assert_eq!(first["data"]["method"], "notifications/custom30", "the oldest went");
}

#[tokio::test(start_paused = true)]
async fn events_that_nobody_read_for_half_an_hour_are_counted_as_lost() {
    let world = World::new();
    let client = world.client().await;
    for number in 0..7 {
        world.one.say(json!({ "jsonrpc": "2.0", "method": format!("notifications/custom{number}") }));
    }
    // Something keeps the session while nobody reads.
    let listening = client.listen();
    pass(minutes(36)).await;
    world.one.notify("notifications/news");
    pass(seconds(1)).await;
    let events = client.events().await;
    assert_eq!(types(&json!(events)), ["events_dropped", "notification"]);
    assert_eq!(events[0]["data"]["count"], 7);
    drop(listening);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_tasks_work_at_once_and_no_more() {
    let world = World::new();
    let client = world.client().await;
    for _ in 0..100 {
        client.task(json!({})).await;
    }
    let refused = client.call("execute_tool", json!({ "server": "one", "tool": "hold", "timeout_ms": 100 })).await;
    assert!(refused.is_error(), "{refused:?}");
    assert_eq!(refused.code(), "TOOL_ERR_TIMEOUT");
    pass(seconds(1)).await;
    assert_eq!(world.one.heard_of("notifications/cancelled").len(), 1, "that call is cancelled");
    assert_eq!(client.call("list_tasks", json!({})).await.json(0).as_array().map(Vec::len), Some(100));
}

#[tokio::test(start_paused = true)]
async fn sixteen_wait_for_activity_at_once_and_no_more() {
    let world = World::new();
    let client = world.client().await;
    let mut waiting = Vec::new();
    for _ in 0..16 {
        waiting.push(client.begin("await_activity", json!({ "timeout_ms": 60_000 })).await);
    }
    let refused = client.call("await_activity", json!({ "timeout_ms": 60_000 })).await;
    assert_eq!(refused.code(), "LIMIT_EXCEEDED", "{refused:?}");
    // A waiter that goes away makes room at once.
    drop(waiting.pop());
    pass(seconds(1)).await;
    let room = client.begin("await_activity", json!({ "timeout_ms": 1_000 })).await.answer().await;
    assert_eq!(room.json(0)["triggers"][0]["type"], "timeout", "{room:?}");
}

/// Events of the session that are no notifications: a question and its end, two for each number.
pub async fn questions(world: &World, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let id = format!("q{number}");
        world.one.elicit(&id);
        world.one.say(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }));
        pass(seconds(0)).await;
    }
}

/// The numbers of dropped events at the start, and the ids of the others, which must be in order.
pub fn in_order(events: &[Value]) -> (u64, Vec<String>) {
    let dropped = events.iter().filter(|event| event["type"] == "events_dropped");
    let count = dropped.map(|event| event["data"]["count"].as_u64().expect("a count")).sum();
    let others = events.iter().filter(|event| event["type"] != "events_dropped");
    let ids: Vec<_> = others.map(|event| event["id"].as_str().expect("an id").to_owned()).collect();
    assert!(ids.is_sorted() && ids.windows(2).all(|pair| pair[0] != pair[1]), "in order, none twice");
    (count, ids)
}

#[tokio::test(start_paused = true)]
async fn a_thousand_events_are_kept_and_the_others_counted() {
    let world = World::new();
    let client = world.client().await;
    questions(&world, 0..600).await;
    let events = client.events().await;
    assert_eq!(events[0]["type"], "events_dropped");
    let (dropped, ids) = in_order(&events);
    assert_eq!((dropped, ids.len()), (200, 1_000));
}

#[tokio::test(start_paused = true)]
async fn events_that_were_read_go_first() {
    let world = World::new();
    let client = world.client().await;
    questions(&world, 0..250).await;
    let (dropped, first) = in_order(&client.events().await);
    assert_eq!((dropped, first.len()), (0, 500));
    questions(&world, 250..800).await;
    let (dropped, then) = in_order(&client.events().await);
    assert_eq!((dropped, then.len()), (100, 1_000));
    assert!(then.iter().all(|id| !first.contains(id)), "none twice");
}

#[tokio::test(start_paused = true)]
async fn a_cursor_acknowledges_replays_and_is_checked() {
    let world = World::new();
    let client = world.client().await;
    questions(&world, 0..5).await;
    let (_, ids) = in_order(&client.events().await);
    let after = |id: String| {
        let client = client.clone();
        async move { client.call("await_activity", json!({ "timeout_ms": 100, "last_event_id": id })).await }
    };
    // What was read already comes again for who asks, and is not told once more to who does not.
    let again = after(ids[6].clone()).await.json(0);
    let (_, replayed) = in_order(again["events"].as_array().expect("events"));
    assert_eq!(replayed, ids[7..]);
    assert!(client.events().await.is_empty());
    questions(&world, 5..7).await;
    let next = after(ids[9].clone()).await.json(0);
    assert_eq!(next["events"].as_array().map(Vec::len), Some(4));
    assert_eq!(next["last_event_id"], next["events"][3]["id"]);
    // Known once, evicted since.
    questions(&world, 7..800).await;
    client.events().await;
    questions(&world, 800..1_400).await;
    let evicted = after(ids[2].clone()).await.json(0);
    let (_, left) = in_order(evicted["events"].as_array().expect("events"));
    assert_eq!(evicted["dropped"]["before"], left[0], "{}", evicted["dropped"]);
}

#[tokio::test(start_paused = true)]
async fn a_cursor_that_is_none_consumes_nothing() {
    let world = World::new();
    let client = world.client().await;
    questions(&world, 0..2).await;
    for unknown in ["nonsense", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "00000000000000000000000000", ""] {
        let arguments = json!({ "timeout_ms": 100, "last_event_id": unknown });
        let refused = client.call("await_activity", arguments).await;
        assert_eq!(refused.code(), "INVALID_ARGUMENT", "{unknown}: {refused:?}");
    }
    assert!(client.seen_of("elicitation_request").is_empty(), "no event in a refusal");
    let (_, ids) = in_order(&client.events().await);
    assert_eq!(ids.len(), 4);
}
