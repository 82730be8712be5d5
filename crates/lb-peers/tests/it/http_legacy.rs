//! The legacy wire over HTTP.

use lb_peers::raw::http::{headers, post_headers};
use serde_json::{Value, json};

use crate::driver::{Http, answer_to, event, message, meta, obliging, request, text_of};

fn call(id: u64, tool: &str, arguments: Value) -> Value {
    request(id, "tools/call", &json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": id } }))
}

#[tokio::test]
async fn a_dropped_stream_is_resumed_where_it_was_left_and_nothing_is_repeated() {
    let server = Http::start(&["--era", "legacy"]).await;
    let session = server.session("2025-11-25", json!({})).await;
    let mut first = server.open("POST", &session, &call(5, "sleep", json!({ "ms": 450 }))).await;
    assert_eq!(first.head().await.unwrap().status(), 200);
    let primer = first.event().await.unwrap().unwrap();
    assert_eq!((primer.text().as_str(), primer.retry.as_deref()), ("", Some("500")));
    assert!(primer.id.is_some() && primer.data.is_some());
    let seen = event(&mut first).await.unwrap();
    drop(first);

    let mut resume = session.clone();
    resume.extend(headers(&[("Last-Event-ID", seen.id.as_deref().unwrap())]));
    let mut second = server.open("GET", &resume, &Value::Null).await;
    assert_eq!(second.head().await.unwrap().status(), 200);
    let mut progress = Vec::new();
    loop {
        let message = message(&mut second).await.expect("the result comes before the end");
        match message["params"]["progress"].as_u64() {
            Some(step) => progress.push(step),
            None => {
                assert_eq!(text_of(&message["result"]), "Slept 450 ms");
                break;
            }
        }
    }
    assert_eq!(progress, [200, 300, 400]);
    assert!(message(&mut second).await.is_none());
}

#[tokio::test]
async fn polling_closes_the_stream_only_for_clients_that_come_back() {
    let server = Http::start(&[]).await;
    let old = server.session("2025-06-18", json!({})).await;
    let mut stream = server.open("POST", &old, &call(1, "test_reconnection", json!({}))).await;
    stream.head().await.unwrap();
    let first = stream.event().await.unwrap().unwrap();
    assert!(first.text().contains("result"), "no empty event before 2025-11-25: {first:?}");

    let new = server.session("2025-11-25", json!({})).await;
    let mut standing = server.open("GET", &new, &Value::Null).await;
    standing.head().await.unwrap();
    let mut stream = server.open("POST", &new, &call(1, "test_reconnection", json!({}))).await;
    stream.head().await.unwrap();
    let primer = stream.event().await.unwrap().unwrap();
    assert!(stream.event().await.unwrap().is_none(), "closed before the result");
    let mut resume = new.clone();
    resume.extend(headers(&[("Last-Event-ID", primer.id.as_deref().unwrap())]));
    let mut again = server.open("GET", &resume, &Value::Null).await;
    assert_eq!(again.head().await.unwrap().status(), 200);
    assert_eq!(message(&mut again).await.unwrap()["id"], 1);
    assert!(message(&mut again).await.is_none());
}

#[tokio::test]
async fn questions_travel_on_the_stream_of_their_call() {
    let server = Http::start(&[]).await;
    let session = server.session("2025-11-25", obliging()).await;
    let body = call(9, "test_input_required_result_multiple_inputs", json!({}));
    let mut stream = server.open("POST", &session, &body).await;
    assert!(stream.head().await.unwrap().is_sse());
    for _ in 0..3 {
        let question = message(&mut stream).await.unwrap();
        let result = answer_to(question["method"].as_str().unwrap());
        let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": result });
        assert_eq!(server.post(&session, &answer).await, (202, Value::Null));
    }
    let answer = message(&mut stream).await.unwrap();
    assert!(text_of(&answer["result"]).contains("Alice"), "{answer}");
}

#[tokio::test]
async fn unsolicited_messages_travel_on_the_standing_stream() {
    let server = Http::start(&[]).await;
    let session = server.session("2025-11-25", json!({})).await;
    let subscribe = request(1, "resources/subscribe", &json!({ "uri": "test://watched-resource" }));
    assert_eq!(server.post(&session, &subscribe).await.0, 200);
    let mut standing = server.open("GET", &session, &Value::Null).await;
    assert_eq!(standing.head().await.unwrap().status(), 200);
    let touch = call(2, "touch_resource", json!({ "uri": "test://watched-resource" }));
    let (status, answer) = server.post(&session, &touch).await;
    assert_eq!((status, answer["id"].clone()), (200, json!(2)), "answered as JSON");
    let notice = message(&mut standing).await.unwrap();
    assert_eq!(notice["params"], json!({ "uri": "test://watched-resource" }));
    // Sent while no stream is open, delivered on the next one.
    drop(standing);
    server.post(&session, &call(3, "change_tools", json!({}))).await;
    let mut standing = server.open("GET", &session, &Value::Null).await;
    standing.head().await.unwrap();
    assert_eq!(message(&mut standing).await.unwrap()["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn cancelling_ends_the_stream_without_an_answer() {
    let server = Http::start(&[]).await;
    let session = server.session("2025-11-25", json!({})).await;
    let mut stream = server.open("POST", &session, &call(4, "sleep", json!({ "ms": 600_000 }))).await;
    stream.head().await.unwrap();
    message(&mut stream).await.unwrap();
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 4 } });
    assert_eq!(server.post(&session, &cancel).await.0, 202);
    while let Some(message) = message(&mut stream).await {
        assert_eq!(message["method"], "notifications/progress");
    }
    server.until_cancelled("sleep", 1).await;
}

#[tokio::test]
async fn a_session_ends_with_delete() {
    let server = Http::start(&[]).await;
    let session = server.session("2025-11-25", json!({})).await;
    let mut running = server.open("POST", &session, &call(1, "sleep", json!({ "ms": 600_000 }))).await;
    running.head().await.unwrap();
    let list = request(2, "tools/list", &json!({}));
    assert_eq!(server.post(&session, &list).await.0, 200);
    let deleted = server.connect().await.request("DELETE", "/mcp", &session, b"").await.unwrap();
    assert_eq!(deleted.head.status(), 204);
    server.until_cancelled("sleep", 1).await;
    assert_eq!(server.post(&session, &list).await.0, 404);
    assert_eq!(server.post(&post_headers(), &list).await.0, 400);
}

#[tokio::test]
async fn a_batch_is_answered_on_one_stream() {
    let server = Http::start(&[]).await;
    let batch = json!([request(1, "ping", &json!({})), call(2, "echo", json!({ "message": "hi" }))]);
    let session = server.session("2025-03-26", json!({})).await;
    let mut stream = server.open("POST", &session, &batch).await;
    stream.head().await.unwrap();
    let mut ids =
        vec![message(&mut stream).await.unwrap()["id"].as_u64(), message(&mut stream).await.unwrap()["id"].as_u64()];
    ids.sort_unstable();
    assert_eq!(ids, [Some(1), Some(2)]);
    assert!(message(&mut stream).await.is_none());
    let newer = server.session("2025-06-18", json!({})).await;
    assert_eq!(server.post(&newer, &batch).await.0, 400);
}

#[tokio::test]
async fn a_legacy_server_refuses_the_modern_wire() {
    let server = Http::start(&["--era", "legacy"]).await;
    let discover = request(1, "server/discover", &json!({ "_meta": meta(&json!({})) }));
    let (status, answer) = server.post(&lb_peers::raw::http::modern_headers("server/discover", None), &discover).await;
    assert_eq!((status, &answer["error"]["code"], &answer["id"]), (400, &json!(-32000), &json!(1)));
    let (status, answer) = server.post(&post_headers(), &request(1, "server/discover", &json!({}))).await;
    assert_eq!(status, 400);
    assert!(answer["error"]["code"].is_i64());
}

#[tokio::test]
async fn strangers_and_wrong_media_types_are_turned_away() {
    let server = Http::start(&[]).await;
    let body = request(1, "ping", &json!({}));
    for (extra, status) in [
        (("Origin", "http://evil.example.com"), 403),
        (("Origin", "null"), 403),
        (("Origin", "http://localhost:1"), 400),
    ] {
        let mut all = post_headers();
        all.extend(headers(&[extra]));
        assert_eq!(server.post(&all, &body).await.0, status, "{extra:?}");
    }
    let json_only = headers(&[("Accept", "application/json"), ("Content-Type", "application/json")]);
    assert_eq!(server.post(&json_only, &body).await.0, 406);
    let text = headers(&[("Accept", "*/*"), ("Content-Type", "text/plain")]);
    assert_eq!(server.post(&text, &body).await.0, 415);
}
