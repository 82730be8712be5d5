use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lb_exchange::{End, Outcome, Receipt};
use lb_testkit::{note, pause, raw, result, wait_for_cancel};
use serde_json::json;
use tokio::sync::Notify;

use crate::peer::*;

const MODERN: [(&str, &str); 3] =
    [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "waits")];

#[tokio::test]
async fn a_stream_is_framed_to_the_byte() {
    let server = Server::start().await;
    server.middle.on("talks", |_, out| async move {
        out.step(note("notifications/x", &json!({ "a": 1 }))).await;
        result(&json!("done"))
    });
    let (mut peer, session) = server.seated("2025-06-18").await;
    let response = peer.post(&[("Mcp-Session-Id", &session)], &tool_call(1, "talks")).await;
    assert_eq!(response.header("content-type"), Some("text/event-stream"));
    assert_eq!(response.header("x-accel-buffering"), Some("no"));
    assert_eq!(response.header("cache-control"), Some("no-store"));
    let text = response.text();
    let masked: Vec<_> = text.lines().map(|line| if line.starts_with("id: ") { "id: *" } else { line }).collect();
    assert_eq!(
        masked,
        [
            "event: message",
            "id: *",
            r#"data: {"jsonrpc":"2.0","method":"notifications/x","params":{"a":1}}"#,
            "",
            "event: message",
            "id: *",
            r#"data: {"jsonrpc":"2.0","id":1,"result":"done"}"#,
            "",
        ]
    );
    assert_eq!(peer.ask("GET /ping", &[]).await.status, 200, "the connection goes on");
}

#[tokio::test]
async fn large_messages_pass_whole() {
    let server = Server::start().await;
    let large = "x".repeat(300_000);
    let text = large.clone();
    server.middle.on("large", move |_, out| {
        let text = text.clone();
        async move {
            out.step(note("notifications/x", &json!(text))).await;
            result(&json!(text))
        }
    });
    let (mut peer, session) = server.seated("2025-06-18").await;
    let response = peer.post(&[("Mcp-Session-Id", &session)], &tool_call(1, "large")).await;
    let text = response.text();
    let messages: Vec<serde_json::Value> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    assert_eq!((messages.len(), &messages[0]["params"], &messages[1]["result"]), (2, &json!(large), &json!(large)));
}

#[tokio::test]
async fn a_modern_client_that_leaves_cancels_its_call() {
    let server = Server::start().await;
    server.middle.on("waits", |_, out| async move { wait_for_cancel(&out).await.1 });
    let mut call = tool_call(1, "waits");
    call["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    // Before the reply began.
    let mut peer = server.connect().await;
    peer.send_post(&MODERN, &call.to_string()).await;
    server.middle.happened("open waits").await;
    drop(peer);
    tokio::time::timeout(PATIENCE, server.middle.happened("drop waits")).await.unwrap();
    // While it streams.
    let mut peer = server.connect().await;
    peer.send_post(&MODERN, &call.to_string()).await;
    assert_eq!(peer.response_head().await.status, 200);
    drop(peer);
    tokio::time::timeout(PATIENCE, server.middle.happened_times("drop waits", 2)).await.unwrap();
    assert!(!server.middle.log().contains(&"adopt".to_owned()));
}

#[tokio::test]
async fn a_legacy_client_that_leaves_finds_its_call_again() {
    let server = Server::start().await;
    let alone = Arc::new(Notify::new());
    let go_on = alone.clone();
    server.middle.on("talks", move |_, out| {
        let alone = alone.clone();
        async move {
            out.step(note("notifications/x", &json!({}))).await;
            alone.notified().await;
            result(&json!("done"))
        }
    });
    let (mut peer, session) = server.seated("2025-11-25").await;
    let headers = [("Mcp-Session-Id", session.as_str())];
    peer.send_post(&headers, &tool_call(1, "talks").to_string()).await;
    peer.response_head().await;
    let seen = peer.events_until("notifications/x").await;
    assert!(seen.starts_with("id: "), "priming comes first: {seen}");
    let cursor = seen.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().unwrap().to_owned();
    drop(peer);
    tokio::time::timeout(PATIENCE, server.middle.happened("adopt")).await.unwrap();
    go_on.notify_one();

    let mut peer = server.connect().await;
    let resume = [("Mcp-Session-Id", session.as_str()), ("Last-Event-ID", &cursor)];
    let text = peer.ask("GET /mcp", &resume).await.text();
    assert_eq!(text.matches("data: {").count(), 1, "{text}");
    assert!(text.contains(r#""result":"done""#), "{text}");
    let unknown = [("Mcp-Session-Id", session.as_str()), ("Last-Event-ID", "1-1")];
    assert_eq!(peer.ask("GET /mcp", &unknown).await.code(), (400, -32000));
}

#[tokio::test]
async fn a_server_that_polls_is_polled() {
    let server = Server::start().await;
    server.middle.on("polls", |_, out| async move {
        out.step(pause(Duration::from_millis(500))).await;
        while !matches!(out.command().await, lb_exchange::Command::Back) {}
        result(&json!("back"))
    });
    let (mut peer, session) = server.seated("2025-11-25").await;
    let headers = [("Mcp-Session-Id", session.as_str())];
    let mut standalone = server.connect().await;
    let head = standalone.head("GET /mcp", &headers);
    standalone.send(&format!("{head}\r\n")).await;
    standalone.response_head().await;
    let first = peer.post(&headers, &tool_call(1, "polls")).await.text();
    let cursor = first.lines().next().and_then(|line| line.strip_prefix("id: ")).expect("an id first").to_owned();
    assert_eq!(first.lines().skip(1).collect::<Vec<_>>(), ["retry: 500", "data:", ""]);
    let resume = [("Mcp-Session-Id", session.as_str()), ("Last-Event-ID", &cursor)];
    let text = peer.ask("GET /mcp", &resume).await.text();
    assert!(text.contains(r#""result":"back""#), "{text}");
}

#[tokio::test]
async fn receipts_are_committed_when_the_bytes_are_taken() {
    let server = Server::start().await;
    let tally = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
    for (tool, talks) in [("quiet", false), ("talks", true)] {
        let tally = tally.clone();
        server.middle.on(tool, move |_, out| {
            let tally = tally.clone();
            async move {
                if talks {
                    out.step(note("notifications/x", &json!({}))).await;
                }
                let receipt = Receipt::new(move |safe| {
                    if safe { &tally.0 } else { &tally.1 }.fetch_add(1, Ordering::SeqCst);
                });
                End { receipt: Some(receipt), ..End::ours(Outcome::Result(raw(&json!({})))) }
            }
        });
    }
    let (mut peer, session) = server.seated("2025-06-18").await;
    for (n, tool) in [(1, "quiet"), (2, "talks")] {
        peer.post(&[("Mcp-Session-Id", &session)], &tool_call(1, tool)).await;
        assert_eq!((tally.0.load(Ordering::SeqCst), tally.1.load(Ordering::SeqCst)), (n, 0), "{tool}");
    }
}
