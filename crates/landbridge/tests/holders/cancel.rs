//! Saying cancelled, in both eras.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Behind, Client, LEGACY, MODERN, Server, Wire, with_token};
use crate::{long_sleep, started, straight};

const BEHIND: [Behind; 2] = [Behind::Stdio, Behind::Http];

fn cancelled(id: &Value) -> Value {
    json!({ "requestId": id, "reason": "changed my mind" })
}

/// A reply that has not begun is 202 and empty; the server hears of it.
#[tokio::test]
async fn a_cancelled_legacy_call_without_a_reply_is_accepted() {
    for behind in BEHIND {
        for isolation in ["session", "shared"] {
            let server = Server::fixture(behind).await.with("isolation", isolation);
            let mut client = Client::start(Wire::Http, &server, LEGACY, json!({})).await;
            let (mut calling, id) = started(&mut client).await;
            client.notify("notifications/cancelled", cancelled(&id)).await;
            assert_eq!(calling.head().await.status(), 202, "{behind:?} {isolation}");
            assert_eq!(calling.conn().body().await.expect("a body").0, b"", "{behind:?} {isolation}");
            client.await_counts("sleep", [1, 0, 1]).await;
        }
    }
}

/// A stream that has begun just closes: nothing more is said for that id.
#[tokio::test]
async fn a_cancelled_legacy_stream_closes_without_an_answer() {
    for behind in BEHIND {
        let server = Server::fixture(behind).await;
        let mut client = Client::start(Wire::Http, &server, LEGACY, json!({})).await;
        let mut calling = client.again().await;
        let id = calling.send("tools/call", with_token("sleep", json!({ "ms": 60_000 }))).await;
        assert!(calling.head().await.is_sse());
        let (anchor, _) = calling.message().await.expect("a report");
        client.notify("notifications/cancelled", cancelled(&id)).await;
        while let Some((_, message)) = calling.message().await {
            assert_eq!(message.get("id"), None, "{behind:?}: {message}");
        }
        client.await_counts("sleep", [1, 0, 1]).await;
        let rest = client.again().await.resume(&anchor.expect("an event id")).await;
        assert!(rest.iter().all(|(_, message)| message.get("id").is_none()), "{behind:?}: {rest:?}");
    }
}

/// A call whose client is away can be cancelled too.
#[tokio::test]
async fn a_stored_call_can_be_cancelled() {
    for behind in BEHIND {
        let server = Server::fixture(behind).await;
        let mut client = Client::start(Wire::Http, &server, LEGACY, json!({})).await;
        let (calling, id) = started(&mut client).await;
        drop(calling);
        // Lost without a cursor: it runs on.
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(client.counts("sleep").await, [1, 0, 0], "{behind:?}");
        client.notify("notifications/cancelled", cancelled(&id)).await;
        client.await_counts("sleep", [1, 0, 1]).await;
    }
}

/// On stdio both eras cancel by saying so, and hear nothing more of that request.
#[tokio::test]
async fn on_stdio_both_eras_cancel_by_saying_so() {
    for behind in BEHIND {
        for version in [LEGACY, MODERN] {
            let server = Server::fixture(behind).await;
            let mut client = Client::start(Wire::Stdio, &server, version, json!({})).await;
            let id = client.send("tools/call", with_token("sleep", json!({ "ms": 60_000 }))).await;
            let (_, first) = client.message().await.expect("a report");
            assert_eq!(first["method"], "notifications/progress", "{behind:?} {version}");
            client.notify("notifications/cancelled", cancelled(&id)).await;
            client.await_counts("sleep", [1, 0, 1]).await;
            // Whatever would still come for it would come before this answer.
            let all = client.run("tools/call", json!({ "name": "echo", "arguments": { "message": "x" } })).await;
            assert_eq!(all.len(), 1, "{behind:?} {version}: {all:?}");
        }
    }
}

/// A notification means nothing over modern HTTP: closing the stream is what cancels.
#[tokio::test]
async fn over_modern_http_saying_so_does_not_cancel() {
    let server = Server::fixture(Behind::Http).await;
    let mut client = Client::start(Wire::Http, &server, MODERN, json!({})).await;
    let mut calling = client.again().await;
    let id = calling.send("tools/call", json!({ "name": "sleep", "arguments": { "ms": 600 } })).await;
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled(&id) });
    let headers = lb_peers::raw::http::modern_headers("notifications/cancelled", None);
    let answer = client.conn().post(crate::client::PATH, &headers, note.to_string().as_bytes()).await.expect("202");
    assert_eq!(answer.head.status(), 202);
    assert!(calling.rest(&id).await[0]["result"].is_object());
}

/// Nobody can cancel what another session runs, even under the same id.
#[tokio::test]
async fn a_cancel_reaches_only_its_own_session() {
    let server = Server::fixture(Behind::Stdio).await.with("isolation", "shared");
    let gateway = server.gateway().await;
    let mut one = Client::http(gateway.address, LEGACY, json!({})).await;
    let mut two = Client::http(gateway.address, LEGACY, json!({})).await;
    let (mut calling, id) = started(&mut one).await;
    two.notify("notifications/cancelled", cancelled(&id)).await;
    two.notify("notifications/cancelled", json!({ "requestId": "no such" })).await;
    two.notify("notifications/cancelled", json!({})).await;
    assert_eq!(one.counts("sleep").await, [1, 0, 0]);
    one.notify("notifications/cancelled", cancelled(&id)).await;
    assert_eq!(calling.head().await.status(), 202);
    one.await_counts("sleep", [1, 0, 1]).await;
}

/// `initialize` is never cancelled.
#[tokio::test]
async fn initialize_cannot_be_cancelled() {
    let server = Server::fixture(Behind::Stdio).await;
    let (_folder, file) = lb_peers::harness::config(&json!({ "it": server.entry }));
    let mut command = tokio::process::Command::new(crate::client::LANDBRIDGE);
    command.args(["stdio", "--surface", "server", "--config"]).arg(file);
    let mut stdio = lb_peers::raw::RawStdio::spawn(command).expect("it starts");
    stdio.send(lb_peers::raw::http::initialize_request("1", LEGACY).as_bytes()).await.expect("it reads");
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    stdio.send(note.to_string().as_bytes()).await.expect("it reads");
    let answer: Value = serde_json::from_str(&stdio.text().await.expect("an answer")).expect("JSON");
    assert_eq!(answer["result"]["protocolVersion"], LEGACY, "{answer}");
}

/// A question of a cancelled call is taken back from the client, and its late answer ignored.
#[tokio::test]
async fn a_cancelled_call_takes_its_questions_back() {
    for behind in BEHIND {
        let server = Server::fixture(behind).await;
        let mut client = Client::start(Wire::Http, &server, LEGACY, json!({ "elicitation": {} })).await;
        let mut calling = client.again().await;
        let id = calling.send("tools/call", json!({ "name": "test_elicitation", "arguments": { "message": "?" } }));
        let id = id.await;
        assert!(calling.head().await.is_sse());
        let (_, ask) = calling.message().await.expect("an ask");
        client.notify("notifications/cancelled", cancelled(&id)).await;
        let (_, back) = calling.message().await.expect("a withdrawal");
        assert_eq!(back["method"], "notifications/cancelled", "{behind:?}: {back}");
        assert_eq!(back["params"]["requestId"], ask["id"], "{behind:?}");
        assert!(calling.message().await.is_none(), "{behind:?}");
        client.answer(&ask, json!({ "action": "cancel" })).await;
        client.await_counts("test_elicitation", [1, 0, 1]).await;
    }
}

/// Straight at the server: a modern HTTP server sees the response dropped, a legacy one hears `cancelled`.
#[tokio::test]
async fn the_server_hears_of_it_in_its_own_era() {
    for (version, era) in [(LEGACY, "legacy"), (MODERN, "modern")] {
        let server = Server::of("fixture", Behind::Http, &["--era", "dual"]).await;
        let mut direct = straight(&server).await;
        let mut client = Client::start(Wire::Stdio, &server, version, json!({})).await;
        let id = client.send("tools/call", long_sleep()).await;
        direct.await_sleep([1, 0, 0], Duration::from_secs(10)).await;
        client.notify("notifications/cancelled", cancelled(&id)).await;
        direct.await_sleep([1, 0, 1], Duration::from_secs(1)).await;
        client.call("echo", json!({ "message": era })).await;
    }
}
