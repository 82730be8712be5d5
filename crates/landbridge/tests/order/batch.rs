//! Batches, which only 2025-03-26 has.

use serde_json::{Value, json};

use crate::client::{Behind, Client, LEGACY, MODERN, PATH, Server, Wire};

const BATCHES: &str = "2025-03-26";

/// Sends an array and gives the answer: over HTTP with its status.
async fn send(client: &mut Client, batch: &Value) -> (u16, Value) {
    let bytes = batch.to_string().into_bytes();
    if let crate::client::End::Stdio(stdio) = &mut client.end {
        stdio.send(&bytes).await.expect("it reads");
        let line = stdio.text().await.expect("a line");
        return (200, serde_json::from_str(&line).expect("JSON"));
    }
    let headers = client.headers_with(&[]);
    let answer = client.conn().post(PATH, &headers, &bytes).await.expect("an answer");
    (answer.head.status(), serde_json::from_slice(&answer.body).unwrap_or_default())
}

fn echo(id: impl Into<Value>, text: &str) -> Value {
    let params = json!({ "name": "echo", "arguments": { "message": text } });
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": params })
}

/// The answer with this id.
fn of<'a>(answers: &'a Value, id: &Value) -> &'a Value {
    let all: Vec<_> = answers.as_array().expect("an array").iter().filter(|one| one["id"] == *id).collect();
    assert_eq!(all.len(), 1, "{id} in {answers}");
    all[0]
}

const PAIRS: [(Wire, Behind); 4] = crate::client::PAIRS;

#[tokio::test]
async fn a_batch_gets_one_array() {
    for (wire, behind) in PAIRS {
        let server = Server::fixture(behind).await;
        let mut client = Client::start(wire, &server, BATCHES, json!({})).await;
        let batch = json!([
            echo("a", "one"),
            { "jsonrpc": "2.0", "method": "notifications/roots/list_changed" },
            { "jsonrpc": "2.0", "id": 2, "method": "tools/list" },
            { "jsonrpc": "2.0", "id": 3, "method": "ping" },
            { "jsonrpc": "2.0", "id": 4, "method": "no/such" },
            echo("b", "two"),
        ]);
        let (status, answers) = send(&mut client, &batch).await;
        let context = format!("{wire:?} {behind:?}: {answers}");
        assert_eq!((status, answers.as_array().map(Vec::len)), (200, Some(5)), "{context}");
        assert_eq!(of(&answers, &json!("a"))["result"]["content"][0]["text"], "one", "{context}");
        assert_eq!(of(&answers, &json!("b"))["result"]["content"][0]["text"], "two", "{context}");
        assert!(of(&answers, &json!(2))["result"]["tools"].is_array(), "{context}");
        assert_eq!(of(&answers, &json!(3))["result"], json!({}), "{context}");
        assert_eq!(of(&answers, &json!(4))["error"]["code"], -32601, "{context}");
    }
}

#[tokio::test]
async fn invalid_members_get_their_own_errors() {
    for (wire, behind) in [(Wire::Http, Behind::Stdio), (Wire::Stdio, Behind::Stdio)] {
        let server = Server::fixture(behind).await;
        let mut client = Client::start(wire, &server, BATCHES, json!({})).await;
        let hello = json!({ "jsonrpc": "2.0", "id": "h", "method": "initialize", "params": {} });
        let batch = json!([1, echo("a", "one"), { "jsonrpc": "2.0", "id": "x" }, hello, "text", []]);
        let (status, answers) = send(&mut client, &batch).await;
        let context = format!("{wire:?}: {answers}");
        assert_eq!((status, answers.as_array().map(Vec::len)), (200, Some(6)), "{context}");
        assert_eq!(of(&answers, &json!("a"))["result"]["content"][0]["text"], "one", "{context}");
        assert_eq!(of(&answers, &json!("h"))["error"]["code"], -32600, "{context}");
        let errors = answers.as_array().expect("an array").iter().filter(|one| one["error"]["code"] == -32600);
        assert_eq!(errors.count(), 5, "{context}");
    }
}

#[tokio::test]
async fn a_batch_has_1_to_64_members_and_its_own_revision() {
    let server = Server::fixture(Behind::Stdio).await;
    let gateway = server.gateway().await;
    let of_size = |size: u64| Value::from((0..size).map(|id| echo(id, "x")).collect::<Vec<_>>());
    let mut client = Client::http(gateway.address, BATCHES, json!({})).await;
    let (status, answers) = send(&mut client, &of_size(64)).await;
    assert_eq!((status, answers.as_array().map(Vec::len)), (200, Some(64)));
    for size in [0, 65] {
        let (status, answer) = send(&mut client, &of_size(size)).await;
        assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32600)), "{size}: {answer}");
    }
    for version in [LEGACY, "2025-06-18", "2024-11-05"] {
        let mut client = Client::http(gateway.address, version, json!({})).await;
        let (status, answer) = send(&mut client, &of_size(1)).await;
        assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32600)), "{version}: {answer}");
    }
    let mut client = Client::http(gateway.address, MODERN, json!({})).await;
    let headers = lb_peers::raw::http::modern_headers("tools/call", Some("echo"));
    let answer = client.conn().post(PATH, &headers, of_size(1).to_string().as_bytes()).await.expect("an answer");
    assert_eq!(answer.head.status(), 400, "{}", answer.text());
}

/// Only notifications and answers: accepted, nothing to say.
#[tokio::test]
async fn a_batch_without_requests_is_accepted() {
    let server = Server::fixture(Behind::Stdio).await;
    let mut client = Client::start(Wire::Http, &server, BATCHES, json!({})).await;
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" });
    let answer = json!({ "jsonrpc": "2.0", "id": 99, "result": {} });
    assert_eq!(send(&mut client, &json!([note, answer])).await, (202, Value::Null));
}

/// Notifications inside take effect before requests start, wherever they stand: here the answer to an ask and a cancel.
#[tokio::test]
async fn answers_and_notifications_inside_take_effect_first() {
    for behind in [Behind::Stdio, Behind::Http] {
        let server = Server::fixture(behind).await;
        let mut client = Client::start(Wire::Http, &server, BATCHES, json!({ "sampling": {} })).await;
        let mut asked = client.again().await;
        let call = json!({ "name": "test_sampling", "arguments": { "prompt": "?" } });
        let id = asked.send("tools/call", call).await;
        assert!(asked.head().await.is_sse());
        let (_, ask) = asked.message().await.expect("an ask");
        let mut slow = client.again().await;
        let sleeping = slow.send("tools/call", json!({ "name": "sleep", "arguments": { "ms": 60_000 } })).await;
        client.await_counts("sleep", [1, 0, 0]).await;
        let said = json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "yes" } });
        let batch = json!([
            echo("e", "one"),
            { "jsonrpc": "2.0", "id": ask["id"], "result": said },
            { "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": sleeping } },
        ]);
        let (status, answers) = send(&mut client, &batch).await;
        assert_eq!((status, answers.as_array().map(Vec::len)), (200, Some(1)), "{behind:?}: {answers}");
        let (_, end) = asked.message().await.expect("an answer");
        assert_eq!((&end["id"], &end["result"]["content"][0]["text"]), (&id, &json!("The model said: yes")));
        assert_eq!(slow.head().await.status(), 202, "{behind:?}");
        client.await_counts("sleep", [1, 0, 1]).await;
    }
}

/// Something to stream turns the reply into a stream with one message per event.
#[tokio::test]
async fn a_batch_with_something_to_say_is_a_stream() {
    let server = Server::fixture(Behind::Stdio).await;
    let mut client = Client::start(Wire::Http, &server, BATCHES, json!({})).await;
    let params = json!({ "name": "sleep", "arguments": { "ms": 300 }, "_meta": { "progressToken": 1 } });
    let slow = json!({ "jsonrpc": "2.0", "id": "s", "method": "tools/call", "params": params });
    let batch = json!([slow, echo("e", "quick"), 7]).to_string();
    let headers = client.headers_with(&[]);
    client.conn().send("POST", PATH, &headers, batch.as_bytes()).await.expect("it reads");
    assert!(client.head().await.is_sse());
    let mut all = Vec::new();
    while let Some((_, message)) = client.message().await {
        all.push(message);
    }
    let answers: Vec<_> = all.iter().filter(|message| message.get("id").is_some()).collect();
    assert_eq!(answers.len(), 3, "{all:?}");
    assert_eq!(answers.last().map(|last| &last["id"]), Some(&json!("s")));
    let steps: Vec<_> = all.iter().filter_map(|note| note["params"]["progress"].as_u64()).collect();
    assert_eq!(steps, [100, 200]);
}
