//! Without a strike the server is a good one, in both eras and on both transports.

use lb_peers::raw::handshake::LEGACY;
use lb_peers::raw::http::{headers, initialize_request, modern_headers, post_headers};

use super::peer::{
    HttpPeer, answer, call, calm, evil, modern, modern_answer, modern_call, post, post_modern_call, spawn,
};

#[tokio::test]
async fn list_faults_names_each_with_its_transports() {
    let mut process = spawn(env!("CARGO_BIN_EXE_evil"), &["--list-faults"]);
    let mut lines = Vec::new();
    while let Some(line) = process.line().await.expect("a line") {
        lines.push(String::from_utf8(line).expect("text"));
    }
    let want = "die-before-reply\tstdio,http|die-after-reply\tstdio,http|half-line\tstdio,http|garbage\tstdio,http|\
        flood\tstdio,http|hang\tstdio,http|slow\tstdio,http|swapped-ids\tstdio,http|stale-ids\tstdio,http|\
        huge-line\tstdio,http|close-stdout\tstdio|ignore-term\tstdio|odd-content\tstdio,http|\
        progress-storm\tstdio,http|list-changed-first\tstdio,http|wrong-stream\thttp";
    assert_eq!(lines.join("|"), want);
    assert!(process.wait().await.expect("it ends").success());
}

#[tokio::test]
async fn a_bad_command_line_exits_with_2() {
    let mut process = spawn(env!("CARGO_BIN_EXE_evil"), &["--fault", "wrong-stream"]);
    let line = process.stderr_line().await.expect("stderr");
    assert_eq!(line.as_deref(), Some("evil: wrong-stream does not exist over stdio"));
    assert_eq!(process.wait().await.expect("it ends").code(), Some(2));
}

#[tokio::test]
async fn every_legacy_version_is_accepted_and_others_get_the_newest() {
    let mut process = evil(&["--fault", "hang"]).await;
    let peer = HttpPeer::evil(&["--fault", "hang"]).await;
    let mut client = peer.connect().await;
    for asked in LEGACY.into_iter().chain(["2026-07-28", "1999-01-01"]) {
        let want = if LEGACY.contains(&asked) { asked } else { "2025-11-25" };
        let line = process.ask(&initialize_request("\"i\"", asked)).await.expect("an answer");
        assert!(line.contains(&format!(r#""id":"i","result":{{"protocolVersion":"{want}""#)), "{asked}: {line}");
        let session = client.initialize("/mcp", asked).await.expect("initialize");
        assert_eq!(session.version, want);
    }
}

#[tokio::test]
async fn calm_echoes_the_exact_string_and_unknown_names_are_errors() {
    let mut process = evil(&["--fault", "hang,slow"]).await;
    let odd = r"\u0041\/ \ud83d\ude00";
    assert_eq!(process.ask(&calm("1e1", odd)).await.expect("an answer"), answer("1e1", odd));
    let unchosen = process.ask(&call("2", "strike", r#"{"fault":"flood"}"#)).await.expect("an answer");
    assert!(unchosen.contains(r#""code":-32602"#), "{unchosen}");
    let slow = call("3", "strike", r#"{"fault":"slow"}"#);
    assert_eq!(process.ask(&slow).await.expect("an answer"), answer("3", "slow"));
    let unknown = process.ask(&call("4", "nope", "{}")).await.expect("an answer");
    assert!(unknown.contains(r#""code":-32602"#), "{unknown}");
    let method = process.ask(r#"{"jsonrpc":"2.0","id":5,"method":"prompts/list"}"#).await.expect("an answer");
    assert!(method.contains(r#""code":-32601"#), "{method}");
    process.close_stdin();
    assert_eq!(process.wait().await.expect("it ends").code(), Some(0));
}

#[tokio::test]
async fn modern_requests_work_on_both_transports() {
    let mut process = evil(&["--fault", "hang"]).await;
    let peer = HttpPeer::evil(&["--fault", "hang"]).await;
    let mut client = peer.connect().await;
    for (method, wants) in [
        ("server/discover", [r#""supportedVersions":["2024-11-05""#, r#""2026-07-28"]"#]),
        ("tools/list", [r#""name":"calm""#, r#""name":"strike""#]),
    ] {
        let line = process.ask(&modern("1", method, "")).await.expect("an answer");
        let body = modern("1", method, "");
        let response = client.post("/mcp", &modern_headers(method, None), body.as_bytes()).await.expect("a response");
        assert_eq!((response.head.status(), response.text()), (200, line.clone()));
        let hints = [r#""resultType":"complete""#, r#""ttlMs":0"#, r#""cacheScope":"private""#];
        for want in hints.into_iter().chain(wants) {
            assert!(line.contains(want), "{want} is missing in {line}");
        }
    }
    assert_eq!(process.ask(&modern_call("7", "calm", "hi")).await.expect("an answer"), modern_answer("7", "hi"));
    let response = post_modern_call(&mut client, "7", "calm", "hi").await;
    assert_eq!(response.text(), modern_answer("7", "hi"));
}

#[tokio::test]
async fn modern_mistakes_are_refused() {
    let peer = HttpPeer::evil(&["--fault", "hang"]).await;
    let mut client = peer.connect().await;
    let list = modern("1", "tools/list", "");
    let bare = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.to_owned();
    let calm = modern_call("1", "calm", "x");
    let version = list.replace("2026-07-28", "2030-01-01");
    let mut later = modern_headers("tools/list", None);
    later.iter_mut().for_each(|(_, value)| *value = value.replace("2026-07-28", "2030-01-01"));
    for (head, body, status, code) in [
        (modern_headers("tools/list", None), &bare, 400, "-32602"),
        (modern_headers("ping", None), &list, 400, "-32020"),
        (modern_headers("tools/call", Some("strike")), &calm, 400, "-32020"),
        (later, &version, 400, "-32022"),
        (modern_headers("ping", None), &modern("1", "ping", ""), 404, "-32601"),
        (post_headers(), &"nonsense".to_owned(), 400, "-32700"),
        (post_headers(), &bare, 400, "-32600"),
        ([post_headers(), headers(&[("Mcp-Session-Id", "gone")])].concat(), &bare, 404, "-32600"),
    ] {
        let response = client.post("/mcp", &head, body.as_bytes()).await.expect("a response");
        assert_eq!(response.head.status(), status, "{body}: {}", response.text());
        assert!(response.text().contains(&format!(r#""code":{code}"#)), "{body}: {}", response.text());
    }
}

#[tokio::test]
async fn era_limits_what_is_spoken() {
    let mut legacy = evil(&["--fault", "hang", "--era", "legacy"]).await;
    let refused = legacy.ask(&modern("1", "server/discover", "")).await.expect("an answer");
    assert!(refused.contains(r#""code":-32601"#), "{refused}");
    let opened = legacy.ask(&initialize_request("2", "2025-06-18")).await.expect("an answer");
    assert!(opened.contains(r#""protocolVersion":"2025-06-18""#), "{opened}");
    let mut modern_only = evil(&["--fault", "hang", "--era", "modern"]).await;
    let refused = modern_only.ask(&initialize_request("1", "2025-06-18")).await.expect("an answer");
    assert!(refused.contains(r#""code":-32022"#) && refused.contains(r#""supported":["2026-07-28"]"#), "{refused}");
    let found = modern_only.ask(&modern("2", "server/discover", "")).await.expect("an answer");
    assert!(found.contains(r#""supportedVersions":["2026-07-28"]"#), "{found}");
}

#[tokio::test]
async fn sessions_end_with_delete() {
    let peer = HttpPeer::evil(&["--fault", "hang"]).await;
    let (mut client, session) = peer.session().await;
    assert_eq!(post(&mut client, &session, &calm("1", "x")).await.text(), answer("1", "x"));
    let gone = client.request("DELETE", "/mcp", &session, b"").await.expect("a response");
    assert_eq!(gone.head.status(), 204);
    assert_eq!(post(&mut client, &session, &calm("2", "x")).await.head.status(), 404);
    let get = client.request("GET", "/mcp", &[], b"").await.expect("a response");
    assert_eq!(get.head.status(), 405);
    let other = client.request("POST", "/other", &session, b"{}").await.expect("a response");
    assert_eq!(other.head.status(), 404);
}
