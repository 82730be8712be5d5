//! Who may call, from where, in which words.

use lb_peers::raw::http::{initialize_request, post_headers};

use crate::world::*;

const HEADERS: [(&str, &str); 7] = [
    ("content-security-policy", "default-src 'none'"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

#[tokio::test]
async fn every_response_has_the_security_headers() {
    let gateway = gateway(&[]).await;
    let hello = initialize_request("1", "2025-11-25");
    let json = [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
    for (method, path, headers, body, status) in [
        ("GET", "/", &[][..], "", 200),
        ("GET", "/health", &[], "", 200),
        ("GET", "/ping", &[], "", 200),
        ("GET", "/sessions", &[], "", 200),
        ("GET", "/waterfall", &[], "", 200),
        ("GET", "/metrics", &[], "", 200),
        ("GET", "/nowhere", &[], "", 404),
        ("PUT", "/mcp", &[], "", 405),
        ("POST", "/mcp", &json, &hello, 200),
        ("POST", "/mcp", &json, "{", 400),
        ("POST", "/mcp", &[("Content-Type", "text/plain")], &hello, 415),
        ("OPTIONS", "/mcp", &[("Origin", "http://localhost:3000")], "", 204),
        ("GET", "/", &[("Origin", "http://evil.example")], "", 403),
    ] {
        let response = ask(&gateway, method, path, headers, body).await;
        assert_eq!(response.head.status(), status, "{method} {path}: {}", response.text());
        for (name, value) in HEADERS {
            let found = response.head.header(name);
            assert!(found.is_some_and(|found| found.starts_with(value)), "{method} {path} {name}: {found:?}");
        }
        assert_eq!(response.head.header("x-powered-by"), None);
        assert_eq!(response.head.header("strict-transport-security"), None, "without TLS it means nothing");
        assert!(response.head.header("x-request-id").is_some(), "{method} {path}");
    }
}

#[tokio::test]
async fn pages_of_other_sites_may_not_call_and_programs_may() {
    let gateway = gateway(&[]).await;
    let hello = initialize_request("1", "2025-11-25");
    for (origin, want) in [
        (None, (200, None)),
        (Some("http://localhost:3000"), (200, None)),
        (Some("http://evil.example"), (403, Some(-32000))),
        (Some("http://localhost.evil.example"), (403, Some(-32000))),
        (Some("null"), (403, Some(-32000))),
    ] {
        let mut headers = post_headers();
        headers.extend(origin.map(|origin| ("Origin".to_owned(), origin.to_owned())));
        let response = connect(&gateway).await.post("/mcp", &headers, hello.as_bytes()).await.expect("an answer");
        assert_eq!(code(&response), want, "{origin:?}");
        let allowed = response.head.header("access-control-allow-origin");
        assert_eq!(allowed, origin.filter(|_| want.0 == 200), "{origin:?}");
    }
}

#[tokio::test]
async fn a_page_that_may_call_can_read_its_session() {
    let gateway = gateway(&[]).await;
    let origin = ("Origin", "http://localhost:3000");
    let asked = "content-type, mcp-session-id, mcp-method, mcp-param-city, authorization, x-other";
    let preflight = [origin, ("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", asked)];
    let response = ask(&gateway, "OPTIONS", "/mcp", &preflight, "").await;
    assert_eq!(response.head.status(), 204);
    for (name, want) in [
        ("access-control-allow-origin", "http://localhost:3000"),
        ("access-control-allow-methods", "GET, POST, DELETE, OPTIONS"),
        ("access-control-allow-headers", "content-type, mcp-session-id, mcp-method, mcp-param-city, authorization"),
        ("access-control-max-age", "600"),
        ("vary", "Origin"),
    ] {
        assert_eq!(response.head.header(name), Some(want), "{name}");
    }
    let mut headers = post_headers();
    headers.push(("Origin".to_owned(), origin.1.to_owned()));
    let hello = initialize_request("1", "2025-11-25");
    let response = connect(&gateway).await.post("/mcp", &headers, hello.as_bytes()).await.expect("an answer");
    let exposed = response.head.header("access-control-expose-headers").unwrap_or_default();
    for name in ["Mcp-Session-Id", "Mcp-Protocol-Version", "Last-Event-Id", "WWW-Authenticate"] {
        assert!(exposed.contains(name), "{name} is not in {exposed}");
    }
    assert!(response.head.header("mcp-session-id").is_some());
}

#[tokio::test]
async fn a_name_that_is_not_ours_is_refused_on_every_route() {
    let gateway = gateway(&[]).await;
    for path in ["/", "/mcp", "/mcp/tools", "/sessions", "/waterfall", "/waterfall/json", "/metrics", "/nowhere"] {
        for method in ["GET", "POST", "OPTIONS", "DELETE"] {
            let response = ask_as(&gateway, "evil.example", method, path).await;
            assert_eq!(response.head.status(), 403, "{method} {path}");
            assert!(response.text().contains("--allow-host evil.example"), "{method} {path}: {}", response.text());
        }
    }
    assert_eq!(code(&ask_as(&gateway, "evil.example", "POST", "/mcp").await), (403, Some(-32000)));
    assert_eq!(document(&ask(&gateway, "GET", "/health", &[], "").await)["activeSessions"], 0, "nobody got in");
}

#[tokio::test]
async fn a_revision_that_nobody_knows_is_refused_with_those_we_know() {
    let gateway = gateway(&[]).await;
    let (mut http, session) = seated(&gateway).await;
    let with = |version: Option<&str>| {
        let mut headers = post_headers();
        headers.extend(session.id.iter().map(|id| ("Mcp-Session-Id".to_owned(), id.clone())));
        headers.extend(version.map(|version| ("MCP-Protocol-Version".to_owned(), version.to_owned())));
        headers
    };
    let list = br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    for version in [None, Some("2025-11-25"), Some("2025-03-26")] {
        let response = http.post("/mcp", &with(version), list).await.expect("an answer");
        assert_eq!(response.head.status(), 200, "{version:?}: {}", response.text());
    }
    let refused = http.post("/mcp", &with(Some("1999-01-01")), list).await.expect("an answer");
    assert_eq!(refused.head.status(), 400, "{}", refused.text());
    for known in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        assert!(refused.text().contains(known), "{known} is not in {}", refused.text());
    }
}

#[tokio::test]
async fn a_request_keeps_its_id_in_the_answer_and_in_the_log() {
    let gateway = gateway(&["--log-level", "lb_http=debug"]).await;
    let (mut http, session) = seated(&gateway).await;
    let mut headers = session.headers();
    headers.push(("X-Request-Id".to_owned(), "my-request.7".to_owned()));
    let response =
        http.post("/mcp", &headers, br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await.expect("an answer");
    assert_eq!(response.head.header("x-request-id"), Some("my-request.7"));
    until("the log names it", async || gateway.said().contains("my-request.7")).await;
    let said = gateway.said();
    let line = said.lines().find(|line| line.contains("my-request.7") && line.contains("answered"));
    let line = line.unwrap_or_else(|| panic!("no line says how it ended: {said}"));
    for part in ["status", "200", "elapsed", "client", "127.0.0.1", "POST", "/mcp", "2025-11-25"] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    let secret = session.id.expect("a session id");
    assert!(!said.contains(&secret), "a session id is a secret");
    let odd = ask(&gateway, "GET", "/ping", &[("X-Request-Id", "a b\tc")], "").await;
    let given = odd.head.header("x-request-id").expect("an id").to_owned();
    assert!(!given.contains(' ') && !given.is_empty(), "{given}");
}
