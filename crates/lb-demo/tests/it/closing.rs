//! Cancellation and the end of a connection: nothing outlives what it was for.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::client::{Client, ERAS, Era, text};

#[tokio::test(start_paused = true)]
async fn a_cancelled_slow_call_stops_and_is_not_answered() {
    for era in ERAS {
        let mut client = Client::open(era, json!({})).await;
        let params = json!({ "name": "slow", "arguments": { "ms": 60_000 }, "_meta": { "progressToken": 1 } });
        let id = client.request("tools/call", params).await;
        assert_eq!(client.next().await["params"]["progress"], 250.0);
        client.notify("notifications/cancelled", json!({ "requestId": id, "reason": "enough" })).await;
        assert_eq!(text(&client.call("echo", json!({ "message": "next" })).await), "next", "{era:?}");
        // No late progress and no late answer in the second that the other call takes.
        assert_eq!(text(&client.call("slow", json!({ "ms": 1_000 })).await), "Took 1000 ms", "{era:?}");
        client.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn closing_ends_running_calls_at_once() {
    for era in ERAS {
        let mut client = Client::open(era, json!({ "elicitation": {} })).await;
        client.request("tools/call", json!({ "name": "slow", "arguments": { "ms": 60_000 } })).await;
        client.request("tools/call", json!({ "name": "elicit_demo", "arguments": {} })).await;
        if era == Era::Stateless {
            let notifications = json!({ "resourcesListChanged": true });
            client.request("subscriptions/listen", json!({ "notifications": notifications })).await;
            client.next().await;
        }
        // The question, so that all calls are running.
        client.next().await;
        let closed = Instant::now();
        client.close().await;
        // The SDK returns once its handlers have; left alone they would hold it for its drain time of seconds.
        assert!(closed.elapsed() < Duration::from_millis(100), "{era:?} {:?}", closed.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn closing_before_the_first_request_ends_it() {
    Client::silent(Era::Handshake, json!({})).close().await;
    Client::open(Era::Handshake, json!({})).await.close().await;
}

#[tokio::test(start_paused = true)]
async fn dropping_the_server_closes_the_stream() {
    for era in ERAS {
        let mut client = Client::open(era, json!({})).await;
        client.request("tools/call", json!({ "name": "slow", "arguments": { "ms": 60_000 } })).await;
        client.call("echo", json!({ "message": "x" })).await;
        let dropped = Instant::now();
        client.abort_server().await;
        assert!(dropped.elapsed() < Duration::from_millis(100), "{era:?} {:?}", dropped.elapsed());
    }
}
