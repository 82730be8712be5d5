//! Calls that take longer than their caller waits.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::world::{self, count, drain, execute, gateway, promoted};

#[tokio::test]
async fn a_call_that_takes_too_long_becomes_a_task_and_its_result_is_kept() {
    for transport in ["http", "stdio"] {
        let gateway = gateway().await;
        let client = if transport == "http" { world::http(&gateway).await } else { world::stdio().await };
        let (reply, task) = promoted(&client, "slow", json!({ "ms": 1_000 })).await;
        assert!(!reply.is_error());
        let row = client.call("get_task", json!({ "task_id": task })).await.json();
        assert_eq!(
            (&row["status"], &row["toolName"], &row["server"]),
            (&json!("working"), &json!("slow"), &json!("one"))
        );
        let soon = client.call("get_task_result", json!({ "task_id": task, "timeout_ms": 100 })).await;
        assert_eq!((soon.is_error(), &soon.json()["status"]), (false, &json!("working")));
        for _ in 0..2 {
            let result = client.call("get_task_result", json!({ "task_id": task })).await;
            assert_eq!((result.text(), result.is_error()), ("slow", false), "{transport}: as often as asked");
        }
        let row = client.call("get_task", json!({ "task_id": task })).await.json();
        assert_eq!(row["status"], "completed");
        let rows = client.call("list_tasks", json!({ "include_completed": true })).await.json();
        assert_eq!((&rows[0]["taskId"], &rows[0]["hasResult"]), (&json!(task), &json!(true)));
        assert_eq!(client.call("list_tasks", json!({})).await.json(), json!([]));
    }
}

#[tokio::test]
async fn waiting_for_a_result_consumes_no_event() {
    let gateway = gateway().await;
    let client = world::http(&gateway).await;
    let (_, task) = promoted(&client, "slow", json!({ "ms": 600 })).await;
    drain(&client).await;
    let result = client.call("get_task_result", json!({ "task_id": task })).await;
    assert_eq!(result.text(), "slow");
    let mut told = result.events();
    told.extend(drain(&client).await);
    assert_eq!(count(&told, "task_completed"), 1, "told, and once: {told:?}");
}

#[tokio::test]
async fn cancelling_a_task_reaches_the_server_and_a_late_result_changes_nothing() {
    let gateway = gateway().await;
    let client = world::http(&gateway).await;
    let (_, task) = promoted(&client, "hold", json!({})).await;
    assert_eq!(execute(&client, "one", "cancelled", json!({})).await.text(), "0");
    let cancelled = client.call("cancel_task", json!({ "task_id": task })).await;
    assert!(!cancelled.is_error(), "{cancelled}");
    let start = Instant::now();
    while execute(&client, "one", "cancelled", json!({})).await.text() != "1" {
        assert!(start.elapsed() < world::PATIENCE, "the server is told");
    }
    let again = client.call("cancel_task", json!({ "task_id": task })).await;
    assert!(again.is_error(), "{again}");
    let row = client.call("get_task", json!({ "task_id": task })).await.json();
    assert_eq!(row["status"], "cancelled");
    let result = client.call("get_task_result", json!({ "task_id": task })).await;
    assert!(result.is_error(), "{result}");
    assert_eq!(client.call("cancel_task", json!({ "task_id": "nope" })).await.code(), "TASK_NOT_FOUND");
}

#[tokio::test]
async fn a_call_that_is_cancelled_before_it_becomes_a_task_is_none() {
    let gateway = gateway().await;
    let client = world::http(&gateway).await;
    let arguments = json!({ "server": "one", "tool": "hold", "timeout_ms": 30_000 });
    let mut running = client.start("execute_tool", arguments).await;
    execute(&client, "one", "echo", json!({})).await;
    running.tell_cancelled("enough").await;
    running.within(Duration::from_secs(5)).await;
    let start = Instant::now();
    while execute(&client, "one", "cancelled", json!({})).await.text() != "1" {
        assert!(start.elapsed() < world::PATIENCE, "the server is told");
    }
    assert_eq!(client.call("list_tasks", json!({ "include_completed": true })).await.json(), json!([]));
}

#[tokio::test]
async fn a_removed_server_fails_its_tasks() {
    let gateway = gateway().await;
    let client = world::http(&gateway).await;
    let (_, task) = promoted(&client, "hold", json!({})).await;
    drain(&client).await;
    assert!(!client.call("remove_server", json!({ "name": "one" })).await.is_error());
    let row = client.call("get_task", json!({ "task_id": task })).await.json();
    assert_eq!(row["status"], "failed");
    assert!(row["error"].to_string().contains("Server removed"), "{row}");
}

#[tokio::test]
async fn a_call_that_waits_for_input_names_the_questions_of_its_server() {
    let gateway = gateway().await;
    let client = world::http(&gateway).await;
    let start = Instant::now();
    let reply = client.call("execute_tool", json!({ "server": "one", "tool": "elicit", "timeout_ms": 120_000 })).await;
    assert!(start.elapsed() < Duration::from_secs(10), "long before its time is over");
    let other = client.call("execute_tool", json!({ "server": "two", "tool": "elicit" })).await;
    for (reply, server) in [(&reply, "one"), (&other, "two")] {
        let body = reply.objects().map(|(_, body)| body).find(|body| body["task"].is_object()).expect("a task");
        assert_eq!(body["waiting_for_input"], true, "{reply}");
        let asked = body["server_pending"]["elicitations"].as_array().expect("questions").clone();
        assert_eq!((asked.len(), &asked[0]["server"]), (1, &json!(server)), "{reply}");
    }
}
