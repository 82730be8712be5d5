//! What a session keeps, and what it does when there is more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
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
        if words.0.contains("event") && words.0.contains("80") {
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
    let fill = |count: u32| {
        let client = client.clone();
        async move {
            for _ in 0..count / 100 {
                for _ in 0..100 {
                    client.call("set_timer", json!({ "duration_ms": 1_000, "message": "x" })).await;
                }
                pass(seconds(2)).await;
            }
        }
    };
    fill(100).await;
    assert_eq!(warnings.0.load(Ordering::Relaxed), 0);
    // Replies take some of the events along, so that a few more are needed.
    for _ in 0..20 {
        fill(100).await;
    }
    let at_first = warnings.0.load(Ordering::Relaxed);
    assert!(at_first <= 1, "one warning per crossing");
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
