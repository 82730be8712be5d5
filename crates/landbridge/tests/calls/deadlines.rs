//! How long a call may take: without a step, in all, and while a person is asked; set by flags, on both transports.

use std::time::{Duration, Instant};

use lb_peers::harness::Gateway;
use serde_json::{Value, json};

use crate::client::{Behind, Client, LANDBRIDGE, LEGACY, MODERN, PAIRS, Server, Wire, with_token};

/// A client of a gateway with these flags.
async fn start(wire: Wire, server: &Server, version: &str, flags: &[&str]) -> (Client, Option<Gateway>) {
    let able = json!({ "sampling": {}, "elicitation": {} });
    match wire {
        Wire::Stdio => (Client::stdio_with(server, version, able, flags).await, None),
        Wire::Http => {
            let gateway = Gateway::serve_with(LANDBRIDGE, json!({ "it": server.entry }), flags).await;
            (Client::http(gateway.address, version, able).await, Some(gateway))
        }
    }
}

fn check_timeout(answer: &Value, within: &str, context: &str) {
    assert_eq!(answer["error"]["code"], -32603, "{context}: {answer}");
    assert_eq!(answer["error"]["data"]["reason"], "timeout", "{context}: {answer}");
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains(&format!("no answer within {within} s")), "{context}: {answer}");
}

#[tokio::test]
async fn a_call_without_a_step_ends_and_its_server_is_told() {
    for (wire, behind) in PAIRS {
        let server = Server::fixture(behind).await;
        let (mut client, _gateway) = start(wire, &server, LEGACY, &["--quiet-timeout", "1s"]).await;
        let call = json!({ "name": "sleep", "arguments": { "ms": 60_000 } });
        let said = client.run("tools/call", call).await;
        check_timeout(said.last().expect("an answer"), "1", &format!("{wire:?} {behind:?}"));
        client.await_counts("sleep", [1, 0, 1]).await;
    }
}

/// Progress puts off the end of a silent call, and not that of one that takes too long in all.
#[tokio::test]
async fn progress_extends_the_wait_for_a_step_and_not_the_whole() {
    for (wire, behind) in PAIRS {
        for version in [LEGACY, MODERN] {
            let context = format!("{wire:?} {behind:?} {version}");
            let server = Server::fixture(behind).await;
            let flags = ["--quiet-timeout", "1s", "--call-timeout", "3s"];
            let (mut client, _gateway) = start(wire, &server, version, &flags).await;
            let begun = Instant::now();
            let said = client.run("tools/call", with_token("sleep", json!({ "ms": 60_000 }))).await;
            let took = begun.elapsed();
            check_timeout(said.last().expect("an answer"), "3", &context);
            assert!(Duration::from_millis(2_900) < took && took < Duration::from_secs(30), "{context}: {took:?}");
            assert!(20 < said.len(), "{context}: progress came until the end: {said:?}");
            client.await_counts("sleep", [1, 0, 1]).await;
        }
    }
}

/// Neither clock runs while a person thinks.
#[tokio::test]
async fn an_answer_after_longer_than_every_deadline_still_counts() {
    for behind in [Behind::Stdio, Behind::Http] {
        let server = Server::fixture(behind).await;
        let flags = ["--quiet-timeout", "1s", "--call-timeout", "1s"];
        let (mut client, _gateway) = start(Wire::Http, &server, LEGACY, &flags).await;
        let mut calling = client.again().await;
        calling.send("tools/call", json!({ "name": "test_sampling", "arguments": { "prompt": "?" } })).await;
        assert!(calling.head().await.is_sse());
        let (_, ask) = calling.message().await.expect("an ask");
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        let said = json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "slow" } });
        client.answer(&ask, said).await;
        let (_, end) = calling.message().await.expect("an answer");
        assert_eq!(end["result"]["content"][0]["text"], "The model said: slow", "{behind:?}: {end}");
    }
}

/// A person who never answers is waited for no longer than set: the question is taken back and the server is answered.
#[tokio::test]
async fn a_question_that_nobody_answers_is_taken_back() {
    for (wire, behind) in PAIRS {
        let context = format!("{wire:?} {behind:?}");
        let server = Server::fixture(behind).await;
        let (mut client, _gateway) = start(wire, &server, LEGACY, &["--ask-timeout", "1s"]).await;
        let call = json!({ "name": "test_elicitation", "arguments": { "message": "?" } });
        let said = client.run("tools/call", call).await;
        let [ask, taken_back, answer] = said.as_slice() else { panic!("{context}: {said:?}") };
        assert_eq!(ask["method"], "elicitation/create", "{context}: {said:?}");
        assert_eq!(taken_back["method"], "notifications/cancelled", "{context}: {said:?}");
        assert_eq!(taken_back["params"]["requestId"], ask["id"], "{context}: {said:?}");
        assert!(answer["result"].to_string().contains("cancel"), "{context}: {said:?}");
    }
}

/// Who was asked has left: the question ends all the same, its call goes on, and whoever comes back reads both. An answer
/// to it that comes later changes nothing.
#[tokio::test]
async fn a_question_that_was_left_ends_and_a_late_answer_changes_nothing() {
    for behind in [Behind::Stdio, Behind::Http] {
        let server = Server::fixture(behind).await;
        let (mut client, _gateway) = start(Wire::Http, &server, LEGACY, &["--ask-timeout", "1s"]).await;
        let mut calling = client.again().await;
        let id =
            calling.send("tools/call", json!({ "name": "test_elicitation", "arguments": { "message": "?" } })).await;
        assert!(calling.head().await.is_sse());
        let (event, ask) = calling.message().await.expect("an ask");
        assert_eq!(ask["method"], "elicitation/create", "{behind:?}: {ask}");
        drop(calling);
        let said = client.again().await.resume(&event.expect("an id")).await;
        let [(_, taken_back), (_, answer)] = said.as_slice() else { panic!("{behind:?}: {said:?}") };
        assert_eq!(taken_back["method"], "notifications/cancelled", "{behind:?}: {said:?}");
        assert_eq!(taken_back["params"]["requestId"], ask["id"], "{behind:?}: {said:?}");
        assert_eq!(answer["id"], id, "{behind:?}: {said:?}");
        assert!(answer["result"].to_string().contains("cancel"), "{behind:?}: {said:?}");
        client
            .answer(&ask, json!({ "action": "accept", "content": { "username": "late", "email": "l@x.test" } }))
            .await;
        // The next question is another one, and waits for its own answer.
        let mut calling = client.again().await;
        calling.send("tools/call", json!({ "name": "test_elicitation", "arguments": { "message": "?" } })).await;
        assert!(calling.head().await.is_sse());
        let (_, next) = calling.message().await.expect("an ask");
        assert_ne!(next["id"], ask["id"], "{behind:?}");
        client.answer(&next, json!({ "action": "decline" })).await;
        let (_, end) = calling.message().await.expect("an answer");
        assert!(end["result"].to_string().contains("decline"), "{behind:?}: {end}");
    }
}

#[tokio::test]
async fn what_only_looks_something_up_has_less_time() {
    const SILENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/calls/silent.py");
    let requests = [
        ("tools/list", json!({})),
        ("resources/list", json!({})),
        ("resources/read", json!({ "uri": "file:///x" })),
        ("prompts/get", json!({ "name": "x" })),
        (
            "completion/complete",
            json!({ "ref": { "type": "ref/prompt", "name": "x" }, "argument": { "name": "a", "value": "" } }),
        ),
    ];
    for wire in [Wire::Http, Wire::Stdio] {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        let server = Server { entry: json!({ "command": "python3", "args": [SILENT, log] }), peer: None };
        let (mut client, _gateway) = start(wire, &server, LEGACY, &["--lookup-timeout", "1s"]).await;
        for (method, params) in &requests {
            let answer = client.run(method, params.clone()).await.pop().expect("an answer");
            check_timeout(&answer, "1", &format!("{wire:?} {method}"));
        }
        // A line each: what it was asked, and that nobody waits for it any more.
        let told = || std::fs::read_to_string(&log).unwrap_or_default();
        let begun = Instant::now();
        for (method, _) in &requests {
            let cancelled = || {
                let rows: Vec<Value> = told().lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
                let asked = rows.iter().rfind(|row| row["method"] == *method).map(|row| row["id"].clone());
                rows.iter()
                    .any(|row| row["method"] == "notifications/cancelled" && Some(&row["requestId"]) == asked.as_ref())
            };
            while !cancelled() {
                assert!(begun.elapsed() < Duration::from_secs(20), "{wire:?} {method}: {}", told());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}
