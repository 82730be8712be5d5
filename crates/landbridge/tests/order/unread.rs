//! One client that does not read holds up nobody.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Behind, Client, LEGACY, MODERN, Server, Wire, with_token};

/// A token that makes each report large: together they are more than the system buffers between two programs.
fn bulky() -> String {
    "t".repeat(3_000)
}

const STEPS: u64 = 2_500;

/// Calls pour into streams that nobody reads; the same session and others are served as before.
#[tokio::test]
async fn an_unread_stream_blocks_nobody() {
    for behind in [Behind::Stdio, Behind::Http] {
        for version in [LEGACY, MODERN] {
            let server = Server::fixture(behind).await.with("isolation", "shared");
            let gateway = server.gateway().await;
            let mut client = Client::http(gateway.address, version, json!({})).await;
            let mut other = Client::http(gateway.address, version, json!({})).await;
            let mut stuck = client.narrow().await;
            let mut params = with_token("progress_burst", json!({ "count": STEPS }));
            params["_meta"]["progressToken"] = bulky().into();
            let id = stuck.send("tools/call", params).await;
            for round in 0..30 {
                let start = Instant::now();
                client.call("echo", json!({ "message": "x" })).await;
                other.call("echo", json!({ "message": "y" })).await;
                assert!(start.elapsed() < Duration::from_secs(8), "{behind:?} {version} round {round}");
            }
            if behind == Behind::Stdio {
                // The server is through with it although nobody has read a word.
                client.await_counts("progress_burst", [1, 1, 0]).await;
            }
            // An end is never dropped, nor is the order: whoever reads at last gets a rising tail and the answer.
            let all = stuck.rest(&id).await;
            let steps: Vec<_> = all.iter().filter_map(|note| note["params"]["progress"].as_u64()).collect();
            let context = format!("{behind:?} {version}: {} of {STEPS}", steps.len());
            assert!(steps.is_sorted_by(|a, b| a < b), "{context}");
            assert_eq!(all.len(), steps.len() + 1, "{context}");
            assert_eq!(steps.last(), Some(&STEPS), "{context}: the newest report is kept");
            // On a pipe the reader goes on without this client; over HTTP the server itself waits.
            assert_eq!(steps.len() < 2_500, behind == Behind::Stdio, "{context}");
        }
    }
}

/// The standalone stream of one session is not read; calls of that session and the other's stream go on.
#[tokio::test]
async fn an_unread_standalone_stream_blocks_nobody() {
    for behind in [Behind::Stdio, Behind::Http] {
        let server = Server::fixture(behind).await.with("isolation", "shared");
        let gateway = server.gateway().await;
        let mut client = Client::http(gateway.address, LEGACY, json!({})).await;
        let other = Client::http(gateway.address, LEGACY, json!({})).await;
        let mut unread = client.narrow().await;
        assert_eq!(unread.get(None).await.status(), 200);
        let mut ear = other.again().await;
        assert_eq!(ear.get(None).await.status(), 200);
        for _ in 0..200 {
            client.call("test_trigger_tool_change", json!({})).await;
        }
        let (_, told) = ear.message().await.expect("a notification");
        assert_eq!(told["method"], "notifications/tools/list_changed", "{behind:?}");
        let start = Instant::now();
        client.call("echo", json!({ "message": "x" })).await;
        assert!(start.elapsed() < Duration::from_secs(2), "{behind:?}");
    }
}

/// A client on stdio that reads late finds everything.
#[tokio::test]
async fn a_client_on_stdio_may_read_late() {
    let server = Server::fixture(Behind::Stdio).await;
    let mut client = Client::start(Wire::Stdio, &server, LEGACY, json!({})).await;
    let id = client.send("tools/call", with_token("progress_burst", json!({ "count": 5_000 }))).await;
    let echo = client.send("tools/call", json!({ "name": "echo", "arguments": { "message": "late" } })).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut answers = Vec::new();
    let mut newest = 0;
    while answers.len() < 2 {
        let (_, message) = client.message().await.expect("a line");
        match message["params"]["progress"].as_u64() {
            Some(step) => {
                assert!(newest < step && !answers.contains(&id), "progress {step} after {newest}, or after the end");
                newest = step;
            }
            None => answers.push(message["id"].clone()),
        }
    }
    assert!(answers.contains(&id) && answers.contains(&echo));
    assert_eq!(newest, 5_000);
}
