//! The two ways in: HTTP sessions and stdio.

use std::collections::BTreeSet;
use std::time::Duration;

use lb_peers::harness::{Gateway, HttpPeer, config, peer};
use lb_peers::raw::http::{Headers, initialize_request};
use lb_peers::raw::{RawHttp, RawStdio};
use lb_peers::tools::ToolClient;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::world::{BIN, desk, fixture, over_http, over_stdio, until_connected};

#[tokio::test]
async fn the_list_of_tools_is_the_same_before_and_after_a_server_is_added() {
    let (_gateway, client) = over_http(json!({})).await;
    let server = HttpPeer::start(&peer(BIN, "fixture"), &["--era", "legacy"]).await;
    let before = client.request("tools/list", json!({})).await.result().clone();
    let added = client.call("add_server", json!({ "name": "more", "url": server.url() })).await;
    assert!(!added.is_error(), "{added}");
    assert_eq!(client.request("tools/list", json!({})).await.result(), &before);
    client.call("remove_server", json!({ "name": "more" })).await;
    assert_eq!(client.request("tools/list", json!({})).await.result(), &before);
}

#[tokio::test]
async fn both_transports_offer_the_same_tools_with_the_same_schemas() {
    let (_gateway, http) = over_http(json!({})).await;
    let stdio = over_stdio(json!({})).await;
    let (left, right) = (http.request("tools/list", json!({})).await, stdio.request("tools/list", json!({})).await);
    assert_eq!(left.result()["tools"].as_array().map(Vec::len), Some(33), "{left}");
    assert_eq!(left.result(), right.result());
}

#[tokio::test]
async fn two_http_clients_have_sessions_of_their_own() {
    let (gateway, one) = over_http(json!({ "desk": desk(&[]) })).await;
    let two = ToolClient::http(&gateway).await;
    assert_ne!(one.session_id(), two.session_id());
    for client in [&one, &two] {
        until_connected(client, "desk").await;
    }
    crate::world::tell(&one, "say", json!({ "count": 1 })).await;
    one.call("set_timer", json!({ "duration_ms": 3_600_000, "message": "mine" })).await;
    let seen = |client: ToolClient| async move {
        let notes = client.call("get_notifications", json!({})).await.json();
        let timers = client.call("list_timers", json!({})).await.json();
        (notes.as_array().map(Vec::len), timers.as_array().map(Vec::len))
    };
    assert_eq!(seen(two).await, (Some(0), Some(0)));
    assert_eq!(seen(one).await.1, Some(1));
}

#[tokio::test]
async fn stdio_has_one_session_and_nothing_but_protocol_on_stdout() {
    let servers = json!({ "desk": desk(&[]), "gone": { "command": "/no/such/program" } });
    let (_folder, file) = config(&servers);
    let mut command = Command::new(BIN);
    command.arg("stdio").arg("--config").arg(&file).args(["--log-level", "trace"]);
    let mut child = RawStdio::spawn(command).unwrap();
    child.send(initialize_request("0", "2025-11-25").as_bytes()).await.unwrap();
    child.send(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await.unwrap();
    let call = |id: usize, name: &str, arguments: Value| {
        let params = json!({ "name": name, "arguments": arguments });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
    };
    let out = json!({ "server": "desk", "tool": "out", "args": { "count": 20 } });
    let err = json!({ "server": "desk", "tool": "err", "args": { "count": 20 } });
    let timer = json!({ "duration_ms": 3_600_000, "message": "kept" });
    let calls = [("execute_tool", out), ("execute_tool", err), ("set_timer", timer), ("no_such", json!({}))];
    let mut lines = vec![child.text().await.unwrap()];
    for (at, (name, arguments)) in calls.into_iter().enumerate() {
        child.send(call(at + 1, name, arguments).as_bytes()).await.unwrap();
        lines.push(child.text().await.unwrap());
    }
    child.send(call(9, "list_timers", json!({})).as_bytes()).await.unwrap();
    let timers = child.text().await.unwrap();
    assert!(timers.contains("kept"), "the session of earlier calls: {timers}");
    lines.push(timers);
    child.close_stdin();
    while let Ok(Some(line)) = child.line().await {
        lines.push(String::from_utf8(line).unwrap());
    }
    for line in &lines {
        let message: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
    }
    assert!(child.wait().await.unwrap().success(), "the end of stdin is an orderly end");
}

#[tokio::test]
async fn every_session_id_is_new_and_hard_to_guess() {
    let (gateway, _client) = over_http(fixture()).await;
    let mut ids = BTreeSet::new();
    let mut http = RawHttp::connect(gateway.address).await.unwrap();
    for _ in 0..40 {
        let session = http.initialize("/mcp", "2025-11-25").await.unwrap();
        let id = session.id.expect("a session header");
        assert!(id.chars().all(|c| c.is_ascii_graphic()), "visible ASCII: {id}");
        // 128 bits are 22 characters of base64.
        assert!(22 <= id.len(), "too short for 128 bits: {id}");
        ids.insert(id);
    }
    assert_eq!(ids.len(), 40);
    // Positions that differ between ids: a counter or a time would leave most of them equal.
    let columns = ids.iter().map(String::len).min().unwrap();
    let varied =
        (0..columns).filter(|at| ids.iter().map(|id| id.as_bytes()[*at]).collect::<BTreeSet<_>>().len() > 4).count();
    assert!(22 <= varied, "only {varied} characters vary");
}

#[tokio::test]
async fn the_stream_of_a_session_opens_with_an_event_that_has_an_id() {
    let (gateway, _client) = over_http(fixture()).await;
    let mut http = RawHttp::connect(gateway.address).await.unwrap();
    let session = http.initialize("/mcp", "2025-11-25").await.unwrap();
    http.send("GET", "/mcp", &session.headers(), b"").await.unwrap();
    let head = http.head().await.unwrap();
    assert!(head.status() == 200 && head.is_sse(), "{head:?}");
    let first = http.event().await.unwrap().expect("an event");
    assert!(first.id.is_some_and(|id| !id.is_empty()), "an id to resume from");
    assert_eq!((first.data, first.retry.as_deref()), (Some(Vec::new()), Some("3000")));
}

#[tokio::test]
async fn a_stream_is_resumed_only_by_its_own_session() {
    let (gateway, _client) = over_http(fixture()).await;
    let mut ids = Vec::new();
    let mut sessions = Vec::new();
    for _ in 0..2 {
        let mut http = RawHttp::connect(gateway.address).await.unwrap();
        let session = http.initialize("/mcp", "2025-11-25").await.unwrap();
        http.send("GET", "/mcp", &session.headers(), b"").await.unwrap();
        http.head().await.unwrap();
        ids.push(http.event().await.unwrap().unwrap().id.unwrap());
        sessions.push(session);
    }
    let unknown = "9999999999999-0000000001-1".to_owned();
    for (session, id, want) in [(0, &ids[1], 400), (1, &ids[0], 400), (0, &unknown, 400), (0, &ids[0], 200)] {
        let mut http = RawHttp::connect(gateway.address).await.unwrap();
        let mut headers = sessions[session].headers();
        headers.push(("Last-Event-ID".to_owned(), id.clone()));
        http.send("GET", "/mcp", &headers, b"").await.unwrap();
        let head = http.head().await.unwrap();
        assert_eq!(head.status(), want, "session {session} with {id}");
        if want == 400 {
            let (body, _) = http.body().await.unwrap();
            let body: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(body["error"]["code"], -32000, "{body}");
        }
    }
}

#[tokio::test]
async fn ids_of_events_and_ids_of_streams_are_never_taken_for_each_other() {
    let (gateway, client) = over_http(fixture()).await;
    client.call("set_timer", json!({ "duration_ms": 1, "message": "x" })).await;
    let reply = crate::world::until(&client, "await_activity", json!({ "timeout_ms": 1000 }), |reply| {
        !reply.events_of("timer_expired").is_empty()
    })
    .await;
    let event = reply.json()["last_event_id"].as_str().unwrap().to_owned();
    let mut http = RawHttp::connect(gateway.address).await.unwrap();
    let session = http.initialize("/mcp", "2025-11-25").await.unwrap();
    let mut headers = session.headers();
    headers.push(("Last-Event-ID".to_owned(), event));
    let refused = http.request("GET", "/mcp", &headers, b"").await.unwrap();
    assert_eq!(refused.head.status(), 400, "{}", refused.text());
    http.send("GET", "/mcp", &session.headers(), b"").await.unwrap();
    http.head().await.unwrap();
    let stream = http.event().await.unwrap().unwrap().id.unwrap();
    let reply = client.call("await_activity", json!({ "timeout_ms": 100, "last_event_id": stream })).await;
    assert_eq!(reply.code(), "INVALID_ARGUMENT", "{reply}");
}

/// A session in front of the scripted server, for calls that send much progress.
struct Storm {
    http: RawHttp,
    headers: Headers,
    _gateway: Gateway,
}

impl Storm {
    async fn start() -> Self {
        let (gateway, client) = over_http(json!({ "desk": desk(&[]) })).await;
        until_connected(&client, "desk").await;
        let mut http = RawHttp::connect(gateway.address).await.expect("the gateway listens");
        http.patience = Duration::from_secs(30);
        let headers = http.initialize("/mcp", "2025-11-25").await.expect("a session").headers();
        Self { http, headers, _gateway: gateway }
    }

    /// Has a call send so many steps of so many bytes; the ids of the events, which are in order.
    async fn call(&mut self, id: usize, count: usize, size: usize) -> Vec<String> {
        let args = json!({ "count": count, "size": size, "pause": 0.0005 });
        let arguments = json!({ "server": "desk", "tool": "progress", "args": args });
        let params = json!({ "name": "execute_tool", "arguments": arguments, "_meta": { "progressToken": id } });
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string();
        let reply = self.http.post("/mcp", &self.headers, body.as_bytes()).await.expect("a response");
        let ids: Vec<String> = reply.events().into_iter().filter_map(|event| event.id).collect();
        assert!(count * 4 / 5 < ids.len(), "progress is passed on: {} events of {count}", ids.len());
        assert!(ids.is_sorted(), "the order of the ids is the order of the events");
        ids
    }

    /// The ids of the events that followed this one, where it is still known.
    async fn after(&mut self, id: &str) -> Option<Vec<String>> {
        let mut headers = self.headers.clone();
        headers.push(("Last-Event-ID".to_owned(), id.to_owned()));
        let reply = self.http.request("GET", "/mcp", &headers, b"").await.expect("a response");
        match reply.head.status() {
            200 => Some(reply.events().into_iter().filter_map(|event| event.id).collect()),
            400 => None,
            status => panic!("{status}: {}", reply.text()),
        }
    }
}

#[tokio::test]
async fn a_stream_keeps_its_newest_thousand_events() {
    let mut storm = Storm::start().await;
    let ids = storm.call(1, 1500, 1).await;
    assert_eq!(storm.after(&ids[0]).await, None, "the first events are gone");
    let newest = &ids[ids.len() - 899..];
    let kept = storm.after(&ids[ids.len() - 900]).await;
    assert_eq!(kept.as_deref(), Some(newest), "the newest are there, once, in order");
}

#[tokio::test]
async fn a_stream_keeps_four_mebibytes() {
    let mut storm = Storm::start().await;
    let ids = storm.call(1, 600, 10_000).await;
    assert_eq!(storm.after(&ids[0]).await, None, "six megabytes are too many");
    let kept = storm.after(&ids[ids.len() - 300]).await;
    assert_eq!(kept.as_deref(), Some(&ids[ids.len() - 299..]), "the newest three are there");
}

#[tokio::test]
async fn a_session_keeps_five_thousand_events() {
    let mut storm = Storm::start().await;
    let mut streams = Vec::new();
    for id in 1..=7 {
        streams.push(storm.call(id, 900, 1).await);
    }
    assert_eq!(storm.after(&streams[0][0]).await, None, "the oldest stream gave way");
    let last = streams.last().unwrap();
    assert_eq!(storm.after(&last[0]).await.as_deref(), Some(&last[1..]), "the newest is whole");
}
