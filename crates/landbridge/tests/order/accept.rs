//! JSON or stream: what the client accepts, and what there is to say.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Behind, Client, LEGACY, MODERN, PATH, Server, Wire, with_token};

/// Sends a call with this `Accept`, or without any.
async fn post(client: &mut Client, accept: Option<&str>, params: Value) {
    let request = client.request("tools/call", params);
    let mut headers = if client.version == MODERN {
        let name = request["params"]["name"].as_str();
        lb_peers::raw::http::modern_headers("tools/call", name)
    } else {
        client.headers_with(&[])
    };
    headers.retain(|(name, _)| name != "Accept");
    headers.extend(accept.map(|accept| ("Accept".to_owned(), accept.to_owned())));
    client.conn().send("POST", PATH, &headers, request.to_string().as_bytes()).await.expect("it reads");
}

#[tokio::test]
async fn the_accept_header_decides_the_kind_of_reply() {
    let server = Server::fixture(Behind::Stdio).await;
    for version in [LEGACY, MODERN] {
        let mut client = Client::start(Wire::Http, &server, version, json!({})).await;
        for (accept, status, sse) in [
            (Some("application/json, text/event-stream"), 200, false),
            (Some("*/*"), 200, false),
            (None, 200, false),
            (Some("application/json"), 200, false),
            (Some("text/event-stream"), 200, true),
            (Some("text/html"), 406, false),
        ] {
            post(&mut client, accept, json!({ "name": "echo", "arguments": { "message": "x" } })).await;
            let head = client.head().await;
            assert_eq!((head.status(), head.is_sse()), (status, sse), "{version} {accept:?}");
            client.conn().body().await.expect("a body");
        }
    }
}

/// A client that takes JSON only waits for its answer, however long, and misses the notes.
#[tokio::test]
async fn json_only_is_json_always() {
    let server = Server::fixture(Behind::Stdio).await;
    for version in [LEGACY, MODERN] {
        let mut client = Client::start(Wire::Http, &server, version, json!({})).await;
        post(&mut client, Some("application/json"), with_token("sleep", json!({ "ms": 1300 }))).await;
        let head = client.head().await;
        assert!(!head.is_sse(), "{version}");
        let (body, _) = client.conn().body().await.expect("a body");
        let answer: Value = serde_json::from_slice(&body).expect("one message");
        assert!(answer["result"]["content"].is_array(), "{version}: {answer}");
    }
}

#[tokio::test]
async fn stream_only_is_a_stream_at_once() {
    let server = Server::fixture(Behind::Stdio).await;
    for version in [LEGACY, MODERN] {
        let mut client = Client::start(Wire::Http, &server, version, json!({})).await;
        let start = Instant::now();
        post(&mut client, Some("text/event-stream"), json!({ "name": "sleep", "arguments": { "ms": 900 } })).await;
        assert!(client.head().await.is_sse());
        assert!(start.elapsed() < Duration::from_millis(700), "{version}: the head waited for the answer");
        let (_, answer) = client.message().await.expect("an answer");
        assert!(answer["result"]["content"].is_array(), "{version}: {answer}");
        assert!(client.message().await.is_none());
    }
}

/// With both, silence for a second begins a stream; anything quicker is JSON.
#[tokio::test]
async fn a_second_of_silence_begins_a_stream() {
    let server = Server::fixture(Behind::Stdio).await;
    for version in [LEGACY, MODERN] {
        let mut client = Client::start(Wire::Http, &server, version, json!({})).await;
        let start = Instant::now();
        post(&mut client, Some("*/*"), json!({ "name": "sleep", "arguments": { "ms": 1600 } })).await;
        assert!(client.head().await.is_sse());
        let waited = start.elapsed();
        assert!(Duration::from_millis(900) < waited && waited < Duration::from_millis(1550), "{version}: {waited:?}");
        // The same timer sends a first sign of life: a priming event, or a comment.
        let first = client.conn().event().await.expect("an event").expect("an event");
        assert!(first.data.as_deref().is_none_or(<[u8]>::is_empty), "{version}: {first:?}");
        assert_eq!(first.id.is_some(), version == LEGACY, "{version}: {first:?}");
        assert!(start.elapsed() < Duration::from_millis(1550), "{version}");
        let (_, answer) = client.message().await.expect("an answer");
        assert!(answer["result"]["content"].is_array(), "{version}: {answer}");
    }
}

/// A client that takes JSON only is asked on its standalone stream, or not at all.
#[tokio::test]
async fn a_json_only_client_is_asked_on_its_standalone_stream() {
    for behind in [Behind::Stdio, Behind::Http] {
        let server = Server::fixture(behind).await;
        let mut client = Client::start(Wire::Http, &server, LEGACY, json!({ "elicitation": {} })).await;
        let call = json!({ "name": "test_elicitation", "arguments": { "message": "?" } });
        post(&mut client, Some("application/json"), call.clone()).await;
        assert!(!client.head().await.is_sse());
        let (body, _) = client.conn().body().await.expect("a body");
        let text = String::from_utf8_lossy(&body).into_owned();
        assert!(text.contains("Action cancel") || text.contains("refused"), "{behind:?}: {text}");

        let mut ear = client.again().await;
        assert_eq!(ear.get(None).await.status(), 200);
        post(&mut client, Some("application/json"), call).await;
        let (_, ask) = ear.message().await.expect("an ask");
        assert_eq!(ask["method"], "elicitation/create", "{behind:?}: {ask}");
        let content = json!({ "username": "ann", "email": "a@b" });
        client.again().await.answer(&ask, json!({ "action": "accept", "content": content })).await;
        let (body, _) = {
            client.head().await;
            client.conn().body().await.expect("a body")
        };
        assert!(String::from_utf8_lossy(&body).contains("Action accept"), "{behind:?}");
    }
}
