use std::time::Duration;

use lb_wire::revision::Revision;
use serde_json::json;

use crate::stage::{Stage, finish};

#[tokio::test(start_paused = true)]
async fn an_event_comes_with_the_next_reply_once_and_again_if_that_is_lost() {
    let stage = Stage::new(Revision::V2025_11_25, "{}").await;
    stage.call("list_tools", json!({})).await;
    let changed = finish(stage.tool("execute_tool", json!({ "server": "s", "tool": "changed" })), |_| panic!()).await;
    assert_eq!(changed.context()["notifications"][0]["method"], "notifications/tools/list_changed", "{}", changed.text);
    drop(changed.receipt);
    let again = stage.call("get_notifications", json!({})).await;
    assert_eq!(again.json(0)[0]["method"], "notifications/tools/list_changed", "{}", again.text);
    assert_eq!(stage.call("get_notifications", json!({})).await.json(0), json!([]));
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_with_an_event_with_time_and_with_the_session() {
    let stage = Stage::new(Revision::V2025_11_25, "{}").await;
    stage.call("list_tools", json!({})).await;
    let timer = stage.call("set_timer", json!({ "duration_ms": 5000, "message": "now" })).await.json(0);
    let fired = stage.call("await_activity", json!({})).await.json(0);
    assert_eq!(fired["triggered_by"], "timer_expired", "{fired}");
    assert_eq!(fired["events"][0]["data"]["timerId"], timer["timerId"]);
    assert_eq!(fired["last_event_id"], fired["events"][0]["id"]);
    let late = stage.call("await_activity", json!({ "timeout_ms": 100 })).await.json(0);
    assert_eq!((&late["triggers"][0]["type"], &late["events"]), (&json!("timeout"), &json!([])));
    let replayed =
        stage.call("await_activity", json!({ "last_event_id": fired["last_event_id"], "timeout_ms": 100 })).await;
    assert_eq!(replayed.json(0)["triggered_by"], "timeout");
    let unknown = stage.call("await_activity", json!({ "last_event_id": "x" })).await;
    assert_eq!(unknown.code(), "INVALID_ARGUMENT");
    let closing = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stage.close().await;
    };
    let (ended, ()) = tokio::join!(stage.call("await_activity", json!({})), closing);
    assert_eq!(ended.json(0)["triggers"][0]["type"], "shutdown", "{}", ended.text);
}

#[tokio::test(start_paused = true)]
async fn who_waits_hears_at_once_that_the_process_ends_and_so_does_who_comes_then() {
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let stage = Stage::new(revision, "{}").await;
        stage.call("list_tools", json!({})).await;
        stage.call("set_timer", json!({ "duration_ms": 1000, "message": "now" })).await;
        stage.call("await_activity", json!({ "timeout_ms": 5000 })).await;
        let start = tokio::time::Instant::now();
        let leaving = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            stage.leave();
        };
        let (ended, ()) = tokio::join!(stage.call("await_activity", json!({})), leaving);
        assert_eq!(ended.json(0)["triggers"], json!([{ "type": "shutdown" }]), "{}", ended.text);
        assert_eq!(ended.json(0)["triggered_by"], "shutdown");
        assert!(ended.json(0)["last_event_id"].is_string(), "{}", ended.text);
        let next = stage.call("await_activity", json!({})).await;
        assert_eq!(next.json(0)["triggered_by"], "shutdown", "{}", next.text);
        assert_eq!(start.elapsed(), Duration::from_secs(1));
        // What has happened is told all the same.
        stage.call("set_timer", json!({ "duration_ms": 1000, "message": "now" })).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(stage.call("await_activity", json!({})).await.json(0)["triggered_by"], "existing_events");
    }
}

#[tokio::test(start_paused = true)]
async fn sixteen_may_wait() {
    let stage = Stage::new(Revision::V2025_11_25, "{}").await;
    stage.call("list_tools", json!({})).await;
    let mut waiting = Vec::new();
    for _ in 0..16 {
        let mut exchange = stage.tool("await_activity", json!({}));
        assert!(tokio::time::timeout(Duration::from_millis(1), exchange.step()).await.is_err());
        waiting.push(exchange);
    }
    assert_eq!(stage.call("await_activity", json!({})).await.code(), "LIMIT_EXCEEDED");
    drop(waiting);
    assert_eq!(stage.call("await_activity", json!({ "timeout_ms": 100 })).await.code(), "");
}
