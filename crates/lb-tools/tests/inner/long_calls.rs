use std::time::Duration;

use lb_exchange::{Cancel, Step};
use lb_wire::revision::Revision;
use serde_json::json;
use tokio::time::Instant;

use crate::stage::{Stage, ended, finish};

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_too_long_becomes_a_task_with_the_same_result() {
    let stage = Stage::new(Revision::V2025_11_25, "{}").await;
    let args = json!({ "server": "s", "tool": "slow", "args": { "ms": 5000 }, "timeout_ms": 200 });
    let promoted = stage.call("execute_tool", args).await;
    assert!(promoted.result.get("isError").is_none(), "{}", promoted.text);
    assert!(promoted.block(0).contains("within 200 ms"), "{}", promoted.text);
    let facts = promoted.json(1);
    let task = facts["task"]["taskId"].as_str().expect("an id");
    assert!(promoted.block(0).contains(task) && promoted.block(0).contains("get_task_result"), "{}", promoted.text);
    assert_eq!((&facts["timeout"], &facts["task"]["status"]), (&json!(true), &json!("working")));
    assert_eq!(facts["server_pending"]["working_tasks"][0]["taskId"], task);
    let early = stage.call("get_task_result", json!({ "task_id": task, "timeout_ms": 100 })).await;
    assert_eq!(early.json(0)["status"], "working");
    let result = stage.call("get_task_result", json!({ "task_id": task })).await;
    assert_eq!(result.block(0), "done");
    let events = result.context()["events"].to_string();
    assert_eq!(events.matches("task_completed").count(), 1, "{events}");
    // Told once; the result itself can be had again.
    let again = stage.call("get_task_result", json!({ "task_id": task })).await;
    assert_eq!(again.text, r#"{"content":[{"type":"text","text":"done"}]}"#);
}

#[tokio::test(start_paused = true)]
async fn patience_is_shorter_than_the_limit_unless_progress_is_heard() {
    let stage = Stage::new(Revision::V2025_11_25, "{}").await;
    let hang = json!({ "server": "s", "tool": "hang" });
    let start = Instant::now();
    stage.call("execute_tool", hang.clone()).await;
    assert_eq!(start.elapsed().as_secs(), 45);
    let start = Instant::now();
    let params = json!({ "name": "execute_tool", "arguments": hang, "_meta": { "progressToken": "t" } });
    let ended = finish(stage.open("tools/call", params), |_| panic!()).await;
    assert_eq!(start.elapsed().as_secs(), 120);
    let values: Vec<f64> = ended.notes.iter().map(|note| note["progress"].as_f64().expect("a number")).collect();
    assert!(values.len() >= 7 && values.is_sorted_by(|a, b| a < b), "{values:?}");
}

#[tokio::test(start_paused = true)]
async fn progress_of_the_server_goes_to_whoever_wants_it() {
    let stage = Stage::new(Revision::V2025_11_25, "{}").await;
    let arguments = json!({ "server": "s", "tool": "steps" });
    let params = json!({ "name": "execute_tool", "arguments": arguments, "_meta": { "progressToken": "t" } });
    let heard = finish(stage.open("tools/call", params), |_| panic!()).await;
    assert_eq!(
        heard.notes,
        [json!({"progressToken": "t", "progress": 1}), json!({"progressToken": "t", "progress": 2})]
    );
    assert!(stage.call("execute_tool", arguments).await.notes.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_cancel_reaches_the_server_and_leaves_no_task() {
    let stage = Stage::new(Revision::V2025_11_25, "{}").await;
    let mut call = stage.tool("execute_tool", json!({ "server": "s", "tool": "hang" }));
    assert!(tokio::time::timeout(Duration::from_secs(1), call.step()).await.is_err());
    call.remote().cancel(Cancel::Said(None));
    let Step::End(end) = call.step().await else { panic!("a cancelled call says nothing more") };
    assert_eq!(ended(end, Vec::new()).result, "cancelled");
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(stage.sent("notifications/cancelled"), 1);
    assert_eq!(stage.call("list_tasks", json!({ "include_completed": true })).await.json(0), json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_task_is_cancelled_at_the_server_too() {
    let stage = Stage::new(Revision::V2025_11_25, "{}").await;
    let promoted = stage.call("execute_tool", json!({ "server": "s", "tool": "hang", "timeout_ms": 100 })).await;
    let task = promoted.json(1)["task"]["taskId"].clone();
    let cancelled = stage.call("cancel_task", json!({ "task_id": task })).await;
    assert_eq!(cancelled.result["structuredContent"]["success"], true, "{}", cancelled.text);
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(stage.sent("notifications/cancelled"), 1);
    let result = stage.call("get_task_result", json!({ "task_id": task })).await;
    assert!(result.block(0).contains("cancelled") && result.result["isError"] == true, "{}", result.text);
    assert_eq!(stage.call("cancel_task", json!({ "task_id": task })).await.result["isError"], true);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_is_gone_finds_its_call_among_the_tasks() {
    let stage = Stage::new(Revision::V2025_11_25, "{}").await;
    let mut call = stage.tool("execute_tool", json!({ "server": "s", "tool": "slow", "args": { "ms": 2000 } }));
    assert!(tokio::time::timeout(Duration::from_secs(1), call.step()).await.is_err());
    call.remote().alone();
    let Step::End(end) = call.step().await else { panic!("it ends as a task") };
    // Nobody gets this answer, so that its events are told again.
    drop(end);
    let activity = stage.call("await_activity", json!({})).await;
    let kinds: Vec<_> =
        activity.json(0)["events"].as_array().expect("events").iter().map(|e| e["type"].clone()).collect();
    assert!(kinds.contains(&json!("task_created")), "{}", activity.text);
    let done = stage.call("await_activity", json!({})).await;
    assert_eq!(done.json(0)["triggered_by"], "task_completed", "{}", done.text);
}

#[tokio::test(start_paused = true)]
async fn the_hundred_and_first_task_is_refused() {
    let stage = Stage::new(Revision::V2025_11_25, "{}").await;
    let hang = json!({ "server": "s", "tool": "hang", "timeout_ms": 100 });
    for _ in 0..100 {
        assert!(stage.call("execute_tool", hang.clone()).await.result.get("isError").is_none());
    }
    let refused = stage.call("execute_tool", hang).await;
    assert_eq!(refused.code(), "TOOL_ERR_TIMEOUT", "{}", refused.text);
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(stage.sent("notifications/cancelled"), 1);
}
