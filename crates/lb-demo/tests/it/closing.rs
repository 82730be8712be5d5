//! Cancellation and the end of a connection: nothing outlives what it was for.

use std::time::Duration;

use serde_json::json;
use tokio::runtime::Handle;
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
    let slow = json!({ "name": "slow", "arguments": { "ms": 60_000 }, "_meta": { "progressToken": 1 } });
    let elicit = json!({ "name": "elicit_demo", "arguments": {} });
    let listen = json!({ "notifications": { "resourcesListChanged": true } });
    // One case each: a failed answer of one call would end the SDK's wait for the others.
    for (era, method, params) in [
        (Era::Handshake, "tools/call", &slow),
        (Era::Stateless, "tools/call", &slow),
        (Era::Handshake, "tools/call", &elicit),
        (Era::Stateless, "subscriptions/listen", &listen),
    ] {
        let mut client = Client::open(era, json!({ "elicitation": {} })).await;
        client.request(method, params.clone()).await;
        // Progress, the question or the acknowledgement: the call is running.
        client.next().await;
        let closed = Instant::now();
        client.close().await;
        nothing_is_left().await;
        // The SDK returns once its handlers have; left alone they would hold it for its drain time of seconds.
        assert!(closed.elapsed() < Duration::from_millis(100), "{era:?} {params}: {:?}", closed.elapsed());
    }
}

/// Gives ended tasks a chance to go, without letting time pass, and fails if any stays.
async fn nothing_is_left() {
    let alive = || Handle::current().metrics().num_alive_tasks();
    for _ in 0..1_000 {
        if alive() == 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("{} tasks outlive the connection", alive());
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
        nothing_is_left().await;
        assert!(dropped.elapsed() < Duration::from_millis(100), "{era:?} {:?}", dropped.elapsed());
    }
}
