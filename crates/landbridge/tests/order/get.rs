//! The standalone stream, and what a GET is refused for.

use serde_json::{Value, json};

use crate::client::{Behind, Client, LEGACY, MODERN, PATH, Server, Wire, with_token};

async fn client(version: &str) -> Client {
    let server = Server::fixture(Behind::Stdio).await;
    Client::start(Wire::Http, &server, version, json!({})).await
}

/// The status and JSON-RPC code of a refused GET.
async fn refused(client: &mut Client, headers: &[(&str, &str)], without: &str) -> (u16, i64) {
    let mut all = client.headers_with(headers);
    all.retain(|(name, _)| !name.eq_ignore_ascii_case(without));
    let answer = client.conn().request("GET", PATH, &all, b"").await.expect("an answer");
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    (answer.head.status(), body["error"]["code"].as_i64().unwrap_or(0))
}

#[tokio::test]
async fn a_session_has_one_standalone_stream() {
    let client = client(LEGACY).await;
    let mut first = client.again().await;
    assert_eq!(first.get(None).await.status(), 200);
    let mut second = client.again().await;
    assert_eq!(refused(&mut second, &[("Accept", "text/event-stream")], "").await, (409, -32000));
    drop(first);
    // The place is free once the gateway has noticed.
    let start = std::time::Instant::now();
    loop {
        let mut third = client.again().await;
        match third.get(None).await.status() {
            200 => break,
            409 => assert!(start.elapsed().as_secs() < 5, "the place of a closed stream stays taken"),
            other => panic!("status {other}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn the_first_event_of_the_standalone_stream_depends_on_the_revision() {
    for (version, primed) in [(LEGACY, true), ("2025-06-18", false), ("2025-03-26", false)] {
        let mut client = client(version).await;
        assert_eq!(client.get(None).await.status(), 200);
        let mut retry = None;
        let mut cursor = None;
        // Up to the event that names the retry, which comes at once.
        while retry.is_none() {
            let event = client.conn().event().await.expect("an event").expect("an event");
            assert!(event.data.as_deref().is_none_or(<[u8]>::is_empty), "{version}: {event:?}");
            assert_eq!(event.data.is_some(), primed && event.id.is_some(), "{version}: {event:?}");
            cursor = cursor.or(event.id);
            retry = event.retry;
        }
        assert_eq!((cursor.is_some(), retry.as_deref()), (primed, Some("3000")), "{version}");
    }
}

#[tokio::test]
async fn a_cursor_is_good_in_its_own_session_only() {
    let server = Server::fixture(Behind::Stdio).await;
    let gateway = server.gateway().await;
    let mut one = Client::http(gateway.address, LEGACY, json!({})).await;
    let mut two = Client::http(gateway.address, LEGACY, json!({})).await;
    one.send("tools/call", with_token("progress_burst", json!({ "count": 2 }))).await;
    assert!(one.head().await.is_sse());
    let mut cursors = Vec::new();
    while let Some((id, _)) = one.message().await {
        cursors.extend(id);
    }
    // The other session has events of its own, with the same sequence numbers, of another millisecond: an id that both
    // have means its own event in each.
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    two.run("tools/call", with_token("progress_burst", json!({ "count": 2 }))).await;
    for cursor in &cursors {
        let headers = [("Accept", "text/event-stream"), ("Last-Event-ID", cursor.as_str())];
        assert_eq!(refused(&mut two, &headers, "").await, (400, -32000), "{cursor}");
    }
    for cursor in ["", "x", "1-1-1", "0000000000000-0000000001-1", "9999999999999-9999999999-1"] {
        let headers = [("Accept", "text/event-stream"), ("Last-Event-ID", cursor)];
        assert_eq!(refused(&mut two, &headers, "").await, (400, -32000), "{cursor:?}");
    }
    assert_eq!(one.resume(&cursors[0]).await.len(), cursors.len() - 1);
}

#[tokio::test]
async fn a_get_without_session_or_stream_is_refused() {
    let mut client = client(LEGACY).await;
    let sse = ("Accept", "text/event-stream");
    assert_eq!(refused(&mut client, &[sse], "mcp-session-id").await, (400, -32000));
    assert_eq!(refused(&mut client, &[sse, ("Mcp-Session-Id", "nobody")], "").await, (404, -32001));
    assert_eq!(refused(&mut client, &[("Accept", "application/json")], "").await, (406, -32000));
    assert_eq!(refused(&mut client, &[sse, ("MCP-Protocol-Version", MODERN)], "mcp-session-id").await.0, 405);
    assert_eq!(refused(&mut client, &[sse, ("MCP-Protocol-Version", "1999-01-01")], "").await.0, 400);
}

/// What the server said while nobody listened is there for the next stream that resumes.
#[tokio::test]
async fn the_standalone_stream_is_resumable() {
    for behind in [Behind::Stdio, Behind::Http] {
        let server = Server::fixture(behind).await;
        let mut client = Client::start(Wire::Http, &server, LEGACY, json!({})).await;
        let mut ear = client.again().await;
        assert_eq!(ear.get(None).await.status(), 200);
        client.call("test_trigger_prompt_change", json!({})).await;
        let (first, told) = ear.message().await.expect("a notification");
        assert_eq!(told["method"], "notifications/prompts/list_changed");
        drop(ear);
        client.call("test_trigger_tool_change", json!({})).await;
        let mut ear = client.again().await;
        assert!(ear.get(first.as_deref()).await.is_sse());
        let (_, told) = ear.message().await.expect("a notification");
        assert_eq!(told["method"], "notifications/tools/list_changed", "{behind:?}: the anchor is not repeated");
    }
}
