//! Sessions: what was agreed in them, and how they end.

use std::time::Duration;

use lb_peers::harness::peer;
use lb_peers::tools::{Settings, ToolClient};
use serde_json::{Value, json};

use crate::client::{Client, PATH};
use crate::world::{End, Keep, LANDBRIDGE, STRICT, World, one};

async fn status(client: &ToolClient) -> u16 {
    client.call("list_servers", json!({})).await.status
}

async fn ended_sessions_stay_ended(keep: Keep) {
    let mut world = World::start(keep, one(), &[]).await;
    let (gone, stays) = (world.desk().await, world.desk().await);
    assert_eq!(gone.client.end().await, 200);
    for how in [End::Kill, End::Stop] {
        world.restart(how).await;
        assert_eq!(status(&gone.client).await, 404, "{how:?}");
        assert_eq!(gone.client.end().await, 404, "{how:?}");
        assert_eq!(status(&stays.client).await, 200, "{how:?}");
    }
    assert_eq!(stays.client.end().await, 200, "a session of an earlier process ends as well");
    world.restart(End::Kill).await;
    assert_eq!(status(&stays.client).await, 404);
}

#[tokio::test]
async fn a_session_that_its_client_ended_stays_ended_on_disk() {
    ended_sessions_stay_ended(Keep::Disk).await;
}

fn fixture() -> Value {
    json!({ "it": { "command": peer(LANDBRIDGE, "fixture"), "args": ["--era", "legacy"] } })
}

/// The status of a batch of two, which one revision allows.
async fn batch(client: &Client) -> u16 {
    let mut client = client.again().await;
    let ping = |id: u64| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
    let headers = client.headers_with(&[]);
    let bytes = json!([ping(1), ping(2)]).to_string().into_bytes();
    client.conn().post(PATH, &headers, &bytes).await.expect("an answer").head.status()
}

/// The status and the id of the first event of the standalone stream, which only the newest revision has.
async fn primed(client: &Client) -> bool {
    let mut client = client.again().await;
    assert_eq!(client.get(None).await.status(), 200);
    let event = client.conn().event().await.expect("an event").expect("an event");
    event.id.is_some()
}

/// What the fixture makes of a client when it would ask it something.
async fn asked(client: &ToolClient) -> Value {
    let params = json!({ "name": "test_elicitation", "arguments": { "message": "who?" } });
    let mut running = client.start_request("tools/call", params).await;
    for _ in 0..2_000 {
        if 0 < client.asks_waiting() {
            let ask = client.next_ask().await;
            assert_eq!((ask.method.as_str(), &ask.params["message"]), ("elicitation/create", &json!("who?")));
            client.answer(&ask, json!({ "action": "decline" })).await;
        }
        if let Some(reply) = running.within(Duration::from_millis(10)).await {
            return reply.message.get("result").or(reply.message.get("error")).cloned().unwrap_or_default();
        }
    }
    panic!("no answer");
}

async fn agreements_stay(keep: Keep) {
    let mut world = World::start(keep, fixture(), STRICT).await;
    let old = Client::http(world.address(), "2025-03-26", json!({})).await;
    let new = Client::http(world.address(), "2025-11-25", json!({})).await;
    let settings = |capabilities: Value| Settings { path: PATH.to_owned(), ..Settings::default().with(capabilities) };
    let able = ToolClient::at(world.address(), settings(json!({ "elicitation": {} }))).await;
    let unable = ToolClient::at(world.address(), settings(json!({}))).await;
    let (answer, refusal) = (asked(&able).await, asked(&unable).await);
    assert_ne!(answer, refusal, "a client that can answer is asked");
    assert_eq!((batch(&old).await, batch(&new).await), (200, 400), "revisions differ in batches");
    for how in [End::Stop, End::Kill] {
        world.restart(how).await;
        assert_eq!((batch(&old).await, batch(&new).await), (200, 400), "{how:?}: the revision");
        assert_eq!((primed(&old).await, primed(&new).await), (false, true), "{how:?}: the revision");
        assert_eq!(asked(&able).await, answer, "{how:?}: its capabilities");
        assert_eq!(asked(&unable).await, refusal, "{how:?}: its capabilities");
        let mut again = new.again().await;
        let headers = again.headers_with(&[]);
        let hello = lb_peers::raw::http::initialize_request("7", "2025-11-25");
        let second = again.conn().post(PATH, &headers, hello.as_bytes()).await.expect("an answer");
        assert_eq!(second.head.status(), 400, "{how:?}: it is a session already: {}", second.text());
    }
}

#[tokio::test]
async fn what_was_agreed_in_the_handshake_counts_after_a_restart_on_disk() {
    agreements_stay(Keep::Disk).await;
}
