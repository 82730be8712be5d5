//! Two gateways on one server: a request may come to either, and to whichever is left.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use lb_peers::harness::{Gateway, peer};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::client::{self, Client, LEGACY, with_token};
use crate::world::{End, KEY, Keep, LANDBRIDGE, PATIENCE, World};

const FLAGS: &[&str] = &["--durability", "event", "--drain-timeout", "200ms", "--node-listen", "127.0.0.1:0"];

/// A gateway beside the one of the world, with a folder of its own.
async fn beside(world: &World) -> Gateway {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(LANDBRIDGE);
    command.args(["serve", "--allow-stdio-spawn", "--listen", "127.0.0.1:0", "--config"]);
    command.arg(world.folder.path().join("mcp.json")).args(FLAGS).stdin(Stdio::null());
    command.args(["--store", &world.valkey.as_ref().expect("a server").url()]).env("LANDBRIDGE_KEY", KEY);
    command.env("XDG_STATE_HOME", folder.path());
    Gateway::launch(command, folder).await
}

async fn start() -> (World, Gateway, Client) {
    let servers = json!({ "it": { "command": peer(LANDBRIDGE, "fixture"), "args": ["--era", "legacy"] } });
    let world = World::start(Keep::Valkey, servers, FLAGS).await;
    let second = beside(&world).await;
    let client = Client::http(world.address(), LEGACY, json!({})).await;
    (world, second, client)
}

/// The same client at another door.
async fn at(client: &Client, door: SocketAddr) -> Client {
    let mut other = client.again().await;
    if let client::End::Http { address, .. } = &mut other.end {
        *address = door;
    }
    other.again().await
}

/// The answers to some requests, without their ids.
async fn answers(client: &Client) -> Vec<Value> {
    let calls = [
        ("tools/list", json!({})),
        ("resources/list", json!({})),
        ("tools/call", json!({ "name": "echo", "arguments": { "message": "Zoë" } })),
        ("tools/call", json!({ "name": "no such tool", "arguments": {} })),
        ("no/such/method", json!({})),
    ];
    let mut all = Vec::new();
    for (method, params) in calls {
        let mut answer = client.again().await.run(method, params).await.pop().expect("an answer");
        answer["id"] = Value::Null;
        all.push(answer);
    }
    all
}

/// Waits until a session is served there: a node that died is missed when its lease is over.
async fn served(client: &Client) {
    let start = Instant::now();
    loop {
        let mut again = client.again().await;
        let headers = again.headers_with(&[]);
        let ping = json!({ "jsonrpc": "2.0", "id": 99, "method": "ping" }).to_string();
        let answer = again.conn().post(client::PATH, &headers, ping.as_bytes()).await.expect("an answer");
        if answer.head.status() == 200 {
            return;
        }
        assert_eq!(answer.head.status(), 503, "{}", answer.text());
        assert!(answer.head.header("retry-after").is_some(), "{}", answer.text());
        assert!(start.elapsed() < PATIENCE, "{}", answer.text());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn every_node_gives_the_same_answers_before_and_after_one_of_them_ends() {
    let (mut world, mut second, client) = start().await;
    let wanted = answers(&client).await;
    let moved = at(&client, second.address).await;
    assert_eq!(answers(&moved).await, wanted, "sent on to where the session is");
    world.end(End::Stop).await;
    assert_eq!(answers(&moved).await, wanted, "taken over from one that was stopped");
    world.begin().await;
    let back = at(&moved, world.address()).await;
    assert_eq!(answers(&back).await, wanted, "sent on to the new place");
    second.child().start_kill().expect("it is ours");
    second.child().wait().await.expect("it ends");
    served(&back).await;
    assert_eq!(answers(&back).await, wanted, "taken over from one that was killed");
}

/// A stream goes on at another node: live while its own lives, and up to its end when that is gone.
async fn streams_are_read_elsewhere(how: End, reasons: &[&str]) {
    let (mut world, second, client) = start().await;
    let mut away = client.again().await;
    let id = away.send("tools/call", with_token("sleep", json!({ "ms": 60_000 }))).await;
    assert!(away.head().await.is_sse());
    let (anchor, _) = away.message().await.expect("a report");
    let anchor = anchor.expect("an event id");
    drop(away);
    let elsewhere = at(&client, second.address).await;
    let mut ear = elsewhere.again().await;
    assert!(ear.get(Some(&anchor)).await.is_sse());
    for progress in [200, 300] {
        assert_eq!(ear.message().await.expect("a report").1["params"]["progress"], progress, "replayed, then live");
    }
    drop(ear);
    world.end(how).await;
    served(&elsewhere).await;
    for _ in 0..2 {
        let rest = elsewhere.again().await.resume(&anchor).await;
        let steps: Vec<_> = rest.iter().filter_map(|(_, note)| note["params"]["progress"].as_u64()).collect();
        assert!(2 <= steps.len() && steps[0] == 200 && steps.is_sorted_by(|a, b| b - a == 100), "{steps:?}");
        let (_, end) = rest.last().expect("an end");
        let reason = end["error"]["data"]["reason"].as_str().unwrap_or_default();
        assert!(end["id"] == id && reasons.contains(&reason), "{rest:?}");
    }
}

#[tokio::test]
async fn a_stream_of_a_node_that_was_killed_is_read_to_its_end_at_another() {
    streams_are_read_elsewhere(End::Kill, &["node_lost"]).await;
}

#[tokio::test]
async fn a_stream_of_a_node_that_was_stopped_is_read_to_its_end_at_another() {
    streams_are_read_elsewhere(End::Stop, &["shutdown", "node_lost"]).await;
}
