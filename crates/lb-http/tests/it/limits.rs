use std::time::Duration;

use lb_http::Settings;
use serde_json::json;

use crate::peer::*;

#[tokio::test]
async fn bodies_have_a_limit_however_they_come() {
    let server =
        Server::with(Settings { body_bytes_max: 100, ..Settings::default() }, lb_front::Settings::default()).await;
    let text = "x".repeat(101);
    let mut peer = server.connect().await;
    peer.send_post(&[], &text).await;
    let response = peer.response().await;
    assert_eq!((response.status, response.header("connection")), (413, Some("close")));

    let mut peer = server.connect().await;
    let head = peer.head("POST /mcp", &[("Transfer-Encoding", "chunked")]);
    peer.send(&format!("{head}\r\n{:x}\r\n{text}\r\n0\r\n\r\n", text.len())).await;
    assert_eq!(peer.response().await.status, 413);

    let mut peer = server.connect().await;
    peer.send_post(&[], &"x".repeat(100)).await;
    assert_eq!(peer.response().await.code(), (400, -32700), "the limit itself is allowed");
}

#[tokio::test]
async fn chunked_and_pipelined_requests_are_answered_in_order() {
    let server = Server::start().await;
    let (mut peer, session) = server.seated("2025-11-25").await;
    let ping = |id: u64| request(id, "ping", json!({})).to_string();
    let head = peer.head("POST /mcp", &[("Transfer-Encoding", "chunked"), ("Mcp-Session-Id", &session)]);
    let (first, second) = (ping(1), ping(2));
    let (a, b) = first.split_at(10);
    let chunked = format!("{head}\r\n{:x}\r\n{a}\r\n{:x}\r\n{b}\r\n0\r\n\r\n", a.len(), b.len());
    let plain = peer.head("POST /mcp", &[("Mcp-Session-Id", &session)]);
    peer.send(&format!("{chunked}{plain}Content-Length: {}\r\n\r\n{second}", second.len())).await;
    assert_eq!(peer.response().await.json()["id"], 1);
    assert_eq!(peer.response().await.json()["id"], 2);
}

#[tokio::test]
async fn heads_have_a_limit() {
    let server = Server::start().await;
    let mut peer = server.connect().await;
    let head = peer.head("POST /mcp", &[("X-Large", &"x".repeat(70_000))]);
    peer.send(&head).await;
    assert_eq!(peer.response_head().await.status, 431);
}

#[tokio::test]
async fn clients_that_do_not_finish_are_let_go() {
    let short = Duration::from_millis(150);
    let settings = Settings { head_read_max: short, body_read_max: short, idle_max: 4 * short, ..Settings::default() };
    let server = Server::with(settings, lb_front::Settings::default()).await;

    let mut slow_body = server.connect().await;
    let head = slow_body.head("POST /mcp", &[]);
    slow_body.send(&format!("{head}Content-Length: 10\r\n\r\n{{")).await;
    assert_eq!(slow_body.response().await.status, 408);

    let start = std::time::Instant::now();
    let mut slow_head = server.connect().await;
    slow_head.send("POST /mcp HTT").await;
    assert!(slow_head.closed().await.is_empty());
    assert!(start.elapsed() < 4 * short, "closed as a slow head, not as idle: {:?}", start.elapsed());

    let mut idle = server.connect().await;
    assert_eq!(idle.ask("GET /ping", &[]).await.status, 200);
    let start = std::time::Instant::now();
    assert!(idle.closed().await.is_empty());
    assert!(3 * short < start.elapsed(), "idle time is longer than that of a head: {:?}", start.elapsed());
}

/// A thousand and more that drip their bodies once left no place for anybody else.
#[tokio::test]
async fn who_has_not_asked_as_a_whole_takes_no_place_among_the_calls() {
    let settings = Settings { in_flight_max: 1, ..Settings::default() };
    let server = Server::with(settings, lb_front::Settings::default()).await;
    let (mut peer, session) = server.seated("2025-11-25").await;
    let mut slow = server.connect().await;
    let head = slow.head("POST /mcp", &[("Expect", "100-continue")]);
    slow.send(&format!("{head}Content-Length: 10\r\n\r\n")).await;
    assert_eq!(slow.response_head().await.status, 100, "its body is waited for");
    slow.send("{").await;
    assert_eq!(peer.post(&[("Mcp-Session-Id", &session)], &request(1, "ping", json!({}))).await.status, 200);
    assert_eq!(server.handle.in_flight(), 0);
}

#[tokio::test]
async fn a_busy_connection_is_not_idle() {
    let short = Duration::from_millis(100);
    let settings = Settings { head_read_max: short, idle_max: short, ..Settings::default() };
    let server = Server::with(settings, lb_front::Settings::default()).await;
    server.middle.on("slow", |_, _| async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        lb_testkit::result(&json!("slow"))
    });
    let (mut peer, session) = server.seated("2025-11-25").await;
    let response = peer.post(&[("Mcp-Session-Id", &session)], &tool_call(1, "slow")).await;
    assert_eq!(response.json()["result"], "slow");
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_let_go_and_its_call_lives_on() {
    let settings = Settings { write_stall_max: Duration::from_millis(200), ..Settings::default() };
    let server = Server::with(settings, lb_front::Settings::default()).await;
    server.middle.on("floods", |_, out| async move {
        let text = "x".repeat(100_000);
        loop {
            out.step(lb_testkit::note("notifications/x", &json!(text))).await;
            tokio::task::yield_now().await;
        }
    });
    let (mut peer, session) = server.seated("2025-06-18").await;
    peer.send_post(&[("Mcp-Session-Id", &session)], &tool_call(1, "floods").to_string()).await;
    tokio::time::timeout(PATIENCE, server.middle.happened("adopt")).await.unwrap();
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    assert_eq!(server.connect().await.post(&[("Mcp-Session-Id", &session)], &cancel).await.status, 202);
}

#[tokio::test]
async fn connections_have_a_limit_and_who_comes_later_waits() {
    let server =
        Server::with(Settings { connections_max: 1, ..Settings::default() }, lb_front::Settings::default()).await;
    let mut first = server.connect().await;
    assert_eq!(first.ask("GET /ping", &[]).await.status, 200);
    let mut second = server.connect().await;
    let head = second.head("GET /ping", &[]);
    second.send(&format!("{head}\r\n")).await;
    assert_eq!(first.ask("GET /ping", &[]).await.status, 200);
    assert_eq!(server.handle.connections(), 1, "the second is not accepted while the first is open");
    drop(first);
    assert_eq!(second.response().await.status, 200);
}
