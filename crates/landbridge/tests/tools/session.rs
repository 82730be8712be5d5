//! Sessions of clients: who shares what, and who is asked.

use lb_peers::harness::{Gateway, HttpPeer, peer};
use lb_peers::tools::{Reply, Settings, ToolClient};
use serde_json::{Value, json};

use crate::world::{BIN, desk, fixture, over_http, over_http_as, over_stdio, until, until_connected};

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

#[tokio::test]
async fn eight_clients_of_one_session_see_the_same_timers() {
    let (gateway, first) = over_http(json!({})).await;
    let session = first.session_id().unwrap();
    let clients: Vec<ToolClient> =
        (0..8).map(|_| ToolClient::join(gateway.address, &session, Settings::default())).collect();
    for (n, client) in clients.iter().enumerate() {
        client.call("set_timer", json!({ "duration_ms": 3_600_000, "message": format!("timer {n}") })).await;
    }
    for client in &clients {
        assert_eq!(client.call("list_timers", json!({})).await.json().as_array().map(Vec::len), Some(8));
    }
}

/// A modern client is told a handle by what must be remembered, and the handle leads back there.
async fn handles(client: &ToolClient) {
    let read = client.call("list_servers", json!({})).await;
    assert!(read.structured().get("session").is_none(), "a read opens no session: {read}");
    let timer = client.call("set_timer", json!({ "duration_ms": 3_600_000, "message": "x" })).await;
    let handle = timer.structured()["session"].as_str().expect("a handle").to_owned();
    assert!(43 <= handle.len(), "256 bits: {handle}");
    let context = timer.context().expect("a context");
    assert_eq!(context["session"], handle.as_str(), "the context shows it, too: {timer}");
    let id = &timer.structured()["timerId"];
    for arguments in [json!({}), json!({ "session": handle })] {
        let timers = client.call("list_timers", arguments.clone()).await.json();
        assert!(timers[0]["id"] == *id, "{arguments}: {timers}");
    }
    let peer = HttpPeer::start(&peer(BIN, "fixture"), &[]).await;
    let added = client.call("add_server", json!({ "name": "web", "url": peer.url(), "session": handle })).await;
    assert_eq!(added.structured()["session"], handle.as_str(), "{added}");
    let arguments = json!({ "server": "web", "tool": "test_simple_text", "session": handle });
    let reply = client.call("execute_tool", arguments).await;
    assert!(!reply.is_error(), "{reply}");
    let watched = json!({ "server": "web", "uri": "test://watched-resource" });
    for (name, arguments) in [("subscribe_resource", watched), ("await_activity", json!({ "timeout_ms": 100 }))] {
        let reply = client.call(name, arguments).await;
        assert_eq!(reply.structured()["session"], handle.as_str(), "{name}: {reply}");
    }
    let slow = json!({ "seconds": 60, "label": "x" });
    let arguments = json!({ "server": "web", "tool": "slow_compute", "args": slow, "timeout_ms": 100 });
    let promoted = client.call("execute_tool", arguments).await;
    assert!(promoted.message.to_string().contains(&handle), "a task is found by its session: {promoted}");
    let mut foreign = handle.clone();
    let last = if foreign.pop() == Some('0') { '1' } else { '0' };
    foreign.push(last);
    for unknown in [foreign.as_str(), "x"] {
        let reply = client.call("list_timers", json!({ "session": unknown })).await;
        assert_eq!(reply.code(), "TOOL_ERR_SESSION_NOT_FOUND", "{unknown:?}: {reply}");
    }
}

#[tokio::test]
async fn a_modern_client_over_http_finds_its_session_by_a_handle_or_by_default() {
    let (_gateway, client) = over_http_as(json!({}), Settings::modern()).await;
    handles(&client).await;
}

#[tokio::test]
async fn a_modern_client_over_stdio_finds_its_session_by_a_handle_or_by_default() {
    let client = ToolClient::stdio_as(BIN, Some(json!({})), &[], Settings::modern()).await;
    handles(&client).await;
}

#[tokio::test]
async fn a_handle_of_one_gateway_means_nothing_to_another() {
    let (_one, client) = over_http_as(json!({}), Settings::modern()).await;
    let (_two, other) = over_http_as(json!({}), Settings::modern()).await;
    let timer = client.call("set_timer", json!({ "duration_ms": 3_600_000, "message": "x" })).await;
    let reply = other.call("list_timers", json!({ "session": timer.structured()["session"] })).await;
    assert_eq!(reply.code(), "TOOL_ERR_SESSION_NOT_FOUND", "{reply}");
}

#[tokio::test]
async fn in_a_default_session_only_those_who_wait_are_told_events() {
    let (gateway, client) = over_http_as(json!({}), Settings::modern()).await;
    client.call("set_timer", json!({ "duration_ms": 1, "message": "tea" })).await;
    let remaining = |reply: &Reply| reply.context().is_some_and(|context| context["events_remaining"] == 1);
    let shown = until(&client, "list_servers", json!({}), remaining).await;
    assert!(shown.context().unwrap().get("expired_timers").is_none(), "nothing is taken: {shown}");
    // Without a login there is one default session, whoever asks.
    let other = ToolClient::http_as(&gateway, Settings::modern()).await;
    let told = other.call("await_activity", json!({ "timeout_ms": 1000 })).await;
    assert_eq!(told.events_of("timer_expired").len(), 1, "{told}");
    let after = client.call("list_servers", json!({})).await;
    assert!(after.context().is_none_or(|context| context.get("events_remaining").is_none()), "{after}");
}

fn able() -> Settings {
    Settings::default().with(json!({ "elicitation": {}, "sampling": {} }))
}

/// A client that can be asked is asked, and the tool's result comes back in the same call.
async fn is_asked(client: &ToolClient) {
    until_connected(client, "fix").await;
    let message = json!({ "role": "assistant", "content": { "type": "text", "text": "because" }, "model": "m" });
    let content = json!({ "username": "ada", "email": "a@b.c" });
    for (tool, args, method, answer, word) in [
        (
            "test_elicitation",
            json!({ "message": "who?" }),
            "elicitation/create",
            json!({ "action": "accept", "content": content }),
            "ada",
        ),
        ("test_sampling", json!({ "prompt": "why?" }), "sampling/createMessage", message, "because"),
    ] {
        let running = client.start("execute_tool", json!({ "server": "fix", "tool": tool, "args": args })).await;
        let ask = client.next_ask().await;
        assert_eq!(ask.method, method, "{tool}");
        let open = client.call("get_elicitations", json!({})).await;
        assert_eq!(open.json(), json!([]), "the model is not asked as well: {open}");
        client.answer(&ask, answer).await;
        let reply = running.wait().await;
        assert!(!reply.is_error() && reply.text().contains(word), "{tool}: {reply}");
    }
    assert_eq!(
        client.call("list_tasks", json!({ "include_completed": true })).await.json(),
        json!([]),
        "no task was made"
    );
}

#[tokio::test]
async fn a_client_that_can_be_asked_over_http_is_asked_itself() {
    let (_gateway, client) = over_http_as(fixture(), able()).await;
    is_asked(&client).await;
}

#[tokio::test]
async fn a_client_that_can_be_asked_over_stdio_is_asked_itself() {
    let client = ToolClient::stdio_as(BIN, Some(fixture()), &[], able()).await;
    is_asked(&client).await;
}

#[tokio::test]
async fn what_a_client_did_not_declare_goes_to_the_model() {
    let gateway = Gateway::serve_tools(BIN, fixture(), &[]).await;
    let client = ToolClient::http_as(&gateway, Settings::default().with(json!({ "sampling": {} }))).await;
    let arguments = json!({ "server": "fix", "tool": "test_elicitation", "args": { "message": "who?" } });
    let reply = client.call("execute_tool", arguments).await;
    assert!(reply.text().contains("respond_to_elicitation"), "{reply}");
    assert_eq!(client.asks_waiting(), 0);
    assert_eq!(client.call("get_elicitations", json!({})).await.json().as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_client_of_any_legacy_revision_can_use_the_tools() {
    let gateway = Gateway::serve_tools(BIN, json!({ "desk": desk(&[]) }), &[]).await;
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let client = ToolClient::http_as(&gateway, Settings::revision(revision)).await;
        assert_eq!(client.initialize_result()["protocolVersion"], revision);
        let arguments = json!({ "server": "desk", "tool": "echo", "args": { "a": [1, "\u{1F980}"] } });
        let reply = client.call("execute_tool", arguments).await;
        assert_eq!(reply.json(), json!({ "a": [1, "\u{1F980}"] }), "{revision}: {reply}");
        let failed = client.call("get_timer", json!({ "timer_id": "nope" })).await;
        assert!(failed.is_error() && failed.text().contains("Timer 'nope' not found"), "{revision}: {failed}");
        let list: Value = client.call("list_servers", json!({})).await.json();
        assert_eq!(list[0]["name"], "desk", "{revision}");
    }
}
