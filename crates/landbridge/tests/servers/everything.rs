//! The reference server of the protocol's authors behind the tools, from its adding to its death, for every client.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::desk::{Desk, FRONTS, Front, task_id};
use crate::world::{add, everything, fixture, gone, kill};

/// How soon a call that asks must be back although it may take two minutes.
const SOON: Duration = Duration::from_secs(1);

async fn story(front: Front) {
    let mut desk = Desk::open(front, json!({})).await;
    let entry = everything();
    let added = desk.ok("add_server", add("every", &entry)).await;
    assert!(added.text().starts_with("Connected to server 'every' at stdio://"), "{added}");
    assert!(added.structured()["toolCount"].as_u64().is_some_and(|count| 10 < count), "{added}");
    let echo = desk.text("every", "echo", json!({ "message": "hello" })).await;
    assert_eq!(echo, "Echo: hello");
    questions(&mut desk).await;
    death(&mut desk).await;
    let pid = desk.pid("every").await;
    desk.ok("remove_server", json!({ "name": "every" })).await;
    gone(pid, Duration::from_secs(10)).await;
}

/// Each question costs one extra turn.
async fn questions(desk: &mut Desk) {
    let call = json!({ "server": "every", "tool": "trigger-elicitation-request", "timeout_ms": 120_000 });
    let start = Instant::now();
    let asked = desk.ok("execute_tool", call).await;
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    let context = asked.context().expect("what waits is in the context");
    let request = context["pending_client"]["elicitations"][0]["requestId"].clone();
    assert!(request.is_string() && context["pending_client"]["elicitation"] == 1, "{asked}");
    let wrong = json!({ "request_id": request, "action": "accept", "content": { "check": "not a boolean" } });
    assert!(desk.call("respond_to_elicitation", wrong).await.is_error(), "checked against the schema");
    let answer = json!({ "request_id": request, "action": "accept", "content": { "name": "Ada", "check": true } });
    let done = desk.ok("respond_to_elicitation", answer).await;
    assert!(done.message.to_string().contains("Ada"), "the result comes with the answer: {done}");

    let args = json!({ "prompt": "two words", "maxTokens": 10 });
    let call = json!({ "server": "every", "tool": "trigger-sampling-request", "args": args, "timeout_ms": 120_000 });
    let start = Instant::now();
    let asked = desk.ok("execute_tool", call).await;
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    let context = asked.context().expect("what waits is in the context");
    let request = context["pending_client"]["sampling_requests"][0]["requestId"].clone();
    let answer = json!({ "request_id": request, "role": "assistant", "content": "dark matter", "model": "m", "stop_reason": "endTurn" });
    let done = desk.ok("respond_to_sampling", answer).await;
    assert!(done.message.to_string().contains("dark matter"), "{done}");
    desk.settle().await;
    assert_eq!((desk.count("task_created"), desk.count("task_completed"), desk.count("task_failed")), (2, 2, 0));
}

/// A long call becomes a task; the server is killed; the task fails once; the server is back.
async fn death(desk: &mut Desk) {
    let long = json!({ "duration": 2, "steps": 4 });
    let call = json!({ "server": "every", "tool": "trigger-long-running-operation", "args": long, "timeout_ms": 500 });
    let task = task_id(&desk.ok("execute_tool", call).await);
    let result = desk.ok("get_task_result", json!({ "task_id": task, "timeout_ms": 30_000 })).await;
    assert!(result.text().contains("Long running operation completed"), "{result}");
    desk.settle().await;

    let longer = json!({ "duration": 60, "steps": 2 });
    let call =
        json!({ "server": "every", "tool": "trigger-long-running-operation", "args": longer, "timeout_ms": 300 });
    let task = task_id(&desk.ok("execute_tool", call).await);
    let pid = desk.pid("every").await;
    kill(pid);
    let failed = desk.event("task_failed").await;
    assert_eq!(failed["taskId"], task);
    desk.event("server_reconnected").await;
    assert_eq!(desk.text("every", "echo", json!({ "message": "again" })).await, "Echo: again");
    assert_ne!(desk.pid("every").await, pid);
    desk.settle().await;
    assert_eq!(desk.count("task_failed"), 1, "{}", desk.told());
    let row: Value = desk.ok("get_task", json!({ "task_id": task })).await.json();
    assert_eq!(row["status"], "failed", "{row}");
}

#[tokio::test]
async fn a_legacy_client_over_stdio() {
    story(Front::Stdio).await;
}

#[tokio::test]
async fn a_legacy_client_over_http() {
    story(Front::Http).await;
}

#[tokio::test]
async fn a_modern_client_over_stdio() {
    story(Front::ModernStdio).await;
}

#[tokio::test]
async fn a_modern_client_over_http() {
    story(Front::ModernHttp).await;
}

#[tokio::test]
async fn the_fixture_dies_during_a_task_and_is_back() {
    for (front, era) in FRONTS.into_iter().flat_map(|front| [(front, "legacy"), (front, "modern")]) {
        let case = format!("{front:?} client, {era} server");
        let mut desk = Desk::open(front, json!({})).await;
        desk.ok("add_server", add("s", &fixture(era))).await;
        let task = desk.task("s", "sleep", json!({ "ms": 60_000 })).await;
        kill(desk.pid("s").await);
        let failed = desk.event_in(&case, "task_failed").await;
        assert_eq!(failed["taskId"], task, "{case}");
        desk.event_in(&case, "server_reconnected").await;
        desk.works("s").await;
        desk.settle().await;
        assert_eq!((desk.count("task_failed"), desk.count("server_process_crashed")), (1, 1), "{case} {}", desk.told());
    }
}
