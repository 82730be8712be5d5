use lb_wire::revision::Revision;
use serde_json::json;

use crate::stage::Stage;

#[tokio::test(start_paused = true)]
async fn a_modern_client_learns_its_session_when_there_is_something_to_remember() {
    let stage = Stage::new(Revision::V2026_07_28, "{}").await;
    let servers = stage.call("list_servers", json!({})).await;
    assert!(!servers.text.contains("session"), "{}", servers.text);
    let timer = stage.call("set_timer", json!({ "duration_ms": 10, "message": "m" })).await;
    let session = timer.result["structuredContent"]["session"].as_str().expect("a handle").to_owned();
    assert_eq!(session.len(), 64);
    assert_eq!(timer.context()["session"], session);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    // Without its name, an inbox that others may share is only counted.
    let shared = stage.call("list_servers", json!({})).await.context();
    assert!(shared["events_remaining"].as_u64().is_some_and(|count| 0 < count), "{shared}");
    assert!(shared.get("expired_timers").is_none(), "{shared}");
    let own = stage.call("list_servers", json!({ "session": session })).await.context();
    assert_eq!(own["expired_timers"][0]["message"], "m", "{own}");
    let foreign = stage.call("list_servers", json!({ "session": "x" })).await;
    assert_eq!(foreign.code(), "TOOL_ERR_SESSION_NOT_FOUND");
}

#[tokio::test(start_paused = true)]
async fn a_legacy_client_is_told_nothing_of_handles() {
    let stage = Stage::new(Revision::V2024_11_05, "{}").await;
    let timer = stage.call("set_timer", json!({ "duration_ms": 10, "message": "m" })).await;
    assert!(timer.result.get("structuredContent").is_none(), "{}", timer.text);
    assert!(!timer.text.contains("session"), "{}", timer.text);
}
