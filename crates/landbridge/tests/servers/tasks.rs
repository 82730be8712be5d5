//! What is lost with a server and what is kept: tasks, questions, results, subscriptions.

use std::time::Duration;

use serde_json::{Value, json};

use crate::desk::{Desk, FRONTS, Front, LEGACY, task_id};
use crate::world::{add, kill, script, with};

/// A short restart policy.
fn quick(settings: &Value) -> Value {
    with(script(settings), &json!({ "restartConfig": { "baseDelayMs": 100, "maxDelayMs": 400 } }))
}

#[tokio::test]
async fn a_crash_fails_tasks_and_questions_in_order_and_once() {
    for front in FRONTS {
        let mut desk = Desk::open(front, json!({})).await;
        desk.ok("add_server", add("s", &quick(&json!({})))).await;
        let sleeping = desk.task("s", "sleep", json!({ "ms": 60_000 })).await;
        let asking = task_id(&desk.run("s", "elicit", json!({})).await);
        let sampling = task_id(&desk.run("s", "sample", json!({})).await);
        let running = desk.start("s", "hang", json!({}), 30_000).await;
        desk.settle().await;
        kill(desk.pid("s").await);
        desk.event("server_reconnected").await;
        let direct = running.wait().await;
        desk.note(&direct);
        assert!(direct.is_error() && direct.code() == "TOOL_ERR_SERVER_DISCONNECTED", "{front:?} {direct}");
        desk.settle().await;
        let kinds = desk.kinds("s");
        let first =
            |kind: &str| kinds.iter().position(|known| known == kind).unwrap_or_else(|| panic!("{kind}: {kinds:?}"));
        let last = |kind: &str| kinds.iter().rposition(|known| known == kind).unwrap_or_default();
        assert!(last("task_failed") < first("elicitation_expired"), "{front:?} {kinds:?}");
        assert!(last("task_failed") < first("sampling_expired"), "{front:?} {kinds:?}");
        assert!(first("elicitation_expired") < first("server_disconnected"), "{front:?} {kinds:?}");
        assert!(first("sampling_expired") < first("server_disconnected"), "{front:?} {kinds:?}");
        assert!(first("server_disconnected") < first("server_reconnecting"), "{front:?} {kinds:?}");
        for (kind, want) in
            [("task_failed", 3), ("elicitation_expired", 1), ("sampling_expired", 1), ("server_disconnected", 1)]
        {
            assert_eq!(desk.count(kind), want, "{front:?} {kind} {kinds:?}");
        }
        for task in [sleeping, asking, sampling] {
            let failed = desk.event_where("task_failed", |data| data["taskId"] == task).await;
            assert!(failed["error"].is_string(), "{front:?} {failed}");
            let row = desk.ok("get_task", json!({ "task_id": task })).await.json();
            assert!(row["status"] == "failed" && row["error"].is_string(), "{row}");
        }
        assert_eq!(desk.event("elicitation_expired").await["cause"], "server_disconnected");
        assert_eq!(desk.event("sampling_expired").await["cause"], "server_disconnected");
        assert_eq!(desk.ok("get_elicitations", json!({})).await.json(), json!([]));
        desk.works("s").await;
    }
}

#[tokio::test]
async fn a_restart_counts_what_it_has_ended() {
    for front in LEGACY {
        let mut desk = Desk::open(front, json!({})).await;
        desk.ok("add_server", add("s", &quick(&json!({})))).await;
        desk.task("s", "sleep", json!({ "ms": 60_000 })).await;
        desk.run("s", "elicit", json!({})).await;
        desk.run("s", "sample", json!({})).await;
        kill(desk.pid("s").await);
        let back = desk.event("server_reconnected").await;
        assert_eq!((&back["invalidatedElicitations"], &back["invalidatedSampling"]), (&json!(1), &json!(1)), "{back}");
        assert_eq!(back["invalidatedTasks"], 3, "{front:?} {back}");
    }
}

#[tokio::test]
async fn a_task_that_was_lost_with_its_server_says_so() {
    let mut desk = Desk::open(Front::Http, json!({})).await;
    desk.ok("add_server", add("s", &quick(&json!({})))).await;
    let task = desk.task("s", "sleep", json!({ "ms": 60_000 })).await;
    kill(desk.pid("s").await);
    let failed = desk.event("task_failed").await;
    assert!(failed["taskId"] == task && failed["reason"] == "server_disconnected", "{failed}");
    assert!(failed["error"].as_str().is_some_and(|text| text.contains("Server disconnected")), "{failed}");
    let reply = desk.call("get_task_result", json!({ "task_id": task })).await;
    assert!(reply.is_error() && reply.text().contains("Server disconnected"), "{reply}");
}

#[tokio::test]
async fn a_crash_while_restarting_has_no_further_effect_on_tasks() {
    let folder = tempfile::tempdir().expect("a folder");
    let end = folder.path().join("end");
    let mut desk = Desk::open(Front::Http, json!({})).await;
    desk.ok("add_server", add("s", &quick(&json!({ "dies_if": end })))).await;
    desk.task("s", "sleep", json!({ "ms": 60_000 })).await;
    std::fs::write(&end, "").expect("no more lives");
    kill(desk.pid("s").await);
    desk.event_where("server_reconnecting", |data| data["attempt"] == 3).await;
    std::fs::remove_file(&end).expect("alive again");
    desk.event("server_reconnected").await;
    desk.settle().await;
    assert_eq!((desk.count("task_failed"), desk.count("server_disconnected")), (1, 1), "{:?}", desk.kinds("s"));
    assert_eq!(desk.count("server_process_crashed"), 1, "a failed handshake is a failed attempt, not a crash");
}

#[tokio::test]
async fn the_result_of_a_finished_task_outlives_the_server() {
    for front in LEGACY {
        let mut desk = Desk::open(front, json!({})).await;
        desk.ok("add_server", add("s", &quick(&json!({})))).await;
        let task = desk.task("s", "sleep", json!({ "ms": 400 })).await;
        desk.event("task_completed").await;
        kill(desk.pid("s").await);
        desk.event("server_reconnected").await;
        let row = desk.ok("get_task", json!({ "task_id": task })).await.json();
        assert!(row["status"] == "completed" && row["result"]["content"][0]["text"] == "slept", "{front:?} {row}");
        let result = desk.ok("get_task_result", json!({ "task_id": task })).await;
        assert_eq!(result.text(), "slept");
        assert_eq!(desk.count("task_failed"), 0);
    }
}

#[tokio::test]
async fn tools_that_changed_with_a_restart_are_announced() {
    let folder = tempfile::tempdir().expect("a folder");
    for front in LEGACY {
        let grown = folder.path().join(format!("{front:?}"));
        let mut desk = Desk::open(front, json!({})).await;
        desk.ok("add_server", add("s", &quick(&json!({ "grown": grown })))).await;
        kill(desk.pid("s").await);
        assert_eq!(desk.event("server_reconnected").await["refreshedTools"], 17);
        desk.settle().await;
        assert_eq!(desk.count("notification"), 0, "nothing has changed: {}", desk.told());
        std::fs::write(&grown, "").expect("another tool");
        kill(desk.pid("s").await);
        let note = desk.event("notification").await;
        assert_eq!(note["method"], "notifications/tools/list_changed", "{front:?} {note}");
        assert_eq!(desk.event("server_reconnected").await["refreshedTools"], 18);
        let kinds = desk.kinds("s");
        assert!(
            kinds.iter().rposition(|it| it == "notification") < kinds.iter().rposition(|it| it == "server_reconnected")
        );
        desk.settle().await;
        assert_eq!(desk.count("notification"), 1, "only what has changed");
        let tools = desk.ok("list_tools", json!({ "tool": "^grown$" })).await.json();
        assert_eq!(tools[0]["name"], "grown", "{tools}");
    }
}

#[tokio::test]
async fn a_subscription_and_a_log_level_outlive_the_process() {
    for front in FRONTS {
        let mut desk = Desk::open(front, json!({})).await;
        desk.ok("add_server", add("s", &quick(&json!({})))).await;
        for uri in ["test://one", "test://two"] {
            desk.ok("subscribe_resource", json!({ "server": "s", "uri": uri })).await;
        }
        desk.ok("unsubscribe_resource", json!({ "server": "s", "uri": "test://two" })).await;
        desk.ok("set_log_level", json!({ "server": "s", "level": "error" })).await;
        kill(desk.pid("s").await);
        desk.event("server_reconnected").await;
        assert_eq!(desk.text("s", "subscribed", json!({})).await, r#"["test://one"]"#, "{front:?}");
        let received = desk.text("s", "received", json!({})).await;
        assert!(
            received.contains(r#"{"method": "logging/setLevel", "params": {"level": "error"}}"#),
            "{front:?} {received}"
        );
        assert_eq!(desk.text("s", "touch", json!({ "uri": "test://one" })).await, "told");
        let note = desk.event("notification").await;
        assert!(note["method"] == "notifications/resources/updated" && note["params"]["uri"] == "test://one", "{note}");
        let status = desk.ok("get_server_status", json!({ "server": "s" })).await.json();
        assert_eq!(status["subscriptions"], json!(["test://one"]), "{status}");
    }
}

#[tokio::test]
async fn a_connected_server_can_be_connected_anew() {
    for front in FRONTS {
        let mut desk = Desk::open(front, json!({})).await;
        desk.ok("add_server", add("s", &script(&json!({})))).await;
        desk.ok("subscribe_resource", json!({ "server": "s", "uri": "test://one" })).await;
        let task = desk.task("s", "sleep", json!({ "ms": 60_000 })).await;
        let pid = desk.pid("s").await;
        let reply = desk.ok("reconnect_server", json!({ "name": "s" })).await;
        assert_eq!(reply.text(), "Reconnected to server 's'");
        let told = reply.structured();
        assert!(
            told["name"] == "s"
                && told["status"] == "connected"
                && told["attemptsTaken"] == 0
                && told["forced"] == true,
            "{reply}"
        );
        assert_ne!(desk.pid("s").await, pid, "{front:?}");
        desk.works("s").await;
        assert_eq!(desk.event("server_disconnected").await["wasIntentional"], true);
        let back = desk.event("server_reconnected").await;
        assert!(
            back["forced"] == true && back["attemptsTaken"] == 0 && back["capabilities"]["tools"] == true,
            "{back}"
        );
        assert_eq!(desk.event("task_failed").await["taskId"], task);
        assert_eq!(desk.text("s", "subscribed", json!({})).await, r#"["test://one"]"#, "{front:?}");
        crate::world::gone(pid, Duration::from_secs(10)).await;
        desk.settle().await;
        for kind in ["server_process_crashed", "server_reconnecting"] {
            assert_eq!(desk.count(kind), 0, "{front:?} {}", desk.told());
        }
        assert_eq!((desk.count("server_disconnected"), desk.count("server_reconnected")), (1, 1));
    }
}

#[tokio::test]
async fn connecting_anew_twice_at_once_makes_one_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    let lives = folder.path().join("lives");
    let mut desk = Desk::open(Front::Http, json!({})).await;
    desk.ok("add_server", add("s", &script(&json!({ "lives": lives })))).await;
    let starts = || std::fs::read_to_string(&lives).expect("the lives").lines().count();
    let before = starts();
    let one = desk.client.start("reconnect_server", json!({ "name": "s" })).await;
    let two = desk.client.start("reconnect_server", json!({ "name": "s" })).await;
    let (one, two) = (one.wait().await, two.wait().await);
    assert!(!one.is_error() && !two.is_error(), "{one} {two}");
    desk.works("s").await;
    // They join if the second comes while the first is under way; otherwise each makes one.
    assert!(starts() <= before + 2, "{} starts", starts() - before);
    assert!(crate::world::is_alive(desk.pid("s").await));
}

#[tokio::test]
async fn a_server_of_another_session_is_simply_connected_by_reconnect_server() {
    let mut one = Desk::open(Front::Http, json!({})).await;
    let mut two = Desk::at(one.gateway()).await;
    one.ok("add_server", add("s", &script(&json!({})))).await;
    assert_eq!(two.row("s").await["status"], "not_connected");
    two.ok("reconnect_server", json!({ "name": "s" })).await;
    assert_eq!(two.row("s").await["status"], "connected");
    two.settle().await;
    assert_eq!(two.count("server_disconnected"), 0, "it was not connected before");
    two.works("s").await;
}
