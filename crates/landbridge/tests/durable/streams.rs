//! Streams that a client comes back to after the process that wrote them has ended.

use lb_peers::harness::peer;
use serde_json::{Value, json};

use crate::client::{Client, LEGACY, with_token};
use crate::world::{End, Keep, LANDBRIDGE, STRICT, World};

async fn start(keep: Keep) -> (World, Client) {
    let servers = json!({ "it": { "command": peer(LANDBRIDGE, "fixture"), "args": ["--era", "legacy"] } });
    let flags = [STRICT, &["--drain-timeout", "200ms"]].concat();
    let world = World::start(keep, servers, &flags).await;
    let client = Client::http(world.address(), LEGACY, json!({})).await;
    (world, client)
}

/// The same client on a new connection.
async fn back(client: &mut Client) {
    *client = client.again().await;
}

/// Starts a sleep that reports progress, and reads up to its first report: the id of that event, and of the request.
async fn sleeping(client: &Client, ms: u64) -> (Client, String, Value) {
    let mut away = client.again().await;
    let id = away.send("tools/call", with_token("sleep", json!({ "ms": ms }))).await;
    assert!(away.head().await.is_sse());
    let (event, first) = away.message().await.expect("a report");
    assert_eq!(first["params"]["progress"], 100, "{first}");
    (away, event.expect("an event id"), id)
}

fn steps(messages: &[(Option<String>, Value)]) -> Vec<u64> {
    messages.iter().filter_map(|(_, note)| note["params"]["progress"].as_u64()).collect()
}

/// The status and JSON-RPC code of a GET behind an event.
async fn refused(client: &Client, cursor: &str) -> (u16, i64) {
    let mut client = client.again().await;
    let headers = client.headers_with(&[("Accept", "text/event-stream"), ("Last-Event-ID", cursor)]);
    let answer = client.conn().request("GET", crate::client::PATH, &headers, b"").await.expect("an answer");
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    (answer.head.status(), body["error"]["code"].as_i64().unwrap_or(0))
}

async fn ended_streams_are_replayed(keep: Keep) {
    let (mut world, mut client) = start(keep).await;
    let mut other = Client::http(world.address(), LEGACY, json!({})).await;
    let (away, anchor, id) = sleeping(&client, 500).await;
    drop(away);
    client.await_counts("sleep", [1, 1, 0]).await;
    for how in [End::Stop, End::Kill, End::Stop] {
        world.restart(how).await;
        back(&mut client).await;
        let rest = client.resume(&anchor).await;
        assert_eq!(steps(&rest), [200, 300, 400], "{how:?}: strictly after the anchor, each once: {rest:?}");
        let answers: Vec<_> = rest.iter().filter(|(_, message)| message["id"] == id).collect();
        assert_eq!(answers.len(), 1, "{how:?}: {rest:?}");
        assert!(answers[0].1["result"]["content"].is_array(), "{how:?}: {rest:?}");
        let last = rest.last().and_then(|(event, _)| event.clone()).expect("an id");
        assert_eq!(client.again().await.resume(&last).await, [], "{how:?}: nothing after the answer");
        // Events of its own, so that an id of another session cannot mean one of them.
        back(&mut other).await;
        other.run("tools/call", with_token("progress_burst", json!({ "count": 2 }))).await;
        assert_eq!(refused(&other, &anchor).await, (400, -32000), "{how:?}: an id is good in its own session only");
        assert_eq!(refused(&client, "0000000000000-0000000001").await, (400, -32000), "{how:?}");
    }
    // What comes after has ids of its own: a new stream is not mixed with the old one.
    let (mut next, cursor, id) = sleeping(&client, 300).await;
    assert!(anchor < cursor, "ids only grow: {anchor} {cursor}");
    assert_eq!(next.message().await.map(|(_, note)| note["params"]["progress"].clone()), Some(json!(200)));
    assert_eq!(next.message().await.map(|(_, end)| end["id"].clone()), Some(id));
    assert_eq!(steps(&client.resume(&anchor).await), [200, 300, 400]);
}

#[tokio::test]
async fn a_stream_that_has_ended_can_be_read_again_after_restarts_on_disk() {
    ended_streams_are_replayed(Keep::Disk).await;
}

#[tokio::test]
async fn a_stream_that_has_ended_can_be_read_again_after_restarts_on_valkey() {
    ended_streams_are_replayed(Keep::Valkey).await;
}

/// Reads up to a notification; gives the ids of all that came, which only grow, the one of that notification last.
async fn up_to(ear: &mut Client, method: &str) -> Vec<String> {
    let mut ids = Vec::new();
    loop {
        let (id, message) = ear.message().await.expect("a notification");
        ids.push(id.expect("an id"));
        assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
        if message["method"] == method {
            return ids;
        }
    }
}

/// What was said before a client had read it comes first, then what the next process says, without a gap and once.
async fn replay_goes_over_into_live(keep: Keep) {
    const TOOLS: &str = "notifications/tools/list_changed";
    const PROMPTS: &str = "notifications/prompts/list_changed";
    let (mut world, mut client) = start(keep).await;
    let mut ear = client.again().await;
    assert_eq!(ear.get(None).await.status(), 200);
    client.call("test_trigger_prompt_change", json!({})).await;
    let first = up_to(&mut ear, PROMPTS).await.pop().expect("an id");
    client.call("test_trigger_tool_change", json!({})).await;
    let second = up_to(&mut ear, TOOLS).await.pop().expect("an id");
    world.end(End::Stop).await;
    drop(ear);
    world.begin().await;

    back(&mut client).await;
    let mut ear = client.again().await;
    assert!(ear.get(Some(&first)).await.is_sse());
    assert_eq!(up_to(&mut ear, TOOLS).await, std::slice::from_ref(&second), "the anchor is not repeated");
    client.call("test_trigger_prompt_change", json!({})).await;
    // That the server is a new one is told first, as changes of all its lists.
    let mut live = up_to(&mut ear, PROMPTS).await;
    live.extend(up_to(&mut ear, PROMPTS).await);
    assert!(second < live[0] && live.is_sorted_by(|a, b| a < b), "ids only grow: {second} {live:?}");
    world.end(End::Kill).await;
    drop(ear);
    world.begin().await;

    back(&mut client).await;
    let mut ear = client.again().await;
    assert!(ear.get(Some(&second)).await.is_sse());
    let mut again = up_to(&mut ear, PROMPTS).await;
    again.extend(up_to(&mut ear, PROMPTS).await);
    assert_eq!(again, live, "all of it, and once");
    client.call("test_trigger_tool_change", json!({})).await;
    up_to(&mut ear, TOOLS).await;
}

#[tokio::test]
async fn the_standalone_stream_goes_over_from_replay_into_live_after_restarts_on_disk() {
    replay_goes_over_into_live(Keep::Disk).await;
}

#[tokio::test]
async fn the_standalone_stream_goes_over_from_replay_into_live_after_restarts_on_valkey() {
    replay_goes_over_into_live(Keep::Valkey).await;
}

/// What a server said while nobody listened is there for whoever comes back, also at another process.
async fn unheard_words_stay(keep: Keep) {
    const TOOLS: &str = "notifications/tools/list_changed";
    const PROMPTS: &str = "notifications/prompts/list_changed";
    let (mut world, mut client) = start(keep).await;
    let mut ear = client.again().await;
    assert_eq!(ear.get(None).await.status(), 200);
    client.call("test_trigger_prompt_change", json!({})).await;
    let first = up_to(&mut ear, PROMPTS).await.pop().expect("an id");
    drop(ear);
    client.call("test_trigger_tool_change", json!({})).await;
    world.restart(End::Stop).await;
    back(&mut client).await;
    let mut ear = client.again().await;
    assert!(ear.get(Some(&first)).await.is_sse());
    let ids = up_to(&mut ear, TOOLS).await;
    assert!(ids.iter().all(|id| first < *id), "{first} {ids:?}");
}

#[tokio::test]
async fn what_was_said_while_nobody_listened_is_there_after_a_stop_on_disk() {
    unheard_words_stay(Keep::Disk).await;
}

#[tokio::test]
async fn what_was_said_while_nobody_listened_is_there_after_a_stop_on_valkey() {
    unheard_words_stay(Keep::Valkey).await;
}

/// The call of an open stream ended with its process: whoever comes back is told so, once, in its own stream.
async fn open_calls_end_with_an_error(keep: Keep, how: End, reason: &str) {
    let (mut world, mut client) = start(keep).await;
    let (mut away, anchor, id) = sleeping(&client, 60_000).await;
    let (second, _) = away.message().await.expect("a report");
    world.end(how).await;
    drop(away);
    world.begin().await;
    for _ in 0..2 {
        back(&mut client).await;
        let rest = client.resume(&anchor).await;
        let progress = steps(&rest);
        assert_eq!(progress.first(), Some(&200), "nothing that was sent is missing: {rest:?}");
        assert!(progress.is_sorted_by(|a, b| b - a == 100), "no gap and no repetition: {progress:?}");
        assert_eq!(rest.first().map(|(event, _)| event.clone()), Some(second.clone()), "the ids are the same");
        let ends: Vec<_> = rest.iter().filter(|(_, message)| message["id"] == id).collect();
        assert_eq!(ends.len(), 1, "one end for the call: {rest:?}");
        let (event, end) = rest.last().expect("an end");
        assert_eq!(end["id"], id, "and it is the last: {rest:?}");
        assert_eq!(end["error"]["data"]["reason"], reason, "{end}");
        let last = event.clone().expect("the end has an id");
        assert_eq!(client.again().await.resume(&last).await, [], "nothing follows");
    }
}

#[tokio::test]
async fn a_call_that_was_open_when_the_process_was_killed_ends_with_an_error_on_disk() {
    open_calls_end_with_an_error(Keep::Disk, End::Kill, "node_lost").await;
}

#[tokio::test]
async fn a_call_that_was_open_when_the_process_was_killed_ends_with_an_error_on_valkey() {
    open_calls_end_with_an_error(Keep::Valkey, End::Kill, "node_lost").await;
}

#[tokio::test]
async fn a_call_that_was_open_when_the_process_was_stopped_ends_with_an_error_on_disk() {
    open_calls_end_with_an_error(Keep::Disk, End::Stop, "shutdown").await;
}

#[tokio::test]
async fn a_call_that_was_open_when_the_process_was_stopped_ends_with_an_error_on_valkey() {
    open_calls_end_with_an_error(Keep::Valkey, End::Stop, "shutdown").await;
}

/// A call with this many reports, of which the newest counts for a reader that is slow: the ids of all its events.
async fn storm(client: &Client, count: u64) -> Vec<String> {
    called(client, with_token("progress_burst", json!({ "count": count }))).await
}

/// The same, and each report has more than ten thousand bytes.
async fn heavy_storm(client: &Client, count: u64) -> Vec<String> {
    let mut params = with_token("progress_burst", json!({ "count": count }));
    params["_meta"]["progressToken"] = json!("t".repeat(10_000));
    called(client, params).await
}

/// The ids of all events of a call.
async fn called(client: &Client, params: Value) -> Vec<String> {
    let mut client = client.again().await;
    client.send("tools/call", params).await;
    assert!(client.head().await.is_sse());
    let mut ids = Vec::new();
    while let Some((id, _)) = client.message().await {
        ids.extend(id);
    }
    ids
}

async fn limits_stay(keep: Keep) {
    let (mut world, mut client) = start(keep).await;
    let mut long = Vec::new();
    for _ in 0..20 {
        if long.len() <= 1_100 {
            long = storm(&client, 3_000).await;
        }
    }
    assert_eq!(refused(&client, &long[0]).await, (400, -32000), "a stream keeps a thousand events");
    world.restart(End::Stop).await;
    back(&mut client).await;
    assert_eq!(refused(&client, &long[0]).await, (400, -32000), "and no more after a restart");
    let after = |rest: Vec<(Option<String>, Value)>| rest.into_iter().filter_map(|(id, _)| id).collect::<Vec<_>>();
    let kept = after(client.resume(&long[long.len() - 900]).await);
    // An answer that takes too long to be written is sent without an id, and is there all the same.
    let is_all = |kept: &[String], sent: &[String]| kept.starts_with(sent) && kept.len() <= sent.len() + 1;
    assert!(is_all(&kept, &long[long.len() - 899..]), "the newest are there, once, in order: {kept:?} {long:?}");

    let mut streams = Vec::new();
    for _ in 0..40 {
        if streams.iter().map(Vec::len).sum::<usize>() <= 5_000 {
            streams.push(storm(&client, 900).await);
        }
    }
    assert_eq!(refused(&client, &long[long.len() - 900]).await, (400, -32000), "a session keeps five thousand");
    world.restart(End::Stop).await;
    back(&mut client).await;
    assert_eq!(refused(&client, &long[long.len() - 900]).await, (400, -32000), "in all processes together");
    let last = streams.last().expect("some");
    let kept = after(client.again().await.resume(&last[0]).await);
    assert!(is_all(&kept, &last[1..]), "the newest is whole: {kept:?} {last:?}");
}

#[tokio::test]
async fn as_much_is_kept_of_streams_after_restarts_as_before_on_disk() {
    limits_stay(Keep::Disk).await;
}

#[tokio::test]
async fn as_much_is_kept_of_streams_after_restarts_as_before_on_valkey() {
    limits_stay(Keep::Valkey).await;
}

async fn bytes_stay(keep: Keep) {
    let (mut world, mut client) = start(keep).await;
    let mut first = Vec::new();
    for _ in 0..20 {
        if first.len() <= 500 {
            first = heavy_storm(&client, 2_000).await;
        }
    }
    // Five megabytes behind one of them, and three behind the other.
    let (early, late) = (&first[0], &first[first.len() - 300]);
    for round in ["before", "after"] {
        assert_eq!(refused(&client, early).await, (400, -32000), "{round}: a stream keeps four mebibytes");
        let rest = client.resume(late).await.len();
        assert!((299..=300).contains(&rest), "{round}: the newest three megabytes are there: {rest}");
        if round == "before" {
            world.restart(End::Stop).await;
        }
        back(&mut client).await;
    }
    let mut kept = Vec::new();
    for _ in 0..40 {
        if kept.len() < 5 {
            kept.push(heavy_storm(&client, 2_000).await);
            kept.retain(|ids| 450 < ids.len());
        }
    }
    assert_eq!(kept.len(), 5, "enough bytes were told");
    let last = kept.last().map(|ids| ids[ids.len() - 300].clone()).expect("some");
    for round in ["before", "after"] {
        assert_eq!(refused(&client, late).await, (400, -32000), "{round}: a session keeps sixteen mebibytes");
        let rest = client.again().await.resume(&last).await.len();
        assert!((299..=300).contains(&rest), "{round}: the newest is there: {rest}");
        if round == "before" {
            world.restart(End::Stop).await;
        }
        back(&mut client).await;
    }
}

#[tokio::test]
async fn as_many_bytes_are_kept_of_streams_after_restarts_as_before_on_disk() {
    bytes_stay(Keep::Disk).await;
}

#[tokio::test]
async fn as_many_bytes_are_kept_of_streams_after_restarts_as_before_on_valkey() {
    bytes_stay(Keep::Valkey).await;
}
