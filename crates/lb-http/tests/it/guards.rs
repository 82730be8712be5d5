use serde_json::json;

use crate::peer::*;

#[tokio::test]
async fn foreign_hosts_and_pages_are_refused() {
    let server = Server::start().await;
    let mut peer = server.connect().await;
    let hello = request(1, "initialize", json!({ "protocolVersion": "2025-11-25" }));
    let evil = [("Host", "evil.example.com"), ("Origin", "http://evil.example.com")];
    assert_eq!(peer.post(&evil, &hello).await.code(), (403, -32000));
    let modern = [("Host", "evil.example.com"), ("MCP-Protocol-Version", "2026-07-28")];
    let refused = peer.post(&modern, &hello).await;
    assert_eq!(refused.code(), (403, -32600));
    assert!(refused.json().get("id").is_none(), "no id was read");
    let says =
        r#"Forbidden - Host "evil.example.com" is not allowed; start landbridge with --allow-host evil.example.com"#;
    assert_eq!(refused.json()["error"]["message"], says);
    let page = peer.post(&[("Origin", "http://evil.example.com")], &hello).await;
    assert_eq!(page.code(), (403, -32000));
    assert_eq!(page.header("access-control-allow-origin"), None);

    let own = format!("http://{}", server.addr);
    let allowed = peer.post(&[("Origin", &own)], &hello).await;
    assert_eq!((allowed.status, allowed.header("access-control-allow-origin")), (200, Some(own.as_str())));
    assert!(allowed.header("access-control-expose-headers").is_some_and(|list| list.contains("Mcp-Session-Id")));
    assert_eq!(allowed.header("vary"), Some("Origin"));
}

#[tokio::test]
async fn preflights_are_answered_for_pages_that_may_call() {
    let server = Server::start().await;
    let mut peer = server.connect().await;
    let headers = [
        ("Origin", "http://localhost:3000"),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "content-type, mcp-method, mcp-param-city, x-other"),
    ];
    let response = peer.ask("OPTIONS /mcp", &headers).await;
    assert_eq!(response.status, 204);
    assert_eq!(response.header("access-control-allow-headers"), Some("content-type, mcp-method, mcp-param-city"));
    assert_eq!(response.header("access-control-allow-methods"), Some("GET, POST, DELETE, OPTIONS"));
    assert_eq!(response.header("access-control-max-age"), Some("600"));
    assert_eq!(peer.ask("OPTIONS /mcp", &[("Origin", "http://evil.example.com")]).await.status, 403);
}

#[tokio::test]
async fn headers_that_decide_must_not_come_twice() {
    let server = Server::start().await;
    let (mut peer, session) = server.seated("2025-11-25").await;
    for name in ["Mcp-Session-Id", "MCP-Protocol-Version", "Mcp-Method", "Last-Event-ID"] {
        let headers = [("Mcp-Session-Id", session.as_str()), (name, session.as_str()), (name, session.as_str())];
        assert_eq!(peer.post(&headers, &request(1, "tools/list", json!({}))).await.status, 400, "{name}");
    }
    let host = server.addr.to_string();
    let twice = [("Host", host.as_str()), ("Host", host.as_str())];
    assert_eq!(peer.post(&twice, &request(1, "tools/list", json!({}))).await.status, 400);
}

#[tokio::test]
async fn what_a_body_is_must_be_said_and_what_comes_back_accepted() {
    let server = Server::start().await;
    let (mut peer, session) = server.seated("2025-11-25").await;
    let list = request(1, "tools/list", json!({}));
    for (kind, want) in [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        ("text/plain", 415),
        ("application/jsonx", 415),
        ("", 415),
    ] {
        let headers = [("Mcp-Session-Id", session.as_str()), ("Content-Type", kind)];
        assert_eq!(peer.post(&headers, &list).await.status, want, "content type {kind:?}");
    }
    for (accept, want) in [("", 200), ("*/*", 200), ("application/json", 200), ("text/html", 406)] {
        let headers = [("Mcp-Session-Id", session.as_str()), ("Accept", accept)];
        assert_eq!(peer.post(&headers, &list).await.status, want, "accept {accept:?}");
    }
}
