//! Timers: set in one process, told by the next.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::world::{Desk, End, Keep, STRICT, World};

async fn set(desk: &mut Desk, ms: u64, interval: bool) -> Value {
    let arguments = json!({ "duration_ms": ms, "message": "tea", "interval": interval });
    desk.ok("set_timer", arguments).await.json()["timerId"].clone()
}

async fn timers_go_on(keep: Keep) {
    let mut world = World::start(keep, json!({}), STRICT).await;
    let client = lb_peers::tools::ToolClient::at(world.address(), lb_peers::tools::Settings::default()).await;
    let mut desk = Desk::new(client);
    let gone = set(&mut desk, 3_600_000, false).await;
    let deleted = desk.ok("delete_timer", json!({ "timer_id": gone })).await.json();
    let mut long = Vec::new();
    for _ in 0..97 {
        long.push(set(&mut desk, 3_600_000, false).await);
    }
    let every = set(&mut desk, 1_000, true).await;
    let soon = set(&mut desk, 400, false).await;
    let begun = Instant::now();
    let later = set(&mut desk, 4_000, false).await;
    world.end(End::Kill).await;
    // The first of them is overdue before the next process begins.
    tokio::time::sleep(Duration::from_millis(500).saturating_sub(begun.elapsed())).await;
    world.begin().await;
    let back = begun.elapsed();

    let rows = desk.ok("list_timers", json!({})).await.json();
    let listed = rows.as_array().expect("rows").len();
    assert!([98, 99, 100].contains(&listed), "{listed} of the hundred, without what has fired");
    while desk.about("timer_expired", &later).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", desk.told);
        desk.ok("await_activity", json!({ "timeout_ms": 500 })).await;
    }
    let due = Duration::from_secs(4);
    assert!(
        due <= begun.elapsed() && begun.elapsed() < due.max(back) + Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
    // What a reply shows by the way is short: it does not say how often a timer has fired.
    let counted = |desk: &Desk| {
        let all = desk.about("timer_expired", &every);
        all.iter().filter_map(|event| event["data"]["fireCount"].as_u64()).collect::<Vec<_>>()
    };
    while counted(&desk).len() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", desk.told);
        desk.ok("await_activity", json!({ "timeout_ms": 500 })).await;
    }
    world.restart(End::Stop).await;
    desk.drain().await;
    assert_eq!(desk.about("timer_expired", &soon).len(), 1, "overdue, and told once: {:?}", desk.told);
    assert_eq!(desk.about("timer_expired", &later).len(), 1, "told once: {:?}", desk.told);
    let counts = counted(&desk);
    assert!(counts.is_sorted_by(|a, b| a < b), "each fire once: {counts:?}");
    let told = desk.about("timer_expired", &every).len() as u64;
    assert!(counts.last().is_some_and(|last| told <= *last), "{told} are told of {counts:?}");
    assert_eq!(desk.ok("delete_timer", json!({ "timer_id": gone })).await.json(), deleted, "deleted is deleted");
    assert_eq!(desk.ok("get_timer", json!({ "timer_id": later })).await.json()["status"], "expired");

    // 97 and the interval are left: two more fit, and then none.
    set(&mut desk, 3_600_000, false).await;
    set(&mut desk, 3_600_000, false).await;
    let refused = desk.call("set_timer", json!({ "duration_ms": 3_600_000, "message": "x" })).await;
    assert_eq!(refused.code(), "LIMIT_EXCEEDED", "{refused}");
    assert!(!desk.ok("delete_timer", json!({ "timer_id": long[0] })).await.is_error());
    set(&mut desk, 3_600_000, false).await;
}

#[tokio::test]
async fn timers_fire_once_and_on_time_over_restarts_on_disk() {
    timers_go_on(Keep::Disk).await;
}

#[tokio::test]
async fn timers_fire_once_and_on_time_over_restarts_on_valkey() {
    timers_go_on(Keep::Valkey).await;
}
