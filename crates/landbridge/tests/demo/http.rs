//! `demo --http`: what is printed, resuming a stream that the server closed, and a crash that drops one backend.

use lb_peers::raw::RawHttp;
use lb_peers::raw::http::{Headers, Session, headers};
use lb_peers::raw::sse::Event;
use serde_json::{Value, json};

use crate::{Demo, ends, landbridge, soon};

/// A session of 2025-11-25, which knows how to resume.
async fn session(demo: &Demo, version: &str) -> (RawHttp, Session) {
    let mut http = RawHttp::connect(demo.address).await.expect("it listens");
    let session = http.initialize("/mcp", version).await.expect("a session");
    let body = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(http.post("/mcp", &session.headers(), body).await.expect("an answer").head.status(), 202);
    (http, session)
}

fn call(id: u32, tool: &str, arguments: Value) -> Vec<u8> {
    let meta = json!({ "progressToken": "token" });
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string().into_bytes()
}

fn and(session: &Session, more: &[(&str, &str)]) -> Headers {
    [session.headers(), headers(more)].concat()
}

/// The events of a response up to its end.
async fn events(http: &mut RawHttp) -> Vec<Event> {
    let mut all = Vec::new();
    while let Some(event) = soon(http.event()).await.expect("an event stream") {
        all.push(event);
    }
    all
}

/// What the events say, in short: logs, progress, the result.
fn said(events: &[Event]) -> Vec<String> {
    let messages = events.iter().map(Event::text).filter(|text| !text.is_empty());
    messages
        .map(|text| {
            let message: Value = serde_json::from_str(&text).expect("JSON");
            match message["method"].as_str() {
                Some("notifications/message") => message["params"]["data"].as_str().expect("text").to_owned(),
                Some("notifications/progress") => format!("progress {}", message["params"]["progress"]),
                Some(other) => other.to_owned(),
                None => message["result"]["content"][0]["text"].as_str().expect("text").to_owned(),
            }
        })
        .collect()
}

fn last_id(events: &[Event]) -> String {
    events.iter().rev().find_map(|event| event.id.clone()).expect("a cursor")
}

#[tokio::test]
async fn a_stream_that_the_server_closes_is_resumed_without_loss_or_repetition() {
    let demo = Demo::start().await;
    let (mut http, session) = session(&demo, "2025-11-25").await;
    let body = call(7, "simulate_work", json!({ "steps": 4, "delayMs": 50, "closeSseAfterStep": 2 }));
    http.send("POST", "/mcp", &session.headers(), &body).await.expect("sent");
    let head = soon(http.head()).await.expect("an answer");
    assert!(head.is_sse(), "{head:?}");
    let before = events(&mut http).await;
    let step = |n: u32| [format!("simulate_work progress: {n}/4"), format!("progress {n}.0")];
    assert_eq!(said(&before), [step(1), step(2)].concat(), "the stream ends after the second step");
    // Nothing is lost when one of the last events did not arrive either.
    for seen in [before.len() - 1, before.len()] {
        let seen = &before[..seen];
        let mut again = RawHttp::connect(demo.address).await.expect("it listens");
        let resume = and(&session, &[("Accept", "text/event-stream"), ("Last-Event-ID", &last_id(seen))]);
        again.send("GET", "/mcp", &resume, b"").await.expect("sent");
        assert_eq!(soon(again.head()).await.expect("an answer").status(), 200);
        let after = events(&mut again).await;
        let mut expect = [step(1), step(2), step(3), step(4)].concat();
        expect.push("Done: 4 steps of 50 ms".to_owned());
        assert_eq!([said(seen), said(&after)].concat(), expect);
        let mut ids: Vec<_> = seen.iter().chain(&after).filter_map(|event| event.id.clone()).collect();
        let count = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), count, "no event comes twice");
    }
}

#[tokio::test]
async fn a_client_that_cannot_resume_gets_everything_on_one_stream() {
    let demo = Demo::start().await;
    let (mut http, session) = session(&demo, "2025-03-26").await;
    let body = call(7, "simulate_work", json!({ "steps": 2, "delayMs": 50, "closeSseAfterStep": 1 }));
    http.send("POST", "/mcp", &session.headers(), &body).await.expect("sent");
    soon(http.head()).await.expect("an answer");
    let all = said(&events(&mut http).await);
    assert_eq!(all.last().map(String::as_str), Some("Done: 2 steps of 50 ms"), "{all:?}");
    assert_eq!(all.len(), 5, "{all:?}");
}

/// What a call answers, whatever the form of the response.
async fn answer(http: &mut RawHttp, session: &Session, body: &[u8]) -> Value {
    let response = soon(http.post("/mcp", &session.headers(), body)).await.expect("an answer");
    let text = match response.head.is_sse() {
        true => response.events().iter().rev().map(Event::text).find(|text| !text.is_empty()).expect("an event"),
        false => response.text(),
    };
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {}", response.text()))
}

#[tokio::test]
async fn a_crash_drops_one_backend_and_no_other_session() {
    let demo = Demo::start().await;
    let (mut one, first) = session(&demo, "2025-11-25").await;
    let (mut two, second) = session(&demo, "2025-11-25").await;
    for (http, session, note) in [(&mut one, &first, "mine"), (&mut two, &second, "yours")] {
        let saved = answer(http, session, &call(1, "add_note", json!({ "note": note }))).await;
        assert_eq!(saved["result"]["content"][0]["text"], format!("Saved note #1: {note}"));
    }
    let crashed = answer(&mut one, &first, &call(2, "crash", json!({ "code": 3 }))).await;
    assert!(crashed["error"]["message"].is_string(), "{crashed}");
    let kept = answer(&mut two, &second, &call(2, "list_notes", json!({}))).await;
    assert_eq!(kept["result"]["structuredContent"], json!({ "notes": ["yours"] }));
    // The next call finds a new demo, without what the old one kept.
    let fresh = answer(&mut one, &first, &call(3, "list_notes", json!({}))).await;
    assert_eq!(fresh["result"]["structuredContent"], json!({ "notes": [] }));
}

#[tokio::test]
async fn the_overview_does_not_show_the_session_id() {
    let demo = Demo::start().await;
    let (mut http, session) = session(&demo, "2025-11-25").await;
    let read =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": { "uri": "session://overview" } });
    let overview = answer(&mut http, &session, read.to_string().as_bytes()).await;
    let text = overview["result"]["contents"][0]["text"].as_str().expect("text");
    let secret = session.id.as_deref().expect("an id");
    assert!(text.contains("\"noteCount\": 0") && !text.contains(secret), "{text}");
}

#[tokio::test]
async fn the_banner_shows_one_server_at_mcp() {
    let demo = Demo::start().await;
    let url = format!("http://{}/mcp", demo.address);
    assert!(demo.said.contains(&format!("Point a client at\n  {url}\n")), "{}", demo.said);
    assert!(demo.said.contains(&format!("\"demo\": {{ \"type\": \"http\", \"url\": \"{url}\" }}")), "{}", demo.said);
    assert!(!demo.said.contains("everything, as tools"), "{}", demo.said);
}

#[tokio::test]
async fn a_sample_tool_that_takes_a_name_twice_fails_the_start() {
    for (name, why) in
        [("echo", "two tools named \"echo\""), ("no name", "is no name for a tool"), (" ", "has no name")]
    {
        for args in [&["demo"][..], &["demo", "--http", "127.0.0.1:0"], &["--listen", "127.0.0.1:0"]] {
            let (code, _, stderr) = ends(landbridge(args).env("SAMPLE_TOOL_NAME", name)).await;
            assert_eq!(code, Some(2), "{args:?} {stderr}");
            assert!(stderr.contains(why) && stderr.contains("choose another SAMPLE_TOOL_NAME"), "{args:?} {stderr}");
        }
    }
}

#[tokio::test]
async fn what_the_demo_advises_is_what_it_takes() {
    let (code, _, said) = ends(&mut landbridge(&["demo", "--http", "0.0.0.0:0"])).await;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--insecure-no-auth"), "{said}");
    let (code, help, _) = ends(&mut landbridge(&["demo", "--help"])).await;
    assert_eq!(code, Some(0));
    let taken = Demo::start().await;
    let (code, _, said) = ends(&mut landbridge(&["demo", "--listen", &taken.address.to_string()])).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("choose another with --listen 127.0.0.1:0") && !said.contains("--reuse-port"), "{said}");
    for flag in ["--listen", "--insecure-no-auth", "--allow-host"] {
        assert!(help.contains(flag), "{flag} is not in {help}");
    }
    let (code, _, said) = ends(&mut landbridge(&["demo", "--allow-host", "x"])).await;
    assert!(code == Some(2) && said.contains("add --http"), "{said}");
}
