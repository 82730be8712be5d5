//! Whether a connected server is well.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::world::{World, minutes, pass, seconds};

#[tokio::test(start_paused = true)]
async fn a_connected_server_is_asked_every_two_minutes() {
    let world = World::new();
    let start = Instant::now();
    let _client = world.client().await;
    let mut seen = Vec::new();
    for count in 1..=4_usize {
        world.one.until(|script| count <= script.heard_of("ping").len()).await;
        seen.push(start.elapsed());
    }
    let mut last = Duration::ZERO;
    for at in seen {
        let between = at - last;
        assert!(seconds(108) <= between && between <= seconds(133), "within a tenth of two minutes: {between:?}");
        last = at;
    }
}

#[tokio::test(start_paused = true)]
async fn three_failures_are_told_once_and_a_good_call_restores() {
    let world = World::new();
    let client = world.client().await;
    let before = world.one.heard_of("ping").len();
    world.one.answers_pings(false);
    let start = Instant::now();
    let told = client.call("await_activity", json!({ "timeout_ms": 900_000 })).await;
    assert_eq!(told.types(), ["server_health_degraded"]);
    let data = told.json(0)["events"][0]["data"].clone();
    assert_eq!((&data["name"], &data["consecutiveFailures"]), (&json!("one"), &json!(3)));
    assert_eq!(world.one.heard_of("ping").len() - before, 3);
    // Three rounds of 120 s, each given 10 s.
    assert!(seconds(330) < start.elapsed() && start.elapsed() < seconds(450), "{:?}", start.elapsed());
    pass(minutes(15)).await;
    assert!(client.events().await.is_empty(), "told once, and no reconnecting");
    let row = client.call("list_servers", json!({})).await.json(0)[0].clone();
    assert_eq!((&row["status"], &row["connected"]), (&json!("connected"), &json!(true)));
    assert!(3 <= row["consecutiveHealthFailures"].as_u64().expect("a count"), "{row}");
    assert_eq!(world.one.started().len(), 1);

    let echoed = client.call("execute_tool", json!({ "server": "one", "tool": "echo" })).await;
    assert!(!echoed.is_error());
    let mut told = client.events_of("server_health_restored").await;
    if echoed.response.to_string().contains("server_health_restored") {
        told.push(json!({}));
    }
    assert_eq!(told.len(), 1, "restored, told once: {echoed:?}");
    let row = client.call("list_servers", json!({})).await.json(0)[0].clone();
    assert_eq!(row["consecutiveHealthFailures"], 0, "{row}");
}

#[tokio::test(start_paused = true)]
async fn two_failures_and_a_good_answer_are_not_worth_telling() {
    let world = World::new();
    let client = world.client().await;
    let before = world.one.heard_of("ping").len();
    for _ in 0..3 {
        world.one.answers_pings(false);
        let asked = world.one.heard_of("ping").len();
        world.one.until(|script| asked + 2 <= script.heard_of("ping").len()).await;
        pass(seconds(11)).await;
        world.one.answers_pings(true);
        world.one.until(|script| asked + 3 <= script.heard_of("ping").len()).await;
    }
    assert!(before + 9 <= world.one.heard_of("ping").len());
    assert!(client.events().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_failed_check_fails_no_call() {
    let world = World::new();
    let client = world.client().await;
    let task = client.task(json!({ "task_ttl_ms": 1_800_000 })).await;
    world.one.answers_pings(false);
    pass(minutes(12)).await;
    assert_eq!(client.task_row(&task).await["status"], "working");
    world.one.answers_pings(true);
    pass(minutes(3)).await;
    assert_eq!(client.events_of("server_health_restored").await.len(), 1, "a good check restores too");
}
