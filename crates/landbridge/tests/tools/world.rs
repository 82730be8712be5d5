//! Gateways and clients that the tests of this folder share.

use lb_peers::harness::{Gateway, peer};
use lb_peers::tools::{Settings, ToolClient};
use serde_json::{Value, json};

/// The binary under test.
pub const BIN: &str = env!("CARGO_BIN_EXE_landbridge");

/// The fixture server over stdio, under the name `fix`.
pub fn fixture() -> Value {
    json!({ "fix": { "command": peer(BIN, "fixture"), "args": ["--era", "legacy"] } })
}

/// A gateway with its tools in front of these servers, and a client of it.
pub async fn over_http(servers: Value) -> (Gateway, ToolClient) {
    let gateway = Gateway::serve_tools(BIN, servers, &[]).await;
    let client = ToolClient::http(&gateway).await;
    (gateway, client)
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
