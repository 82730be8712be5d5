//! Modern clients, which have no session of their own: what is remembered for all of them, over restarts and on several
//! nodes.

use std::process::Stdio;
use std::time::{Duration, Instant};

use lb_peers::harness::Gateway;
use lb_peers::tools::{Reply, Settings, ToolClient};
use lb_peers::valkey::{Program, Valkey};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::world::{Desk, End, KEY, Keep, LANDBRIDGE, PATIENCE, STRICT, World, one};

fn handle(reply: &Reply) -> Value {
    let handle = reply.structured()["session"].clone();
    assert!(handle.as_str().is_some_and(|handle| handle.len() == 64), "{reply}");
    handle
}

async fn timer(desk: &mut Desk, message: &str) -> Reply {
    desk.ok("set_timer", json!({ "duration_ms": 3_600_000, "message": message })).await
}

async fn timers(desk: &mut Desk, session: Option<&Value>) -> usize {
    let arguments = session.map_or_else(|| json!({}), |session| json!({ "session": session }));
    desk.ok("list_timers", arguments).await.json().as_array().expect("rows").len()
}

/// Waits until a node that died is known to be dead, so that its session can be had elsewhere.
async fn comes_back(desk: &Desk) {
    let start = Instant::now();
    loop {
        let reply = desk.client.call("list_timers", json!({})).await;
        if reply.status == 200 {
            return;
        }
        assert_eq!(reply.status, 503, "{reply}");
        assert!(start.elapsed() < PATIENCE + PATIENCE, "{reply}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn what_is_remembered_stays(keep: Keep, ends: &[End]) {
    let mut world = World::start(keep, one(), STRICT).await;
    let mut desk = Desk::new(ToolClient::at(world.address(), Settings::modern()).await);
    // Reads make no session that anybody would have to be told of.
    for tool in ["list_servers", "list_timers", "list_tasks"] {
        assert!(desk.ok(tool, json!({})).await.context().is_none_or(|context| context.get("session").is_none()));
    }
    let own = handle(&timer(&mut desk, "tea").await);
    let task = desk.promoted("one", "slow", json!({ "ms": 60_000 }), None).await;
    let mut lost = 0;
    for (round, how) in ends.iter().copied().enumerate() {
        world.restart(how).await;
        lost += usize::from(how == End::Kill);
        if keep == Keep::Valkey && how == End::Kill {
            comes_back(&desk).await;
        }
        assert_eq!(timers(&mut desk, None).await, round + 1, "{how:?}");
        assert_eq!(timers(&mut desk, Some(&own)).await, round + 1, "{how:?}: the handle counts on");
        assert_eq!(desk.task(&task).await["status"], "failed", "{how:?}: its call went with the process");
        let stranger = desk.call("list_timers", json!({ "session": "0".repeat(64) })).await;
        assert_eq!(stranger.code(), "TOOL_ERR_SESSION_NOT_FOUND", "{stranger}");
        assert_eq!(handle(&timer(&mut desk, "more").await), own, "{how:?}: it is the same session");
        // What may be missing is told with the next event.
        desk.ok("set_timer", json!({ "duration_ms": 1, "message": "now" })).await;
        desk.until("timer_expired", round + 1).await;
        desk.drain().await;
        assert_eq!(desk.lost_nodes(), lost, "{how:?}: {:?}", desk.told);
        assert_eq!(desk.about("task_failed", &json!(task)).len(), 1, "told once: {:?}", desk.told);
    }
    let seated = ToolClient::at(world.address(), Settings::default()).await;
    let foreign = seated.call("list_timers", json!({ "session": own })).await;
    assert_eq!(foreign.code(), "TOOL_ERR_SESSION_NOT_FOUND", "{foreign}");
}

#[tokio::test]
async fn what_is_remembered_for_modern_clients_stays_over_restarts_on_disk() {
    what_is_remembered_stays(Keep::Disk, &[End::Stop, End::Kill, End::Stop, End::Kill]).await;
}

#[tokio::test]
async fn what_is_remembered_for_modern_clients_stays_over_restarts_on_a_server() {
    what_is_remembered_stays(Keep::Valkey, &[End::Stop, End::Kill]).await;
}

/// A node on a store that others use.
async fn node(store: &Valkey, servers: &Value) -> Gateway {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("mcp.json");
    std::fs::write(&config, json!({ "mcpServers": servers }).to_string()).expect("the config is written");
    let mut command = Command::new(LANDBRIDGE);
    command.args(["serve", "--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0", "--store", &store.url()]);
    command.arg("--config").arg(config).env("LANDBRIDGE_KEY", KEY).stdin(Stdio::null());
    Gateway::launch(command, folder).await
}

async fn modern(gateway: &Gateway) -> Desk {
    Desk::new(ToolClient::at(gateway.address, Settings::modern()).await)
}

/// How many sessions a node has.
async fn sessions(gateway: &Gateway) -> usize {
    let mut http = lb_peers::raw::RawHttp::connect(gateway.address).await.expect("it listens");
    let answer = http.request("GET", "/sessions", &Vec::new(), b"").await.expect("an answer");
    let page: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    page["sessions"].as_array().map_or(0, Vec::len)
}

#[tokio::test]
async fn modern_clients_of_several_nodes_have_one_session_together() {
    let store = Valkey::start_with(Program::Valkey, &[]);
    let (mut a, b) = (node(&store, &one()).await, node(&store, &one()).await);
    let (mut left, mut right) = (modern(&a).await, modern(&b).await);
    let own = handle(&timer(&mut left, "tea").await);
    assert_eq!((timers(&mut right, None).await, timers(&mut right, Some(&own)).await), (1, 1));
    assert_eq!(sessions(&b).await, 0, "what needs the session goes to the node that has it");
    assert_eq!(handle(&timer(&mut right, "more").await), own);
    assert_eq!(timers(&mut left, Some(&own)).await, 2);
    let task = right.promoted("one", "slow", json!({ "ms": 600 }), None).await;
    assert!(["working", "completed"].contains(&left.task(&task).await["status"].as_str().unwrap_or_default()));
    // Whoever waits on one node hears of what was done on the other.
    right.until("task_completed", 1).await;
    assert_eq!(left.task(&task).await["status"], "completed");
    let listed = right.client.request("tools/list", json!({})).await;
    assert!(listed.message["result"]["tools"].as_array().is_some_and(|tools| !tools.is_empty()), "{listed}");
    right.drain().await;

    // A node that dies leaves it to the other one.
    tokio::time::sleep(Duration::from_millis(200)).await;
    a.child().kill().await.expect("it was there");
    comes_back(&right).await;
    assert_eq!(timers(&mut right, Some(&own)).await, 2);
    assert_eq!(handle(&timer(&mut right, "last").await), own);
    assert_eq!(right.task(&task).await["status"], "completed");
    right.ok("set_timer", json!({ "duration_ms": 1, "message": "now" })).await;
    right.until("timer_expired", 1).await;
    assert_eq!(right.lost_nodes(), 1, "{:?}", right.told);
    assert_eq!(right.about("task_completed", &json!(task)).len(), 1, "told once: {:?}", right.told);
}

#[tokio::test]
async fn of_modern_clients_that_come_to_several_nodes_at_once_all_get_the_same_session() {
    let store = Valkey::start_with(Program::Valkey, &[]);
    let nodes = [node(&store, &json!({})).await, node(&store, &json!({})).await, node(&store, &json!({})).await];
    let clients = nodes.iter().cycle().take(30).map(|node| ToolClient::at(node.address, Settings::modern()));
    let clients = futures_util::future::join_all(clients).await;
    let calls =
        clients.iter().map(|client| client.call("set_timer", json!({ "duration_ms": 3_600_000, "message": "x" })));
    let replies = futures_util::future::join_all(calls).await;
    let mut handles: Vec<Value> = replies.iter().map(handle).collect();
    handles.dedup();
    assert_eq!(handles.len(), 1, "{replies:?}");
    for client in &clients[..3] {
        let rows = client.call("list_timers", json!({})).await.json();
        assert_eq!(rows.as_array().map(Vec::len), Some(30));
    }
}
