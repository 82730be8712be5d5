//! The client is gone: closed streams, lost connections, ended input.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Behind, Client, LEGACY, MODERN, Server, Wire, with_token};
use crate::{long_sleep, started, straight};

const BEHIND: [Behind; 2] = [Behind::Stdio, Behind::Http];

/// front, end: done.
#[tokio::test]
async fn a_call_that_ends_is_done() {
    for behind in BEHIND {
        for wire in [Wire::Http, Wire::Stdio] {
            for version in [LEGACY, MODERN] {
                let server = Server::fixture(behind).await;
                let mut client = Client::start(wire, &server, version, json!({})).await;
                client.call("sleep", json!({ "ms": 50 })).await;
                assert_eq!(client.counts("sleep").await, [1, 1, 0], "{wire:?} {behind:?} {version}");
            }
        }
    }
}

/// front (modern), connection closed before the reply began: cancelled at the server within a second.
#[tokio::test]
async fn a_modern_client_that_closes_before_the_reply_cancels() {
    for behind in BEHIND {
        let server = Server::fixture(behind).await;
        let mut client = Client::start(Wire::Http, &server, MODERN, json!({})).await;
        let (calling, _) = started(&mut client).await;
        drop(calling);
        let took = client.await_counts("sleep", [1, 0, 1]).await;
        assert!(took < Duration::from_secs(1), "{behind:?}: {took:?}");
    }
}

/// The same with a stream that has begun.
#[tokio::test]
async fn a_modern_client_that_closes_its_stream_cancels() {
    for behind in BEHIND {
        let server = Server::fixture(behind).await;
        let mut client = Client::start(Wire::Http, &server, MODERN, json!({})).await;
        let mut calling = client.again().await;
        calling.send("tools/call", with_token("sleep", json!({ "ms": 60_000 }))).await;
        let head = calling.head().await;
        assert!(head.is_sse());
        assert_eq!(calling.message().await.expect("a report").0, None, "modern streams have no event ids");
        drop(calling);
        let took = client.await_counts("sleep", [1, 0, 1]).await;
        assert!(took < Duration::from_secs(1), "{behind:?}: {took:?}");
    }
}

/// front (stdio), end of input: calls get a grace, then the session ends and they are cancelled.
#[tokio::test]
async fn the_end_of_input_cancels_after_the_grace() {
    let server = Server::fixture(Behind::Http).await;
    let mut direct = straight(&server).await;
    let mut legacy = Client::start(Wire::Stdio, &server, LEGACY, json!({})).await;
    let mut modern = Client::start(Wire::Stdio, &server, MODERN, json!({})).await;
    for client in [&mut legacy, &mut modern] {
        client.send("tools/call", long_sleep()).await;
    }
    direct.await_sleep([2, 0, 0], Duration::from_secs(10)).await;
    for client in [&mut legacy, &mut modern] {
        client.process().close_stdin();
    }
    direct.await_sleep([2, 0, 2], Duration::from_secs(20)).await;
    for client in [&mut legacy, &mut modern] {
        assert!(client.process().wait().await.expect("it ends").success());
    }
}

/// What runs when the input ends may still answer.
#[tokio::test]
async fn a_short_call_is_answered_after_the_end_of_input() {
    for behind in BEHIND {
        for version in [LEGACY, MODERN] {
            let server = Server::fixture(behind).await;
            let mut client = Client::start(Wire::Stdio, &server, version, json!({})).await;
            let id = client.send("tools/call", json!({ "name": "sleep", "arguments": { "ms": 400 } })).await;
            client.process().close_stdin();
            let (_, answer) = client.message().await.expect("an answer");
            assert_eq!((&answer["id"], answer["result"].is_object()), (&id, true), "{behind:?} {version}: {answer}");
            assert!(client.process().wait().await.expect("it ends").success(), "{behind:?} {version}");
        }
    }
}

/// front (stdio), killed without a word: nothing runs on.
#[tokio::test]
async fn a_gateway_that_is_killed_leaves_no_call_behind() {
    let server = Server::fixture(Behind::Http).await;
    let mut direct = straight(&server).await;
    let mut client = Client::start(Wire::Stdio, &server, MODERN, json!({})).await;
    client.send("tools/call", long_sleep()).await;
    direct.await_sleep([1, 0, 0], Duration::from_secs(10)).await;
    drop(client);
    direct.await_sleep([1, 0, 1], Duration::from_secs(10)).await;
}

/// front (legacy HTTP), lost after an event id: a stored stream, which runs on and can be resumed.
#[tokio::test]
async fn a_legacy_stream_that_is_lost_runs_on_and_is_stored() {
    for behind in BEHIND {
        let server = Server::fixture(behind).await;
        let mut client = Client::start(Wire::Http, &server, LEGACY, json!({})).await;
        let mut away = client.again().await;
        let id = away.send("tools/call", with_token("sleep", json!({ "ms": 600 }))).await;
        assert!(away.head().await.is_sse());
        let (anchor, _) = away.message().await.expect("a report");
        drop(away);
        client.await_counts("sleep", [1, 1, 0]).await;
        let rest = client.again().await.resume(&anchor.expect("an event id")).await;
        assert_eq!(rest.last().map(|(_, last)| &last["id"]), Some(&id), "{behind:?}");
    }
}

/// front (legacy HTTP), lost before any event id: runs on, is not cancelled, and its result goes nowhere.
#[tokio::test]
async fn a_legacy_call_that_is_lost_before_a_cursor_runs_on_and_its_result_is_dropped() {
    for behind in BEHIND {
        let server = Server::fixture(behind).await;
        let mut client = Client::start(Wire::Http, &server, LEGACY, json!({})).await;
        let mut ear = client.again().await;
        assert_eq!(ear.get(None).await.status(), 200);
        let mut away = client.again().await;
        let id = away.send("tools/call", json!({ "name": "sleep", "arguments": { "ms": 500 } })).await;
        let start = tokio::time::Instant::now();
        while client.counts("sleep").await[0] == 0 {
            assert!(start.elapsed().as_secs() < 5);
        }
        drop(away);
        client.await_counts("sleep", [1, 1, 0]).await;
        // Neither the standalone stream nor the id is left with anything.
        client.call("test_trigger_tool_change", json!({})).await;
        let (_, next) = ear.message().await.expect("a notification");
        assert_eq!(next["method"], "notifications/tools/list_changed", "{behind:?}: {next}");
        let again = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list", "params": {} });
        client.send_request(&again).await;
        assert!(client.rest(&id).await[0]["result"].is_object(), "{behind:?}: the id is free again");
    }
}

/// stream, GET with Last-Event-ID: what was missed, then what comes, then the end; a second loss changes nothing.
#[tokio::test]
async fn a_stored_stream_can_be_lost_and_resumed_again_and_again() {
    for behind in BEHIND {
        let server = Server::fixture(behind).await;
        let client = Client::start(Wire::Http, &server, LEGACY, json!({})).await;
        let mut reader = client.again().await;
        let id = reader.send("tools/call", with_token("sleep", json!({ "ms": 1500 }))).await;
        assert!(reader.head().await.is_sse());
        let mut steps = Vec::new();
        let mut last: Value = json!(null);
        while last["id"] != id {
            let (event, message) = reader.message().await.expect("the stream goes on");
            steps.extend(message["params"]["progress"].as_u64());
            last = message;
            if steps.len() % 3 == 0 && last["id"] != id {
                reader = client.again().await;
                assert!(reader.get(event.as_deref()).await.is_sse(), "{behind:?}");
            }
        }
        assert_eq!(steps, (1..15).map(|step| step * 100).collect::<Vec<_>>(), "{behind:?}");
        assert!(reader.message().await.is_none(), "{behind:?}: the stream ends");
    }
}

/// front (legacy, stdio server), two calls that ask: the one whose client reads is asked, the other's question waits for
/// its client.
#[tokio::test]
async fn a_question_goes_to_a_call_that_somebody_reads() {
    let server = Server::fixture(Behind::Stdio).await;
    let client = Client::start(Wire::Http, &server, LEGACY, json!({ "elicitation": {} })).await;
    let mut first = client.again().await;
    let id = first.send("tools/call", elicits()).await;
    let (cursor, ask) = question(&mut first, PATIENCE).await.expect("a question");
    drop(first);

    // That the first one's client is gone is seen in its own time.
    let mut calling = Vec::new();
    let until = tokio::time::Instant::now() + PATIENCE;
    let mut second = loop {
        assert!(tokio::time::Instant::now() < until, "questions go where nobody is");
        let mut next = client.again().await;
        let id = next.send("tools/call", elicits()).await;
        match question(&mut next, Duration::from_millis(1_500)).await {
            Some((_, ask)) => break (next, id, ask),
            None => calling.push(next),
        }
    };
    client.again().await.answer(&second.2, json!({ "action": "decline" })).await;
    let answer = tokio::time::timeout(PATIENCE, second.0.message()).await.expect("in time").expect("an answer").1;
    assert_eq!(answer["id"], second.1, "{answer}");

    // The first question waited where it was.
    client.again().await.answer(&ask, json!({ "action": "decline" })).await;
    let rest = client.again().await.resume(&cursor).await;
    assert_eq!(rest.last().map(|(_, last)| &last["id"]), Some(&id), "{rest:?}");
}

/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(20);

fn elicits() -> Value {
    json!({ "name": "test_elicitation", "arguments": { "message": "?" } })
}

/// The next question of a call that was sent, and the id of its event.
async fn question(client: &mut Client, within: Duration) -> Option<(String, Value)> {
    let question = async {
        assert!(client.head().await.is_sse());
        client.message().await.expect("a question")
    };
    let (event, ask) = tokio::time::timeout(within, question).await.ok()?;
    assert_eq!(ask["method"], "elicitation/create", "{ask}");
    Some((event.expect("an id"), ask))
}
