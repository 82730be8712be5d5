use std::sync::Arc;
use std::time::Duration;

use lb_http::{Rate, Settings};
use lb_testkit::result;
use serde_json::json;
use tokio::sync::Notify;

use crate::peer::*;

fn rated(max: u32) -> Settings {
    Settings { rate: Some(Rate { max, window: Duration::from_secs(60) }), ..Settings::default() }
}

#[tokio::test]
async fn the_request_after_the_last_is_refused_and_told_when_to_come_back() {
    let server = Server::with(rated(100), lb_front::Settings::default()).await;
    let (mut peer, session) = server.seated("2025-11-25").await;
    let headers = [("Mcp-Session-Id", session.as_str())];
    for number in 2..=100 {
        let response = peer.post(&headers, &request(number, "ping", json!({}))).await;
        let left = (100 - number).to_string();
        assert_eq!((response.status, response.header("ratelimit-remaining")), (200, Some(left.as_str())), "{number}");
    }
    let refused = peer.post(&headers, &request(101, "ping", json!({}))).await;
    assert_eq!(refused.code(), (429, -32000));
    assert_eq!(refused.json()["error"]["message"], "Too many requests, please retry later");
    assert_eq!((refused.header("ratelimit-limit"), refused.header("ratelimit-remaining")), (Some("100"), Some("0")));
    let wait = |name| refused.header(name).and_then(|seconds| seconds.parse::<u32>().ok());
    assert!(wait("ratelimit-reset").is_some_and(|seconds| (1..=60).contains(&seconds)), "{}", refused.head);
    assert_eq!(wait("retry-after"), wait("ratelimit-reset"));

    let modern = peer.post(&[("MCP-Protocol-Version", "2026-07-28")], &request(1, "ping", json!({}))).await;
    assert_eq!(modern.code(), (429, -32603));
    assert!(modern.json().get("id").is_none(), "no id was read");
    for free in ["/health", "/ping"] {
        let response = peer.ask(&format!("GET {free}"), &[("User-Agent", "anybody")]).await;
        assert_eq!((response.status, response.header("ratelimit-limit")), (200, None), "{free}");
    }
    assert_eq!(peer.ask("GET /", &[("User-Agent", "kube-probe/1.30")]).await.status, 429, "a name frees nobody");

    server.handle.update(Settings::default());
    let free = peer.post(&headers, &request(102, "ping", json!({}))).await;
    assert_eq!((free.status, free.header("ratelimit-limit")), (200, None), "settings change while serving");
}

#[tokio::test]
async fn a_stream_counts_once() {
    let server = Server::with(rated(2), lb_front::Settings::default()).await;
    let (_, session) = server.seated("2025-11-25").await;
    let headers = [("Mcp-Session-Id", session.as_str())];
    let mut listening = server.connect().await;
    let head = listening.head("GET /mcp", &headers);
    listening.send(&format!("{head}\r\n")).await;
    let opened = listening.response_head().await;
    assert_eq!((opened.status, opened.header("ratelimit-remaining")), (200, Some("0")));
    listening.events_until("data:").await;
    assert_eq!(server.connect().await.post(&headers, &request(1, "ping", json!({}))).await.status, 429);
}

#[tokio::test]
async fn clients_behind_a_trusted_proxy_are_told_apart_and_others_cannot_pretend() {
    let server = Server::with(rated(1), lb_front::Settings::default()).await;
    let mut peer = server.connect().await;
    let from = |address| [("X-Forwarded-For", address)];
    assert_eq!(peer.ask("GET /", &from("203.0.113.1")).await.status, 200);
    assert_eq!(peer.ask("GET /", &from("203.0.113.2")).await.status, 429, "whoever we do not trust is one client");

    let proxies = vec!["127.0.0.0/8".parse().expect("a network")];
    server.handle.update(Settings { trusted_proxies: proxies, ..rated(1) });
    assert_eq!(peer.ask("GET /", &from("203.0.113.1")).await.status, 200);
    assert_eq!(peer.ask("GET /", &from("203.0.113.2")).await.status, 200);
    assert_eq!(peer.ask("GET /", &from("203.0.113.1")).await.status, 429);
    assert_eq!(peer.ask("GET /", &from("203.0.113.3, 203.0.113.2")).await.status, 429, "what a client adds is nothing");
}

#[tokio::test]
async fn calls_in_flight_have_a_limit_and_streams_without_an_end_are_none() {
    let server =
        Server::with(Settings { in_flight_max: 1, ..Settings::default() }, lb_front::Settings::default()).await;
    let go_on = Arc::new(Notify::new());
    let wait = go_on.clone();
    server.middle.on("slow", move |_, _| {
        let wait = wait.clone();
        async move {
            wait.notified().await;
            result(&json!("slow"))
        }
    });
    let (mut peer, session) = server.seated("2025-11-25").await;
    let headers = [("Mcp-Session-Id", session.as_str())];
    let mut listening = server.connect().await;
    let head = listening.head("GET /mcp", &headers);
    listening.send(&format!("{head}\r\n")).await;
    listening.response_head().await;
    peer.send_post(&headers, &tool_call(1, "slow").to_string()).await;
    server.middle.happened("open slow").await;
    assert_eq!(server.handle.in_flight(), 1);

    let mut other = server.connect().await;
    let refused = other.post(&headers, &request(2, "ping", json!({}))).await;
    assert_eq!((refused.code(), refused.header("retry-after")), ((503, -32000), Some("1")));
    let modern = other.post(&[("MCP-Protocol-Version", "2026-07-28")], &request(2, "ping", json!({}))).await;
    assert_eq!(modern.code(), (503, -32603));
    assert_eq!(other.ask("GET /health", &[]).await.status, 200, "monitors are answered");

    go_on.notify_one();
    assert_eq!(peer.response().await.json()["result"], "slow");
    assert_eq!(other.post(&headers, &request(3, "ping", json!({}))).await.status, 200);
}

#[tokio::test]
async fn a_modern_listen_takes_no_place_among_the_calls() {
    let server =
        Server::with(Settings { in_flight_max: 1, ..Settings::default() }, lb_front::Settings::default()).await;
    server.middle.on("subscriptions/listen", |_, out| async move {
        out.step(lb_testkit::note("notifications/x", &json!({}))).await;
        lb_testkit::wait_for_cancel(&out).await.1
    });
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let modern = |method| [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method)];
    let mut listening = server.connect().await;
    let listen = request(1, "subscriptions/listen", json!({ "notifications": {}, "_meta": meta }));
    listening.send_post(&modern("subscriptions/listen"), &listen.to_string()).await;
    assert_eq!(listening.response_head().await.status, 200);
    listening.events_until("notifications/x").await;
    let list = request(2, "tools/list", json!({ "_meta": meta }));
    assert_eq!(server.connect().await.post(&modern("tools/list"), &list).await.status, 200);
}
