//! Things that happen at once: whatever comes first, one outcome and no leftovers.

use std::time::Duration;

use serde_json::{Value, json};

use crate::desk::{Desk, Front, LEGACY, task_id};
use crate::world::{add, gone, marked, script, until, with};

fn mark(test: &str) -> String {
    format!("servers-race-{test}-{}", std::process::id())
}

#[tokio::test]
async fn a_server_removed_while_it_connects_never_comes_up() {
    let folder = tempfile::tempdir().expect("a folder");
    for front in LEGACY {
        let (gate, mark) = (folder.path().join(format!("{front:?}")), mark(&format!("remove-{front:?}")));
        let entry = with(script(&json!({ "gate": gate })), &json!({ "env": { "MARK": mark } }));
        let mut desk = Desk::open(front, json!({ "slow": entry })).await;
        let running = desk.start("slow", "echo", json!({ "message": "x" }), 30_000).await;
        desk.until("slow", "connecting").await;
        desk.ok("remove_server", json!({ "name": "slow" })).await;
        let reply = running.wait().await;
        desk.note(&reply);
        assert!(reply.is_error(), "{front:?} {reply}");
        std::fs::write(&gate, "").expect("the gate opens too late");
        until(Duration::from_secs(12), "no process is left", || marked(&mark).is_empty()).await;
        desk.settle().await;
        assert!(desk.row("slow").await.is_null());
        assert_eq!(desk.count("server_connected"), 0, "{front:?} {}", desk.told());
        assert_eq!(desk.count("server_removed"), 1, "{front:?} {}", desk.told());
    }
}

#[tokio::test]
async fn calls_to_a_server_that_connects_all_wait_for_the_one_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    let (gate, lives) = (folder.path().join("gate"), folder.path().join("lives"));
    let mut desk = Desk::open(Front::Http, json!({ "slow": script(&json!({ "gate": gate, "lives": lives })) })).await;
    let mut calls = Vec::new();
    for number in 0..8 {
        calls.push(desk.start("slow", "echo", json!({ "message": number.to_string() }), 30_000).await);
    }
    desk.until("slow", "connecting").await;
    std::fs::write(&gate, "").expect("the gate opens");
    for (number, call) in calls.into_iter().enumerate() {
        let reply = call.wait().await;
        desk.note(&reply);
        assert_eq!(reply.text(), number.to_string());
    }
    let starts = std::fs::read_to_string(&lives).expect("the lives").lines().count();
    assert_eq!(starts, 1, "one process");
    desk.settle().await;
    assert_eq!(desk.count("server_connected"), 1, "{}", desk.told());
}

#[tokio::test]
async fn a_session_that_ends_during_a_call_ends_the_call() {
    let mut desk = Desk::open(Front::Http, json!({})).await;
    desk.ok("add_server", add("s", &script(&json!({})))).await;
    let mut other = Desk::at(desk.gateway()).await;
    let pid = desk.pid("s").await;
    let running = desk.start("s", "hang", json!({}), 60_000).await;
    desk.works("s").await;
    assert_eq!(desk.client.end().await, 200);
    let reply = running.wait().await;
    assert!(reply.is_error() || reply.result().is_null(), "{reply}");
    gone(pid, Duration::from_secs(12)).await;
    other.works("s").await;
    assert!(!desk.said().contains("panicked"), "{}", desk.said());
}

#[tokio::test]
async fn two_sessions_that_define_a_name_at_once_agree_in_the_end() {
    for round in 0..4 {
        let mut one = Desk::open(Front::Http, json!({})).await;
        let mut two = Desk::at(one.gateway()).await;
        let entry = |who: &str| add("s", &with(script(&json!({})), &json!({ "env": { "WHO": who } })));
        let first = one.client.start("add_server", entry("one")).await;
        let second = two.client.start("add_server", entry("two")).await;
        let (first, second) = (first.wait().await, second.wait().await);
        assert!(!first.is_error() || !second.is_error(), "{first} {second}");
        one.note(&first);
        two.note(&second);
        let ask = json!({ "name": "WHO" });
        let (a, b) = (one.text("s", "variable", ask.clone()).await, two.text("s", "variable", ask).await);
        assert_eq!(a, b, "round {round}: the last writer wins in both");
    }
}

#[tokio::test]
async fn of_many_answers_to_one_question_the_first_counts() {
    let mut desk = Desk::open(Front::Http, json!({})).await;
    desk.ok("add_server", add("s", &script(&json!({})))).await;
    for round in 0..5 {
        let task = task_id(&desk.run("s", "elicit", json!({})).await);
        let request = desk.ok("get_elicitations", json!({})).await.json()[0]["requestId"].clone();
        let mut calls = Vec::new();
        for number in 0..4 {
            let content = json!({ "name": number.to_string() });
            let answer = json!({ "request_id": request, "action": "accept", "content": content });
            calls.push(desk.client.start("respond_to_elicitation", answer).await);
            let cancel = json!({ "request_id": request });
            calls.push(desk.client.start("cancel_elicitation_request", cancel).await);
        }
        let mut won = 0;
        for call in calls {
            let reply = call.wait().await;
            desk.note(&reply);
            won += usize::from(!reply.is_error());
            assert!(!reply.is_error() || reply.code() == "REQUEST_NOT_FOUND", "{reply}");
        }
        assert_eq!(won, 1, "round {round}");
        desk.event_where("task_completed", |data| data["taskId"] == task.as_str()).await;
    }
}

#[tokio::test]
async fn a_task_that_ends_while_it_is_cancelled_has_one_end() {
    let mut desk = Desk::open(Front::Http, json!({})).await;
    desk.ok("add_server", add("s", &script(&json!({})))).await;
    for round in 0..10 {
        let task = desk.task("s", "sleep", json!({ "ms": 200 })).await;
        tokio::time::sleep(Duration::from_millis(80 + round * 4)).await;
        let cancelled = desk.call("cancel_task", json!({ "task_id": task })).await;
        let row = desk.ok("get_task", json!({ "task_id": task })).await.json();
        let want = if cancelled.is_error() { "completed" } else { "cancelled" };
        assert_eq!(row["status"], want, "{row}");
    }
    desk.settle().await;
    assert_eq!(desk.count("task_created"), 10);
    assert_eq!(desk.count("task_completed") + desk.count("task_cancelled"), 10, "{}", desk.told());
    assert_eq!(desk.count("task_failed"), 0);
}

#[tokio::test]
async fn a_result_at_the_deadline_is_direct_or_a_task_never_both() {
    let mut desk = Desk::open(Front::Http, json!({})).await;
    desk.ok("add_server", add("s", &script(&json!({})))).await;
    let (mut direct, mut tasks) = (0, Vec::new());
    for round in 0..30_u64 {
        let call = json!({ "server": "s", "tool": "sleep", "args": { "ms": 145 + round % 10 }, "timeout_ms": 150 });
        let reply = desk.ok("execute_tool", call).await;
        if reply.text() == "slept" {
            direct += 1;
        } else {
            tasks.push(task_id(&reply));
        }
    }
    for task in &tasks {
        let result = desk.ok("get_task_result", json!({ "task_id": task })).await;
        assert_eq!(result.text(), "slept");
    }
    desk.settle().await;
    let counts = (desk.count("task_created"), desk.count("task_completed"));
    assert_eq!(counts, (tasks.len(), tasks.len()), "{direct} direct");
    let rows: Value = desk.ok("list_tasks", json!({ "include_completed": true })).await.json();
    assert_eq!(rows.as_array().map(Vec::len), Some(tasks.len()), "{rows}");
}
