//! Requests in both directions while the server runs.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn a_call_that_is_open_when_the_server_dies_ends_at_once() {
    // Regression: an earlier wrapper never answered it.
    let world = World::new();
    let mut client = world.wrap(&[], json!({}));
    client.hello().await;
    let slow = client.ask("tools/call", json!({ "name": "slow", "arguments": { "seconds": 60 } })).await;
    let start = Instant::now();
    let die = client.ask("tools/call", json!({ "name": "die" })).await;
    for id in [slow, die] {
        let answer = client.answer(&id).await;
        assert_eq!(answer["error"]["code"], -32603, "{answer}");
        assert_eq!(answer["error"]["data"]["reason"], "backend_closed");
        assert!(answer["error"]["data"]["exit"].as_str().is_some_and(|exit| exit.contains('7')), "{answer}");
        assert_eq!(answer["error"]["data"]["stderr"], "it hurts\n");
    }
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    client.tool("echo", json!({})).await;
    assert_eq!(world.starts(), 2);
}

#[tokio::test]
async fn a_slow_call_holds_up_nothing_else() {
    // Regression: an earlier wrapper did one thing at a time.
    let world = World::new();
    let mut client = world.wrap(&[], json!({}));
    client.hello().await;
    let slow = client.ask("tools/call", json!({ "name": "slow", "arguments": { "seconds": 20 } })).await;
    let start = Instant::now();
    assert_eq!(client.result("ping", json!({})).await, json!({}));
    client.result("tools/list", json!({})).await;
    client.tool("echo", json!({})).await;
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    let params = json!({ "requestId": slow, "reason": "enough" });
    client.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })).await;
    client.tool("echo", json!({})).await;
    let [begun] = world.noted("slow ").try_into().expect("one call");
    let [cancelled] = world.noted("cancelled ").try_into().expect("the server is told once");
    assert_eq!(cancelled.strip_prefix("cancelled"), begun.strip_prefix("slow"), "under the id that it knows");
}

#[tokio::test]
async fn progress_comes_before_the_result_and_under_the_clients_token() {
    let world = World::new();
    let mut client = world.wrap(&[], json!({}));
    client.hello().await;
    let params = json!({ "name": "progress", "_meta": { "progressToken": "mine" } });
    let id = client.ask("tools/call", params).await;
    let first = client.next().await;
    assert_eq!(first["method"], "notifications/progress", "{first}");
    assert_eq!(first["params"]["progressToken"], "mine");
    client.answer(&id).await;
}

#[tokio::test]
async fn what_the_server_asks_reaches_the_client_and_the_answer_goes_back() {
    let world = World::new();
    let mut client = world.wrap(&[], json!({}));
    client
        .hello_with(json!({ "elicitation": {}, "roots": { "listChanged": true }, "sampling": {} }), "2025-06-18")
        .await;
    for (tool, method) in [
        ("elicit", "elicitation/create"),
        ("roots", "roots/list"),
        ("sample", "sampling/createMessage"),
        ("collide", "elicitation/create"),
    ] {
        let id = client.ask("tools/call", json!({ "name": tool })).await;
        // Regression: an id that a request of the server and a call have in common was taken for an answer.
        let asked = client.find(|message| message["method"] == method).await;
        assert!(asked.get("id").is_some(), "a request, not a notification: {asked}");
        let result = json!({ "action": "accept", "content": { "of": tool } });
        client.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })).await;
        let answer = client.answer(&id).await;
        let text = answer["result"]["content"][0]["text"].as_str().expect("text");
        assert_eq!(serde_json::from_str::<serde_json::Value>(text).expect("JSON"), result, "{tool}");
    }
}

#[tokio::test]
async fn the_server_hears_who_its_client_is_and_what_that_says() {
    let world = World::new();
    world.warm_up(json!({})).await;
    let mut client = world.wrap(&[], json!({}));
    client.hello().await;
    client.tool("echo", json!({})).await;
    let hellos = world.noted("hello ");
    assert_eq!(hellos.len(), 2);
    for hello in hellos {
        assert_eq!(hello, r#"hello tester 2025-06-18 {"elicitation": {}, "roots": {"listChanged": true}}"#);
    }
    client.send(json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" })).await;
    client.tool("echo", json!({})).await;
    assert_eq!(world.noted("note notifications/roots/list_changed").len(), 1);
}

#[tokio::test]
async fn what_the_server_prints_that_is_no_message_is_passed_over() {
    let world = World::new();
    let mut client = world.wrap(&[], json!({}));
    client.hello().await;
    assert_eq!(client.tool("babble", json!({})).await, "said");
    assert_eq!(client.tool("echo", json!({})).await, "{}");
    assert_eq!(world.starts(), 1);
}

#[tokio::test]
async fn errors_unknown_methods_and_ids_of_any_kind_pass_unchanged() {
    let world = World::new();
    let mut client = world.wrap(&[], json!({}));
    client.hello().await;
    let answer = client.request("tools/call", json!({ "name": "unknown" })).await;
    assert_eq!(answer["error"], json!({ "code": -32001, "message": "no such tool", "data": { "n": 1.0 } }));
    assert_eq!(client.result("own/method", json!({ "x": [1.0] })).await, json!({ "own": { "x": [1.0] } }));
    for id in [json!("a string"), json!(-7), json!(4_000_000_000_u64), json!("1")] {
        client.send(json!({ "jsonrpc": "2.0", "id": id, "method": "own/method", "params": {} })).await;
        assert_eq!(client.answer(&id).await["result"], json!({ "own": {} }), "{id}");
    }
}

#[tokio::test]
async fn a_line_that_is_no_json_is_answered_and_nothing_breaks() {
    let world = World::new();
    let mut client = world.wrap(&[], json!({}));
    client.hello().await;
    client.send_text("{\"jsonrpc\":").await;
    let answer = client.find(|message| message.get("error").is_some()).await;
    assert_eq!(answer["error"]["code"], -32700, "{answer}");
    client.tool("echo", json!({})).await;
}
