//! When the server is started, and when it rests.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::world::{World, descendants, is_alive, signal, throughout, until};

#[tokio::test]
async fn ten_calls_need_one_start() {
    let world = World::new();
    world.warm_up(json!({})).await;
    let mut client = world.wrap(&[], json!({}));
    client.hello().await;
    let mut ids = Vec::new();
    // At once: they must not start one each.
    for n in 0..10 {
        ids.push(client.ask("tools/call", json!({ "name": "echo", "arguments": { "n": n } })).await);
    }
    for id in &ids {
        let answer = client.answer(id).await;
        assert!(answer["result"]["content"].is_array(), "{answer}");
    }
    assert_eq!(world.starts(), 2);
    assert_eq!(world.noted("note notifications/initialized").len(), 2, "each process was told once");
}

#[tokio::test]
async fn the_process_that_was_asked_for_lists_carries_the_first_call() {
    let world = World::new();
    let mut client = world.wrap(&[], json!({}));
    client.hello().await;
    client.result("tools/list", json!({})).await;
    client.tool("echo", json!({})).await;
    assert_eq!(world.starts(), 1);
}

#[tokio::test]
async fn a_server_that_was_killed_between_calls_is_started_by_the_next() {
    let world = World::new();
    let mut client = world.wrap(&[], json!({}));
    client.hello().await;
    client.result("logging/setLevel", json!({ "level": "debug" })).await;
    client.result("resources/subscribe", json!({ "uri": "a://b" })).await;
    client.tool("echo", json!({})).await;
    let first = world.server();
    signal(first, Signal::KILL);
    let pid = client.pid();
    until("all of it is gone", || descendants(pid).is_empty()).await;
    assert_eq!(client.tool("echo", json!({ "b": 2 })).await, r#"{"b": 2}"#);
    assert_eq!(world.starts(), 2);
    // What the first one was told, the second one is told too.
    until("it was told the level", || world.noted("logging/setLevel").len() == 2).await;
    until("it was told what is subscribed to", || world.noted("resources/subscribe").len() == 2).await;
    assert_eq!(world.noted("note notifications/initialized").len(), 2);
}

#[tokio::test]
async fn a_server_that_was_started_again_can_ask_for_the_roots_as_the_first_one_could() {
    let world = World::new();
    let mut client = world.wrap(&[], json!({}));
    client.hello().await;
    for root in ["file:///one", "file:///two"] {
        let id = client.ask("tools/call", json!({ "name": "roots" })).await;
        let asked = client.find(|message| message["method"] == "roots/list").await;
        let result = json!({ "roots": [{ "uri": root }] });
        client.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })).await;
        let answer = client.answer(&id).await;
        assert!(answer["result"].to_string().contains(root), "{answer}");
        // The next one is told when they change, too.
        client.send(json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" })).await;
        client.tool("echo", json!({})).await;
        signal(world.server(), Signal::KILL);
        let pid = client.pid();
        until("all of it is gone", || descendants(pid).is_empty()).await;
    }
    assert_eq!(world.starts(), 2);
    assert_eq!(world.noted("note notifications/roots/list_changed").len(), 2, "each was told once");
    let hellos = world.noted("hello ");
    assert!(hellos.len() == 2 && hellos.iter().all(|hello| hello.contains("roots")), "{hellos:?}");
}

#[tokio::test]
async fn a_start_that_fails_is_tried_three_times() {
    let world = World::new();
    let plan = json!({ "fail_starts": [2, 3, 5, 6, 7] });
    world.warm_up(plan.clone()).await;
    let mut client = world.wrap(&[], plan);
    client.hello().await;
    client.tool("echo", json!({})).await;
    assert_eq!(world.starts(), 4, "the third attempt works");
    client.request("tools/call", json!({ "name": "die" })).await;
    let answer = client.request("tools/call", json!({ "name": "echo" })).await;
    let error = &answer["error"];
    assert_eq!(error["code"], -32603, "{answer}");
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("backend spawn failed after 3 attempts"), "{message}");
    // Regression: cutting text of several bytes per character at any byte ended an earlier wrapper.
    let stderr = error["data"]["stderr"].as_str().expect("its stderr");
    assert!(stderr.len() <= 4096 && stderr.ends_with("last words\n"), "{stderr}");
    assert_eq!(world.starts(), 7);
    client.tool("echo", json!({})).await;
    assert_eq!(world.starts(), 8, "and the next call starts anew");
}

#[tokio::test]
async fn calls_at_the_same_time_get_what_comes_of_the_same_attempts() {
    for is_modern in [false, true] {
        let world = World::new();
        // A modern client's server is first tried in the era of the client, once.
        let first = if is_modern { 3 } else { 2 };
        let plan = json!({ "fail_starts": (first..first + 3).collect::<Vec<_>>() });
        let params = |params| if is_modern { crate::client::modern(params) } else { params };
        if is_modern {
            let mut client = world.wrap(&[], plan.clone());
            client.modern("server/discover", json!({})).await;
            until("it is kept", || !world.kept().is_empty()).await;
            client.close();
            client.end().await;
        } else {
            world.warm_up(plan.clone()).await;
        }
        let mut client = world.wrap(&[], plan);
        if !is_modern {
            client.hello().await;
        }
        let start = Instant::now();
        let mut ids = Vec::new();
        for _ in 0..20 {
            ids.push(client.ask("tools/call", params(json!({ "name": "echo", "arguments": {} }))).await);
        }
        for id in &ids {
            let answer = client.answer(id).await;
            let message = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}"));
            assert!(message.contains("backend spawn failed after 3 attempts"), "{message}");
        }
        assert_eq!(world.starts(), first - 1 + 3, "three starts for all of them");
        assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
        let answer = client.request("tools/call", params(json!({ "name": "echo", "arguments": {} }))).await;
        assert!(answer["result"].is_object(), "whoever comes later has an attempt of its own: {answer}");
    }
}

#[tokio::test]
async fn each_call_tries_three_times_whatever_came_of_the_last_one() {
    let world = World::new();
    let plan = json!({ "fail_starts": (2..=7).collect::<Vec<_>>() });
    world.warm_up(plan.clone()).await;
    let mut client = world.wrap(&[], plan);
    client.hello().await;
    for round in 1..=2 {
        let answer = client.request("tools/call", json!({ "name": "echo" })).await;
        let message = answer["error"]["message"].as_str().expect("a message");
        assert!(message.contains("backend spawn failed after 3 attempts"), "{round}: {answer}");
        let stderr = answer["error"]["data"]["stderr"].as_str().expect("its stderr");
        assert!(stderr.ends_with("last words\n"), "{round}: {stderr}");
        assert_eq!(world.starts(), 1 + 3 * round);
    }
    client.tool("echo", json!({})).await;
    assert_eq!(world.starts(), 8, "it is tried as soon as somebody calls");
}

#[tokio::test]
async fn the_time_of_rest_begins_with_the_end_of_a_long_call() {
    let world = World::new();
    let mut client = world.wrap(&["--idle-timeout", "2"], json!({}));
    client.hello().await;
    // Whoever looks every 2 s finds it unused for longer, a moment after this.
    assert_eq!(client.tool("slow", json!({ "seconds": 3.6 })).await, "slept");
    let server = world.server();
    throughout(Duration::from_secs(1), "it runs", || is_alive(server)).await;
    until("it rests", || !is_alive(server)).await;
}

#[tokio::test]
async fn an_idle_server_is_ended_and_started_again_for_the_next_call() {
    let world = World::new();
    let mut client = world.wrap(&["--idle-timeout", "0.5"], json!({}));
    client.hello().await;
    client.tool("echo", json!({})).await;
    let pid = client.pid();
    until("nothing runs below it", || descendants(pid).is_empty()).await;
    client.result("tools/list", json!({})).await;
    assert_eq!(world.starts(), 1, "lists need no process");
    client.tool("echo", json!({})).await;
    assert_eq!(world.starts(), 2);
    // A call that is longer than the time is no idleness.
    assert_eq!(client.tool("slow", json!({ "seconds": 2 })).await, "slept");
    assert_eq!(world.starts(), 2);
}

#[tokio::test]
async fn a_server_with_a_subscription_or_an_open_question_does_not_rest() {
    let world = World::new();
    let mut client = world.wrap(&["--idle-timeout", "0.3"], json!({}));
    client.hello().await;
    client.result("resources/subscribe", json!({ "uri": "a://b" })).await;
    let server = world.server();
    throughout(Duration::from_secs(2), "it runs while it is subscribed to", || is_alive(server)).await;
    let id = client.ask("tools/call", json!({ "name": "elicit" })).await;
    let asked = client.find(|message| message["method"] == "elicitation/create").await;
    client.result("resources/unsubscribe", json!({ "uri": "a://b" })).await;
    throughout(Duration::from_secs(2), "it runs while it waits for an answer", || is_alive(server)).await;
    client.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "decline" } })).await;
    client.answer(&id).await;
    until("it rests", || !is_alive(server)).await;
}

#[tokio::test]
async fn zero_means_that_a_server_never_rests() {
    let world = World::new();
    let mut client = world.wrap(&["--idle-timeout", "0"], json!({}));
    client.hello().await;
    client.tool("echo", json!({})).await;
    let server = world.server();
    throughout(Duration::from_secs(2), "it runs", || is_alive(server)).await;
}

#[tokio::test]
async fn no_call_fails_because_the_server_goes_to_rest_at_that_moment() {
    let world = World::new();
    let mut client = world.wrap(&["--idle-timeout", "0.05"], json!({}));
    client.hello().await;
    let start = Instant::now();
    for n in 0..40_u64 {
        // Around the very moment.
        tokio::time::sleep(Duration::from_millis(40 + n % 20)).await;
        assert_eq!(client.tool("echo", json!({ "n": n })).await, format!(r#"{{"n": {n}}}"#), "{:?}", start.elapsed());
    }
    assert!(1 < world.starts(), "it rested in between");
}
