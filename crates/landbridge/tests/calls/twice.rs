//! One id for two requests at the same moment, and requests that the other era does not know.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::client::{Behind, Client, LEGACY, MODERN, PAIRS, Server, Wire};

/// Clients that ask at the same moment.
const AT_ONCE: usize = 4;
const ROUNDS: usize = 10;

/// Sends the same request on several connections at once, and gives the status and the answer of each.
async fn at_once(client: &Client, request: &Value) -> Vec<(u16, Value)> {
    let (gate, mut all) = (Arc::new(Barrier::new(AT_ONCE)), JoinSet::new());
    for _ in 0..AT_ONCE {
        let (mut client, gate, request) = (client.again().await, gate.clone(), request.clone());
        all.spawn(async move {
            gate.wait().await;
            client.send_request(&request).await;
            let head = client.head().await;
            let answer = if head.is_sse() {
                client.message().await.expect("an answer").1
            } else {
                serde_json::from_slice(&client.conn().body().await.expect("a body").0).expect("JSON")
            };
            (head.status(), answer)
        });
    }
    all.join_all().await
}

/// In a session an id means one request while it runs: one of them is run, and the others are told, whoever comes first.
#[tokio::test]
async fn of_requests_with_one_id_at_once_one_is_run_and_the_others_are_told() {
    for behind in [Behind::Stdio, Behind::Http] {
        let server = Server::fixture(behind).await;
        let mut client = Client::start(Wire::Http, &server, LEGACY, json!({})).await;
        for round in 1..=ROUNDS {
            let request = client.request("tools/call", json!({ "name": "sleep", "arguments": { "ms": 300 } }));
            let answers = at_once(&client, &request).await;
            let context = format!("{behind:?}, round {round}: {answers:?}");
            let run = answers.iter().filter(|(status, answer)| *status == 200 && answer.get("result").is_some());
            let told = answers.iter().filter(|(status, answer)| *status == 400 && answer["error"]["code"] == -32600);
            assert_eq!((run.count(), told.count()), (1, AT_ONCE - 1), "{context}");
            assert!(answers.iter().all(|(_, answer)| answer["id"] == request["id"]), "{context}");
            client.await_counts("sleep", [round as u64, round as u64, 0]).await;
        }
    }
}

/// Modern requests have no session: whoever has the same id is another client, and each gets an answer of its own.
#[tokio::test]
async fn modern_requests_with_one_id_at_once_are_all_run() {
    let server = Server::fixture(Behind::Http).await;
    let client = Client::start(Wire::Http, &server, MODERN, json!({})).await;
    let request = client.request("tools/call", json!({ "name": "sleep", "arguments": { "ms": 300 } }));
    let answers = at_once(&client, &request).await;
    let run = answers.iter().filter(|(status, answer)| *status == 200 && answer.get("result").is_some());
    assert_eq!(run.count(), AT_ONCE, "{answers:?}");
}

/// A legacy server cannot be listened to as a modern client does: it is told so at once instead of being left waiting,
/// whatever it wants to hear of, and goes on.
#[tokio::test]
async fn a_modern_listen_at_a_legacy_server_is_told_that_there_is_none() {
    for (wire, behind) in PAIRS {
        let server = Server::of("fixture", behind, &["--era", "legacy"]).await;
        let mut client = Client::start(wire, &server, MODERN, json!({})).await;
        for filter in [
            json!({ "resourceSubscriptions": ["test://watched-resource"] }),
            json!({ "toolsListChanged": true, "resourceSubscriptions": ["test://watched-resource"] }),
            json!({ "toolsListChanged": true }),
        ] {
            let said = client.run("subscriptions/listen", json!({ "notifications": filter })).await;
            let [answer] = said.as_slice() else { panic!("{wire:?} {behind:?} {filter}: {said:?}") };
            assert_eq!(answer["error"]["code"], -32601, "{wire:?} {behind:?} {filter}: {answer}");
            let message = answer["error"]["message"].as_str().unwrap_or_default();
            assert!(message.contains("has no subscriptions/listen"), "{wire:?} {behind:?} {filter}: {answer}");
        }
        assert_eq!(client.counts("sleep").await, [0, 0, 0], "{wire:?} {behind:?}");
    }
}
