use std::sync::Arc;
use std::time::{Duration, Instant};

use lb_http::Settings;
use lb_testkit::{note, result, wait_for_cancel};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::peer::*;

#[tokio::test]
async fn a_shutdown_lets_calls_end_and_closes_streams_that_have_none() {
    let server = Server::start().await;
    let closed = Arc::new(Notify::new());
    let go_on = closed.clone();
    server.middle.on("slow", move |_, _| {
        let closed = closed.clone();
        async move {
            closed.notified().await;
            result(&json!("slow"))
        }
    });
    let (mut peer, session) = server.seated("2025-11-25").await;
    let headers = [("Mcp-Session-Id", session.as_str())];
    let mut listening = server.connect().await;
    let head = listening.head("GET /mcp", &headers);
    listening.send(&format!("{head}\r\n")).await;
    listening.response_head().await;
    listening.events_until("data:").await;
    let mut idle = server.connect().await;
    assert_eq!(idle.ask("GET /ping", &[]).await.status, 200);
    peer.send_post(&headers, &tool_call(1, "slow").to_string()).await;
    server.middle.happened("open slow").await;

    server.stop.cancel();
    assert!(idle.closed().await.is_empty());
    assert_eq!(listening.events_until("stopping").await, "retry: 3000\n\n: stopping\n\n");
    assert!(listening.chunk().await.is_none(), "and then it ends");
    go_on.notify_one();
    let response = peer.response().await;
    assert_eq!((response.json()["result"].as_str(), response.header("connection")), (Some("slow"), Some("close")));
    tokio::time::timeout(PATIENCE, server.stopped.cancelled()).await.unwrap();
    assert!(TcpStream::connect(server.addr).await.is_err(), "nothing listens any more");
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_ever() {
    let settings = Settings { drain_max: Duration::from_millis(200), ..Settings::default() };
    let server = Server::with(settings, lb_front::Settings::default()).await;
    server.middle.on("streams", |_, out| async move {
        out.step(note("notifications/x", &json!({}))).await;
        wait_for_cancel(&out).await.1
    });
    server.middle.on("waits", |_, out| async move { wait_for_cancel(&out).await.1 });
    let (mut streams, session) = server.seated("2025-06-18").await;
    let headers = [("Mcp-Session-Id", session.as_str()), ("Accept", "application/json")];
    streams.send_post(&headers[..1], &tool_call(1, "streams").to_string()).await;
    streams.response_head().await;
    streams.events_until("notifications/x").await;
    let mut waits = server.connect().await;
    waits.send_post(&headers, &tool_call(2, "waits").to_string()).await;
    server.middle.happened("open waits").await;

    let start = Instant::now();
    server.stop.cancel();
    let said = streams.events_until("shutdown").await;
    assert!(said.contains(r#""id":1,"error":{"code":-32603"#), "{said}");
    tokio::time::timeout(PATIENCE, server.stopped.cancelled()).await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let said = waits.closed().await;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains(r#""id":2,"error":{"code":-32603"#) && said.contains("shutdown"), "{said}");
}
