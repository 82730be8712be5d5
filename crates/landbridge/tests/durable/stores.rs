//! The store itself: what lies there and for how long, and what is served while it is away.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use lb_peers::harness::peer;
use lb_peers::raw::RawHttp;
use lb_peers::raw::http::{initialize_request, post_headers};
use lb_peers::tools::{Settings, ToolClient};
use lb_peers::valkey::{Keeping, Valkey};
use serde_json::{Value, json};

use crate::client::{Client, LEGACY, PATH, with_token};
use crate::world::{Desk, End, Keep, LANDBRIDGE, PATIENCE, STRICT, World, headers_of, one};

const TTL: Duration = Duration::from_secs(60);

fn servers() -> Value {
    let fixture = json!({ "command": peer(LANDBRIDGE, "fixture"), "args": ["--era", "legacy"] });
    let mut all = one();
    all["it"] = fixture;
    all
}

/// A number that a command answers with.
fn number(valkey: &Valkey, words: &[&str]) -> i64 {
    let reply = valkey.command(words);
    reply.trim_end().trim_start_matches(':').parse().unwrap_or_else(|_| panic!("{words:?}: {reply}"))
}

fn keys(valkey: &Valkey) -> BTreeSet<String> {
    let reply = valkey.command(&["KEYS", "*"]);
    reply.lines().filter(|line| !line.starts_with(['*', '$'])).map(str::to_owned).collect()
}

/// How many entries a key holds; one for a plain value.
fn entries(valkey: &Valkey, key: &str) -> i64 {
    match valkey.command(&["TYPE", key]).trim_end() {
        "+stream" => number(valkey, &["XLEN", key]),
        "+list" => number(valkey, &["LLEN", key]),
        "+hash" => number(valkey, &["HLEN", key]),
        "+zset" => number(valkey, &["ZCARD", key]),
        "+set" => number(valkey, &["SCARD", key]),
        _ => 1,
    }
}

/// A session with more events than are kept, in its log and in its streams.
async fn fill(world: &World) -> (Desk, Client) {
    let mut desk = world.desk().await;
    for round in 0..30 {
        desk.execute("burst", json!({ "from": round * 50, "count": 50 })).await;
    }
    let mut client = Client::http(world.address(), LEGACY, json!({})).await;
    for _ in 0..7 {
        client.again().await.run("tools/call", with_token("progress_burst", json!({ "count": 900 }))).await;
    }
    client = client.again().await;
    (desk, client)
}

async fn end(client: &Client) -> u16 {
    let mut client = client.again().await;
    let headers = client.headers_with(&[]);
    client.conn().request("DELETE", PATH, &headers, b"").await.expect("an answer").head.status()
}

#[tokio::test]
async fn what_lies_on_the_server_is_bounded_has_a_lifetime_and_goes_with_its_session() {
    let mut world = World::start(Keep::Valkey, servers(), &["--durability", "event", "--session-ttl", "60s"]).await;
    let before = keys(world.valkey.as_ref().expect("a server"));
    let (desk, client) = fill(&world).await;
    for how in [End::Stop, End::Kill] {
        world.restart(how).await;
        assert_eq!(desk.client.call("list_timers", json!({})).await.status, 200, "{how:?}");
        client.again().await.run("ping", json!({})).await;
        let valkey = world.valkey.as_ref().expect("a server");
        let of_sessions: Vec<_> =
            keys(valkey).difference(&before).filter(|key| is_of_a_session(key)).cloned().collect();
        assert!(4 <= of_sessions.len(), "{of_sessions:?}");
        for key in &of_sessions {
            let left = number(valkey, &["PTTL", key]);
            // It is not renewed with every request, so that it is a little longer than a session lives.
            assert!(0 < left && left <= 2 * TTL.as_millis() as i64, "{how:?}: {key} lives for {left} ms");
            assert!(entries(valkey, key) <= 6_000, "{how:?}: {key} has {} entries", entries(valkey, key));
        }
    }
    assert_eq!((desk.client.end().await, end(&client).await), (200, 200));
    let valkey = world.valkey.as_ref().expect("a server");
    let left: Vec<_> = keys(valkey).difference(&before).filter(|key| is_of_a_session(key)).cloned().collect();
    for key in &left {
        assert!(key.ends_with("owner"), "{key} is left: {left:?}");
        assert!(0 < number(valkey, &["PTTL", key]), "{key} stays");
    }
}

/// Nodes, and what tools were when they were first seen, outlive sessions.
fn is_of_a_session(key: &str) -> bool {
    !key.contains("node") && !key.contains(":pins:")
}

/// Nothing on the server is touched while no process runs: it goes by itself.
#[tokio::test]
async fn what_lies_on_the_server_goes_when_nobody_uses_its_session() {
    let flags = ["--durability", "event", "--session-ttl", "3s", "--cleanup-interval", "100ms"];
    let mut world = World::start(Keep::Valkey, servers(), &flags).await;
    let before = keys(world.valkey.as_ref().expect("a server"));
    let mut desk = world.desk().await;
    desk.execute("burst", json!({ "from": 0, "count": 20 })).await;
    let client = Client::http(world.address(), LEGACY, json!({})).await;
    let mut ear = client.again().await;
    ear.send("tools/call", with_token("progress_burst", json!({ "count": 20 }))).await;
    assert!(ear.head().await.is_sse());
    let (anchor, _) = ear.message().await.expect("a report");
    world.end(End::Stop).await;
    let valkey = world.valkey.as_ref().expect("a server");
    assert!(4 <= keys(valkey).difference(&before).count(), "{:?}", keys(valkey));
    let start = Instant::now();
    while keys(valkey).difference(&before).any(|key| is_of_a_session(key)) {
        assert!(start.elapsed() < PATIENCE, "{:?}", keys(valkey));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.begin().await;
    // A store that is new cannot tell for some seconds which sessions there were.
    let start = Instant::now();
    while visitor(&world, &desk.client).await.0 == 503 {
        assert!(start.elapsed() < PATIENCE, "it can tell");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(visitor(&world, &desk.client).await.0, 404);
    assert_eq!(client.again().await.get(anchor.as_deref()).await.status(), 404);
}

#[tokio::test]
async fn the_file_stays_small_when_sessions_come_and_go() {
    let mut world = World::start(Keep::Disk, servers(), STRICT).await;
    let mut sizes = Vec::new();
    for round in 0..6 {
        let client = Client::http(world.address(), LEGACY, json!({})).await;
        let mut caller = client.again().await;
        caller.send("tools/call", with_token("progress_burst", json!({ "count": 900 }))).await;
        assert!(caller.head().await.is_sse());
        let (anchor, _) = caller.message().await.expect("a report");
        let mut ids = Vec::new();
        while let Some((id, _)) = caller.message().await {
            ids.extend(id);
        }
        if round % 2 == 0 {
            world.restart(if round == 0 { End::Stop } else { End::Kill }).await;
        }
        let rest = client.again().await.resume(anchor.as_deref().expect("an id")).await;
        let rest: Vec<_> = rest.into_iter().filter_map(|(id, _)| id).collect();
        // An answer that takes too long to be written is sent without an id, and is there all the same.
        assert!(rest.starts_with(&ids) && rest.len() <= ids.len() + 1, "the rest of it: {rest:?} {ids:?}");
        assert_eq!(end(&client).await, 200);
        assert_eq!(client.again().await.get(anchor.as_deref()).await.status(), 404);
        sizes.push(world.kept_bytes().len());
    }
    world.restart(End::Stop).await;
    let most = 2 * sizes[1].max(1 << 20);
    assert!(sizes.iter().all(|size| *size <= most), "{sizes:?}");
}

/// The server of the store is started again, with or without what it had: sessions go on, and are written anew.
#[tokio::test]
async fn sessions_go_on_when_the_server_of_the_store_is_started_again_or_forgets() {
    let mut world = World::start(Keep::Valkey, one(), STRICT).await;
    let mut desk = world.desk().await;
    let mut timers = Vec::new();
    for keeping in [Keeping::Everything, Keeping::Nothing, Keeping::Everything] {
        let set = desk.ok("set_timer", json!({ "duration_ms": 3_600_000, "message": "tea" })).await.json();
        timers.push(set["timerId"].clone());
        world.valkey.as_mut().expect("a server").restart(keeping);
        let start = Instant::now();
        while world.look("/health").await.head.status() != 200 {
            assert!(start.elapsed() < PATIENCE, "{keeping:?}: it is found again");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let set = desk.ok("set_timer", json!({ "duration_ms": 3_600_000, "message": "tea" })).await.json();
        timers.push(set["timerId"].clone());
        world.restart(End::Stop).await;
        for timer in &timers {
            let row = desk.ok("get_timer", json!({ "timer_id": timer })).await.json();
            assert_eq!(row["status"], "active", "{keeping:?}: {row}");
        }
    }
}

/// How the store goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gone {
    Dead,
    Hangs,
}

/// The status and `Retry-After` of a new session.
async fn newcomer(world: &World) -> (u16, Option<String>) {
    let mut http = RawHttp::connect(world.address()).await.expect("it listens");
    let hello = initialize_request("1", LEGACY);
    let answer = http.post("/mcp", &post_headers(), hello.as_bytes()).await.expect("an answer");
    (answer.head.status(), answer.head.header("retry-after").map(str::to_owned))
}

/// The status and `Retry-After` of a ping in a session.
async fn visitor(world: &World, client: &ToolClient) -> (u16, Option<String>) {
    let mut http = RawHttp::connect(world.address()).await.expect("it listens");
    let headers = headers_of(&client.session_id().expect("a session"));
    let ping = json!({ "jsonrpc": "2.0", "id": 77, "method": "ping" }).to_string();
    let answer = http.post("/mcp", &headers, ping.as_bytes()).await.expect("an answer");
    (answer.head.status(), answer.head.header("retry-after").map(str::to_owned))
}

fn says_when(answer: &(u16, Option<String>)) -> bool {
    let seconds = answer.1.as_deref().and_then(|text| text.parse::<u64>().ok());
    answer.0 == 503 && seconds.is_some_and(|seconds| (1..=60).contains(&seconds))
}

/// What is here goes on; what would need the store is told to come again, and never that it does not exist.
async fn store_is_away(gone: Gone) {
    let mut world = World::start(Keep::Valkey, one(), STRICT).await;
    let (mut here, asleep) = (world.desk().await, world.desk().await);
    world.restart(End::Stop).await;
    here.connected().await;
    assert_eq!(world.look("/health").await.head.status(), 200);
    let valkey = world.valkey.as_mut().expect("a server");
    match gone {
        Gone::Dead => {
            assert!(valkey.command(&["SAVE"]).starts_with("+OK"));
            valkey.kill9();
        }
        Gone::Hangs => valkey.pause(),
    }
    let start = Instant::now();
    let health = loop {
        let health = world.look("/health").await;
        if health.head.status() == 503 {
            break serde_json::from_slice::<Value>(&health.body).expect("JSON");
        }
        assert!(start.elapsed() < PATIENCE, "it is noticed: {}", health.text());
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!((&health["status"], &health["storage"]["ok"]), (&json!("degraded"), &json!(false)), "{health}");
    assert!(health["works"].is_array(), "{health}");
    assert_eq!(world.look("/ping").await.head.status(), 200);
    let metrics = world.look("/metrics").await.text();
    assert!(metrics.lines().any(|line| line == "landbridge_store_up 0"), "{metrics}");
    let answers = [newcomer(&world).await, visitor(&world, &asleep.client).await];
    assert!(answers.iter().all(says_when), "{answers:?}");
    assert_eq!(visitor(&world, &here.client).await.0, 200, "what is here goes on");

    let valkey = world.valkey.as_mut().expect("a server");
    match gone {
        Gone::Dead => valkey.start_again(),
        Gone::Hangs => valkey.resume(),
    }
    let start = Instant::now();
    while world.look("/health").await.head.status() != 200 {
        assert!(start.elapsed() < PATIENCE, "it is found again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut statuses = Vec::new();
    while statuses != [200; 3] {
        assert!(start.elapsed() < PATIENCE, "{statuses:?}");
        statuses = vec![newcomer(&world).await.0];
        for client in [&asleep.client, &here.client] {
            statuses.push(visitor(&world, client).await.0);
        }
        assert!(statuses.iter().all(|status| [200, 503].contains(status)), "{statuses:?}");
    }
    world.restart(End::Stop).await;
    assert_eq!(visitor(&world, &here.client).await.0, 200);
    let client = ToolClient::at(world.address(), Settings::default()).await;
    assert_eq!(client.call("list_timers", json!({})).await.status, 200);
}

#[tokio::test]
async fn while_the_store_is_dead_what_is_here_goes_on_and_the_rest_is_told_to_come_again() {
    store_is_away(Gone::Dead).await;
}

#[tokio::test]
async fn while_the_store_hangs_what_is_here_goes_on_and_the_rest_is_told_to_come_again() {
    store_is_away(Gone::Hangs).await;
}
