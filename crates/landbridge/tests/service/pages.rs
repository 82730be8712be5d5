//! The pages beside the protocol.

use serde_json::json;

use crate::world::*;

#[tokio::test]
async fn monitors_find_what_they_look_for() {
    let gateway = gateway(&[]).await;
    assert_eq!(ask(&gateway, "GET", "/ping", &[], "").await.text(), "pong");
    let (_http, _session) = seated(&gateway).await;
    let response = ask(&gateway, "GET", "/health", &[], "").await;
    assert_eq!((response.head.status(), response.head.header("content-type")), (200, Some("application/json")));
    let health = document(&response);
    assert_eq!(
        (&health["ok"], &health["status"], &health["activeSessions"]),
        (&json!(true), &json!("healthy"), &json!(1))
    );
    assert_eq!(health["mode"], "stateful-streamable-http");
    assert!(health["sdk"].as_str().is_some_and(|sdk| sdk.starts_with("landbridge/")), "{health}");
    assert!(health["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{health}");
    assert!(health["uptime"].is_u64() && health["version"].is_string(), "{health}");
    assert_eq!(health["environment"], "dev");
    assert_eq!(health["storage"]["ok"], true);
    let banner = ask(&gateway, "GET", "/", &[], "").await;
    assert!(banner.text().contains("MCP at /mcp") && banner.text().contains("/health"), "{}", banner.text());
    let head = ask(&gateway, "HEAD", "/health", &[], "").await;
    assert_eq!((head.head.status(), head.body.len()), (200, 0));
}

#[tokio::test]
async fn each_endpoint_answers_as_promised() {
    let gateway = gateway(&[]).await;
    let json = ("Content-Type", "application/json");
    let both = ("Accept", "application/json, text/event-stream");
    let unknown = ("Mcp-Session-Id", "0123456789abcdef");
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let hello = lb_peers::raw::http::initialize_request("1", "2025-11-25");
    for (method, path, headers, body, want) in [
        ("POST", "/mcp", &[json, both][..], ping, (400, Some(-32000))),
        ("POST", "/mcp", &[json, both, unknown], ping, (404, Some(-32001))),
        ("POST", "/mcp", &[json, both], "{", (400, Some(-32700))),
        ("POST", "/mcp", &[json, both], r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, (400, Some(-32600))),
        ("POST", "/mcp", &[("Content-Type", "text/plain"), both], ping, (415, Some(-32000))),
        ("POST", "/mcp", &[json, ("Accept", "text/html")], ping, (406, Some(-32000))),
        ("POST", "/mcp", &[json, both, unknown], hello.as_str(), (200, None)),
        ("GET", "/mcp", &[both], "", (400, Some(-32000))),
        ("GET", "/mcp", &[both, unknown], "", (404, Some(-32001))),
        ("DELETE", "/mcp", &[], "", (400, Some(-32000))),
        ("DELETE", "/mcp", &[unknown], "", (404, Some(-32001))),
        ("PUT", "/mcp", &[], "", (405, Some(-32000))),
        ("PATCH", "/mcp", &[], "", (405, Some(-32000))),
        ("OPTIONS", "/mcp", &[], "", (204, None)),
        ("GET", "/nowhere", &[], "", (404, None)),
        ("POST", "/health", &[], "", (405, None)),
        ("DELETE", "/ping", &[], "", (405, None)),
        ("POST", "/sessions", &[], "", (405, None)),
        ("POST", "/", &[], "", (405, Some(-32000))),
    ] {
        let response = ask(&gateway, method, path, headers, body).await;
        assert_eq!(code(&response), want, "{method} {path} {headers:?} {body}: {}", response.text());
        assert_eq!(response.head.header("allow").is_some(), want.0 == 405, "{method} {path}");
    }
    let lost = document(&ask(&gateway, "GET", "/nowhere", &[], "").await);
    let told = lost["error"].as_str().expect("a text");
    assert!(told.starts_with("Not found. Available endpoints: /mcp"), "{told}");
    for path in ["/health", "/ping", "/sessions", "/waterfall", "/metrics"] {
        assert!(told.contains(path), "{path} is not in {told}");
    }
    assert_eq!(
        document(&ask(&gateway, "POST", "/health", &[], "").await),
        json!({ "error": "Method not allowed. Use GET, HEAD" })
    );
    let gone = ask(&gateway, "POST", "/mcp", &[json, both, unknown], ping).await;
    assert!(gone.text().contains("Session not found") && gone.text().contains("initialize"), "{}", gone.text());
}

#[tokio::test]
async fn an_operator_sees_who_is_here_and_no_secret() {
    let gateway = gateway(&[]).await;
    let (mut http, session) = seated(&gateway).await;
    let id = session.id.clone().expect("an id");
    let listed = async || document(&ask(&gateway, "GET", "/sessions", &[], "").await);
    let before = listed().await;
    assert_eq!(before["activeSessions"], 1, "{before}");
    let row = &before["sessions"][0];
    let hash = row["id"].as_str().expect("an id");
    assert!(hash.len() == 12 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hash}");
    assert!(!before.to_string().contains(&id), "{before}");
    for name in ["createdAt", "lastActivity"] {
        assert!(row[name].as_str().is_some_and(|time| time.ends_with('Z')), "{name}: {row}");
    }
    for name in ["openStreams", "workingTasks", "pendingClient"] {
        assert_eq!(row[name], 0, "{name}: {row}");
    }
    assert_eq!(row["backends"], json!({}));

    for number in 0..3 {
        let ping = json!({ "jsonrpc": "2.0", "id": number, "method": "ping" }).to_string();
        http.post("/mcp", &session.headers(), ping.as_bytes()).await.expect("an answer");
    }
    http.send("GET", "/mcp", &session.headers(), b"").await.expect("sent");
    assert_eq!(http.head().await.expect("a stream").status(), 200);
    let after = listed().await;
    let count = |document: &serde_json::Value| document["sessions"][0]["requestCount"].as_u64().expect("a count");
    assert_eq!(count(&after), count(&before) + 4, "{after}");
    assert_eq!(after["sessions"][0]["openStreams"], 1, "{after}");

    for (name, value) in [("X-Forwarded-For", "203.0.113.9"), ("Forwarded", "for=203.0.113.9")] {
        let refused = ask(&gateway, "GET", "/sessions", &[(name, value)], "").await;
        assert_eq!(refused.head.status(), 403, "{name}");
        assert!(refused.text().contains("LANDBRIDGE_OPERATOR_TOKEN"), "{}", refused.text());
    }
}
