//! How answers come, how sessions end, and how the process does.

use std::time::Duration;

use lb_peers::harness::{Gateway, config, peer};
use lb_peers::raw::RawHttp;
use lb_peers::raw::http::headers;
use serde_json::json;
use tokio::process::Command;

use crate::world::*;

#[tokio::test]
async fn a_quick_answer_is_json_and_a_slow_one_a_stream_unless_the_client_wants_json() {
    let gateway = gateway(&[]).await;
    let (mut http, session) = seated(&gateway).await;
    let quick = http.post("/mcp", &session.headers(), call(1, "list_servers", json!({})).as_bytes()).await.expect("it");
    assert_eq!(quick.head.header("content-type"), Some("application/json"));
    let wait = call(2, "await_activity", json!({ "timeout_ms": 1500 }));
    let slow = http.post("/mcp", &session.headers(), wait.as_bytes()).await.expect("an answer");
    assert_eq!(slow.head.header("content-type"), Some("text/event-stream"), "{}", slow.text());
    let events = slow.events();
    assert!(events.iter().any(|event| event.text().contains(r#""id":2"#)), "{}", slow.text());
    assert!(slow.complete, "and the stream ends");
    let mut only_json = headers(&[("Accept", "application/json"), ("Content-Type", "application/json")]);
    only_json.extend(session.id.iter().map(|id| ("Mcp-Session-Id".to_owned(), id.clone())));
    let plain = http.post("/mcp", &only_json, wait.as_bytes()).await.expect("an answer");
    assert_eq!(plain.head.header("content-type"), Some("application/json"), "{}", plain.text());
}

#[tokio::test]
async fn a_session_that_was_deleted_is_gone_and_one_cannot_be_brought_along() {
    let gateway = gateway(&[]).await;
    let (mut http, session) = seated(&gateway).await;
    let deleted = http.request("DELETE", "/mcp", &session.headers(), b"").await.expect("an answer");
    assert_eq!((deleted.head.status(), deleted.body.len()), (200, 0));
    for method in ["DELETE", "GET"] {
        let gone = http.request(method, "/mcp", &session.headers(), b"").await.expect("an answer");
        assert_eq!(code(&gone), (404, Some(-32001)), "{method}");
    }
    assert_eq!(document(&ask(&gateway, "GET", "/sessions", &[], "").await)["activeSessions"], 0);
    // A client may come back with what it had; it gets another.
    let hello = lb_peers::raw::http::initialize_request("1", "2025-11-25");
    let mut stale = session.headers();
    stale.retain(|(name, _)| name != "MCP-Protocol-Version");
    let again = http.post("/mcp", &stale, hello.as_bytes()).await.expect("an answer");
    let minted = again.head.header("mcp-session-id").map(str::to_owned);
    assert!(minted.is_some() && minted != session.id, "{minted:?}");
}

#[tokio::test]
async fn an_open_stream_does_not_keep_the_process() {
    let mut gateway = gateway(&[]).await;
    let (mut http, session) = seated(&gateway).await;
    http.send("GET", "/mcp", &session.headers(), b"").await.expect("sent");
    assert_eq!(http.head().await.expect("a stream").status(), 200);
    http.piece().await.expect("the first event");
    terminate(&gateway);
    let mut rest = String::new();
    while let Some(piece) = http.piece().await.expect("the stream ends in order") {
        rest += &String::from_utf8_lossy(&piece);
    }
    assert!(rest.contains("retry: ") && rest.contains(": stopping"), "{rest:?}");
    let (took, status) = ended(&mut gateway, PATIENCE).await;
    assert_eq!(status, Some(0), "{}", gateway.said());
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[tokio::test]
async fn a_server_that_hangs_does_not_keep_the_process_for_twenty_seconds() {
    let evil = json!({ "command": peer(LANDBRIDGE, "evil"), "args": ["--fault", "hang"] });
    let mut gateway = Gateway::serve(LANDBRIDGE, json!({ "it": evil })).await;
    let mut http = RawHttp::connect(gateway.address).await.expect("it listens");
    let session = http.initialize("/mcp/server/it", "2025-11-25").await.expect("a session");
    http.send("POST", "/mcp/server/it", &session.headers(), call(1, "strike", json!({})).as_bytes())
        .await
        .expect("sent");
    // The answer begins as a stream after a second, so that the call is known to be under way.
    assert_eq!(http.head().await.expect("a head").status(), 200);
    terminate(&gateway);
    until("it says that it drains", async || {
        let Ok(mut late) = RawHttp::connect(gateway.address).await else { return true };
        late.request("GET", "/health", &[], b"").await.is_ok_and(|health| health.head.status() == 503)
    })
    .await;
    let refused = ask(&gateway, "POST", "/mcp/server/it", &[("Content-Type", "application/json")], "{}").await;
    assert_eq!((refused.head.status(), refused.head.header("retry-after")), (503, Some("1")), "{}", refused.text());
    let (_, status) = ended(&mut gateway, Duration::from_secs(20)).await;
    assert_eq!(status, Some(0), "{}", gateway.said());
}

/// Time of the processor that a process has used.
fn used(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process is there");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).expect("a number");
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

#[tokio::test]
async fn out_of_descriptors_it_rests_and_then_goes_on() {
    let (folder, file) = config(&json!({}));
    let mut command = Command::new("sh");
    let script = "ulimit -n 48; exec \"$0\" serve --listen 127.0.0.1:0 --config \"$1\"";
    command.args(["-c", script, LANDBRIDGE]).arg(&file);
    let gateway = Gateway::launch(command, folder).await;
    let mut crowd = Vec::new();
    for _ in 0..80 {
        crowd.push(connect(&gateway).await);
    }
    until("it says what is wrong", async || gateway.said().contains("could not accept a connection")).await;
    let before = used(gateway.pid());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let spent = used(gateway.pid()) - before;
    assert!(spent < Duration::from_millis(300), "it is busy with waiting: {spent:?} in a second");
    let told = gateway.said().matches("could not accept").count();
    assert!(told <= 2, "said {told} times");
    // Those that were let in are served meanwhile.
    let first = crowd.first_mut().expect("one");
    assert_eq!(first.request("GET", "/ping", &[], b"").await.expect("an answer").text(), "pong");
    drop(crowd);
    until("it is reachable again", async || {
        let Ok(mut http) = RawHttp::connect(gateway.address).await else { return false };
        http.request("GET", "/ping", &[], b"").await.is_ok_and(|pong| pong.text() == "pong")
    })
    .await;
}
