//! Requests that come to one node and are answered by another.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use lb_exchange::{Place, Tasks};
use lb_http::Settings;
use lb_testkit::{note, result};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};

use crate::node::*;
use crate::peer::*;

/// Headers of a response without those that each connection or request has of its own.
fn lasting(response: &Response) -> Vec<String> {
    let own = ["x-request-id", "date"];
    let lines = response.head.lines().map(str::to_ascii_lowercase);
    let mut lines: Vec<_> =
        lines.filter(|line| !own.iter().any(|name| line.starts_with(&format!("{name}:")))).collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn an_answer_from_another_node_is_the_same_to_the_byte() {
    let (first, second) = two().await;
    let (mut direct, session) = second.server.seated("2025-11-25").await;
    let mut peer = first.server.connect().await;
    let session = [("Mcp-Session-Id", session.as_str())];
    for message in [
        request(1, "tools/list", json!({ "cursor": "ä\u{2028}\"" })),
        request(2, "ping", json!({})),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!([]),
        json!("no message"),
    ] {
        let (there, here) = (direct.post(&session, &message).await, peer.post(&session, &message).await);
        assert_eq!(lasting(&here), lasting(&there), "{message}");
        assert_eq!(here.text(), there.text(), "{message}");
    }
    assert_eq!(second.server.middle.log().iter().filter(|line| line.starts_with("note ")).count(), 2);
    assert_eq!((first.forwarded(), second.forwarded()), (5, 0), "each one that another node answered counts once");
    let wrong = [session[0], ("Content-Type", "text/plain")];
    assert_eq!(peer.post(&wrong, &json!({})).await.status, 415);
}

#[tokio::test]
async fn a_session_that_is_nowhere_is_unknown_wherever_it_is_asked_for() {
    let (first, second) = two().await;
    let mut peer = first.server.connect().await;
    let session = [("Mcp-Session-Id", "nobody's")];
    assert_eq!(peer.post(&session, &request(1, "tools/list", json!({}))).await.code(), (404, -32001));
    assert_eq!(peer.ask("GET /mcp", &session).await.code(), (404, -32001));
    assert_eq!(peer.ask("DELETE /mcp", &session).await.code(), (404, -32001));
    assert_eq!((first.located(), second.located()), (3, 3));
    assert_eq!((first.forwarded(), second.forwarded()), (3, 0));
    first.says(Place::Here);
    assert_eq!(peer.post(&session, &request(1, "tools/list", json!({}))).await.code(), (404, -32001));
    assert_eq!((second.located(), first.forwarded()), (3, 3), "it was not sent on");
}

#[tokio::test]
async fn what_names_no_session_is_served_where_it_lands() {
    let (first, second) = two().await;
    let (mut peer, session) = first.server.seated("2025-11-25").await;
    let ours = [("Mcp-Session-Id", session.as_str())];
    assert_eq!(peer.post(&ours, &request(1, "tools/list", json!({}))).await.status, 200);
    let mut call = tool_call(1, "x");
    call["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let modern = [
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "x"),
        ("Mcp-Session-Id", "nobody's"),
    ];
    assert_eq!(peer.post(&modern, &call).await.status, 200);
    assert_eq!(first.located(), 0, "nobody was asked");
    assert_eq!(second.server.handle.connections(), 0);
}

#[tokio::test]
async fn a_modern_call_that_needs_a_session_is_answered_where_that_is() {
    let (first, second) = two().await;
    second.says(Place::Here);
    for node in [&first, &second] {
        let name = if std::ptr::eq(node, &raw const first) { "first" } else { "second" };
        node.server.middle.on("kept", move |_, _| async move { result(&json!(name)) });
    }
    let mut call = tool_call(1, "kept");
    call["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let modern = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "kept")];
    let mut peer = first.server.connect().await;
    let answer = peer.post(&modern, &call).await;
    assert_eq!((answer.status, answer.text().contains("second")), (200, true), "{}", answer.text());
    assert_eq!((first.located(), second.located()), (1, 1));
    first.says(Place::Away(Duration::from_secs(3)));
    let answer = peer.post(&modern, &call).await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("3")));
    assert_eq!(peer.ask("GET /mcp", &modern).await.status, 405, "nobody is asked for what has no body");
    assert_eq!(first.located(), 2);
}

#[tokio::test]
async fn events_pass_one_by_one_and_in_order() {
    const EVENTS: usize = 200;
    let (first, second) = two().await;
    let more = Arc::new(Semaphore::new(0));
    let allowed = more.clone();
    second.server.middle.on("counts", move |_, out| {
        let allowed = allowed.clone();
        async move {
            for n in 0..EVENTS {
                allowed.acquire().await.unwrap().forget();
                out.step(note("notifications/n", &json!({ "n": n }))).await;
            }
            allowed.acquire().await.unwrap().forget();
            result(&json!("done"))
        }
    });
    let (_direct, session) = second.server.seated("2025-06-18").await;
    let mut peer = first.server.connect().await;
    peer.send_post(&[("Mcp-Session-Id", &session)], &tool_call(1, "counts").to_string()).await;
    more.add_permits(1);
    let head = peer.response_head().await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    assert_eq!(head.header("x-accel-buffering"), Some("no"));
    for n in 0..EVENTS {
        // The next one is made only when this one is here.
        let seen = peer.events_until(&format!(r#""params":{{"n":{n}}}"#)).await;
        assert_eq!(seen.matches("data: ").count(), 1, "{seen}");
        more.add_permits(1);
    }
    assert!(peer.events_until("done").await.contains(r#""result":"done""#));
    assert_eq!(peer.chunk().await, None);
    assert_eq!(peer.ask("GET /ping", &[]).await.status, 200, "the connection goes on");
}

#[tokio::test]
async fn a_standalone_stream_and_the_end_of_its_session_go_through() {
    let (first, second) = two().await;
    let (_direct, session) = second.server.seated("2025-06-18").await;
    let session = [("Mcp-Session-Id", session.as_str())];
    let mut listener = first.server.connect().await;
    let head = listener.head("GET /mcp", &session);
    listener.send(&format!("{head}\r\n")).await;
    assert_eq!(listener.response_head().await.status, 200);
    listener.events_until("retry: ").await;
    let seat = second.server.middle.only_seat().unwrap();
    for n in 0..3 {
        assert!(seat.say(note("notifications/n", &json!({ "n": n }))));
        listener.events_until(&format!(r#"{{"n":{n}}}"#)).await;
    }
    assert_eq!(first.server.handle.in_flight(), 0, "what has no end is not in flight");
    let mut peer = first.server.connect().await;
    assert_eq!(peer.ask("GET /mcp", &session).await.status, 409, "there is one already");
    assert_eq!(peer.ask("DELETE /mcp", &session).await.status, 200);
    assert_eq!(second.server.middle.log().last().map(String::as_str), Some("session end"));
    while let Some(rest) = listener.chunk().await {
        assert!(!rest.is_empty());
    }
    assert_eq!(peer.ask("DELETE /mcp", &session).await.code(), (404, -32001));
}

#[tokio::test]
async fn a_client_that_leaves_is_seen_by_the_node_that_answers() {
    let (first, second) = two().await;
    for tool in ["quiet", "talks"] {
        second.server.middle.on(tool, move |_, out| async move {
            if tool == "talks" {
                out.step(note("notifications/x", &json!({}))).await;
            }
            std::future::pending().await
        });
    }
    let (_direct, session) = second.server.seated("2025-11-25").await;
    let headers = [("Mcp-Session-Id", session.as_str()), ("Accept", "application/json")];
    // Before the answer has begun.
    let mut peer = first.server.connect().await;
    peer.send_post(&headers, &tool_call(1, "quiet").to_string()).await;
    second.server.middle.happened("open quiet").await;
    drop(peer);
    tokio::time::timeout(PATIENCE, second.server.middle.happened("adopt")).await.unwrap();
    // While it streams.
    let mut peer = first.server.connect().await;
    peer.send_post(&headers[..1], &tool_call(2, "talks").to_string()).await;
    peer.response_head().await;
    peer.events_until("notifications/x").await;
    drop(peer);
    tokio::time::timeout(PATIENCE, second.server.middle.happened_times("adopt", 2)).await.unwrap();
    // The standalone stream: another one can be opened.
    let mut peer = first.server.connect().await;
    let head = peer.head("GET /mcp", &headers[..1]);
    peer.send(&format!("{head}\r\n")).await;
    peer.response_head().await;
    peer.events_until("retry: ").await;
    drop(peer);
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while second.server.handle.connections() != 1 {
        assert!(tokio::time::Instant::now() < deadline, "{} connections", second.server.handle.connections());
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn large_bodies_pass_both_ways() {
    let settings = || Settings { body_bytes_max: 16 << 20, ..Settings::default() };
    let first = Node::with(settings(), KEY, None).await;
    let second = Node::with(settings(), KEY, None).await;
    first.knows(&second);
    second.server.middle.on("echo", |call, _| async move {
        let text = call.message.member("text").unwrap();
        result(&serde_json::from_slice(text.as_bytes()).unwrap())
    });
    let (_direct, session) = second.server.seated("2025-06-18").await;
    let text: String = (0..8 << 20).map(|n: u32| char::from(b'a' + u8::try_from(n % 23).unwrap())).collect();
    let mut peer = first.server.connect().await;
    let call = request(1, "tools/call", json!({ "name": "echo", "text": text }));
    let response = peer.post(&[("Mcp-Session-Id", &session)], &call).await;
    assert_eq!(response.status, 200);
    assert!(response.json()["result"] == json!(text), "{} bytes", response.body.len());
    assert!(response.header("content-length").is_some());
}

#[tokio::test]
async fn a_hundred_at_once_are_answered_each_with_its_own() {
    let (first, second) = two().await;
    let (arrived, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (count, start) = (arrived.clone(), go.clone());
    second.server.middle.on("waits", move |call, _| {
        let (count, start) = (count.clone(), start.clone());
        async move {
            let started = start.notified();
            if count.fetch_add(1, Ordering::SeqCst) == 99 {
                start.notify_waiters();
            }
            if count.load(Ordering::SeqCst) < 100 {
                started.await;
            }
            result(&serde_json::from_slice(call.message.member("n").unwrap().as_bytes()).unwrap())
        }
    });
    let seated = join_all((0..100).map(|_| second.server.seated("2025-06-18"))).await;
    let calls = seated.iter().enumerate().map(|(n, (_, session))| {
        let first = &first;
        async move {
            let mut peer = first.server.connect().await;
            let call = request(7, "tools/call", json!({ "name": "waits", "n": n }));
            let headers = [("Mcp-Session-Id", session.as_str()), ("Accept", "application/json")];
            assert_eq!(peer.post(&headers, &call).await.json()["result"], json!(n));
        }
    });
    tokio::time::timeout(PATIENCE * 2, join_all(calls)).await.unwrap();
    assert_eq!(arrived.load(Ordering::SeqCst), 100);
}

#[tokio::test]
async fn requests_in_a_row_share_one_connection() {
    let answers = [
        "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n:\n\n\r\n0\r\n\r\n",
    ];
    let (node, tasks) = (Node::start().await, Tasks::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    node.says(Place::Node(format!("http://{}", listener.local_addr().unwrap()).into()));
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = accepted.clone();
    tasks.spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            let mut socket = BufReader::new(socket);
            for answer in answers.iter().cycle() {
                let mut seen = Vec::new();
                while !seen.ends_with(br#""params":{}}"#) && socket.read_until(b'}', &mut seen).await.unwrap_or(0) != 0
                {
                }
                if seen.is_empty() || socket.write_all(answer.as_bytes()).await.is_err() {
                    break;
                }
            }
        }
    });
    let mut peer = node.server.connect().await;
    for id in 0..12 {
        let response = peer.post(&[("Mcp-Session-Id", "x")], &request(id, "tools/list", json!({}))).await;
        assert!(matches!(response.status, 200 | 202));
        assert_eq!(accepted.load(Ordering::SeqCst), 1, "request {id}");
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_the_other_node_back() {
    const PIECE: usize = 64 << 10;
    const PIECES: usize = 1024;
    let (first, second) = two().await;
    let made = Arc::new(AtomicUsize::new(0));
    let count = made.clone();
    second.server.middle.on("floods", move |_, out| {
        let count = count.clone();
        async move {
            for n in 0..PIECES {
                out.step(note("notifications/n", &json!({ "n": n, "text": "x".repeat(PIECE) }))).await;
                count.fetch_add(1, Ordering::SeqCst);
            }
            result(&json!("done"))
        }
    });
    let (_direct, session) = second.server.seated("2025-06-18").await;
    let mut peer = first.server.connect().await;
    peer.send_post(&[("Mcp-Session-Id", &session)], &tool_call(1, "floods").to_string()).await;
    peer.response_head().await;
    // Until nothing more is made.
    let (mut before, mut still) = (0, 0);
    while still < 20 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let now = made.load(Ordering::SeqCst);
        still = if now == before { still + 1 } else { 0 };
        before = now;
    }
    // What two sockets hold on loopback, and no more than that.
    assert!((1..PIECES / 2).contains(&before), "{before} of {PIECES} were made for nobody");
    for n in 0..PIECES {
        peer.events_until(&format!(r#""n":{n},"#)).await;
    }
    peer.events_until("done").await;
}

#[tokio::test]
async fn a_node_that_stops_ends_the_streams_it_passes_on() {
    let (first, second) = two().await;
    let (_direct, session) = second.server.seated("2025-06-18").await;
    let session = [("Mcp-Session-Id", session.as_str())];
    let mut listener = first.server.connect().await;
    let head = listener.head("GET /mcp", &session);
    listener.send(&format!("{head}\r\n")).await;
    listener.response_head().await;
    listener.events_until("retry: ").await;
    first.server.stop.cancel();
    let rest = listener.events_until("stopping").await;
    assert!(rest.contains("retry: 3000"), "{rest}");
    assert_eq!(listener.chunk().await, None);
    tokio::time::timeout(PATIENCE, first.server.stopped.cancelled()).await.unwrap();
    // The other way round.
    let third = Node::start().await;
    third.knows(&second);
    let mut listener = third.server.connect().await;
    let head = listener.head("GET /mcp", &session);
    listener.send(&format!("{head}\r\n")).await;
    listener.response_head().await;
    second.server.stop.cancel();
    listener.events_until("stopping").await;
    assert_eq!(listener.chunk().await, None);
    tokio::time::timeout(PATIENCE, second.server.stopped.cancelled()).await.unwrap();
}
