//! The gateway in front of a server whose tools make things happen.

use std::time::{Duration, Instant};

use lb_peers::harness::Gateway;
use lb_peers::tools::{Reply, ToolClient};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_landbridge");
const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/activity/server.py");

/// How long a test waits for something to happen.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Two servers of the same kind, `one` and `two`.
fn servers() -> Value {
    let server = json!({ "command": "python3", "args": [SERVER] });
    json!({ "one": server, "two": server })
}

/// The gateway over HTTP.
pub async fn gateway() -> Gateway {
    Gateway::serve_tools(BINARY, servers(), &["--allow-stdio-spawn"]).await
}

/// A client over stdio.
pub async fn stdio() -> ToolClient {
    ready(ToolClient::stdio(BINARY, Some(servers()), &[]).await).await
}

/// A client over HTTP.
pub async fn http(gateway: &Gateway) -> ToolClient {
    ready(ToolClient::http(gateway).await).await
}

/// Waits until both servers are connected, and reads what happened until then.
pub async fn ready(client: ToolClient) -> ToolClient {
    for server in ["one", "two"] {
        let reply = execute(&client, server, "echo", json!({})).await;
        assert!(!reply.is_error(), "{reply}");
    }
    drain(&client).await;
    client
}

/// Calls a tool of a server.
pub async fn execute(client: &ToolClient, server: &str, tool: &str, args: Value) -> Reply {
    client.call("execute_tool", json!({ "server": server, "tool": tool, "args": args })).await
}

/// Calls a tool of the server `one` that becomes a task; gives the reply and the task.
pub async fn promoted(client: &ToolClient, tool: &str, args: Value) -> (Reply, String) {
    let arguments = json!({ "server": "one", "tool": tool, "args": args, "timeout_ms": 200 });
    let reply = client.call("execute_tool", arguments).await;
    let task = reply.objects().find_map(|(_, body)| body["task"]["taskId"].as_str().map(str::to_owned));
    let task = task.unwrap_or_else(|| panic!("no task: {reply}"));
    (reply, task)
}

/// Everything that happened and was not told yet.
pub async fn drain(client: &ToolClient) -> Vec<Value> {
    let mut all = Vec::new();
    loop {
        let reply = client.call("await_activity", json!({ "timeout_ms": 100 })).await;
        let events = events(&reply);
        if events.is_empty() {
            return all;
        }
        all.extend(events);
    }
}

/// The events in the body of `await_activity`.
pub fn events(reply: &Reply) -> Vec<Value> {
    reply.json()["events"].as_array().cloned().unwrap_or_default()
}

/// Reads events until one of this type comes; gives all.
pub async fn until(client: &ToolClient, kind: &str) -> Vec<Value> {
    let start = Instant::now();
    let mut all = Vec::new();
    while start.elapsed() < PATIENCE {
        all.extend(events(&client.call("await_activity", json!({ "timeout_ms": 2_000 })).await));
        if all.iter().any(|event| event["type"] == kind) {
            return all;
        }
    }
    panic!("no {kind}: {all:?}");
}

/// How many events of a type there are.
pub fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|event| event["type"] == kind).count()
}

/// The id of the only open question.
pub async fn question(client: &ToolClient, tool: &str) -> Value {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        let rows = client.call(tool, json!({})).await.json();
        if let Some(row) = rows.as_array().and_then(|rows| rows.first()) {
            return row["requestId"].clone();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("nobody asks");
}
