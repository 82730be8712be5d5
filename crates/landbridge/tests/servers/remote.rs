//! Servers behind a network: every operation, a link that breaks, a server that is started anew.

use std::time::Duration;

use lb_peers::harness::{Gateway, HttpPeer, peer};
use serde_json::{Value, json};

use crate::LANDBRIDGE;
use crate::desk::{Desk, FRONTS, Front, LEGACY};
use crate::proxy::Proxy;
use crate::world::{add, fixture, fixture_on_http};

/// A row of a list by one of its members.
fn has(rows: &Value, key: &str, value: &str) -> bool {
    rows.as_array().into_iter().flatten().any(|row| row[key] == value && row["server"] == "far")
}

#[tokio::test]
async fn everything_a_remote_server_offers_can_be_used() {
    for (front, era) in FRONTS.into_iter().flat_map(|front| [(front, "legacy"), (front, "modern")]) {
        let case = format!("{front:?} client, {era} server");
        let remote = fixture_on_http(era).await;
        let mut desk = Desk::open(front, json!({ "far": { "url": remote.url() } })).await;
        assert!(has(&desk.ok("list_tools", json!({ "server": "far" })).await.json(), "name", "echo"), "{case}");
        assert!(
            has(&desk.ok("list_resources", json!({ "server": "far" })).await.json(), "uri", "test://static-text"),
            "{case}"
        );
        let templates = desk.ok("list_resource_templates", json!({ "server": "far" })).await.json();
        assert!(has(&templates, "uriTemplate", "test://template/{id}/data"), "{case} {templates}");
        assert!(
            has(&desk.ok("list_prompts", json!({ "server": "far" })).await.json(), "name", "test_simple_prompt"),
            "{case}"
        );
        desk.works("far").await;
        let read = desk.ok("read_resource", json!({ "server": "far", "uri": "test://template/42/data" })).await.json();
        assert!(read["contents"][0]["text"].as_str().is_some_and(|text| text.contains("42")), "{case} {read}");
        let arguments = json!({ "arg1": "left", "arg2": "right" });
        let ask = json!({ "server": "far", "name": "test_prompt_with_arguments", "arguments": arguments });
        let prompt = desk.ok("get_prompt", ask).await.json().to_string();
        assert!(prompt.contains("left") && prompt.contains("right"), "{case} {prompt}");
        let reference = json!({ "type": "ref/prompt", "name": "test_prompt_with_arguments" });
        let ask = json!({ "server": "far", "ref": reference, "argument": { "name": "arg1", "value": "test" } });
        let reply = desk.ok("complete", ask).await;
        assert!(reply.message.to_string().contains("values"), "{case} {reply}");
        desk.ok("set_log_level", json!({ "server": "far", "level": "debug" })).await;
        desk.ok("subscribe_resource", json!({ "server": "far", "uri": "test://watched-resource" })).await;
        desk.ok("unsubscribe_resource", json!({ "server": "far", "uri": "test://watched-resource" })).await;
        let reply = desk.run("far", "test_error_handling", json!({})).await;
        assert!(reply.is_error() && reply.code().is_empty(), "the server's own error is passed on: {case} {reply}");
        let reply = desk.run("far", "no_such_tool", json!({})).await;
        assert!(reply.is_error() && reply.text().starts_with("Failed to execute tool: "), "{case} {reply}");
    }
}

/// Subscribes and at once has the resource changed; whether that was told, and whatever else was.
async fn heard(front: Front, entry: Value) -> (bool, String) {
    let mut desk = Desk::open(front, json!({ "far": entry })).await;
    desk.ok("subscribe_resource", json!({ "server": "far", "uri": "test://watched-resource" })).await;
    desk.text("far", "touch_resource", json!({ "uri": "test://watched-resource" })).await;
    let until = std::time::Instant::now() + Duration::from_secs(3);
    while !desk.told().contains("test://watched-resource") && std::time::Instant::now() < until {
        desk.ok("await_activity", json!({ "timeout_ms": 500 })).await;
    }
    (desk.told().contains("test://watched-resource"), desk.told())
}

#[tokio::test]
async fn a_subscription_stands_when_it_is_confirmed() {
    let mut deaf = Vec::new();
    for (front, era) in FRONTS.into_iter().flat_map(|front| [(front, "legacy"), (front, "modern")]) {
        let remote = fixture_on_http(era).await;
        for (at, entry) in [("http", json!({ "url": remote.url() })), ("stdio", fixture(era))] {
            for round in 0..3 {
                let (heard, told) = heard(front, entry.clone()).await;
                if !heard {
                    deaf.push(format!("{front:?} client, {era} server over {at}, round {round}: {told}"));
                }
            }
        }
    }
    assert!(deaf.is_empty(), "no change was told to {deaf:#?}");
}

#[tokio::test]
async fn how_the_gateway_listens_is_not_told_to_clients() {
    for front in FRONTS {
        let remote = fixture_on_http("modern").await;
        let servers = json!({ "far": { "url": remote.url() }, "near": fixture("modern") });
        let mut desk = Desk::open(front, servers).await;
        for round in 0..5 {
            for server in ["far", "near"] {
                let about = json!({ "server": server, "uri": "test://watched-resource" });
                desk.ok("subscribe_resource", about.clone()).await;
                desk.works(server).await;
                desk.ok("unsubscribe_resource", about).await;
            }
            desk.settle().await;
            let told = desk.told();
            assert!(
                !told.contains("acknowledged") && !told.contains("subscriptionId"),
                "{front:?} round {round}: {told}"
            );
        }
    }
}

#[tokio::test]
async fn every_session_has_a_session_of_its_own_at_a_remote_server() {
    let remote = fixture_on_http("legacy").await;
    let mut one = Desk::open(Front::Http, json!({ "far": { "url": remote.url() } })).await;
    let mut two = Desk::at(one.gateway()).await;
    for desk in [&mut one, &mut two] {
        desk.works("far").await;
    }
    // A subscription belongs to one session of the server: the other client must hear nothing.
    one.ok("subscribe_resource", json!({ "server": "far", "uri": "test://watched-resource" })).await;
    two.settle().await;
    two.text("far", "touch_resource", json!({ "uri": "test://watched-resource" })).await;
    assert_eq!(one.event("notification").await["params"]["uri"], "test://watched-resource");
    two.settle().await;
    assert_eq!(two.count("notification"), 0, "{}", two.told());
}

#[tokio::test]
async fn a_dropped_stream_of_a_call_is_resumed() {
    for front in LEGACY {
        let remote = fixture_on_http("legacy").await;
        let proxy = Proxy::start(remote.address).await;
        let mut desk = Desk::open(front, json!({ "far": { "url": proxy.url() } })).await;
        desk.works("far").await;
        let task = desk.task("far", "sleep", json!({ "ms": 4_000 })).await;
        desk.ok("await_activity", json!({ "timeout_ms": 1_000 })).await;
        proxy.cut().await;
        let done = desk.ok("get_task_result", json!({ "task_id": task, "timeout_ms": 40_000 })).await;
        assert_eq!(done.text(), "Slept 4000 ms", "{front:?} {done}");
        desk.works("far").await;
        desk.settle().await;
        assert_eq!((desk.count("task_failed"), desk.count("server_disconnected")), (0, 0), "{}", desk.told());
    }
}

#[tokio::test]
async fn a_link_that_is_away_for_five_seconds_ends_nothing() {
    let remote = fixture_on_http("legacy").await;
    let mut proxy = Proxy::start(remote.address).await;
    let mut desk = Desk::open(Front::Http, json!({ "far": { "url": proxy.url() } })).await;
    desk.works("far").await;
    let task = desk.task("far", "sleep", json!({ "ms": 8_000 })).await;
    desk.settle().await;
    proxy.close().await;
    let start = std::time::Instant::now();
    while let Some(left) = Duration::from_secs(5).checked_sub(start.elapsed()).filter(|left| 100 < left.as_millis()) {
        desk.ok("await_activity", json!({ "timeout_ms": left.as_millis() as u64 })).await;
    }
    proxy.open().await;
    let done = desk.call("get_task_result", json!({ "task_id": task, "timeout_ms": 40_000 })).await;
    assert_eq!(done.text(), "Slept 8000 ms", "{done} {}", desk.told());
    desk.works("far").await;
    desk.settle().await;
    assert_eq!((desk.count("task_failed"), desk.count("task_completed")), (0, 1), "{}", desk.told());
    assert!(!desk.told().contains(r#""type":"restart""#), "{}", desk.told());
}

#[tokio::test]
async fn a_link_that_was_away_is_back_as_a_blip() {
    for front in LEGACY {
        let remote = fixture_on_http("legacy").await;
        let mut proxy = Proxy::start(remote.address).await;
        let mut desk = Desk::open(front, json!({ "far": { "url": proxy.url() } })).await;
        desk.works("far").await;
        desk.ok("subscribe_resource", json!({ "server": "far", "uri": "test://watched-resource" })).await;
        desk.settle().await;
        proxy.close().await;
        let reply = desk.run("far", "echo", json!({ "message": "x" })).await;
        assert!(reply.is_error(), "{reply}");
        desk.event("server_reconnecting").await;
        proxy.open().await;
        let back = desk.event("server_reconnected").await;
        assert_eq!(back["type"], "network_blip", "{front:?} {back}");
        for key in ["invalidatedTasks", "invalidatedElicitations", "invalidatedSampling"] {
            assert_eq!(back[key], 0, "{back}");
        }
        desk.text("far", "touch_resource", json!({ "uri": "test://watched-resource" })).await;
        desk.event_where("notification", |data| data["method"] == "notifications/resources/updated").await;
        desk.settle().await;
        assert_eq!(desk.count("server_reconnected"), 1, "{}", desk.told());
    }
}

#[tokio::test]
async fn a_remote_server_that_was_restarted_is_told_from_a_broken_link() {
    for front in LEGACY {
        let remote = fixture_on_http("legacy").await;
        let proxy = Proxy::start(remote.address).await;
        let mut desk = Desk::open(front, json!({ "far": { "url": proxy.url() } })).await;
        desk.works("far").await;
        desk.ok("subscribe_resource", json!({ "server": "far", "uri": "test://watched-resource" })).await;
        let task = desk.task("far", "sleep", json!({ "ms": 60_000 })).await;
        let anew = fixture_on_http("legacy").await;
        proxy.lead_to(anew.address);
        drop(remote);
        proxy.cut().await;
        // The next call finds out, whoever notices first.
        desk.works("far").await;
        let back = desk.event("server_reconnected").await;
        assert_eq!(back["type"], "restart", "{front:?} {back}");
        assert!(back["refreshedTools"].as_u64().is_some_and(|count| 10 < count), "{back}");
        assert_eq!(desk.event("task_failed").await["taskId"], task);
        desk.text("far", "touch_resource", json!({ "uri": "test://watched-resource" })).await;
        let note = desk.event_where("notification", |data| data["method"] == "notifications/resources/updated").await;
        assert_eq!(note["params"]["uri"], "test://watched-resource", "{front:?}: the subscription is restored");
        desk.settle().await;
        assert_eq!((desk.count("task_failed"), desk.count("server_reconnected")), (1, 1), "{}", desk.told());
    }
}

#[tokio::test]
async fn a_remote_server_started_again_on_its_port_serves_the_next_call() {
    for (front, era) in FRONTS.into_iter().flat_map(|front| [(front, "legacy"), (front, "modern")]) {
        let case = format!("{front:?} client, {era} server");
        let mut remote = fixture_on_http(era).await;
        let address = remote.address.to_string();
        let mut desk = Desk::open(front, json!({})).await;
        desk.ok("add_server", add("far", &json!({ "url": remote.url() }))).await;
        desk.works("far").await;
        remote.child.kill().await.expect("it is killed");
        let anew = HttpPeer::start(&peer(LANDBRIDGE, "fixture"), &["--era", era, "--http", &address]).await;
        assert_eq!(anew.address, remote.address);
        desk.works("far").await;
        desk.settle().await;
        let told = desk.told();
        // Nobody was connected to a modern server: there is nothing to lose.
        assert!(desk.count("server_reconnected") <= 1 && desk.count("task_failed") == 0, "{case} {told}");
        if era == "legacy" {
            assert_eq!(desk.event_in(&case, "server_reconnected").await["type"], "restart", "{case}");
        }
        assert_eq!(desk.row("far").await["status"], "connected", "{case}");
    }
}

#[tokio::test]
async fn a_remote_server_that_is_away_for_long_is_retried_and_comes_back() {
    let remote = fixture_on_http("legacy").await;
    let mut proxy = Proxy::start(remote.address).await;
    let mut desk = Desk::open(Front::Http, json!({ "far": { "url": proxy.url() } })).await;
    desk.works("far").await;
    let task = desk.task("far", "sleep", json!({ "ms": 120_000 })).await;
    proxy.close().await;
    let lost = desk.event("server_disconnected").await;
    assert_eq!(lost["wasIntentional"], false, "{lost}");
    assert_eq!(desk.event("task_failed").await["taskId"], task);
    for (attempt, want) in [(1, 1000), (2, 2000)] {
        let retry = desk.event("server_reconnecting").await;
        // Sessions spread by up to 500 ms.
        let delay = retry["nextRetryMs"].as_u64().unwrap_or_default();
        assert!(retry["attempt"] == attempt && (want * 9 / 10..=want * 11 / 10 + 500).contains(&delay), "{retry}");
    }
    let row = desk.row("far").await;
    assert!(row["status"] == "reconnecting" && row["lastError"].is_string(), "{row}");
    proxy.open().await;
    desk.event("server_reconnected").await;
    desk.works("far").await;
    desk.settle().await;
    assert_eq!((desk.count("task_failed"), desk.count("server_disconnected")), (1, 1), "{:?}", desk.kinds("far"));
}

#[tokio::test]
async fn a_call_to_a_remote_server_that_is_away_says_when_it_is_tried_again() {
    let away = crate::world::nowhere().await;
    for front in LEGACY {
        let mut desk = Desk::open(front, json!({ "far": { "url": format!("http://{away}/mcp") } })).await;
        desk.until("far", "reconnecting").await;
        let reply = desk.run("far", "echo", json!({ "message": "x" })).await;
        let details = &reply.structured()["error"]["details"];
        assert!(reply.is_error() && details["status"] == "reconnecting", "{front:?} {reply}");
        let known = details["attempt"].is_u64() && details["nextRetryMs"].is_u64() && details["lastError"].is_string();
        assert!(known, "{front:?} {reply}");
    }
}

#[tokio::test]
async fn a_server_that_asks_for_a_login_is_not_hammered() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("its address");
    let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let seen = count.clone();
    let mut serving = tokio::task::JoinSet::new();
    serving.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut conn = lb_peers::raw::http1::Conn::new(stream);
            while let Ok(Some(_)) = lb_peers::raw::endpoint::read(&mut conn).await {
                seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let answer = lb_peers::raw::http1::response(401, &[("WWW-Authenticate", "Bearer")], b"");
                if conn.write(&answer).await.is_err() {
                    break;
                }
            }
        }
    });
    let mut desk = Desk::open(Front::Http, json!({ "far": { "url": format!("http://{address}/mcp") } })).await;
    let row = desk.until("far", "error").await;
    assert!(row["lastError"].as_str().is_some_and(|text| text.contains("authorization required")), "{row}");
    let before = count.load(std::sync::atomic::Ordering::Relaxed);
    desk.ok("await_activity", json!({ "timeout_ms": 2500 })).await;
    assert_eq!(count.load(std::sync::atomic::Ordering::Relaxed), before, "it is left alone");
    assert!(desk.call("reconnect_server", json!({ "name": "far" })).await.is_error());
    assert!(before < count.load(std::sync::atomic::Ordering::Relaxed), "unless a client says so");
}

#[tokio::test]
async fn a_stream_dropped_between_two_gateways_loses_nothing() {
    let inner = Gateway::serve_with(LANDBRIDGE, json!({ "it": fixture("legacy") }), &[]).await;
    for front in LEGACY {
        let proxy = Proxy::start(inner.address).await;
        let url = format!("http://{}/mcp/server/it", proxy.address);
        let mut desk = Desk::open(front, json!({})).await;
        desk.ok("add_server", add("chain", &json!({ "url": url }))).await;
        desk.ok("set_log_level", json!({ "server": "chain", "level": "debug" })).await;
        desk.works("chain").await;
        let running = desk.start("chain", "sleep", json!({ "ms": 4_000 }), 60_000).await;
        // Late enough for the inner gateway to have answered with a stream, early enough to be in the middle.
        for pause in [2_000, 800] {
            let pause = desk.client.start("await_activity", json!({ "timeout_ms": pause })).await;
            desk.note(&pause.wait().await);
            proxy.cut().await;
        }
        let done = running.wait().await;
        desk.note(&done);
        assert_eq!(done.text(), "Slept 4000 ms", "{front:?} {done}");
        desk.works("chain").await;
        desk.settle().await;
        assert_eq!(desk.count("server_disconnected"), 0, "{front:?}: a dropped stream is no loss: {}", desk.told());
        let ran: Value = desk.run("chain", "counters", json!({})).await.structured().clone();
        assert!(ran.is_object(), "{ran}");
    }
}

#[tokio::test]
async fn a_gateway_behind_a_gateway_offers_its_tools() {
    let inner = Gateway::serve_tools(LANDBRIDGE, json!({ "it": fixture("legacy") }), &[]).await;
    for front in FRONTS {
        let proxy = Proxy::start(inner.address).await;
        let mut desk = Desk::open(front, json!({})).await;
        desk.ok("add_server", add("chain", &json!({ "url": proxy.url() }))).await;
        let call = json!({ "server": "it", "tool": "echo", "args": { "message": "through both" } });
        assert_eq!(desk.text("chain", "execute_tool", call).await, "through both", "{front:?}");
        let call = json!({ "server": "it", "tool": "sleep", "args": { "ms": 3_000 } });
        let running = desk.start("chain", "execute_tool", call, 60_000).await;
        if !LEGACY.contains(&front) {
            // The modern wire cannot resume a stream: closing it cancels the call.
            assert_eq!(running.wait().await.text(), "Slept 3000 ms", "{front:?}");
            continue;
        }
        let pause = desk.client.start("await_activity", json!({ "timeout_ms": 1_800 })).await;
        desk.note(&pause.wait().await);
        proxy.cut().await;
        let done = running.wait().await;
        assert_eq!(done.text(), "Slept 3000 ms", "{front:?} {done}");
    }
}

#[tokio::test]
async fn a_removed_remote_server_hears_that_its_session_is_over() {
    let remote = fixture_on_http("legacy").await;
    let proxy = Proxy::start(remote.address).await;
    let mut desk = Desk::open(Front::Http, json!({})).await;
    desk.ok("add_server", add("far", &json!({ "url": proxy.url() }))).await;
    desk.works("far").await;
    assert!(0 < proxy.count());
    desk.ok("remove_server", json!({ "name": "far" })).await;
    crate::world::until(Duration::from_secs(10), "no connection is left", || proxy.count() == 0).await;
}
