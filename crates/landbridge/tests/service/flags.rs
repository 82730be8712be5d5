//! What an operator sets: rates, tokens, times.

use std::time::{Duration, Instant};

use lb_peers::harness::{Gateway, config};
use serde_json::json;
use tokio::process::Command;

use crate::world::*;

/// A gateway with these variables set.
async fn with_variables(variables: &[(&str, &str)], args: &[&str]) -> Gateway {
    let (folder, file) = config(&json!({}));
    let mut command = Command::new(LANDBRIDGE);
    command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&file).args(args);
    command.envs(variables.iter().copied());
    Gateway::launch(command, folder).await
}

#[tokio::test]
async fn the_request_after_the_last_of_a_minute_is_refused() {
    let gateway = with_variables(&[("RATE_LIMIT_MAX", "100"), ("RATE_LIMIT_WINDOW_MS", "60000")], &[]).await;
    let mut http = connect(&gateway).await;
    for number in 1..=100 {
        let response = http.request("GET", "/", &[], b"").await.expect("an answer");
        assert_eq!(response.head.status(), 200, "{number}");
    }
    let refused = http.request("GET", "/", &[], b"").await.expect("an answer");
    assert_eq!(code(&refused), (429, Some(-32000)), "{}", refused.text());
    assert_eq!(refused.head.header("ratelimit-limit"), Some("100"));
    assert_eq!(refused.head.header("ratelimit-remaining"), Some("0"));
    let wait = refused.head.header("retry-after").and_then(|seconds| seconds.parse::<u64>().ok());
    assert!(wait.is_some_and(|seconds| (1..=60).contains(&seconds)), "{wait:?}");
    for free in ["/health", "/ping"] {
        assert_eq!(http.request("GET", free, &[], b"").await.expect("an answer").head.status(), 200, "{free}");
    }
    let other = gateway_without_limit().await;
    assert_eq!(other.head.header("ratelimit-limit"), None, "on loopback nothing is counted unless asked for");
}

async fn gateway_without_limit() -> lb_peers::raw::http::Response {
    ask(&gateway(&[]).await, "GET", "/", &[], "").await
}

#[tokio::test]
async fn behind_a_public_url_only_the_token_makes_an_operator() {
    let token = "0123456789abcdef0123456789abcdef";
    let args = ["--public-url", "http://localhost:9"];
    let gateway = with_variables(&[("LANDBRIDGE_OPERATOR_TOKEN", token)], &args).await;
    let bearer = format!("Bearer {token}");
    let wrong = format!("Bearer {}", "f".repeat(32));
    for page in ["/sessions", "/metrics", "/waterfall", "/waterfall/json"] {
        for (authorization, want) in [(bearer.as_str(), 200), (wrong.as_str(), 403), ("", 403)] {
            let headers: &[(&str, &str)] = &[("Authorization", authorization)];
            let headers = if authorization.is_empty() { &[] } else { headers };
            let response = ask(&gateway, "GET", page, headers, "").await;
            assert_eq!(response.head.status(), want, "{page} {authorization}");
        }
    }
    assert!(!gateway.said().contains(token));
}

#[tokio::test]
async fn production_tells_nobody_its_version() {
    let gateway = with_variables(&[("MCP_CONFIG_SERVER_ENVIRONMENT", "prod")], &[]).await;
    let response = ask(&gateway, "GET", "/health", &[], "").await;
    let health = document(&response);
    assert_eq!((&health["version"], &health["environment"]), (&json!("redacted"), &json!("redacted")), "{health}");
    assert!(!response.text().contains(env!("CARGO_PKG_VERSION")), "{}", response.text());
}

#[tokio::test]
async fn slow_clients_are_let_go_and_hold_up_nobody() {
    let gateway = with_variables(&[], &["--header-timeout", "3s"]).await;
    let mut slow = Vec::new();
    for _ in 0..300 {
        let mut http = connect(&gateway).await;
        http.send_raw(b"POST /mcp HTTP/1.1\r\nHost: loc").await.expect("it reads");
        slow.push(http);
    }
    let (mut quick, session) = seated(&gateway).await;
    for number in 0..50 {
        let start = Instant::now();
        let ping = json!({ "jsonrpc": "2.0", "id": number, "method": "ping" }).to_string();
        let response = quick.post("/mcp", &session.headers(), ping.as_bytes()).await.expect("an answer");
        assert_eq!(response.head.status(), 200);
        assert!(start.elapsed() < Duration::from_secs(1), "{number} took {:?}", start.elapsed());
    }
    for mut http in slow {
        let closed = http.head().await.expect_err("it never asked for anything");
        assert_ne!(closed.kind(), std::io::ErrorKind::TimedOut, "it is still open");
    }
    assert_eq!(ask(&gateway, "GET", "/ping", &[], "").await.text(), "pong");
}
