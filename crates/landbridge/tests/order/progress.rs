//! Progress: complete, in order, before the result and never after it.

use serde_json::{Value, json};

use crate::client::{Behind, Client, End, LEGACY, MODERN, PAIRS, Server, Wire, long, with_token};

const STEPS: u64 = 200;

/// 200 steps in order, then the result, then nothing.
async fn check(client: &mut Client, context: &str) {
    let mut all = client.run("tools/call", with_token("progress_burst", json!({ "count": STEPS }))).await;
    let last = all.pop().expect("a result");
    assert!(last["result"]["content"].is_array(), "{context}: {last}");
    for (step, note) in (1..).zip(&all) {
        assert_eq!(note["method"], "notifications/progress", "{context}: {note}");
        assert_eq!((&note["params"]["progress"], &note["params"]["progressToken"]), (&json!(step), &json!("p")));
    }
    assert_eq!(all.len() as u64, STEPS, "{context}");
    // Over HTTP the stream has ended. On stdio whatever is late would come before the next answer.
    if let End::Stdio(_) = client.end {
        let next = client.run("tools/list", json!({})).await;
        assert_eq!(next.len(), 1, "{context}: {next:?}");
    }
}

async fn repeatedly(version: &str) {
    let times = if long() { 100 } else { 25 };
    for (wire, behind) in PAIRS {
        let server = Server::fixture(behind).await;
        let mut client = Client::start(wire, &server, version, json!({})).await;
        for round in 0..times {
            check(&mut client, &format!("{wire:?} {behind:?} {version} {round}")).await;
        }
    }
}

/// 25 times over each of the four pairs.
#[tokio::test]
async fn two_hundred_notifications_arrive_in_order_100_times_legacy() {
    repeatedly(LEGACY).await;
}

#[tokio::test]
async fn two_hundred_notifications_arrive_in_order_100_times_modern() {
    repeatedly(MODERN).await;
}

/// Several bursts at once share one pipe; each keeps its own order and its own token.
#[tokio::test]
async fn concurrent_bursts_do_not_mix() {
    for behind in [Behind::Stdio, Behind::Http] {
        let server = Server::fixture(behind).await;
        let mut client = Client::start(Wire::Stdio, &server, LEGACY, json!({})).await;
        let mut next = std::collections::HashMap::new();
        for token in 0..8 {
            let mut params = with_token("progress_burst", json!({ "count": 50 }));
            params["_meta"]["progressToken"] = token.into();
            let id = client.send("tools/call", params).await;
            next.insert(token, (id, 1_u64));
        }
        while !next.is_empty() {
            let (_, message) = client.message().await.expect("a line");
            match message["params"]["progressToken"].as_i64() {
                Some(token) => {
                    let (_, step) = next.get_mut(&token).expect("a call that has not ended");
                    assert_eq!(message["params"]["progress"], *step, "{behind:?} {token}");
                    *step += 1;
                }
                None => {
                    let over = next.iter().find(|(_, (id, _))| *id == message["id"]).map(|(token, _)| *token);
                    let (_, step) = next.remove(&over.expect("an open call")).expect("it was open");
                    assert_eq!(step, 51, "{behind:?}: {message}");
                }
            }
        }
    }
}

/// A server that reports without being asked to does not turn the reply into a stream, and nothing is forwarded.
#[tokio::test]
async fn progress_without_a_token_stays_json() {
    for behind in [Behind::Stdio, Behind::Http] {
        let server = Server::fixture(behind).await;
        for version in [LEGACY, MODERN] {
            let mut client = Client::start(Wire::Http, &server, version, json!({})).await;
            let id = client.send("tools/call", json!({ "name": "sleep", "arguments": { "ms": 350 } })).await;
            let head = client.head().await;
            assert!(!head.is_sse(), "{behind:?} {version}");
            let (body, _) = client.conn().body().await.expect("a body");
            let answer: Value = serde_json::from_slice(&body).expect("JSON");
            assert_eq!(answer["id"], id);
        }
    }
}
