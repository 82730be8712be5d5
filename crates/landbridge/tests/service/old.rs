//! Clients that speak only HTTP+SSE: what lets them in, what is theirs, and when it is over.

use std::process::Stdio;

use lb_peers::raw::RawHttp;
use lb_peers::raw::http::{headers, initialize_request, post_headers};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::world::*;

/// Opens a stream; where to post.
async fn open(gateway: &lb_peers::harness::Gateway, path: &str, with: &[(&str, &str)]) -> (RawHttp, String) {
    let mut http = connect(gateway).await;
    http.send("GET", path, &headers(with), b"").await.expect("sent");
    let head = http.head().await.expect("a head");
    assert_eq!((head.status(), head.header("content-type")), (200, Some("text/event-stream")), "{path}");
    let event = http.event().await.expect("an event").expect("the stream goes on");
    assert_eq!(event.event.as_deref(), Some("endpoint"));
    let at = String::from_utf8(event.data.expect("where to post")).expect("text");
    (http, at)
}

/// The next message on a stream.
async fn message(http: &mut RawHttp) -> Value {
    loop {
        let event = http.event().await.expect("an event").expect("the stream goes on");
        if let Some(data) = event.data {
            assert_eq!(event.event.as_deref(), Some("message"));
            return serde_json::from_slice(&data).expect("JSON");
        }
    }
}

const JSON: (&str, &str) = ("Content-Type", "application/json");

#[tokio::test]
async fn it_is_off_unless_it_is_asked_for() {
    let gateway = gateway(&[]).await;
    for (method, path) in [("GET", "/sse"), ("POST", "/sse?session=1"), ("GET", "/sse/tools")] {
        assert_eq!(ask(&gateway, method, path, &[JSON], "{}").await.head.status(), 404, "{method} {path}");
    }
}

#[tokio::test]
async fn a_stream_is_a_session_from_its_first_event_to_its_end() {
    let gateway = gateway(&["--sse"]).await;
    let (mut stream, at) = open(&gateway, "/sse", &[]).await;
    let secret = at.strip_prefix("/sse?session=").unwrap_or_else(|| panic!("{at}"));
    assert!(secret.len() == 64 && secret.bytes().all(|byte| byte.is_ascii_hexdigit()), "{at}");
    let hello = initialize_request("1", "2024-11-05");
    let accepted = ask(&gateway, "POST", &at, &[JSON], &hello).await;
    assert_eq!((accepted.head.status(), accepted.text().as_str()), (202, "Accepted"));
    let welcome = message(&mut stream).await;
    assert_eq!((&welcome["id"], &welcome["result"]["protocolVersion"]), (&json!(1), &json!("2024-11-05")));
    // Whatever is wrong with a message is said on the stream.
    for (body, code) in [("{", -32700), (r#"{"jsonrpc":"2.0","id":7,"method":"no/such"}"#, -32601)] {
        assert_eq!(ask(&gateway, "POST", &at, &[JSON], body).await.head.status(), 202, "{body}");
        assert_eq!(message(&mut stream).await["error"]["code"], code, "{body}");
    }
    assert_eq!(ask(&gateway, "POST", &at, &[JSON], &call(2, "list_servers", json!({}))).await.head.status(), 202);
    assert_eq!(message(&mut stream).await["id"], 2);
    // Another stream is another session.
    let (_other, elsewhere) = open(&gateway, "/sse/tools", &[]).await;
    assert!(elsewhere.starts_with("/sse/tools?session=") && !elsewhere.contains(secret), "{elsewhere}");
    // A call runs, and nobody reads its answer any more.
    let waits = call(3, "await_activity", json!({ "timeout_ms": 60_000 }));
    assert_eq!(ask(&gateway, "POST", &at, &[JSON], &waits).await.head.status(), 202);
    drop(stream);
    until("the session is over", async || ask(&gateway, "POST", &at, &[JSON], &hello).await.head.status() == 404).await;
}

#[tokio::test]
async fn what_guards_the_other_transport_guards_this_one() {
    let gateway = gateway(&["--sse"]).await;
    let (_stream, at) = open(&gateway, "/sse", &[]).await;
    let hello = initialize_request("1", "2024-11-05");
    let evil = ("Origin", "http://evil.example");
    for (method, path, with, body, want) in [
        ("GET", "/sse", &[evil][..], "", 403),
        ("POST", at.as_str(), &[evil, JSON], hello.as_str(), 403),
        ("POST", &at, &[("Content-Type", "text/plain")], &hello, 415),
        ("POST", "/sse", &[JSON], &hello, 400),
        ("POST", "/sse?session=0123", &[JSON], &hello, 404),
        ("DELETE", &at, &[], "", 405),
        ("PUT", "/sse", &[], "", 405),
        ("GET", "/sse/server/nobody", &[], "", 404),
        ("GET", "/ssessions", &[], "", 404),
    ] {
        let response = ask(&gateway, method, path, with, body).await;
        assert_eq!(response.head.status(), want, "{method} {path}: {}", response.text());
    }
    let mut large = connect(&gateway).await;
    let head = format!(
        "POST {at} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        5 << 20
    );
    large.send_raw(head.as_bytes()).await.expect("it reads");
    assert_eq!(large.head().await.expect("a head").status(), 413);
    for (method, path) in [("GET", "/sse"), ("POST", at.as_str())] {
        assert_eq!(ask_as(&gateway, "evil.example", method, path).await.head.status(), 403, "{method}");
    }
}

#[tokio::test]
async fn a_session_is_that_of_whoever_opened_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("keys").to_string_lossy().into_owned();
    let mut keys = Vec::new();
    for id in ["anna", "ben"] {
        let mut new = Command::new(LANDBRIDGE);
        new.args(["auth", "key", "new", id, "--file", &file]).stdin(Stdio::null());
        let out = new.output().await.expect("it runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        keys.push(format!("Bearer {}", String::from_utf8_lossy(&out.stdout).trim()));
    }
    let gateway = gateway(&["--sse", "--auth", "keys", &file]).await;
    assert_eq!(ask(&gateway, "GET", "/sse", &[], "").await.head.status(), 401);
    let (mut stream, at) = open(&gateway, "/sse", &[("Authorization", &keys[0])]).await;
    let hello = initialize_request("1", "2024-11-05");
    for (key, want) in [(None, 401), (Some("Bearer lbk_wrong"), 401), (Some(keys[1].as_str()), 404)] {
        let mut with = post_headers();
        with.extend(key.map(|key| ("Authorization".to_owned(), key.to_owned())));
        let refused = connect(&gateway).await.post(&at, &with, hello.as_bytes()).await.expect("an answer");
        assert_eq!(refused.head.status(), want, "{key:?}: {}", refused.text());
    }
    let with = [JSON, ("Authorization", keys[0].as_str())];
    assert_eq!(ask(&gateway, "POST", &at, &with, &hello).await.head.status(), 202);
    assert_eq!(message(&mut stream).await["id"], 1);
}
