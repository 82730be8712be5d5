//! Streams that go on while the client is away.

use serde_json::{Value, json};

use crate::client::{Behind, Client, LEGACY, Server, Wire, with_token};

const BEHIND: [Behind; 2] = [Behind::Stdio, Behind::Http];

fn is_progress(message: &Value) -> bool {
    message["method"] == "notifications/progress"
}

/// Starts a sleep that reports progress, and reads up to its first report: the id of that event, and of the request.
async fn sleeping(client: &Client, ms: u64) -> (Client, String, Value) {
    let mut away = client.again().await;
    let id = away.send("tools/call", with_token("sleep", json!({ "ms": ms }))).await;
    assert!(away.head().await.is_sse());
    let (event, first) = away.message().await.expect("a report");
    assert!(is_progress(&first), "{first}");
    (away, event.expect("an event id"), id)
}

#[tokio::test]
async fn an_answer_produced_while_the_client_was_away_arrives_once_and_the_anchor_is_not_repeated() {
    for behind in BEHIND {
        for version in [LEGACY, "2025-06-18", "2025-03-26"] {
            let server = Server::fixture(behind).await;
            let mut client = Client::start(Wire::Http, &server, version, json!({})).await;
            let (away, anchor, id) = sleeping(&client, 500).await;
            drop(away);
            client.await_counts("sleep", [1, 1, 0]).await;
            let context = format!("{behind:?} {version}");

            let rest = client.again().await.resume(&anchor).await;
            assert!(rest.iter().all(|(event, _)| *event != Some(anchor.clone())), "{context}: the anchor came again");
            let reports: Vec<_> = rest.iter().filter(|(_, message)| is_progress(message)).collect();
            let steps: Vec<_> = reports.iter().filter_map(|(_, note)| note["params"]["progress"].as_u64()).collect();
            assert_eq!(steps, [200, 300, 400], "{context}: the first report was the anchor");
            let answers: Vec<_> = rest.iter().filter(|(_, message)| message["id"] == id).collect();
            assert_eq!(answers.len(), 1, "{context}: {rest:?}");
            assert!(rest.last().is_some_and(|(_, last)| last["result"]["content"].is_array()), "{context}");

            let last = rest.last().and_then(|(event, _)| event.clone()).expect("an id");
            assert_eq!(client.again().await.resume(&last).await, [], "{context}: nothing after the answer");
        }
    }
}

/// The answer had been sent into a connection that nobody read: it is there on resume.
#[tokio::test]
async fn resuming_after_the_response_was_sent_gives_it_again() {
    for behind in BEHIND {
        let server = Server::fixture(behind).await;
        let mut client = Client::start(Wire::Http, &server, LEGACY, json!({})).await;
        let mut away = client.again().await;
        let id = away.send("tools/call", with_token("progress_burst", json!({ "count": 3 }))).await;
        assert!(away.head().await.is_sse());
        let priming = away.conn().event().await.expect("an event").expect("an event");
        let anchor = priming.id.expect("a cursor");
        assert_eq!(priming.data.as_deref(), Some(&b""[..]), "a priming event is empty");
        client.await_counts("progress_burst", [1, 1, 0]).await;
        // Everything has been written into a socket that is never read again.
        drop(away);
        for _ in 0..2 {
            let rest = client.again().await.resume(&anchor).await;
            assert_eq!(rest.len(), 4, "{behind:?}: {rest:?}");
            assert_eq!(rest.last().map(|(_, last)| &last["id"]), Some(&id), "{behind:?}");
        }
    }
}

#[tokio::test]
async fn replay_goes_over_into_live_without_gap_or_repetition() {
    for behind in BEHIND {
        let server = Server::fixture(behind).await;
        let client = Client::start(Wire::Http, &server, LEGACY, json!({})).await;
        let (mut away, anchor, id) = sleeping(&client, 1200).await;
        // Two more reports pass by in the old connection, then it is lost.
        away.message().await.expect("a report");
        away.message().await.expect("a report");
        drop(away);
        let rest = client.again().await.resume(&anchor).await;
        let steps: Vec<_> = rest.iter().filter_map(|(_, note)| note["params"]["progress"].as_u64()).collect();
        assert_eq!(steps, (2..12).map(|step| step * 100).collect::<Vec<_>>(), "{behind:?}");
        assert_eq!(rest.last().map(|(_, last)| &last["id"]), Some(&id), "{behind:?}");
    }
}

/// A client that comes back while its old connection still seems to be there gets the rest on the new one only.
#[tokio::test]
async fn the_newest_connection_of_a_stream_is_the_only_one() {
    for behind in BEHIND {
        let server = Server::fixture(behind).await;
        let client = Client::start(Wire::Http, &server, LEGACY, json!({})).await;
        let (mut old, anchor, id) = sleeping(&client, 1500).await;
        let mut new = client.again().await;
        assert!(new.get(Some(&anchor)).await.is_sse());
        let (_, first) = new.message().await.expect("a report");
        assert!(is_progress(&first), "{first}");
        // The old connection ends without an answer.
        let mut left = Vec::new();
        while let Some((_, message)) = old.message().await {
            left.push(message);
        }
        assert!(left.iter().all(is_progress), "{behind:?}: {left:?}");
        let mut last = first;
        while let Some((_, message)) = new.message().await {
            last = message;
        }
        assert_eq!(last["id"], id, "{behind:?}");
    }
}

/// Each stream has its own cursor: another call's messages are never replayed.
#[tokio::test]
async fn only_the_stream_of_the_anchor_is_replayed() {
    let server = Server::fixture(Behind::Stdio).await;
    let mut client = Client::start(Wire::Http, &server, LEGACY, json!({})).await;
    let (one, anchor, id) = sleeping(&client, 400).await;
    let (two, _, other) = sleeping(&client, 400).await;
    drop((one, two));
    client.await_counts("sleep", [2, 2, 0]).await;
    let rest = client.again().await.resume(&anchor).await;
    assert_eq!(rest.last().map(|(_, last)| &last["id"]), Some(&id));
    assert!(rest.iter().all(|(_, message)| message["id"] != other), "{rest:?}");
}

/// A slow call without any notification gets its cursor after a second, from 2025-11-25 on.
#[tokio::test]
async fn a_silent_call_can_be_resumed_from_its_priming_event() {
    let server = Server::fixture(Behind::Stdio).await;
    let mut client = Client::start(Wire::Http, &server, LEGACY, json!({})).await;
    let mut away = client.again().await;
    let id = away.send("tools/call", json!({ "name": "sleep", "arguments": { "ms": 1400 } })).await;
    assert!(away.head().await.is_sse());
    let priming = away.conn().event().await.expect("an event").expect("an event");
    drop(away);
    client.await_counts("sleep", [1, 1, 0]).await;
    let rest = client.again().await.resume(&priming.id.expect("a cursor")).await;
    assert_eq!(rest.iter().map(|(_, message)| &message["id"]).collect::<Vec<_>>(), [&id]);
}
