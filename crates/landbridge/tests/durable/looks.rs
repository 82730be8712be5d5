//! A look at the session that modern clients share.

use std::time::Instant;

use lb_peers::tools::{Settings, ToolClient};
use serde_json::json;

use crate::world::{Desk, End, Keep, PATIENCE, STRICT, World};

/// In the session of modern clients that name none, a look takes nothing away, and neither does a restart.
async fn a_look_leaves_events(keep: Keep) {
    let mut world = World::start(keep, json!({}), STRICT).await;
    let client = ToolClient::at(world.address(), Settings::modern()).await;
    let set = client.call("set_timer", json!({ "duration_ms": 1, "message": "tea" })).await;
    assert!(!set.is_error(), "{set}");
    let look = async || {
        let reply = client.call("list_timers", json!({})).await;
        assert!(!reply.is_error(), "{reply}");
        reply.context().and_then(|context| context["events_remaining"].as_u64())
    };
    let start = Instant::now();
    while look().await.is_none() {
        assert!(start.elapsed() < PATIENCE, "it fires");
    }
    world.restart(End::Stop).await;
    assert!(look().await.is_some() && look().await.is_some(), "a look leaves it");
    let mut desk = Desk::new(client);
    let arguments = json!({ "timeout_ms": 200 });
    desk.ok("await_activity", arguments.clone()).await;
    desk.ok("await_activity", arguments).await;
    assert_eq!(desk.of("timer_expired").len(), 1, "{:?}", desk.told);
}

#[tokio::test]
async fn a_look_at_a_shared_session_leaves_its_events_over_a_restart_on_disk() {
    a_look_leaves_events(Keep::Disk).await;
}

#[tokio::test]
async fn a_look_at_a_shared_session_leaves_its_events_over_a_restart_on_valkey() {
    a_look_leaves_events(Keep::Valkey).await;
}
