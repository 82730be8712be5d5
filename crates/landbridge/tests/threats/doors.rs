//! Ways in for whoever may not: names, origins, sessions and headers that are not what they claim.

use lb_peers::raw::http::{initialize_request, modern_headers, modern_meta, post_headers};
use serde_json::{Value, json};

use crate::world::*;

/// Every route that shows or does something. `/health` and `/ping` are left out: monitors ask for them under whatever
/// name they know the machine by, and they tell nothing that is not for everybody.
const ROUTES: [&str; 12] = [
    "/",
    "/mcp",
    "/mcp/tools",
    "/mcp/server/it",
    "/sessions",
    "/waterfall",
    "/waterfall/json",
    "/waterfall/data",
    "/metrics",
    "/favicon.ico",
    "/.well-known/oauth-protected-resource",
    "/nowhere",
];

/// A page whose name leads to 127.0.0.1 sends its own name.
#[tokio::test]
async fn a_foreign_host_gets_in_nowhere_and_no_server_hears_of_it() {
    let world = World::start(&[]).await;
    let client = world.client().await;
    let (address, session, heard) = (world.gateway.address, client.session_id().expect("a session"), world.heard());
    let port = address.port();
    let foreign = ["evil.test", "localhost.evil.test", "127.0.0.1.evil.test", "evil.test.", "169.254.169.254"];
    let mut hosts: Vec<(Vec<String>, &[u16])> =
        foreign.iter().map(|host| (vec![format!("Host: {host}")], &[403][..])).collect();
    hosts.push((vec![format!("Host: evil.test:{port}")], &[403]));
    for odd in ["evil.test#localhost", "localhost@evil.test", "localhost,evil.test", "", "localhost evil.test", "["] {
        hosts.push((vec![format!("Host: {odd}")], &[400, 403]));
    }
    hosts.push((vec![], &[400, 403]));
    hosts.push((vec!["Host: localhost".to_owned(), "Host: evil.test".to_owned()], &[400, 403]));
    hosts.push((vec!["Host: evil.test".to_owned(), "X-Forwarded-Host: localhost".to_owned()], &[403]));
    for (host, want) in &hosts {
        for route in ROUTES {
            for method in ["GET", "POST", "DELETE", "OPTIONS"] {
                let mut lines = vec![format!("{method} {route} HTTP/1.1")];
                lines.extend(host.iter().cloned());
                lines.extend(["Content-Type: application/json", "Accept: */*"].map(str::to_owned));
                lines.push(format!("Mcp-Session-Id: {session}"));
                let answer = send(address, &lines, &call_body()).await.expect("an answer");
                let status = answer.head.status();
                assert!(want.contains(&status), "{method} {route} {host:?}: {status} {}", answer.text());
                assert_eq!(answer.head.header("access-control-allow-origin"), None, "{method} {route} {host:?}");
            }
        }
    }
    for open in ["/health", "/ping"] {
        let lines = [format!("GET {open} HTTP/1.1"), "Host: evil.test".to_owned()];
        let answer = send(address, &lines, "").await.expect("an answer");
        assert_eq!(answer.head.status(), 200, "{open}");
        assert!(!answer.text().contains(&session), "{open}: {}", answer.text());
    }
    assert_eq!(world.heard(), heard, "nothing reached the server");
    works(&client).await;
    assert_eq!(world.heard(), heard + 1);
}

/// What a page of another site can send, with or without asking first, comes to nothing on every route.
#[tokio::test]
async fn no_page_of_another_site_can_call_or_read_anything() {
    let world = World::start(&[]).await;
    let client = world.client().await;
    let (address, session, heard) = (world.gateway.address, client.session_id().expect("a session"), world.heard());
    let origins = [
        "http://evil.test",
        "https://evil.test",
        "null",
        "http://localhost.evil.test",
        "http://127.0.0.1.evil.test",
        "http://localhost@evil.test",
        "http://localhost:3000, http://evil.test",
        "http://localhost:3000 http://evil.test",
        "file://",
        "*",
        "",
    ];
    let kinds = ["application/json", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""];
    let body = call_body();
    for origin in origins {
        for route in ROUTES {
            for kind in kinds {
                let all = [("Origin", origin), ("Content-Type", kind), ("Mcp-Session-Id", &session), ("Accept", "*/*")];
                let given: Vec<_> =
                    all.into_iter().filter(|(name, value)| *name != "Content-Type" || !value.is_empty()).collect();
                let answer = ask(address, "POST", route, &given, &body).await;
                assert_eq!(answer.head.status(), 403, "{origin} {route} {kind}: {}", answer.text());
                assert_eq!(answer.head.header("access-control-allow-origin"), None, "{origin} {route} {kind}");
            }
            let wants = [
                ("Origin", origin),
                ("Access-Control-Request-Method", "POST"),
                ("Access-Control-Request-Headers", "content-type, mcp-session-id"),
            ];
            let preflight = ask(address, "OPTIONS", route, &wants, "").await;
            assert_eq!(preflight.head.header("access-control-allow-origin"), None, "{origin} {route}");
            assert!(preflight.head.status() >= 400, "{origin} {route}: {}", preflight.head.status());
            let read = ask(address, "GET", route, &[("Origin", origin), ("Mcp-Session-Id", &session)], "").await;
            assert_eq!((read.head.status(), read.head.header("access-control-allow-origin")), (403, None), "{route}");
        }
    }
    // A form needs no leave to be sent and may come without an origin: what it can send is no message.
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx"] {
        let answer = ask(address, "POST", "/mcp", &[("Content-Type", kind), ("Mcp-Session-Id", &session)], &body).await;
        assert_eq!(answer.head.status(), 415, "{kind}: {}", answer.text());
    }
    assert_eq!(world.heard(), heard, "nothing reached the server");
    works(&client).await;
}

/// An id that is nearly right is as wrong as any, on every verb, and does nothing to the session it resembles.
#[tokio::test]
async fn an_id_that_is_nearly_right_is_unknown_on_every_verb() {
    let world = World::start(&[]).await;
    let client = world.client().await;
    let (address, session, heard) = (world.gateway.address, client.session_id().expect("a session"), world.heard());
    assert!(session.len() >= 64 && session.chars().all(|c| c.is_ascii_hexdigit()), "256 bits: {session}");
    let flipped = |at: usize| -> String {
        let other = |c: char| if c == '0' { '1' } else { '0' };
        session.chars().enumerate().map(|(place, c)| if place == at { other(c) } else { c }).collect()
    };
    let mut guesses: Vec<String> = (0..session.len()).map(flipped).filter(|guess| *guess != session).collect();
    guesses.extend([session.to_ascii_uppercase(), session.chars().skip(1).collect(), format!("{session}0")]);
    guesses.retain(|guess| *guess != session);
    for guess in &guesses {
        for (method, extra) in [("POST", None), ("GET", None), ("DELETE", None), ("GET", Some("0-1"))] {
            let mut given = vec![("Content-Type", "application/json"), ("Mcp-Session-Id", guess.as_str())];
            given.push(("Accept", if method == "GET" { "text/event-stream" } else { "*/*" }));
            given.extend(extra.map(|cursor| ("Last-Event-ID", cursor)));
            let body = if method == "POST" { call_body() } else { String::new() };
            let answer = ask(address, method, "/mcp", &given, &body).await;
            assert_eq!(answer.head.status(), 404, "{method} {guess} {extra:?}: {}", answer.text());
        }
    }
    assert_eq!(world.heard(), heard, "nothing reached the server");
    works(&client).await;
}

/// Whoever opens a session is given its id and cannot choose it, neither a free one nor one that is taken.
#[tokio::test]
async fn nobody_chooses_the_id_of_a_session() {
    let world = World::start(&[]).await;
    let victim = world.client().await;
    let taken = victim.session_id().expect("a session");
    let (address, free) = (world.gateway.address, "ab".repeat(32));
    let hello = initialize_request("1", "2025-11-25");
    for chosen in [free.as_str(), "x", "00000000-0000-0000-0000-000000000000"] {
        let mut given = post_headers();
        given.push(("Mcp-Session-Id".to_owned(), chosen.to_owned()));
        let answer = connect(address).await.post("/mcp", &given, hello.as_bytes()).await.expect("an answer");
        let minted = answer.head.header("mcp-session-id");
        assert!(answer.head.status() == 200 && minted.is_some_and(|id| id != chosen && id.len() >= 64), "{minted:?}");
        let with = [("Content-Type", "application/json"), ("Accept", "*/*"), ("Mcp-Session-Id", chosen)];
        let used = ask(address, "POST", "/mcp", &with, &call_body()).await;
        assert_eq!(used.head.status(), 404, "{chosen}: {}", used.text());
    }
    let mut given = post_headers();
    given.push(("Mcp-Session-Id".to_owned(), taken.clone()));
    let answer = connect(address).await.post("/mcp", &given, hello.as_bytes()).await.expect("an answer");
    assert!(answer.head.header("mcp-session-id").is_none_or(|id| id != taken), "{}", answer.text());
    works(&victim).await;
}

/// What a proxy in front decides by headers is what the body says, or nothing happens.
#[tokio::test]
async fn headers_that_differ_from_the_body_are_refused_before_any_server_hears_of_it() {
    let world = World::start(&[]).await;
    let client = world.client().await;
    let (address, heard) = (world.gateway.address, world.heard());
    let body = |tool: &str| {
        let arguments = r#"{"server":"it","tool":"echo","args":{}}"#;
        let params = format!(r#"{{"name":"{tool}","arguments":{arguments},"_meta":{}}}"#, modern_meta(""));
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#)
    };
    for (method, name, path) in [
        ("tools/call", Some("list_servers"), "/mcp"),
        ("tools/call", Some("Execute_tool"), "/mcp"),
        ("tools/call", Some("execute_tool, list_servers"), "/mcp"),
        ("tools/call", None, "/mcp"),
        ("tools/list", Some("execute_tool"), "/mcp"),
        ("ping", None, "/mcp"),
        ("tools/call", Some("echo"), "/mcp/server/it"),
    ] {
        let answer =
            connect(address).await.post(path, &modern_headers(method, name), body("execute_tool").as_bytes()).await;
        let answer = answer.expect("an answer");
        let value: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let got = (answer.head.status(), value["error"]["code"].clone());
        assert_eq!(got, (400, json!(-32020)), "{method} {name:?} {path}: {}", answer.text());
    }
    assert_eq!(world.heard(), heard, "nothing reached the server");
    let good = modern_headers("tools/call", Some("execute_tool"));
    let answer = connect(address).await.post("/mcp", &good, body("execute_tool").as_bytes()).await.expect("an answer");
    assert_eq!(answer.head.status(), 200, "{}", answer.text());
    works(&client).await;
}
