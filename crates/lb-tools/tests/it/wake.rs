//! Whoever waits is woken, however close the event and the wait are.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::world::World;

/// On threads and on the real clock: the event comes before, during and after the look at the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_slips_between_the_look_and_the_wait() {
    let world = World::new();
    let client = world.client().await;
    let mut took = Vec::new();
    for round in 0..500_u32 {
        let waiting = client.clone();
        let mut set = tokio::task::JoinSet::new();
        set.spawn(async move { waiting.call("await_activity", json!({ "timeout_ms": 10_000 })).await });
        for _ in 0..round % 7 {
            tokio::task::yield_now().await;
        }
        let start = Instant::now();
        world.one.say(json!({ "jsonrpc": "2.0", "method": "notifications/round", "params": { "n": round } }));
        let told = set.join_next().await.expect("a call").expect("no panic");
        took.push(start.elapsed());
        assert_eq!(told.types(), ["notification"]);
        assert_eq!(told.json(0)["events"][0]["data"]["params"]["n"], round);
    }
    took.sort();
    assert!(took[250] < Duration::from_millis(50), "{:?}", took[250]);
    // One that was lost would have come at the end of the wait.
    assert!(took[499] < Duration::from_secs(5), "{:?}", took[499]);
}
