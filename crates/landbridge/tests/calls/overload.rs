//! How many calls run at a time, and what the others are told.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Behind, Client, LEGACY, MODERN, Server, Wire};

const CALLS_MAX: usize = 64;
/// Two and a half for each place: who waits longest takes three and a half times as long as alone.
const QUEUE_MAX: usize = 160;

fn sleep(ms: u64) -> Value {
    json!({ "name": "sleep", "arguments": { "ms": ms } })
}

/// Fills a session with calls that take long.
async fn fill(client: &Client, calls: usize) -> Vec<(Client, Value)> {
    let mut open = Vec::new();
    for _ in 0..calls {
        let mut calling = client.again().await;
        let id = calling.send("tools/call", sleep(60_000)).await;
        open.push((calling, id));
    }
    open
}

/// Waits until these calls are known to run: a call that takes long begins as a stream.
async fn taken(open: &mut [(Client, Value)]) {
    for (calling, _) in open {
        let head = tokio::time::timeout(Duration::from_secs(20), calling.head()).await.expect("a head");
        assert!(head.is_sse(), "{}", head.status());
    }
}

#[tokio::test]
async fn one_session_has_64_calls_at_a_time_and_the_next_is_told_to_come_back() {
    let server = Server::fixture(Behind::Stdio).await;
    let mut client = Client::start(Wire::Http, &server, LEGACY, json!({})).await;
    let mut open = fill(&client, CALLS_MAX - 1).await;
    // The last place is for the one that looks.
    client.await_counts("sleep", [63, 0, 0]).await;
    let mut last = fill(&client, 1).await;
    taken(&mut last).await;
    let mut refused = client.again().await;
    refused.send("tools/call", sleep(60_000)).await;
    let head = refused.head().await;
    assert_eq!((head.status(), head.header("retry-after")), (429, Some("1")));
    let body: Value = serde_json::from_slice(&refused.conn().body().await.expect("a body").0).expect("JSON");
    assert_eq!((&body["error"]["code"], &body["error"]["data"]["reason"]), (&json!(-32000), &json!("overloaded")));
    let (calling, id) = &mut open[0];
    client.notify("notifications/cancelled", json!({ "requestId": id })).await;
    // Its place is free when its reply has ended.
    if calling.head().await.is_sse() {
        while calling.message().await.is_some() {}
    }
    client.await_counts("sleep", [64, 0, 1]).await;
}

/// Sessions that share a connection share its room; whoever comes later waits.
#[tokio::test]
async fn calls_wait_for_a_server_that_is_busy() {
    let server = Server::fixture(Behind::Stdio).await.with("isolation", "shared");
    let gateway = server.gateway().await;
    let mut one = Client::http(gateway.address, LEGACY, json!({})).await;
    let other = Client::http(gateway.address, LEGACY, json!({})).await;
    let open = fill(&one, CALLS_MAX - 1).await;
    one.await_counts("sleep", [63, 0, 0]).await;
    let mut last = fill(&other, 1).await;
    taken(&mut last).await;
    let mut waiting = other.again().await;
    let mut answer = Box::pin(waiting.call("counters", json!({})));
    let early = tokio::time::timeout(Duration::from_millis(500), &mut answer).await;
    assert!(early.is_err(), "it had to wait: {early:?}");
    one.notify("notifications/cancelled", json!({ "requestId": open[0].1 })).await;
    let counts = tokio::time::timeout(Duration::from_secs(20), answer).await.expect("its turn has come");
    assert_eq!(counts["structuredContent"]["sleep"]["started"], 64, "{counts}");
}

/// 64 run, 160 wait, and one more is told so at once.
#[tokio::test]
async fn beyond_the_queue_a_call_is_refused_with_429() {
    let server = Server::fixture(Behind::Stdio).await;
    let gateway = server.gateway().await;
    let client = Client::http(gateway.address, MODERN, json!({})).await;
    let mut open = fill(&client, CALLS_MAX + QUEUE_MAX).await;
    taken(&mut open).await;
    let mut refused = client.again().await;
    refused.send("tools/call", sleep(60_000)).await;
    let head = tokio::time::timeout(Duration::from_secs(20), refused.head()).await.expect("an answer");
    assert_eq!((head.status(), head.header("retry-after")), (429, Some("1")));
    let body: Value = serde_json::from_slice(&refused.conn().body().await.expect("a body").0).expect("JSON");
    assert_eq!((&body["error"]["code"], &body["error"]["data"]["reason"]), (&json!(-32603), &json!("overloaded")));
}
