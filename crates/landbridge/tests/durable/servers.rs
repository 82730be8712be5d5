//! Servers and what they wrote, with a restart in between.

use std::time::Instant;

use serde_json::{Value, json};

use crate::world::{Desk, End, Keep, PATIENCE, STRICT, World, one, script};

fn row<'a>(rows: &'a Value, name: &str) -> Option<&'a Value> {
    rows.as_array()?.iter().find(|row| row["name"] == name)
}

/// What was told about a server, by type.
fn kinds(desk: &Desk, server: &str) -> Vec<String> {
    let is_it = |event: &&Value| event["server"] == server || event["data"]["name"] == server;
    let of_it = desk.told.iter().filter(is_it).filter_map(|event| event["type"].as_str());
    of_it.filter(|kind| kind.starts_with("server_")).map(str::to_owned).collect()
}

async fn servers_come_back(keep: Keep) {
    let mut world = World::start(keep, one(), STRICT).await;
    let (mut desk, mut other) = (world.desk().await, world.desk().await);
    let mut definition = script();
    definition["name"] = json!("new");
    desk.ok("add_server", definition).await;
    other.until("server_added", 1).await;
    let rows = other.ok("list_servers", json!({})).await.json();
    assert_eq!(row(&rows, "new").map(|row| &row["status"]), Some(&json!("not_connected")), "{rows}");
    desk.drain().await;
    desk.told.clear();

    for how in [End::Stop, End::Kill] {
        world.restart(how).await;
        for server in ["one", "new"] {
            desk.ok("execute_tool", json!({ "server": server, "tool": "echo" })).await;
        }
        desk.drain().await;
        for server in ["one", "new"] {
            assert_eq!(kinds(&desk, server), ["server_reconnected"], "{how:?}: once each: {:#?}", desk.told);
        }
        desk.told.clear();
        let rows = other.ok("list_servers", json!({})).await.json();
        let status = row(&rows, "new").map(|row| &row["status"]);
        assert_eq!(
            status,
            Some(&json!("not_connected")),
            "{how:?}: there for the others too, who did not use it: {rows}"
        );
    }

    other.ok("execute_tool", json!({ "server": "new", "tool": "echo" })).await;
    other.drain().await;
    other.told.clear();
    desk.ok("remove_server", json!({ "name": "new" })).await;
    other.until("server_removed", 1).await;
    assert_eq!(kinds(&other, "new"), ["server_disconnected", "server_removed"], "{:#?}", other.told);
    world.restart(End::Stop).await;
    for desk in [&mut desk, &mut other] {
        let rows = desk.ok("list_servers", json!({})).await.json();
        assert!(row(&rows, "new").is_none(), "what was removed stays away: {rows}");
        let gone = desk.call("execute_tool", json!({ "server": "new", "tool": "echo" })).await;
        assert_eq!(gone.code(), "TOOL_ERR_SERVER_NOT_FOUND", "{gone}");
        desk.drain().await;
    }
    assert_eq!(other.of("server_removed").len(), 1, "told once: {:#?}", other.told);
}

#[tokio::test]
async fn servers_are_there_again_and_told_of_once_after_a_restart_on_disk() {
    servers_come_back(Keep::Disk).await;
}

#[tokio::test]
async fn servers_are_there_again_and_told_of_once_after_a_restart_on_valkey() {
    servers_come_back(Keep::Valkey).await;
}

async fn logs_go_on(keep: Keep) {
    let mut world = World::start(keep, one(), STRICT).await;
    let mut desk = world.desk().await;
    desk.execute("log", json!({ "from": 0, "count": 3 })).await;
    let before = desk.ok("get_logs", json!({})).await.json();
    assert_eq!(before.as_array().map(Vec::len), Some(3), "{before}");
    world.restart(End::Stop).await;

    desk.execute("log", json!({ "from": 10, "count": 3, "level": "error" })).await;
    desk.execute("log", json!({ "from": 20, "count": 2, "level": "info" })).await;
    desk.execute("print", json!({ "to": "stderr", "line": "complaint" })).await;
    let data = |rows: &Value| -> Vec<String> {
        rows.as_array().expect("rows").iter().filter_map(|row| row["data"].as_str().map(str::to_owned)).collect()
    };
    let errors = desk.ok("get_logs", json!({ "level": "error", "clear": false, "server": "one" })).await.json();
    assert_eq!(data(&errors), ["line 10", "line 11", "line 12"], "{errors}");
    let start = Instant::now();
    loop {
        let printed = desk.ok("get_logs", json!({ "sources": ["stderr"], "clear": false })).await.json();
        if data(&printed) == ["complaint"] {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{printed}");
    }
    let said = desk.ok("get_logs", json!({ "exclude_sources": ["stderr"], "limit": 4 })).await.json();
    let all = desk.ok("get_logs", json!({})).await.json();
    let mut told = data(&said);
    told.extend(data(&all));
    told.sort();
    assert_eq!(told, ["complaint", "line 10", "line 11", "line 12", "line 20", "line 21"], "none twice: {said} {all}");
    assert_eq!(desk.ok("get_logs", json!({})).await.json(), json!([]), "read is read");
}

#[tokio::test]
async fn logs_are_filtered_and_cleared_as_before_after_a_restart_on_disk() {
    logs_go_on(Keep::Disk).await;
}

#[tokio::test]
async fn logs_are_filtered_and_cleared_as_before_after_a_restart_on_valkey() {
    logs_go_on(Keep::Valkey).await;
}
