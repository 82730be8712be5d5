//! Those who wait when the process that serves them ends, and when the next one begins.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::world::{End, Keep, World, one};

fn numbers(events: &[Value]) -> Vec<u64> {
    events.iter().filter_map(|event| event["data"]["params"]["n"].as_u64()).collect()
}

async fn who_waits_is_woken(keep: Keep) {
    let mut world = World::start(keep, one(), &[]).await;
    let mut desk = world.desk().await;
    let trigger = |body: &Value| body["triggers"][0]["type"].clone();
    let waiting = desk.client.start("await_activity", json!({ "timeout_ms": 60_000 })).await;
    // The call is known to wait when another is answered after it.
    desk.ok("list_timers", json!({})).await;
    world.end(End::Stop).await;
    let reply = desk.wait(waiting).await;
    assert_eq!(trigger(&reply.json()), "shutdown", "{reply}");
    world.begin().await;

    // Nothing happened but that the server was connected again.
    desk.ok("execute_tool", json!({ "server": "one", "tool": "echo" })).await;
    desk.drain().await;
    let body = desk.ok("await_activity", json!({ "timeout_ms": 200 })).await.json();
    assert_eq!((trigger(&body), &body["events"]), (json!("timeout"), &json!([])), "{body}");
    desk.execute("later", json!({ "ms": 200, "n": 7 })).await;
    let body = desk.ok("await_activity", json!({ "timeout_ms": 20_000 })).await.json();
    assert_eq!((trigger(&body), numbers(body["events"].as_array().expect("events"))), (json!("event"), vec![7]));
    desk.execute("burst", json!({ "from": 0, "count": 80 })).await;
    world.restart(End::Stop).await;
    let start = Instant::now();
    let body = desk.ok("await_activity", json!({ "timeout_ms": 20_000 })).await.json();
    assert_eq!(trigger(&body), "immediate", "{body}");
    desk.drain().await;

    // Who waits from the first moment on is woken by what was set before: nothing comes between the two.
    desk.ok("set_timer", json!({ "duration_ms": 3_000, "message": "wake" })).await;
    world.restart(End::Stop).await;
    desk.until("timer_expired", 1).await;
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn who_waits_is_told_of_the_stop_and_woken_after_the_start_on_disk() {
    who_waits_is_woken(Keep::Disk).await;
}

#[tokio::test]
async fn who_waits_is_told_of_the_stop_and_woken_after_the_start_on_valkey() {
    who_waits_is_woken(Keep::Valkey).await;
}
