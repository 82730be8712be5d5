//! Sessions: how long they live, what was agreed in them, and how they end.

use std::time::{Duration, Instant};

use lb_peers::harness::peer;
use lb_peers::tools::{Settings, ToolClient};
use serde_json::{Value, json};

use crate::client::{Client, PATH};
use crate::world::{End, Keep, LANDBRIDGE, PATIENCE, STRICT, World, one};

/// How long a session lives that nobody uses. A restart has to fit into it.
const TTL: Duration = Duration::from_secs(4);
const LIFE: &[&str] = &["--durability", "event", "--session-ttl", "4s", "--cleanup-interval", "100ms"];

/// What a session answers. A store that is new cannot tell for some seconds which sessions there were.
async fn status(client: &ToolClient) -> u16 {
    let start = Instant::now();
    loop {
        let status = client.call("list_servers", json!({})).await.status;
        if status != 503 || PATIENCE < start.elapsed() {
            return status;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A session has ended. Another is used until that is known.
async fn is_gone(gone: &ToolClient, used: &ToolClient) {
    let start = Instant::now();
    loop {
        let answer = gone.call("list_servers", json!({})).await;
        if answer.status == 404 {
            return;
        }
        assert!(answer.status == 503 && start.elapsed() < PATIENCE, "{answer}");
        assert_eq!(status(used).await, 200, "it is used");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A session that nobody uses ends, whether or not a process runs meanwhile; one that is used or listened to does not.
async fn idle_sessions_end(keep: Keep) {
    let mut world = World::start(keep, json!({}), LIFE).await;
    let open = async || ToolClient::at(world.address(), Settings::default()).await;
    let (idle, used, listening) = (open().await, open().await, open().await);
    assert_eq!(status(&idle).await, 200);
    let since = Instant::now();
    world.restart(End::Stop).await;
    listening.listen().await;
    while since.elapsed() < TTL + Duration::from_secs(1) {
        assert_eq!(status(&used).await, 200, "it is used, after {:?}", since.elapsed());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    is_gone(&idle, &used).await;
    assert_eq!(status(&listening).await, 200, "it listens");
    world.restart(End::Kill).await;
    assert_eq!([status(&used).await, status(&listening).await], [200, 200]);
    is_gone(&idle, &used).await;
    world.end(End::Stop).await;
    tokio::time::sleep(TTL + Duration::from_secs(1)).await;
    world.begin().await;
    assert_eq!([status(&idle).await, status(&used).await, status(&listening).await], [404; 3], "time went on");
}

#[tokio::test]
async fn a_session_lives_as_long_as_it_is_used_whatever_process_serves_it_on_disk() {
    idle_sessions_end(Keep::Disk).await;
}

#[tokio::test]
async fn a_session_lives_as_long_as_it_is_used_whatever_process_serves_it_on_valkey() {
    idle_sessions_end(Keep::Valkey).await;
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

#[tokio::test]
async fn a_session_that_its_client_ended_stays_ended_on_valkey() {
    ended_sessions_stay_ended(Keep::Valkey).await;
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

#[tokio::test]
async fn what_was_agreed_in_the_handshake_counts_after_a_restart_on_valkey() {
    agreements_stay(Keep::Valkey).await;
}

/// How often the server says something, on whatever stream.
fn said(notes: &[Value], method: &str) -> usize {
    notes.iter().filter(|note| note["method"] == method).count()
}

/// A client of the fixture that has asked for something.
async fn with_wish(world: &World, method: &str, params: Value) -> ToolClient {
    let client = ToolClient::at(world.address(), Settings { path: PATH.to_owned(), ..Settings::default() }).await;
    let reply = client.request(method, params).await;
    assert!(reply.rpc_error().is_none(), "{method}: {reply}");
    client
}

async fn subscriptions_stay(keep: Keep) {
    const WATCHED: &str = "test://watched-resource";
    const UPDATED: &str = "notifications/resources/updated";
    let mut world = World::start(keep, fixture(), STRICT).await;
    let client = with_wish(&world, "resources/subscribe", json!({ "uri": WATCHED })).await;
    for how in [End::Stop, End::Kill] {
        world.restart(how).await;
        client.listen().await;
        drop(client.notes());
        let (start, mut notes) = (Instant::now(), Vec::new());
        // That the server is a new one is told as an update, too.
        let mut touches = 0;
        while said(&notes, UPDATED) < 2 {
            assert!(start.elapsed() < PATIENCE, "{how:?}: the subscription is forgotten: {notes:?}");
            let touched = client.call("touch_resource", json!({ "uri": WATCHED })).await;
            assert!(!touched.is_error(), "{how:?}: {touched}");
            touches += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
            notes.extend(client.notes());
        }
        assert!(said(&notes, UPDATED) <= touches + 1, "{how:?}: {touches} times: {notes:?}");
    }
}

#[tokio::test]
async fn subscriptions_count_after_a_restart_on_disk() {
    subscriptions_stay(Keep::Disk).await;
}

#[tokio::test]
async fn subscriptions_count_after_a_restart_on_valkey() {
    subscriptions_stay(Keep::Valkey).await;
}

/// What the server logs for a call, up to its answer.
async fn logged(client: &ToolClient) -> usize {
    drop(client.notes());
    let logged = client.call("log_burst", json!({ "count": 3 })).await;
    assert!(!logged.is_error(), "{logged}");
    said(&client.notes(), "notifications/message")
}

async fn the_log_level_stays(keep: Keep) {
    let mut world = World::start(keep, fixture(), STRICT).await;
    let (quiet, loud) = (json!({ "level": "error" }), json!({ "level": "debug" }));
    let quiet = with_wish(&world, "logging/setLevel", quiet).await;
    let loud = with_wish(&world, "logging/setLevel", loud).await;
    assert_eq!((logged(&quiet).await, logged(&loud).await), (0, 3));
    for how in [End::Stop, End::Kill] {
        world.restart(how).await;
        for call in 1..=2 {
            assert_eq!((logged(&quiet).await, logged(&loud).await), (0, 3), "{how:?}: call {call}");
        }
    }
}

#[tokio::test]
async fn the_log_level_counts_after_a_restart_on_disk() {
    the_log_level_stays(Keep::Disk).await;
}

#[tokio::test]
async fn the_log_level_counts_after_a_restart_on_valkey() {
    the_log_level_stays(Keep::Valkey).await;
}
