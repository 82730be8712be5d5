//! Who is connected to what: servers of the config, servers added by a client, and what other sessions see of it.

use std::time::Duration;

use serde_json::json;

use crate::desk::{Desk, FRONTS, Front, LEGACY};
use crate::world::{add, fixture, fixture_on_http, gone, is_alive, nowhere, script, with};

#[tokio::test]
async fn servers_of_the_config_are_connected_without_being_added() {
    for front in LEGACY {
        let remote = fixture_on_http("legacy").await;
        let servers = json!({ "far": { "url": remote.url() }, "near": fixture("legacy") });
        let mut desk = Desk::open(front, servers).await;
        let row = desk.until("far", "connected").await;
        assert!(row["connected"] == true && row["transport"] == "http" && row["connectedAt"].is_string(), "{row}");
        // A program may be started only when it is first used: listing is a use.
        let tools = desk.ok("list_tools", json!({})).await.json();
        for server in ["far", "near"] {
            let found = tools.as_array().into_iter().flatten().any(|tool| tool["server"] == server);
            assert!(found, "{front:?}: no tools of {server}");
        }
        let row = desk.until("near", "connected").await;
        assert!(row["pid"].is_u64() && row["transport"] == "stdio", "{row}");
    }
}

#[tokio::test]
async fn every_session_has_a_server_process_of_its_own() {
    let mut one = Desk::open(Front::Http, json!({ "s": script(&json!({})) })).await;
    let mut two = Desk::at(one.gateway()).await;
    let (a, b) = (one.text("s", "pid", json!({})).await, two.text("s", "pid", json!({})).await);
    assert_ne!(a, b);
    assert_eq!(one.text("s", "pid", json!({})).await, a, "the session keeps its process");
    one.client.end().await;
    gone(a.parse().expect("a process id"), Duration::from_secs(10)).await;
    assert_eq!(two.text("s", "pid", json!({})).await, b, "the other session is not touched");
}

#[tokio::test]
async fn a_server_added_in_one_session_is_not_connected_in_another_until_used() {
    let mut one = Desk::open(Front::Http, json!({})).await;
    let mut two = Desk::at(one.gateway()).await;
    two.settle().await;
    one.ok("add_server", add("s", &script(&json!({})))).await;
    let added = two.event("server_added").await;
    assert!(
        added["name"] == "s" && added["type"] == "stdio" && added.get("updated").is_none_or(|it| it == false),
        "{added}"
    );
    let row = two.row("s").await;
    assert!(row["status"] == "not_connected" && row["connected"] == false && row.get("pid").is_none(), "{row}");
    two.works("s").await;
    assert_eq!(two.row("s").await["status"], "connected");
    assert_eq!(two.event("server_connected").await["name"], "s");
    one.settle().await;
    assert_eq!((one.count("server_added"), two.count("server_added")), (0, 1), "told once, and to others only");
    assert_eq!((one.count("server_connected"), two.count("server_connected")), (1, 1));
}

#[tokio::test]
async fn removing_a_server_takes_it_from_every_session() {
    let mut one = Desk::open(Front::Http, json!({})).await;
    let mut two = Desk::at(one.gateway()).await;
    one.ok("add_server", add("s", &script(&json!({})))).await;
    two.works("s").await;
    let task = two.task("s", "sleep", json!({ "ms": 60_000 })).await;
    let pids = [one.pid("s").await, two.pid("s").await];
    one.ok("remove_server", json!({ "name": "s" })).await;
    for desk in [&mut one, &mut two] {
        let lost = desk.event("server_disconnected").await;
        assert_eq!(lost["wasIntentional"], true, "{lost}");
        let removed = desk.event("server_removed").await;
        assert!(removed["name"] == "s" && removed["removedBy"].is_string(), "{removed}");
        assert!(desk.row("s").await.is_null());
        let kinds = desk.kinds("s");
        let place = |kind: &str| kinds.iter().position(|known| known == kind);
        assert!(place("server_disconnected") < place("server_removed"), "{kinds:?}");
        assert_eq!(desk.run("s", "echo", json!({})).await.code(), "TOOL_ERR_SERVER_NOT_FOUND");
    }
    let failed = two.event("task_failed").await;
    assert!(failed["taskId"] == task && failed["error"] == "Server removed", "{failed}");
    for pid in pids {
        gone(pid, Duration::from_secs(10)).await;
    }
    for desk in [&mut one, &mut two] {
        desk.settle().await;
        assert_eq!((desk.count("server_removed"), desk.count("server_disconnected")), (1, 1));
    }
}

#[tokio::test]
async fn removing_an_unknown_server_is_an_error_that_names_it() {
    for front in FRONTS {
        let mut desk = Desk::open(front, json!({})).await;
        let reply = desk.call("remove_server", json!({ "name": "nobody" })).await;
        assert!(reply.is_error() && reply.text().contains("Server 'nobody' not found"), "{front:?} {reply}");
        assert_eq!(reply.code(), "TOOL_ERR_SERVER_NOT_FOUND");
        let reply = desk.call("reconnect_server", json!({ "name": "nobody" })).await;
        assert_eq!(reply.code(), "TOOL_ERR_SERVER_NOT_FOUND", "{reply}");
    }
}

#[tokio::test]
async fn adding_the_same_server_again_changes_nothing_and_tells_nobody() {
    let mut one = Desk::open(Front::Http, json!({})).await;
    let mut two = Desk::at(one.gateway()).await;
    one.ok("add_server", add("s", &script(&json!({})))).await;
    two.event("server_added").await;
    let pid = one.pid("s").await;
    one.ok("add_server", add("s", &script(&json!({})))).await;
    assert_eq!(one.pid("s").await, pid, "the live connection is kept");
    two.ok("add_server", add("s", &script(&json!({})))).await;
    for desk in [&mut one, &mut two] {
        desk.settle().await;
        assert_eq!(desk.count("server_connected"), 1, "{}", desk.told());
        assert_eq!(desk.count("server_disconnected"), 0);
    }
    assert_eq!((one.count("server_added"), two.count("server_added")), (0, 1));
}

#[tokio::test]
async fn adding_a_name_with_another_definition_replaces_it_everywhere() {
    let mut one = Desk::open(Front::Http, json!({})).await;
    let mut two = Desk::at(one.gateway()).await;
    one.ok("add_server", add("s", &script(&json!({})))).await;
    two.works("s").await;
    let task = two.task("s", "sleep", json!({ "ms": 60_000 })).await;
    let old = [one.pid("s").await, two.pid("s").await];
    one.ok("add_server", add("s", &script(&json!({ "grown": "/" })))).await;
    assert_ne!(one.pid("s").await, old[0]);
    let updated = two.event_where("server_added", |data| data["updated"] == true).await;
    assert_eq!(updated["name"], "s");
    let failed = two.event("task_failed").await;
    assert!(failed["taskId"] == task && failed["error"] == "Server configuration changed", "{failed}");
    for desk in [&mut one, &mut two] {
        let tools = desk.ok("list_tools", json!({ "server": "^s$", "tool": "grown" })).await.json();
        let row = desk.row("s").await;
        if row["status"] == "connected" {
            assert_eq!(tools[0]["name"], "grown", "{tools}");
        }
        desk.works("s").await;
    }
    for pid in old {
        gone(pid, Duration::from_secs(10)).await;
    }
    one.settle().await;
    two.settle().await;
    assert_eq!((one.count("server_added"), two.count("server_added")), (0, 2), "once new, once updated");
    assert_eq!(two.count("task_failed"), 1);
}

#[tokio::test]
async fn a_server_that_cannot_be_added_leaves_nothing_behind() {
    for front in FRONTS {
        let mut desk = Desk::open(front, json!({})).await;
        let nowhere = format!("http://{}/mcp", nowhere().await);
        for entry in [
            json!({ "url": nowhere }),
            json!({ "command": "/nonexistent/program" }),
            json!({ "command": "false" }),
            script(&json!({ "dies_at_hello": true })),
        ] {
            let reply = desk.call("add_server", add("s", &entry)).await;
            assert!(
                reply.is_error() && reply.text().starts_with("Failed to add server: "),
                "{front:?} {entry} {reply}"
            );
            assert!(desk.row("s").await.is_null(), "{front:?} {entry} is still listed");
        }
        desk.ok("add_server", add("s", &script(&json!({})))).await;
        desk.works("s").await;
    }
}

#[tokio::test]
async fn a_failed_update_keeps_the_old_server() {
    let mut desk = Desk::open(Front::Stdio, json!({})).await;
    desk.ok("add_server", add("s", &script(&json!({})))).await;
    let reply = desk.call("add_server", add("s", &script(&json!({ "dies_at_hello": true })))).await;
    assert!(reply.is_error(), "{reply}");
    desk.works("s").await;
}

#[tokio::test]
async fn a_failed_add_is_not_told_to_other_sessions() {
    let mut one = Desk::open(Front::Http, json!({})).await;
    let mut two = Desk::at(one.gateway()).await;
    let reply = one.call("add_server", add("s", &script(&json!({ "dies_at_hello": true })))).await;
    assert!(reply.is_error(), "{reply}");
    two.settle().await;
    assert_eq!(two.count("server_added"), 0, "{}", two.told());
    assert!(two.row("s").await.is_null());
}

#[tokio::test]
async fn one_dead_server_of_the_config_does_not_hold_up_the_others() {
    for front in LEGACY {
        let quiet = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let silent = format!("http://{}/mcp", quiet.local_addr().expect("its address"));
        let servers = json!({
            "gone": { "url": format!("http://{}/mcp", nowhere().await) },
            "broken": { "command": "/nonexistent/program" },
            "silent": { "url": silent },
            "good": script(&json!({})),
        });
        let start = std::time::Instant::now();
        let mut desk = Desk::open(front, servers).await;
        desk.works("good").await;
        assert!(start.elapsed() < Duration::from_secs(10), "{front:?}: the silent server held everything up");
        let row = desk.until("gone", "reconnecting").await;
        let known = row["reconnectAttempt"].is_u64() && row["nextRetryMs"].is_u64() && row["lastError"].is_string();
        assert!(known, "{row}");
        assert_eq!(desk.row("silent").await["status"], "connecting");
        desk.works("good").await;
    }
}

#[tokio::test]
async fn a_connection_knows_who_the_server_is_and_the_server_who_we_are() {
    for front in FRONTS {
        let mut desk = Desk::open(front, json!({})).await;
        let reply = desk.ok("add_server", add("s", &script(&json!({})))).await;
        let told = reply.structured();
        assert_eq!(told["serverInfo"], json!({ "name": "script", "version": "1.2" }), "{reply}");
        assert_eq!(told["protocolVersion"], "2025-11-25");
        assert_eq!(
            (&told["name"], &told["transport"], &told["status"]),
            (&json!("s"), &json!("stdio"), &json!("connected"))
        );
        assert!(told["toolCount"].is_u64() && told["capabilities"]["resourceSubscriptions"] == true, "{reply}");
        let status = desk.ok("get_server_status", json!({ "server": "s" })).await.json();
        assert_eq!(status["serverInfo"], told["serverInfo"]);
        let hello: serde_json::Value = serde_json::from_str(&desk.text("s", "hello", json!({})).await).expect("JSON");
        assert_eq!(hello["clientInfo"]["name"], "landbridge");
        assert_eq!(hello["protocolVersion"], "2025-11-25");
        let asks = &hello["capabilities"];
        assert!(
            asks["sampling"].is_object() && asks["elicitation"]["form"].is_object() && asks.get("roots").is_none(),
            "{hello}"
        );
    }
}

#[tokio::test]
async fn a_change_of_the_restart_policy_is_another_definition() {
    let mut desk = Desk::open(Front::Stdio, json!({})).await;
    desk.ok("add_server", add("s", &script(&json!({})))).await;
    let pid = desk.pid("s").await;
    let entry = with(script(&json!({})), &json!({ "restartConfig": { "maxAttempts": 1 } }));
    desk.ok("add_server", add("s", &entry)).await;
    assert!(desk.pid("s").await != pid && is_alive(desk.pid("s").await));
}
