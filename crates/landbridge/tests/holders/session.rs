//! The end of a session ends what it runs.

use std::time::Duration;

use serde_json::json;

use crate::client::{Behind, Client, LEGACY, PATH, Server, Wire, with_token};
use crate::{started, straight};

async fn delete(client: &mut Client) {
    let headers = client.headers_with(&[]);
    let answer = client.conn().request("DELETE", PATH, &headers, b"").await.expect("an answer");
    assert_eq!(answer.head.status(), 200);
}

/// front, DELETE: cancelled at the server, and the client's reply ends.
#[tokio::test]
async fn deleting_a_session_cancels_its_calls() {
    let server = Server::fixture(Behind::Http).await;
    let mut direct = straight(&server).await;
    let mut client = Client::start(Wire::Http, &server, LEGACY, json!({})).await;
    let (mut calling, _) = started(&mut client).await;
    let mut streaming = client.again().await;
    streaming.send("tools/call", with_token("sleep", json!({ "ms": 60_000 }))).await;
    assert!(streaming.head().await.is_sse());
    streaming.message().await.expect("a report");
    delete(&mut client).await;
    direct.await_sleep([2, 0, 2], Duration::from_secs(2)).await;
    assert_eq!(calling.head().await.status(), 202);
    while let Some((_, message)) = streaming.message().await {
        assert_eq!(message.get("id"), None, "{message}");
    }
    let headers = client.headers_with(&[]);
    let answer = client.conn().post(PATH, &headers, br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await;
    assert_eq!(answer.expect("an answer").head.status(), 404);
}

/// The same where the server is shared and lives on: it is told, and the other session goes on.
#[tokio::test]
async fn deleting_a_session_leaves_the_calls_of_others() {
    for behind in [Behind::Stdio, Behind::Http] {
        let server = Server::fixture(behind).await.with("isolation", "shared");
        let gateway = server.gateway().await;
        let mut one = Client::http(gateway.address, LEGACY, json!({})).await;
        let mut two = Client::http(gateway.address, LEGACY, json!({})).await;
        let mut kept = two.again().await;
        let id = kept.send("tools/call", json!({ "name": "sleep", "arguments": { "ms": 900 } })).await;
        two.await_counts("sleep", [1, 0, 0]).await;
        let (_calling, _) = started(&mut one).await;
        delete(&mut one).await;
        two.await_counts("sleep", [2, 0, 1]).await;
        assert!(kept.rest(&id).await[0]["result"].is_object(), "{behind:?}");
        assert_eq!(two.counts("sleep").await, [2, 1, 1], "{behind:?}");
    }
}

/// A session's own child goes with it.
#[tokio::test]
async fn deleting_a_session_ends_its_child() {
    let server = Server::fixture(Behind::Stdio).await;
    let gateway = server.gateway().await;
    let mut client = Client::http(gateway.address, LEGACY, json!({})).await;
    let (mut calling, _) = started(&mut client).await;
    let children = descendants(gateway.pid());
    assert!(!children.is_empty());
    delete(&mut client).await;
    assert_eq!(calling.head().await.status(), 202);
    let start = tokio::time::Instant::now();
    while children.iter().any(|pid| is_alive(*pid)) {
        assert!(start.elapsed().as_secs() < 10, "a child outlives its session");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The standalone stream of a deleted session ends.
#[tokio::test]
async fn deleting_a_session_closes_its_streams() {
    let server = Server::fixture(Behind::Stdio).await;
    let mut client = Client::start(Wire::Http, &server, LEGACY, json!({})).await;
    let mut ear = client.again().await;
    assert_eq!(ear.get(None).await.status(), 200);
    delete(&mut client).await;
    assert_eq!(ear.message().await, None);
}

/// A stored stream dies with its session.
#[tokio::test]
async fn a_stored_stream_dies_with_its_session() {
    let server = Server::fixture(Behind::Http).await;
    let mut direct = straight(&server).await;
    let mut client = Client::start(Wire::Http, &server, LEGACY, json!({})).await;
    let mut away = client.again().await;
    away.send("tools/call", with_token("sleep", json!({ "ms": 60_000 }))).await;
    assert!(away.head().await.is_sse());
    let (anchor, _) = away.message().await.expect("a report");
    drop(away);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(direct.counts("sleep").await, [1, 0, 0]);
    delete(&mut client).await;
    direct.await_sleep([1, 0, 1], Duration::from_secs(2)).await;
    assert_eq!(client.again().await.get(anchor.as_deref()).await.status(), 404);
}

/// All processes below this one.
fn descendants(pid: u32) -> Vec<u32> {
    // Each thread lists the children that it started.
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let words = lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let mut all: Vec<u32> = words.filter_map(|word| word.parse().ok()).collect();
    let below: Vec<u32> = all.iter().flat_map(|child| descendants(*child)).collect();
    all.extend(below);
    all
}

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state comes after the name, which is in brackets.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
