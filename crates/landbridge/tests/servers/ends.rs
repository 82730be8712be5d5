//! Ends: of a session, of the gateway, of a client in the middle of a reply. Nothing is left and nothing is lost.

use std::time::Duration;

use lb_peers::raw::RawHttp;
use lb_peers::raw::http::{headers, post_headers};
use lb_peers::tools::{Settings, ToolClient};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::net::TcpSocket;

use crate::desk::{Desk, FRONTS, Front, LEGACY};
use crate::world::{add, everything, fixture, gone, is_alive, kill, marked, script, until, with};

/// A text that no other test uses, in the environment of each child.
fn mark(test: &str) -> String {
    format!("servers-mark-{test}-{}", std::process::id())
}

/// Servers of several kinds, all marked.
async fn fill(desk: &mut Desk, mark: &str) {
    for (name, entry) in [
        ("plain", script(&json!({}))),
        ("deaf", script(&json!({ "deaf": true }))),
        ("fixture", fixture("dual")),
        ("node", everything()),
    ] {
        let entry = with(entry, &json!({ "env": { "MARK": mark } }));
        desk.ok("add_server", add(name, &entry)).await;
    }
    desk.task("plain", "sleep", json!({ "ms": 120_000 })).await;
    desk.run("deaf", "elicit", json!({})).await;
    assert!(4 <= marked(mark).len(), "the children carry the mark");
}

#[tokio::test]
async fn ending_a_session_ends_its_processes() {
    let mark = mark("delete");
    let mut desk = Desk::open(Front::Http, json!({})).await;
    fill(&mut desk, &mark).await;
    let mut other = Desk::at(desk.gateway()).await;
    other.works("plain").await;
    let kept = other.pid("plain").await;
    assert_eq!(desk.client.end().await, 200);
    until(Duration::from_secs(12), "only the other session's processes are left", || {
        marked(&mark).iter().all(|pid| *pid == kept || parent_of(kept) == Some(*pid))
    })
    .await;
    other.works("plain").await;
    assert!(is_alive(kept));
    let reply = desk.client.call("list_servers", json!({})).await;
    assert_eq!(reply.status, 404, "{reply}");
}

#[tokio::test]
async fn a_wait_is_ended_with_its_session() {
    for streamed in [false, true] {
        let mut desk = Desk::open(Front::Http, json!({})).await;
        desk.settle().await;
        // Once before the reply has begun, once when it has become a stream. It comes on another connection than the
        // end of the session, and has to be there first.
        let waiting = desk.client.start("await_activity", json!({ "timeout_ms": 60_000 })).await;
        tokio::time::sleep(Duration::from_millis(if streamed { 1_500 } else { 500 })).await;
        assert_eq!(desk.client.end().await, 200);
        let told = waiting.wait().await;
        let triggers = told.json()["triggers"].clone();
        assert_eq!(triggers[0]["type"], "shutdown", "streamed: {streamed} {told}");
    }
}

/// A child may have a watcher of its own above it.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[tokio::test]
async fn removing_each_server_ends_its_processes() {
    for front in LEGACY {
        let mark = mark(&format!("remove-{front:?}"));
        let mut desk = Desk::open(front, json!({})).await;
        fill(&mut desk, &mark).await;
        for name in ["plain", "deaf", "fixture", "node"] {
            desk.ok("remove_server", json!({ "name": name })).await;
        }
        until(Duration::from_secs(12), "no process is left", || marked(&mark).is_empty()).await;
    }
}

#[tokio::test]
async fn ending_the_gateway_ends_every_process() {
    for (front, how) in FRONTS.into_iter().zip([Some(Signal::TERM), Some(Signal::INT), None, Some(Signal::TERM)]) {
        let mark = mark(&format!("shutdown-{front:?}"));
        let mut desk = Desk::open(front, json!({})).await;
        fill(&mut desk, &mark).await;
        let pid = desk.gateway_pid();
        match how {
            Some(signal) => {
                let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
                kill_process(pid, signal).expect("it is there");
            }
            None => {
                desk.client.end().await;
            }
        }
        gone(pid, Duration::from_secs(20)).await;
        until(Duration::from_secs(10), "no process is left", || marked(&mark).is_empty()).await;
    }
}

#[tokio::test]
async fn killing_the_gateway_ends_every_process() {
    let mark = mark("killed");
    let mut desk = Desk::open(Front::Http, json!({})).await;
    fill(&mut desk, &mark).await;
    kill(desk.gateway_pid());
    until(Duration::from_secs(12), "no process is left", || marked(&mark).is_empty()).await;
}

/// A request of a session on a connection that reads nothing and has hardly any room for an answer.
async fn unread(desk: &Desk, body: &Value) -> RawHttp {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let address = desk.gateway().address;
    let stream = socket.connect(address).await.expect("it listens");
    let mut http = RawHttp::over(stream, address);
    let mut all = post_headers();
    all.extend(headers(&[
        ("MCP-Protocol-Version", "2025-11-25"),
        ("Mcp-Session-Id", &desk.client.session_id().expect("a session")),
    ]));
    http.send("POST", "/mcp", &all, body.to_string().as_bytes()).await.expect("it is sent");
    http
}

#[tokio::test]
async fn events_of_a_reply_that_never_arrived_come_back_to_the_next_client() {
    let mut desk = Desk::open(Front::Http, json!({})).await;
    desk.ok("add_server", add("s", &script(&json!({})))).await;
    let mut other = Desk::at(desk.gateway()).await;
    desk.settle().await;
    for round in 0..5 {
        let name = format!("new-{round}");
        other.ok("add_server", add(&name, &fixture("dual"))).await;
        // The reply holds the event behind megabytes that its reader never reads.
        let arguments = json!({ "server": "s", "tool": "big", "args": { "bytes": 12 << 20 } });
        let params = json!({ "name": "execute_tool", "arguments": arguments });
        let call = json!({ "jsonrpc": "2.0", "id": 900 + round, "method": "tools/call", "params": params });
        let mut lost = unread(&desk, &call).await;
        lost.patience = Duration::from_secs(20);
        assert_eq!(lost.head().await.expect("the reply begins").status(), 200);
        drop(lost);
        let settings = Settings::default();
        let session = desk.client.session_id().expect("a session");
        let mut next = Desk::over(ToolClient::join(desk.gateway().address, &session, settings));
        let told = next.event_in(&format!("round {round}"), "server_added").await;
        assert_eq!(told["name"], name.as_str(), "{told}");
        desk.settle().await;
        assert_eq!(desk.count("server_added"), 0, "and only once");
    }
}

#[tokio::test]
async fn a_call_whose_client_died_before_any_answer_becomes_a_task() {
    let mut desk = Desk::open(Front::Http, json!({})).await;
    desk.ok("add_server", add("s", &script(&json!({})))).await;
    desk.settle().await;
    let arguments = json!({ "server": "s", "tool": "sleep", "args": { "ms": 600 } });
    let params = json!({ "name": "execute_tool", "arguments": arguments });
    let lost = unread(&desk, &json!({ "jsonrpc": "2.0", "id": 900, "method": "tools/call", "params": params })).await;
    // The call has reached the server when a later one is answered.
    desk.works("s").await;
    drop(lost);
    let created = desk.event("task_created").await;
    let done = desk.event("task_completed").await;
    assert!(created["toolName"] == "sleep" && created["taskId"] == done["taskId"], "{created} {done}");
    assert_eq!(done["result"]["content"][0]["text"], "slept", "{done}");
}
