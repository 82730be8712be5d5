use lb_exchange::Tasks;
use lb_testkit::result;
use serde_json::json;

use crate::peer::*;

#[tokio::test]
async fn a_legacy_session_lives_on_one_connection() {
    let server = Server::start().await;
    let (mut peer, session) = server.seated("2025-11-25").await;
    let headers = [("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", "2025-11-25")];
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let response = peer.post(&headers, &initialized).await;
    assert_eq!((response.status, response.body.len()), (202, 0));
    for id in 1..4 {
        let response = peer.post(&headers, &request(id, "tools/list", json!({}))).await;
        assert_eq!(response.text(), format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"method":"tools/list"}}}}"#));
        assert_eq!(response.header("content-type"), Some("application/json"));
    }
    assert_eq!(peer.ask("DELETE /mcp", &headers).await.status, 200);
    assert_eq!(peer.post(&headers, &request(9, "tools/list", json!({}))).await.code(), (404, -32001));
}

#[tokio::test]
async fn every_response_is_guarded_against_browsers_and_caches() {
    let server = Server::start().await;
    let mut peer = server.connect().await;
    let mut ids = std::collections::HashSet::new();
    for line in ["GET /mcp", "GET /nowhere", "GET /health", "PUT /mcp", "OPTIONS /mcp"] {
        let response = peer.ask(line, &[]).await;
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
            ("cross-origin-opener-policy", "same-origin"),
        ] {
            assert_eq!(response.header(name), Some(value), "{line}");
        }
        assert!(ids.insert(response.header("x-request-id").expect("an id").to_owned()), "{line}: ids are unique");
    }
    let given = peer.ask("GET /ping", &[("X-Request-Id", "trace-1.a_B")]).await;
    assert_eq!((given.header("x-request-id"), given.text().as_str()), (Some("trace-1.a_B"), "pong"));
    let odd = peer.ask("GET /ping", &[("X-Request-Id", "a b")]).await;
    assert_ne!(odd.header("x-request-id"), Some("a b"));
}

#[tokio::test]
async fn modern_calls_need_no_session() {
    let server = Server::start().await;
    let mut peer = server.connect().await;
    let mut call = tool_call(1, "x");
    call["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let headers = [("MCP-Protocol-Version", "2026-07-28"), ("mcp-method", "tools/call"), ("Mcp-Name", "  x ")];
    let response = peer.post(&headers, &call).await;
    assert_eq!((response.status, response.header("mcp-session-id")), (200, None));
    assert_eq!(response.json()["result"]["resultType"], "complete");
    let mismatch = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/list"), ("Mcp-Name", "x")];
    assert_eq!(peer.post(&mismatch, &call).await.code(), (400, -32020));
    let get = peer.ask("GET /mcp", &[("MCP-Protocol-Version", "2026-07-28")]).await;
    assert_eq!((get.status, get.header("allow")), (405, Some("POST")));
}

#[tokio::test]
async fn a_call_starts_no_task() {
    let server = Server::start().await;
    let (mut peer, session) = server.seated("2025-11-25").await;
    let before = Tasks::spawned();
    for id in 1..20 {
        let response = peer.post(&[("Mcp-Session-Id", &session)], &request(id, "tools/list", json!({}))).await;
        assert_eq!(response.status, 200);
    }
    assert_eq!(Tasks::spawned(), before);
}

#[tokio::test]
async fn a_panic_is_a_500_and_nothing_more() {
    let server = Server::start().await;
    server.middle.on("panics", |_, _| async {
        if tokio::time::Instant::now().elapsed().as_secs() < 1_000 {
            panic!("on purpose");
        }
        result(&json!(1))
    });
    let (mut peer, session) = server.seated("2025-11-25").await;
    let headers = [("Mcp-Session-Id", session.as_str())];
    let response = peer.post(&headers, &tool_call(1, "panics")).await;
    assert_eq!(response.code(), (500, -32603));
    assert!(!response.text().contains("purpose"));
    assert_eq!(peer.post(&headers, &request(2, "tools/list", json!({}))).await.status, 200);
}

#[tokio::test]
async fn paths_lead_where_they_say() {
    let server = Server::start().await;
    let mut peer = server.connect().await;
    let lost = peer.ask("GET /elsewhere", &[]).await;
    assert_eq!(lost.status, 404);
    assert!(lost.text().contains("/mcp/server/{name}"), "{}", lost.text());
    let unknown = peer.ask("GET /mcp/server/three", &[]).await;
    assert_eq!((unknown.status, &unknown.json()["available"]), (404, &json!(["one", "two"])));
    assert_eq!(peer.ask("GET /mcp/server/one", &[]).await.code(), (400, -32000), "known, but no session");
    assert_eq!(peer.ask("GET /mcpx", &[]).await.status, 404);
    let banner = peer.ask("GET /", &[]).await;
    assert!(banner.text().contains("/mcp"), "{}", banner.text());
    let posted = peer.ask("POST /", &[]).await;
    assert_eq!((posted.status, posted.header("allow")), (405, Some("GET, HEAD, OPTIONS")));
    assert_eq!(posted.json()["error"]["message"], "Method not allowed: MCP is at /mcp");
    let health = peer.ask("GET /health", &[]).await.json();
    assert_eq!((&health["ok"], &health["status"]), (&json!(true), &json!("healthy")));
    let put = peer.ask("PUT /mcp", &[]).await;
    assert_eq!((put.status, put.header("allow")), (405, Some("GET, POST, DELETE, OPTIONS")));
}
