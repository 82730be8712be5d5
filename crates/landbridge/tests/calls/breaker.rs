//! A server that fails five times in a row is left alone, whoever asks.

use std::time::Duration;

use lb_peers::harness::{Gateway, peer};
use lb_peers::raw::RawHttp;
use lb_peers::raw::http::{initialize_request, post_headers};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::LANDBRIDGE;

/// Asks for a session, and how long the answer took.
async fn hello(gateway: &Gateway) -> (Value, Duration) {
    let mut http = RawHttp::connect(gateway.address).await.expect("it listens");
    let asked = Instant::now();
    let request = initialize_request("7", "2025-11-25");
    let answer = http.post("/mcp/server/it", &post_headers(), request.as_bytes()).await.expect("an answer");
    (serde_json::from_slice(&answer.body).expect("JSON"), asked.elapsed())
}

/// Five failures of this kind, and then a refusal that costs nothing.
async fn is_left_alone(gateway: &Gateway, reason: &str, last: &str) {
    for round in 0..5 {
        let (answer, _) = hello(gateway).await;
        assert_eq!(answer["error"]["data"]["reason"], reason, "round {round}: {answer}");
    }
    let (answer, took) = hello(gateway).await;
    let data = &answer["error"]["data"];
    assert_eq!((&answer["error"]["code"], &data["reason"]), (&json!(-32603), &json!("circuit_open")), "{answer}");
    assert!(data["retryAfterMs"].as_u64().is_some_and(|wait| (1..=1_100).contains(&wait)), "{answer}");
    assert!(data["lastError"].as_str().is_some_and(|error| error.contains(last)), "{answer}");
    assert!(took < Duration::from_millis(100), "refused after {took:?}");
    let mut http = RawHttp::connect(gateway.address).await.expect("it listens");
    let metrics = http.request("GET", "/metrics", &Vec::new(), b"").await.expect("metrics").text();
    assert!(metrics.contains("landbridge_breaker_open{server=\"it\"} 1"), "{metrics}");
}

/// Waits until it works again.
async fn comes_back(gateway: &Gateway) {
    let begun = Instant::now();
    loop {
        let (answer, _) = hello(gateway).await;
        if answer.get("result").is_some() {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(50), "{answer}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_url_that_nobody_answers_at_is_left_alone_and_found_again() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
    let gateway = Gateway::serve(LANDBRIDGE, json!({ "it": { "url": format!("http://{free}/mcp") } })).await;
    is_left_alone(&gateway, "unreachable", "refused").await;
    let mut fixture = tokio::process::Command::new(peer(LANDBRIDGE, "fixture"));
    fixture.args(["--http", &free.to_string()]).stdin(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let _fixture = fixture.kill_on_drop(true).spawn().expect("the fixture starts");
    comes_back(&gateway).await;
}

#[tokio::test]
async fn a_program_that_ends_at_once_is_left_alone_and_found_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let switch = folder.path().join("works");
    let script = format!("test -e {} && exec {}; exit 7", switch.display(), peer(LANDBRIDGE, "fixture"));
    let gateway = Gateway::serve(LANDBRIDGE, json!({ "it": { "command": "sh", "args": ["-c", script] } })).await;
    is_left_alone(&gateway, "backend_closed", "code 7").await;
    std::fs::write(&switch, "").expect("written");
    comes_back(&gateway).await;
}
