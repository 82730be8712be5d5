//! Sessions of clients: who shares what.

use lb_peers::tools::{Settings, ToolClient};
use serde_json::json;

use crate::world::{fixture, over_http, over_stdio, until_connected};

#[tokio::test]
async fn a_client_calls_a_tool_over_either_transport() {
    let (gateway, http) = over_http(fixture()).await;
    let stdio = over_stdio(fixture()).await;
    let joined = ToolClient::join(gateway.address, &http.session_id().unwrap(), Settings::default());
    for client in [&http, &stdio, &joined] {
        until_connected(client, "fix").await;
        let reply = client.call("execute_tool", json!({ "server": "fix", "tool": "test_simple_text" })).await;
        assert!(!reply.is_error() && !reply.text().is_empty(), "{reply}");
    }
}
