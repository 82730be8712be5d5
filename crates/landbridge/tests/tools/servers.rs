//! Servers come, go, and say how they are.

use lb_peers::harness::{Gateway, HttpPeer, peer};
use lb_peers::tools::{Reply, ToolClient};
use serde_json::{Value, json};

use crate::world::{BIN, desk, drain, fixture, over_http, over_stdio, tell, until, until_connected};

fn names(reply: &Reply) -> Vec<Value> {
    reply.json().as_array().into_iter().flatten().map(|row| row["name"].clone()).collect()
}

#[tokio::test]
async fn a_server_is_added_by_url_or_by_command_and_never_by_both_or_neither() {
    let http = HttpPeer::start(&peer(BIN, "fixture"), &["--era", "legacy"]).await;
    let client = over_stdio(json!({})).await;
    let by_url = client.call("add_server", json!({ "name": "web", "url": http.url() })).await;
    let said = format!("Connected to server 'web' at {}", http.url());
    assert!(by_url.text().starts_with(&said), "{by_url}");
    let arguments = json!({ "name": "child", "command": peer(BIN, "fixture"), "args": ["--era", "legacy"] });
    let by_command = client.call("add_server", arguments).await;
    let said = format!("Connected to server 'child' at stdio://{} --era legacy", peer(BIN, "fixture"));
    assert!(by_command.text().starts_with(&said), "{by_command}");
    let both = client.call("add_server", json!({ "name": "x", "url": http.url(), "command": "true" })).await;
    let none = client.call("add_server", json!({ "name": "x" })).await;
    for (reply, words) in [(both, ["'url'", "not both"]), (none, ["'url'", "'command'"])] {
        assert_eq!(reply.code(), "INVALID_ARGUMENT", "{reply}");
        assert!(words.iter().all(|word| reply.text().contains(word)), "{reply}");
    }
    assert_eq!(names(&client.call("list_servers", json!({})).await), ["web", "child"]);
    for server in ["web", "child"] {
        let reply = client.call("execute_tool", json!({ "server": server, "tool": "test_simple_text" })).await;
        assert!(!reply.is_error(), "{reply}");
    }
}

#[tokio::test]
async fn a_program_is_started_for_http_clients_only_where_that_is_allowed() {
    let arguments = json!({ "name": "child", "command": peer(BIN, "fixture") });
    let (_gateway, client) = over_http(json!({})).await;
    let reply = client.call("add_server", arguments.clone()).await;
    assert_eq!(reply.code(), "FORBIDDEN", "{reply}");
    let gateway = Gateway::serve_tools(BIN, json!({}), &["--allow-stdio-spawn"]).await;
    let reply = ToolClient::http(&gateway).await.call("add_server", arguments).await;
    assert!(!reply.is_error(), "{reply}");
}

#[tokio::test]
async fn removing_an_unknown_server_is_an_error_that_names_it() {
    let (_gateway, client) = over_http(fixture()).await;
    let reply = client.call("remove_server", json!({ "name": "nope" })).await;
    assert_eq!(reply.code(), "TOOL_ERR_SERVER_NOT_FOUND", "{reply}");
    assert!(reply.text().contains("Server 'nope' not found"), "{reply}");
    assert_eq!(names(&client.call("list_servers", json!({})).await), ["fix"]);
}

#[tokio::test]
async fn list_servers_tells_every_state_a_server_can_be_in() {
    let refused = json!({ "enabled": false });
    let servers = json!({
        "fix": { "command": peer(BIN, "fixture"), "args": ["--era", "legacy"] },
        "slow": desk(&["--delay", "20"]),
        "away": { "url": "http://127.0.0.1:9/mcp" },
        "gone": { "command": "/no/such/program", "restartConfig": refused },
    });
    let (gateway, client) = over_http(servers).await;
    let web = HttpPeer::start(&peer(BIN, "fixture"), &["--era", "legacy"]).await;
    let status = |reply: &Reply, name: &str| {
        let rows = reply.json();
        rows.as_array().into_iter().flatten().find(|row| row["name"] == name).map(|row| row["status"].clone())
    };
    let want = [("fix", "connected"), ("slow", "connecting"), ("away", "reconnecting"), ("gone", "error")];
    let rows = until(&client, "list_servers", json!({}), |reply| {
        want.iter().all(|(name, state)| status(reply, name).is_some_and(|seen| seen == *state))
    })
    .await;
    let row = |name: &str| rows.json().as_array().unwrap().iter().find(|row| row["name"] == name).unwrap().clone();
    assert!(
        row("fix")["pid"].is_number()
            && row("fix")["connectedAt"].is_string()
            && row("fix")["healthStatus"].is_string()
    );
    assert!(row("away")["reconnectAttempt"].is_number() && row("away")["nextRetryMs"].is_number(), "{rows}");
    assert!(row("away")["lastError"].is_string() && row("gone")["lastError"].is_string(), "{rows}");
    assert!(row("fix").get("nextRetryMs").is_none() && row("away").get("healthStatus").is_none(), "{rows}");
    let other = ToolClient::http(&gateway).await;
    client.call("add_server", json!({ "name": "web", "url": web.url() })).await;
    let seen = status(&other.call("list_servers", json!({})).await, "web");
    assert_eq!(seen, Some(json!("not_connected")), "a server that another session has added");
}

#[tokio::test]
async fn looking_at_a_server_changes_nothing() {
    let (_gateway, client) = over_http(json!({ "desk": desk(&[]) })).await;
    until_connected(&client, "desk").await;
    drain(&client).await;
    let running = client.start("execute_tool", json!({ "server": "desk", "tool": "hang", "timeout_ms": 100 })).await;
    assert!(!running.wait().await.is_error());
    tell(&client, "log", json!({ "count": 3 })).await;
    let before = client.call("get_server_status", json!({ "server": "desk" })).await;
    for _ in 0..3 {
        let again = client.call("get_server_status", json!({ "server": "desk" })).await;
        for member in ["counts", "working_tasks", "pending", "subscriptions", "capabilities", "serverInfo"] {
            assert_eq!(again.json()[member], before.json()[member], "{member}");
        }
    }
    assert_eq!(before.json()["counts"]["logs"], 3, "{before}");
    assert_eq!(before.json()["working_tasks"][0]["toolName"], "hang", "{before}");
    assert_eq!(client.call("get_logs", json!({})).await.json().as_array().map(Vec::len), Some(3));
}

#[tokio::test]
async fn who_added_a_server_is_told_without_secrets() {
    let (gateway, one) = over_http(json!({})).await;
    let two = ToolClient::http(&gateway).await;
    let web = HttpPeer::start(&peer(BIN, "fixture"), &["--era", "legacy"]).await;
    let secret = "Bearer do-not-tell";
    let arguments = json!({ "name": "web", "url": web.url(), "headers": { "Authorization": secret } });
    let added = one.call("add_server", arguments).await;
    assert!(!added.is_error(), "{added}");
    let reply = until(&two, "await_activity", json!({ "timeout_ms": 1000 }), |reply| {
        !reply.events_of("server_added").is_empty()
    })
    .await;
    let event = &reply.events_of("server_added")[0]["data"];
    assert!(event["addedBy"].as_str().is_some_and(|by| !by.is_empty()), "{event}");
    assert_eq!((&event["name"], &event["url"], &event["type"]), (&json!("web"), &json!(web.url()), &json!("http")));
    let session = one.session_id().unwrap();
    let list = two.call("list_servers", json!({})).await;
    let status = one.call("get_server_status", json!({ "server": "web" })).await;
    for told in [&reply, &list, &status, &added] {
        let text = told.message.to_string();
        assert!(!text.contains("do-not-tell") && !text.contains(&session), "{told}");
    }
}

#[tokio::test]
async fn the_gateway_draws_five_diagrams_of_itself() {
    let (_gateway, client) = over_http(json!({})).await;
    let uri = "landbridge://diagrams";
    let listed = client.request("resources/list", json!({})).await;
    let found = listed.result()["resources"].as_array().unwrap().iter().any(|row| row["uri"] == uri);
    assert!(found, "{listed}");
    let native = client.request("resources/read", json!({ "uri": uri })).await;
    let by_tool = client.call("read_resource", json!({ "server": "landbridge", "uri": uri })).await;
    let contents = [&native.result()["contents"][0], &by_tool.structured()["contents"][0]];
    let names = [
        "proxy_task_states",
        "pending_elicitation_states",
        "pending_sampling_states",
        "tool_call_lifecycle",
        "entity_relationships",
    ];
    for content in contents {
        assert_eq!(content["mimeType"], "application/json");
        let body: Value = serde_json::from_str(content["text"].as_str().unwrap()).unwrap();
        let diagrams = body["diagrams"].as_array().unwrap();
        let seen: Vec<&str> = diagrams.iter().filter_map(|diagram| diagram["name"].as_str()).collect();
        assert_eq!(seen, names);
        for diagram in diagrams {
            let kind = diagram["mermaid"].as_str().unwrap().split_whitespace().next().unwrap();
            assert!(
                ["stateDiagram-v2", "sequenceDiagram", "erDiagram", "flowchart", "graph"].contains(&kind),
                "{kind}"
            );
            assert!(diagram["description"].as_str().is_some_and(|text| !text.is_empty()));
        }
    }
}
