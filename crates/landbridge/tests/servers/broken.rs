//! Servers that cannot work until somebody mends them: told once, with the reason, and tried when they are used.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::desk::{Desk, Front, LEGACY, task_id};
use crate::world::{nowhere, script};

/// A program that runs the script; made later than the config that names it.
fn install(program: &Path) {
    let entry = script(&json!({}));
    let quoted = |text: &serde_json::Value| format!("'{}'", text.as_str().expect("a text"));
    let args: Vec<_> = entry["args"].as_array().expect("its arguments").iter().map(quoted).collect();
    let text = format!("#!/bin/sh\nexec {} {}\n", quoted(&entry["command"]), args.join(" "));
    std::fs::write(program, text).expect("written");
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).expect("executable");
}

/// It was once tried again for ever, and every attempt was told and ended a wait.
#[tokio::test]
async fn a_program_that_is_not_there_is_told_once_and_found_when_it_is_used() {
    for front in LEGACY {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("server");
        let servers = json!({ "late": { "command": program }, "folder": { "command": folder.path() } });
        let mut desk = Desk::open(front, servers).await;
        for (server, why) in [("late", "does not exist"), ("folder", "is a folder, not a program")] {
            let failed = desk.event_where("server_restart_failed", |data| data["name"] == server).await;
            let error = failed["error"].as_str().unwrap_or_default();
            assert!(error.contains(why) && failed["attempts"] == 1, "{front:?} {failed}");
            let row = desk.row(server).await;
            assert!(row["status"] == "error" && row.get("nextRetryMs").is_none(), "{front:?} {row}");
        }
        let reply = desk.run("late", "echo", json!({ "message": "x" })).await;
        assert!(reply.is_error() && reply.text().contains("does not exist"), "{front:?} {reply}");
        // Longer than the first wait of a server that is tried again by itself.
        let quiet = desk.ok("await_activity", json!({ "timeout_ms": 1500 })).await.json();
        assert!(quiet["triggered_by"] == "timeout" && quiet["events"] == json!([]), "{front:?} {quiet}");
        install(&program);
        desk.works("late").await;
        desk.settle().await;
        assert_eq!((desk.count("server_reconnecting"), desk.count("server_restart_failed")), (0, 2), "{front:?}");
    }
}

#[tokio::test]
async fn no_wait_ends_because_a_lost_server_was_tried_once_more() {
    let url = format!("http://{}/mcp", nowhere().await);
    let mut desk = Desk::open(Front::Http, json!({ "away": { "url": url } })).await;
    let first = desk.event("server_reconnecting").await;
    assert!(
        first["attempt"] == 1 && first["error"].as_str().is_some_and(|why| why.contains("cannot connect")),
        "{first}"
    );
    // The second attempt comes within this time, and the third mostly.
    let start = Instant::now();
    let quiet = desk.ok("await_activity", json!({ "timeout_ms": 3000 })).await.json();
    assert!(quiet["triggered_by"] == "timeout" && Duration::from_secs(3) <= start.elapsed(), "{quiet}");
    assert_eq!(quiet["events"][0]["data"]["attempt"], 2, "told with what ends the wait: {quiet}");
    let told = desk.said();
    assert!(told.contains("server_connect_failed server=away") && told.contains("next=\"tried again in "), "{told}");
}

#[tokio::test]
async fn what_a_program_writes_that_is_no_server_is_shown_while_it_is_waited_for() {
    let says = "echo 'Welcome to my server!'; echo 'Version 3'; while read line; do :; done";
    let mut desk = Desk::open(Front::Stdio, json!({ "shop": { "command": "sh", "args": ["-c", says] } })).await;
    let start = Instant::now();
    let row = loop {
        let row = desk.row("shop").await;
        if row["lastError"].is_string() {
            break row;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{row}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let told = row["lastError"].as_str().unwrap_or_default();
    assert!(row["status"] == "connecting" && told.contains("\"Welcome to my server!\""), "{row}");
    let logs = desk.ok("get_logs", json!({ "server": "shop" })).await.json();
    assert_eq!(logs[0]["data"], "Welcome to my server!", "{logs}");
}

/// It was an error once, although the tool says that a call which takes long becomes a task.
#[tokio::test]
async fn a_call_to_a_server_that_is_still_starting_becomes_a_task() {
    let entry = script(&json!({}));
    let quoted = |text: &serde_json::Value| format!("'{}'", text.as_str().expect("a text"));
    let args: Vec<_> = entry["args"].as_array().expect("its arguments").iter().map(quoted).collect();
    let starts = format!("sleep 2; exec {} {}", quoted(&entry["command"]), args.join(" "));
    let mut desk = Desk::open(Front::Http, json!({ "slow": { "command": "sh", "args": ["-c", starts] } })).await;
    let call = json!({ "server": "slow", "tool": "echo", "args": { "message": "here" }, "timeout_ms": 200 });
    let task = task_id(&desk.ok("execute_tool", call).await);
    let result = desk.ok("get_task_result", json!({ "task_id": task })).await;
    assert!(result.text().contains("here"), "{result}");
    desk.settle().await;
    assert_eq!(desk.count("task_completed"), 1, "{}", desk.told());
}
