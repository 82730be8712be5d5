//! Timers that a client sets.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::world::{World, minutes, pass, seconds};

async fn fired(client: &crate::client::Client) -> Value {
    let answer = client.call("await_activity", json!({ "timeout_ms": 600_000 })).await;
    assert_eq!(answer.types(), ["timer_expired"], "{answer:?}");
    answer.json(0)["events"][0]["data"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_timer_fires_once_on_time_and_is_kept_for_five_minutes() {
    let world = World::new();
    let client = world.client().await;
    let start = Instant::now();
    let set = client.call("set_timer", json!({ "duration_ms": 90_000, "message": "tea" })).await.json(0);
    let data = fired(&client).await;
    assert!(seconds(90) <= start.elapsed() && start.elapsed() < seconds(91), "{:?}", start.elapsed());
    assert_eq!(data, json!({ "timerId": set["timerId"], "message": "tea", "fireCount": 1, "interval": false }));
    pass(minutes(4)).await;
    let row = client.call("get_timer", json!({ "timer_id": set["timerId"] })).await.json(0);
    assert_eq!(row["status"], "expired");
    pass(minutes(3)).await;
    let gone = client.call("get_timer", json!({ "timer_id": set["timerId"] })).await;
    assert_eq!(gone.code(), "TIMER_NOT_FOUND");
    assert!(client.events().await.is_empty(), "it fires once");
}

#[tokio::test(start_paused = true)]
async fn an_interval_keeps_to_its_schedule_however_late_its_reader_is() {
    let world = World::new();
    let client = world.client().await;
    let start = Instant::now();
    let set = json!({ "duration_ms": 1_500, "message": "tick", "interval": true });
    let set = client.call("set_timer", set).await.json(0);
    for count in 1..=20_u32 {
        let data = fired(&client).await;
        assert_eq!((&data["fireCount"], &data["timerId"]), (&json!(count), &set["timerId"]));
        let due = Duration::from_millis(1_500) * count;
        let late = start.elapsed().saturating_sub(due);
        assert!(due <= start.elapsed() && late < Duration::from_millis(1_200), "{count}: {:?}", start.elapsed());
        // A reader that takes its time must not move the schedule.
        tokio::time::sleep(Duration::from_millis(u64::from(count) * 50)).await;
    }
    let deleted = client.call("delete_timer", json!({ "timer_id": set["timerId"] })).await;
    assert!(!deleted.is_error());
    pass(minutes(1)).await;
    assert!(client.events().await.is_empty(), "a deleted timer is silent");
}

#[tokio::test(start_paused = true)]
async fn fires_that_were_missed_become_one() {
    let world = World::new();
    let client = world.client().await;
    client.call("set_timer", json!({ "duration_ms": 1_000, "message": "tick", "interval": true })).await;
    // As after a suspend: the clock jumps, nothing ran meanwhile.
    tokio::time::advance(Duration::from_millis(10_500)).await;
    crate::client::settle().await;
    let told = client.call("await_activity", json!({ "timeout_ms": 100 })).await;
    assert_eq!(told.types(), ["timer_expired"], "{told:?}");
    let next = Instant::now();
    assert_eq!(fired(&client).await["fireCount"], 2);
    assert!(next.elapsed() <= Duration::from_millis(600), "back on schedule: {:?}", next.elapsed());
}
