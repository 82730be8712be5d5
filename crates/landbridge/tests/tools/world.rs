//! Gateways, clients and servers that the tests of this folder share.

use std::time::Duration;

use lb_peers::harness::{Gateway, peer};
use lb_peers::tools::{Reply, Settings, ToolClient};
use serde_json::{Value, json};

/// The binary under test.
pub const BIN: &str = env!("CARGO_BIN_EXE_landbridge");
/// How often something that must come true is looked at.
const LOOKS_MAX: usize = 200;

/// The fixture server over stdio, under the name `fix`.
pub fn fixture() -> Value {
    json!({ "fix": { "command": peer(BIN, "fixture"), "args": ["--era", "legacy"] } })
}

/// The scripted server, with these arguments.
pub fn desk(args: &[&str]) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tools/desk.py");
    let args: Vec<&str> = ["-u", script].iter().chain(args).copied().collect();
    json!({ "command": "python3", "args": args })
}

/// A gateway with its tools in front of these servers, and a client of it.
pub async fn over_http(servers: Value) -> (Gateway, ToolClient) {
    over_http_as(servers, Settings::default()).await
}

/// The same with settings of the client.
pub async fn over_http_as(servers: Value, settings: Settings) -> (Gateway, ToolClient) {
    let gateway = Gateway::serve_tools(BIN, servers, &[]).await;
    let client = ToolClient::http_as(&gateway, settings).await;
    (gateway, client)
}

/// A client of the gateway over stdio, in front of these servers.
pub async fn over_stdio(servers: Value) -> ToolClient {
    ToolClient::stdio(BIN, Some(servers), &[]).await
}

/// Waits until a tool of the server answers, whatever starting it takes.
pub async fn until_connected(client: &ToolClient, server: &str) {
    let reply = client.call("list_tools", json!({ "server": format!("^{server}$") })).await;
    assert!(!reply.json().as_array().is_none_or(Vec::is_empty), "{server} has tools: {reply}");
}

/// Calls a tool of the scripted server, which must succeed.
pub async fn tell(client: &ToolClient, tool: &str, args: Value) -> Reply {
    let reply = client.call("execute_tool", json!({ "server": "desk", "tool": tool, "args": args })).await;
    assert!(!reply.is_error() && reply.rpc_error().is_none(), "{tool}: {reply}");
    reply
}

/// Takes every event that is there, so that what comes next is new.
pub async fn drain(client: &ToolClient) {
    for _ in 0..LOOKS_MAX {
        let reply = client.call("await_activity", json!({ "timeout_ms": 100 })).await;
        assert!(!reply.is_error(), "{reply}");
        if reply.json()["triggered_by"] == "timeout" {
            return;
        }
    }
    panic!("events never end");
}

/// Calls a tool until its reply is as it must become.
pub async fn until(client: &ToolClient, name: &str, arguments: Value, holds: impl Fn(&Reply) -> bool) -> Reply {
    let mut reply = Reply::default();
    for _ in 0..LOOKS_MAX {
        reply = client.call(name, arguments.clone()).await;
        if holds(&reply) {
            return reply;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{name} {arguments} never became so: {reply}");
}

/// The id of the task that a call went on as.
pub fn task_of(reply: &Reply) -> Value {
    let block = reply.objects().find(|(at, _)| *at == 1).map(|(_, value)| value).unwrap_or_default();
    assert!(block["task"]["taskId"].is_string(), "a task: {reply}");
    block["task"]["taskId"].clone()
}

/// The context as a block after the first, which is not the body of `await_activity`.
pub fn context_of(reply: &Reply) -> Value {
    let last = reply.objects().rfind(|(at, _)| 0 < *at).map(|(_, value)| value);
    last.or_else(|| reply.result()["_meta"].get("landbridge/context").cloned()).unwrap_or_default()
}
