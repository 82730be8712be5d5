//! Nodes that cannot be reached, break off, or cannot be found.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lb_exchange::{Place, Tasks};
use lb_http::{Settings, Tls};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::node::*;
use crate::peer::*;

const SESSION: [(&str, &str); 1] = [("Mcp-Session-Id", "somewhere")];

/// A node that takes a request, writes this and closes. Counts requests.
async fn broken(tasks: &Tasks, answer: &'static str) -> (Arc<str>, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address")).into();
    let count = Arc::new(AtomicUsize::new(0));
    let taken = count.clone();
    tasks.spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut seen = Vec::new();
            while !String::from_utf8_lossy(&seen).contains("tools/list") {
                if socket.read_buf(&mut seen).await.unwrap_or(0) == 0 {
                    break;
                }
            }
            taken.fetch_add(1, Ordering::SeqCst);
            socket.write_all(answer.as_bytes()).await.expect("written");
        }
    });
    (url, count)
}

#[tokio::test]
async fn a_node_that_breaks_off_before_it_answers_is_not_asked_again() {
    let (node, tasks) = (Node::start().await, Tasks::default());
    for answer in ["", "HTTP/1.1 200 O", "HTTP/1.1 200 OK\r\nContent-Le"] {
        let (url, count) = broken(&tasks, answer).await;
        node.says(Place::Node(url));
        let before = node.located();
        let mut peer = node.server.connect().await;
        let response = peer.post(&SESSION, &request(1, "tools/list", json!({}))).await;
        assert_eq!((response.status, response.header("retry-after")), (503, Some("1")), "{answer:?}");
        assert_eq!(response.code(), (503, -32000));
        assert!(response.text().contains("may have been run"), "{}", response.text());
        assert_eq!((count.load(Ordering::SeqCst), node.located() - before), (1, 1), "{answer:?}");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_cut_where_it_broke() {
    let (node, tasks) = (Node::start().await, Tasks::default());
    let stream =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n8\r\ndata: 1\n\r\n";
    let (url, count) = broken(&tasks, stream).await;
    node.says(Place::Node(url));
    let mut peer = node.server.connect().await;
    peer.send_post(&SESSION, &request(1, "tools/list", json!({})).to_string()).await;
    assert_eq!(peer.response_head().await.status, 200);
    assert_eq!(peer.chunk().await.as_deref(), Some(b"data: 1\n".as_slice()));
    assert_eq!(peer.closed().await, b"", "without the chunk that ends a body");
    assert_eq!(count.load(Ordering::SeqCst), 1);

    let (url, _) = broken(&tasks, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"half\":").await;
    node.says(Place::Node(url));
    let mut peer = node.server.connect().await;
    peer.send_post(&SESSION, &request(1, "tools/list", json!({})).to_string()).await;
    let head = peer.response_head().await;
    assert_eq!((head.status, head.header("content-length")), (200, Some("100")));
    assert_eq!(peer.closed().await, b"{\"half\":");
}

#[tokio::test]
async fn a_node_that_refuses_is_looked_for_once_more() {
    let (first, second) = two().await;
    let (_direct, session) = second.server.seated("2025-06-18").await;
    let session = [("Mcp-Session-Id", session.as_str())];
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dead: Arc<str> = format!("http://{}", gone.local_addr().unwrap()).into();
    drop(gone);
    let list = request(1, "tools/list", json!({}));
    first.says(Place::Node(dead.clone()));
    let mut peer = first.server.connect().await;
    let response = peer.post(&session, &list).await;
    assert_eq!((response.status, response.header("retry-after")), (503, Some("1")));
    assert!(response.text().contains("was not sent"), "{}", response.text());
    assert_eq!(first.located(), 2);
    let (asked, alive) = (AtomicUsize::new(0), second.url.clone());
    first.server.middle.elsewhere(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Place::Node(dead.clone()),
        _ => Place::Node(alive.clone()),
    });
    assert_eq!(peer.post(&session, &list).await.status, 200, "it has moved");
    assert_eq!(first.located(), 4);
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_is_replaced() {
    let (first, second) = two().await;
    let (_direct, session) = second.server.seated("2025-06-18").await;
    let session = [("Mcp-Session-Id", session.as_str())];
    let mut peer = first.server.connect().await;
    let list = request(1, "tools/list", json!({}));
    assert_eq!(peer.post(&session, &list).await.status, 200);
    // The same address, another process: what was open is closed.
    let third = Node::start().await;
    let (_direct, moved) = third.server.seated("2025-06-18").await;
    first.knows(&third);
    let moved = [("Mcp-Session-Id", moved.as_str())];
    assert_eq!(peer.post(&moved, &list).await.status, 200);
    third.server.stop.cancel();
    tokio::time::timeout(PATIENCE, third.server.stopped.cancelled()).await.unwrap();
    let response = peer.post(&moved, &list).await;
    assert_eq!(response.status, 503);
    assert!(response.text().contains("was not sent"), "{}", response.text());
    first.knows(&second);
    assert_eq!(peer.post(&session, &list).await.status, 200);
}

#[tokio::test]
async fn who_cannot_be_found_because_the_store_is_away_is_asked_for_later() {
    let node = Node::start().await;
    let mut peer = node.server.connect().await;
    for (after, told) in [(Duration::from_millis(1200), "2"), (Duration::ZERO, "1")] {
        node.says(Place::Away(after));
        let list = request(1, "tools/list", json!({}));
        for response in [
            peer.post(&SESSION, &list).await,
            peer.ask("GET /mcp", &SESSION).await,
            peer.ask("DELETE /mcp", &SESSION).await,
        ] {
            assert_eq!((response.status, response.header("retry-after")), (503, Some(told)));
            let message = response.json()["error"]["message"].as_str().unwrap().to_owned();
            assert!(message.starts_with("it cannot be told at the moment where this session is"), "{message}");
        }
    }
    // As seen from another node.
    let other = Node::start().await;
    other.knows(&node);
    let response = other.server.connect().await.post(&SESSION, &request(1, "tools/list", json!({}))).await;
    assert_eq!((response.status, response.header("retry-after")), (503, Some("1")));
    assert!(response.text().contains("it cannot be told at the moment where this session is"), "{}", response.text());
}

#[tokio::test]
async fn nodes_beyond_this_machine_are_not_spoken_to_in_the_clear() {
    let node = Node::start().await;
    let mut peer = node.server.connect().await;
    for url in ["http://192.0.2.1:7700", "ftp://127.0.0.1", "nonsense"] {
        node.says(Place::Node(url.into()));
        let response = peer.post(&SESSION, &request(1, "tools/list", json!({}))).await;
        assert_eq!(response.status, 503, "{url}");
        assert!(response.text().contains("http"), "{}", response.text());
    }
}

#[tokio::test]
async fn nodes_speak_tls_to_each_other() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let tls = || Some((Tls::load(&cert, &key).unwrap(), cert.clone()));
    let first = Node::with(Settings::default(), KEY, tls()).await;
    let second = Node::with(Settings::default(), KEY, tls()).await;
    first.knows(&second);
    let (_direct, session) = second.server.seated("2025-06-18").await;
    let session = [("Mcp-Session-Id", session.as_str())];
    let mut peer = first.server.connect().await;
    let list = request(1, "tools/list", json!({}));
    for _ in 0..3 {
        let response = peer.post(&session, &list).await;
        assert_eq!(response.status, 200, "{}", response.text());
        assert_eq!(response.header("strict-transport-security"), None, "the client has no TLS");
    }
    // Whoever does not trust the authority sends nothing.
    let stranger = Node::start().await;
    stranger.knows(&second);
    let response = stranger.server.connect().await.post(&session, &list).await;
    assert_eq!(response.status, 503);
    assert!(response.text().contains("was not sent"), "{}", response.text());
}

#[tokio::test]
async fn a_request_that_a_frozen_node_has_ends_when_its_session_has_moved() {
    let (node, tasks) = (Node::start().await, Tasks::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let frozen: Arc<str> = format!("http://{}", listener.local_addr().expect("an address")).into();
    tasks.spawn(async move {
        let mut held = Vec::new();
        while let Ok((socket, _)) = listener.accept().await {
            held.push(socket);
        }
    });
    node.says(Place::Node(frozen));
    let mut peer = node.server.connect().await;
    let call = request(1, "tools/list", json!({}));
    let answered = peer.post(&SESSION, &call);
    tokio::pin!(answered);
    let early = tokio::time::timeout(Duration::from_millis(300), &mut answered).await;
    assert!(early.is_err(), "it waits as long as the node has the session");
    node.says(Place::Node("http://127.0.0.1:9".into()));
    let response = tokio::time::timeout(Duration::from_secs(50), answered).await.expect("it ends");
    assert_eq!(response.code(), (503, -32000));
    assert!(response.text().contains("may have been run"), "{}", response.text());
}
