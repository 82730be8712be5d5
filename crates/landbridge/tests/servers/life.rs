//! The life of a server that is a program: started, crashed, restarted, given up, stopped.

use std::time::Duration;

use serde_json::{Value, json};

use crate::desk::{Desk, FRONTS, Front, LEGACY};
use crate::world::{add, gone, is_alive, kill, script, with};

/// A short restart policy.
fn quick(settings: &Value) -> Value {
    with(script(settings), &json!({ "restartConfig": { "baseDelayMs": 100, "maxDelayMs": 400 } }))
}

#[tokio::test]
async fn a_program_is_started_called_and_stopped_without_leaving_anything() {
    for front in FRONTS {
        let mut desk = Desk::open(front, json!({})).await;
        desk.ok("add_server", add("s", &script(&json!({})))).await;
        let pid = desk.pid("s").await;
        assert!(is_alive(pid), "the process named is there");
        desk.works("s").await;
        desk.ok("remove_server", json!({ "name": "s" })).await;
        gone(pid, Duration::from_secs(10)).await;
    }
}

#[tokio::test]
async fn a_program_that_does_not_listen_to_its_end_is_killed() {
    let mut desk = Desk::open(Front::Stdio, json!({})).await;
    desk.ok("add_server", add("s", &script(&json!({ "deaf": true })))).await;
    let pid = desk.pid("s").await;
    desk.ok("remove_server", json!({ "name": "s" })).await;
    // 2 s for the end of its input, 3 s after SIGTERM.
    gone(pid, Duration::from_secs(10)).await;
}

#[tokio::test]
async fn a_killed_program_is_restarted_and_every_step_is_told_once() {
    for front in FRONTS {
        let mut desk = Desk::open(front, json!({})).await;
        desk.ok("add_server", add("s", &quick(&json!({})))).await;
        let pid = desk.pid("s").await;
        kill(pid);
        let crashed = desk.event("server_process_crashed").await;
        assert!(crashed["name"] == "s" && crashed["exitCode"].is_null(), "{front:?} {crashed}");
        assert!(["9", "SIGKILL"].iter().any(|name| crashed["signal"] == *name) || crashed["signal"] == 9, "{crashed}");
        let lost = desk.event("server_disconnected").await;
        assert!(lost["name"] == "s" && lost["wasIntentional"] == false, "{lost}");
        let retry = desk.event("server_reconnecting").await;
        assert!(
            retry["attempt"] == 1 && retry["nextRetryMs"].as_u64().is_some_and(|ms| (90..=110).contains(&ms)),
            "{retry}"
        );
        let back = desk.event("server_reconnected").await;
        assert!(
            back["type"] == "restart" && back["attemptsTaken"] == 1 && back.get("forced").is_none_or(|it| it == false),
            "{back}"
        );
        assert_eq!(back["refreshedTools"], 17, "{back}");
        assert_ne!(desk.pid("s").await, pid);
        desk.works("s").await;
        desk.settle().await;
        let want = [
            "server_connected",
            "server_process_crashed",
            "server_disconnected",
            "server_reconnecting",
            "server_reconnected",
        ];
        assert_eq!(desk.kinds("s"), want, "{front:?}");
    }
}

#[tokio::test]
async fn the_exit_code_of_a_crash_is_told() {
    for front in LEGACY {
        let mut desk = Desk::open(front, json!({})).await;
        desk.ok("add_server", add("s", &quick(&json!({})))).await;
        let reply = desk.run("s", "die", json!({ "code": 3 })).await;
        assert!(reply.is_error() && reply.code() == "TOOL_ERR_SERVER_DISCONNECTED", "{reply}");
        let crashed = desk.event("server_process_crashed").await;
        assert_eq!(crashed, json!({ "name": "s", "exitCode": 3, "signal": null }), "{front:?}");
        desk.event("server_reconnected").await;
        let reply = desk.run("s", "die", json!({ "signal": "SIGSEGV" })).await;
        assert!(reply.is_error(), "{reply}");
        let crashed = desk.event("server_process_crashed").await;
        assert!(crashed["exitCode"].is_null() && !crashed["signal"].is_null(), "{front:?} {crashed}");
    }
}

#[tokio::test]
async fn a_wait_ends_with_server_disconnected_when_a_server_crashes() {
    let mut desk = Desk::open(Front::Http, json!({})).await;
    desk.ok("add_server", add("s", &quick(&json!({})))).await;
    desk.settle().await;
    let waiting = desk.client.start("await_activity", json!({ "timeout_ms": 30_000 })).await;
    kill(desk.pid("s").await);
    let reply = waiting.wait().await;
    let triggers = reply.json()["triggers"].clone();
    let found =
        triggers.as_array().into_iter().flatten().any(|it| it["type"] == "server_disconnected" && it["server"] == "s");
    assert!(found, "{reply}");
}

#[tokio::test]
async fn what_is_written_before_the_handshake_is_in_the_logs() {
    for front in FRONTS {
        let mut desk = Desk::open(front, json!({})).await;
        desk.ok("add_server", add("s", &script(&json!({ "first_words": "first words\nsecond words" })))).await;
        desk.works("s").await;
        let logs = desk.ok("get_logs", json!({ "sources": ["stderr"], "server": "s" })).await.json();
        let lines: Vec<_> = logs.as_array().into_iter().flatten().map(|row| row["data"].clone()).collect();
        // A modern client's gateway may have started the program once before, to see what it speaks.
        assert!(lines.starts_with(&[json!("first words"), json!("second words")]), "{front:?} {logs}");
        assert!(lines.len() <= if matches!(front, Front::Stdio | Front::Http) { 2 } else { 4 }, "{front:?} {logs}");
        assert!(logs[0]["source"] == "stderr" && logs[0]["level"] == "warning" && logs[0]["server"] == "s", "{logs}");
    }
}

#[tokio::test]
async fn what_a_program_says_before_it_dies_at_the_start_is_in_the_error() {
    let mut desk = Desk::open(Front::Stdio, json!({})).await;
    let entry = script(&json!({ "first_words": "cannot find my keys", "dies_at_hello": true }));
    let reply = desk.call("add_server", add("s", &entry)).await;
    assert!(reply.is_error(), "{reply}");
    assert!(reply.message.to_string().contains("cannot find my keys"), "{reply}");
}

#[tokio::test]
async fn restarts_are_given_up_after_the_attempts_that_were_allowed() {
    for front in LEGACY {
        let folder = tempfile::tempdir().expect("a folder");
        let (lives, end) = (folder.path().join("lives"), folder.path().join("end"));
        let mut desk = Desk::open(front, json!({})).await;
        let entry = script(&json!({ "lives": lives, "dies_if": end }));
        let policy = json!({ "restartConfig": { "maxAttempts": 2, "baseDelayMs": 50 } });
        desk.ok("add_server", add("s", &with(entry, &policy))).await;
        std::fs::write(&end, "").expect("no more lives");
        let starts = || std::fs::read_to_string(&lives).expect("the lives").lines().count();
        let before = starts();
        kill(desk.pid("s").await);
        let failed = desk.event("server_restart_failed").await;
        assert!(failed["name"] == "s" && failed["attempts"] == 2 && failed["error"].is_string(), "{failed}");
        let row = desk.row("s").await;
        assert!(row["status"] == "error" && row["connected"] == false && row["lastError"].is_string(), "{row}");
        assert!(row.get("reconnectAttempt").is_none() && row.get("nextRetryMs").is_none(), "{row}");
        desk.settle().await;
        assert_eq!(starts(), before + 2, "two attempts");
        assert_eq!((desk.count("server_reconnecting"), desk.count("server_restart_failed")), (2, 1), "{front:?}");
    }
}

#[tokio::test]
async fn a_program_that_dies_after_each_handshake_does_not_restart_for_ever() {
    let mut desk = Desk::open(Front::Stdio, json!({})).await;
    let policy = json!({ "restartConfig": { "maxAttempts": 2, "baseDelayMs": 50 } });
    desk.ok("add_server", add("s", &with(script(&json!({})), &policy))).await;
    for attempt in 1..=2 {
        kill(desk.pid("s").await);
        assert_eq!(desk.event("server_reconnecting").await["attempt"], attempt, "uptime was far below 60 s");
        desk.event("server_reconnected").await;
    }
    kill(desk.pid("s").await);
    desk.event("server_restart_failed").await;
    assert_eq!(desk.row("s").await["status"], "error");
    desk.ok("reconnect_server", json!({ "name": "s" })).await;
    desk.works("s").await;
}

#[tokio::test]
async fn a_program_that_must_not_be_restarted_is_an_error_with_its_code() {
    let mut desk = Desk::open(Front::Http, json!({})).await;
    let policy = json!({ "restartConfig": { "enabled": false } });
    desk.ok("add_server", add("s", &with(script(&json!({})), &policy))).await;
    desk.run("s", "die", json!({ "code": 5 })).await;
    let row = desk.until("s", "error").await;
    assert_eq!(row["lastError"], "Process exited with code 5", "{row}");
    desk.settle().await;
    assert_eq!(desk.count("server_reconnecting"), 0, "{}", desk.told());
}

#[tokio::test]
async fn the_delays_between_restarts_double_up_to_the_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut desk = Desk::open(Front::Stdio, json!({})).await;
    let end = folder.path().join("end");
    let entry = script(&json!({ "dies_if": end }));
    let policy =
        json!({ "restartConfig": { "maxAttempts": 5, "baseDelayMs": 100, "maxDelayMs": 400, "backoffMultiplier": 2 } });
    desk.ok("add_server", add("s", &with(entry, &policy))).await;
    std::fs::write(&end, "").expect("no more lives");
    kill(desk.pid("s").await);
    let mut delays = Vec::new();
    for attempt in 1..=5_u64 {
        let retry = desk.event("server_reconnecting").await;
        assert_eq!(retry["attempt"], attempt, "{retry}");
        delays.push(retry["nextRetryMs"].as_u64().expect("a delay"));
    }
    for (delay, want) in delays.iter().zip([100, 200, 400, 400, 400]) {
        assert!((want * 9 / 10..=want * 11 / 10).contains(delay), "{delays:?}");
    }
    desk.event("server_restart_failed").await;
}

#[tokio::test]
async fn every_status_of_a_server_can_be_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let (gate, end) = (folder.path().join("gate"), folder.path().join("end"));
    let patient = json!({ "restartConfig": { "baseDelayMs": 60_000, "maxDelayMs": 60_000 } });
    let servers = json!({
        "slow": script(&json!({ "gate": gate })),
        "lost": with(script(&json!({ "dies_if": end })), &patient),
        "bad": with(script(&json!({})), &json!({ "restartConfig": { "enabled": false } })),
    });
    let mut one = Desk::open(Front::Http, servers).await;
    let mut two = Desk::at(one.gateway()).await;
    let listing =
        one.client.start("execute_tool", json!({ "server": "slow", "tool": "echo", "args": { "message": "x" } })).await;
    one.until("slow", "connecting").await;
    one.works("lost").await;
    one.works("bad").await;
    assert_eq!(one.row("lost").await["status"], "connected");
    std::fs::write(&end, "").expect("no more lives");
    kill(one.pid("lost").await);
    kill(one.pid("bad").await);
    let row = one.until("lost", "reconnecting").await;
    assert!(row["reconnectAttempt"] == 1 && row["nextRetryMs"].as_u64().is_some_and(|ms| ms <= 66_000), "{row}");
    assert!(row.get("healthStatus").is_none() && row.get("pid").is_none(), "{row}");
    one.until("bad", "error").await;
    two.ok("add_server", add("new", &script(&json!({})))).await;
    assert_eq!(one.row("new").await["status"], "not_connected");
    std::fs::write(&gate, "").expect("the gate opens");
    assert_eq!(listing.wait().await.text(), "x");
    let row = one.until("slow", "connected").await;
    assert!(row["healthStatus"] == "healthy" && row["consecutiveHealthFailures"] == 0, "{row}");
    assert!(row.get("reconnectAttempt").is_none() && row.get("nextRetryMs").is_none(), "{row}");
}

#[tokio::test]
async fn the_time_to_the_next_attempt_is_what_is_left_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let end = folder.path().join("end");
    let entry = script(&json!({ "dies_if": end }));
    let policy = json!({ "restartConfig": { "baseDelayMs": 30_000, "maxDelayMs": 30_000 } });
    let mut desk = Desk::open(Front::Stdio, json!({})).await;
    desk.ok("add_server", add("s", &with(entry, &policy))).await;
    std::fs::write(&end, "").expect("no more lives");
    kill(desk.pid("s").await);
    let first = desk.until("s", "reconnecting").await["nextRetryMs"].as_u64().expect("a time");
    desk.ok("await_activity", json!({ "timeout_ms": 100 })).await;
    desk.ok("await_activity", json!({ "timeout_ms": 300 })).await;
    let later = desk.row("s").await["nextRetryMs"].as_u64().expect("a time");
    assert!(later < first, "{later} is not less than {first}");
}

#[tokio::test]
async fn a_call_to_a_lost_server_tries_at_once_and_says_when_the_next_attempt_is() {
    let folder = tempfile::tempdir().expect("a folder");
    for front in FRONTS {
        let lives = folder.path().join(format!("{front:?}"));
        let end = folder.path().join(format!("{front:?} ends"));
        let entry = script(&json!({ "lives": lives, "dies_if": end }));
        let policy = json!({ "restartConfig": { "baseDelayMs": 30_000, "maxDelayMs": 30_000 } });
        let mut desk = Desk::open(front, json!({})).await;
        desk.ok("add_server", add("s", &with(entry, &policy))).await;
        std::fs::write(&end, "").expect("no more lives");
        kill(desk.pid("s").await);
        desk.until("s", "reconnecting").await;
        let starts = || std::fs::read_to_string(&lives).expect("the lives").lines().count();
        let before = starts();
        let reply = desk.run("s", "echo", json!({ "message": "x" })).await;
        assert!(reply.is_error() && reply.code() == "TOOL_ERR_SERVER_DISCONNECTED", "{front:?} {reply}");
        let details = &reply.structured()["error"]["details"];
        assert!(details["status"] == "reconnecting" && details["attempt"].is_u64(), "{front:?} {reply}");
        assert!(details["nextRetryMs"].is_u64() && details["lastError"].is_string(), "{front:?} {reply}");
        assert_eq!(starts(), before + 1, "{front:?}: one attempt for the call");
    }
}

#[tokio::test]
async fn a_call_to_a_lost_server_that_can_start_again_just_works() {
    for front in FRONTS {
        let policy = json!({ "restartConfig": { "baseDelayMs": 60_000, "maxDelayMs": 60_000 } });
        let mut desk = Desk::open(front, json!({})).await;
        desk.ok("add_server", add("s", &with(script(&json!({})), &policy))).await;
        kill(desk.pid("s").await);
        desk.until("s", "reconnecting").await;
        desk.works("s").await;
        assert_eq!(desk.event("server_reconnected").await["type"], "restart", "{front:?}");
        assert_eq!(desk.row("s").await["status"], "connected");
    }
}
