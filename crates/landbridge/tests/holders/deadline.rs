//! A server's own deadline: `timeout_ms` is the longest wait for a step of one call.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Behind, Client, LEGACY, MODERN, PAIRS, Server, Wire, with_token};
use crate::long_sleep;

#[tokio::test]
async fn a_call_without_a_step_for_too_long_is_cancelled() {
    for (wire, behind) in PAIRS {
        for version in [LEGACY, MODERN] {
            let server = Server::fixture(behind).await.with("timeout_ms", 400);
            let mut client = Client::start(wire, &server, version, json!({})).await;
            let start = Instant::now();
            let answer = client.run("tools/call", long_sleep()).await.pop().expect("an answer");
            let context = format!("{wire:?} {behind:?} {version}: {answer}");
            assert_eq!(answer["error"]["code"], -32603, "{context}");
            assert_eq!(answer["error"]["data"]["reason"], "timeout", "{context}");
            let message = answer["error"]["message"].as_str().unwrap_or_default();
            let named = message.starts_with("server \"");
            assert!(named && message.ends_with(": no answer within 0.4 s; it may still have run"), "{context}");
            let took = start.elapsed();
            assert!(Duration::from_millis(390) < took && took < Duration::from_secs(3), "{context} after {took:?}");
            client.await_counts("sleep", [1, 0, 1]).await;
        }
    }
}

/// Sessions that share a server keep to its deadline too.
#[tokio::test]
async fn a_shared_server_has_its_deadline() {
    for behind in [Behind::Stdio, Behind::Http] {
        let server = Server::fixture(behind).await.with("timeout_ms", 400).with("isolation", "shared");
        let mut client = Client::start(Wire::Http, &server, LEGACY, json!({})).await;
        let answer = client.run("tools/call", long_sleep()).await.pop().expect("an answer");
        assert_eq!(answer["error"]["data"]["reason"], "timeout", "{behind:?}: {answer}");
        client.await_counts("sleep", [1, 0, 1]).await;
    }
}

/// Every report of progress starts the wait anew.
#[tokio::test]
async fn progress_extends_the_deadline() {
    for behind in [Behind::Stdio, Behind::Http] {
        let server = Server::fixture(behind).await.with("timeout_ms", 500);
        let mut client = Client::start(Wire::Http, &server, LEGACY, json!({})).await;
        let all = client.run("tools/call", with_token("sleep", json!({ "ms": 1500 }))).await;
        assert!(all.last().is_some_and(|last| last["result"].is_object()), "{behind:?}: {all:?}");
    }
}

/// The clock stands still while the client thinks.
#[tokio::test]
async fn an_open_question_stops_the_deadline() {
    for behind in [Behind::Stdio, Behind::Http] {
        let server = Server::fixture(behind).await.with("timeout_ms", 300);
        let mut client = Client::start(Wire::Http, &server, LEGACY, json!({ "sampling": {} })).await;
        let mut calling = client.again().await;
        calling.send("tools/call", json!({ "name": "test_sampling", "arguments": { "prompt": "?" } })).await;
        assert!(calling.head().await.is_sse());
        let (_, ask) = calling.message().await.expect("an ask");
        tokio::time::sleep(Duration::from_millis(900)).await;
        let said = json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "slow" } });
        client.answer(&ask, said).await;
        let (_, end) = calling.message().await.expect("an answer");
        assert_eq!(end["result"]["content"][0]["text"], "The model said: slow", "{behind:?}: {end}");
    }
}

/// A call that nobody holds any more keeps its deadline.
#[tokio::test]
async fn a_stored_call_has_its_deadline_too() {
    let server = Server::fixture(Behind::Stdio).await.with("timeout_ms", 700);
    let mut client = Client::start(Wire::Http, &server, LEGACY, json!({})).await;
    let mut away = client.again().await;
    away.send("tools/call", long_sleep()).await;
    client.await_counts("sleep", [1, 0, 0]).await;
    drop(away);
    client.await_counts("sleep", [1, 0, 1]).await;
}
