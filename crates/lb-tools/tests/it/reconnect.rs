//! Servers that are lost, and the way back to them.

use std::time::Duration;

use lb_exchange::Restart;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::client::{Client, settle};
use crate::script::Start;
use crate::world::{Plan, World, minutes, pass, seconds};

async fn row(client: &Client, server: &str) -> Value {
    let rows = client.call("list_servers", json!({})).await.json(0);
    rows.as_array().expect("rows").iter().find(|row| row["name"] == server).expect("its row").clone()
}

/// An HTTP server that nobody listens for.
fn nowhere() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    format!("http://{address}/mcp")
}

#[tokio::test(start_paused = true)]
async fn a_server_over_http_is_tried_again_after_one_second_twice_as_long_each_time_up_to_three_minutes() {
    let world = World::planned(Plan { http: vec![("away", nowhere())], ..Plan::default() });
    let client = Client::new(&world.front).await;
    let mut seen: Vec<f64> = Vec::new();
    let mut attempt = 0;
    let start = Instant::now();
    while seen.len() < 11 {
        assert!(start.elapsed() < minutes(60), "{seen:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
        let row = row(&client, "away").await;
        let now = row["reconnectAttempt"].as_u64().unwrap_or(attempt);
        if attempt < now {
            assert_eq!((now, &row["status"]), (attempt + 1, &json!("reconnecting")), "{row}");
            attempt = now;
            seen.push(row["nextRetryMs"].as_f64().expect("a time"));
        }
    }
    for (number, delay) in seen.iter().enumerate() {
        let wanted = (1_000.0 * 2_f64.powi(i32::try_from(number).expect("few"))).min(180_000.0);
        // 50 ms may have passed since it was set; every session waits up to half a second longer, so that they differ.
        assert!(wanted * 0.9 - 60.0 <= *delay && *delay <= wanted * 1.1 + 500.0, "attempt {number}: {delay} {seen:?}");
    }
    assert!(seen.iter().any(|delay| (delay - 1_000.0 * 2_f64.powf((delay / 1_000.0).log2().round())).abs() > 1.0));
}

#[tokio::test(start_paused = true)]
async fn tries_of_a_lost_server_are_told_five_times_and_then_seldom() {
    let world = World::planned(Plan { http: vec![("away", nowhere())], ..Plan::default() });
    let client = Client::new(&world.front).await;
    for _ in 0..60 {
        pass(minutes(1)).await;
        client.events().await;
    }
    let told = client.seen_of("server_reconnecting");
    let attempts: Vec<_> = told.iter().map(|event| event["data"]["attempt"].as_u64().expect("a number")).collect();
    assert_eq!(attempts.get(..5), Some(&[1, 2, 3, 4, 5][..]), "{attempts:?}");
    assert!(attempts.len() <= 8, "once at the cap, then every half hour: {attempts:?}");
}

fn patient() -> Plan {
    Plan { restart: Restart { attempts_max: 100, ..Restart::default() }, alone: true, ..Plan::default() }
}

#[tokio::test(start_paused = true)]
async fn a_crashed_server_is_started_again_later_each_time() {
    let world = World::planned(patient());
    let client = world.client().await;
    world.one.starts(Start::Dies);
    world.one.crash();
    world.one.until(|script| 9 <= script.started().len()).await;
    let started = world.one.started();
    let waits: Vec<_> = started.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
    for (number, wait) in waits.iter().enumerate().skip(1) {
        let wanted = 2_f64.powi(i32::try_from(number).expect("few")).min(60.0);
        assert!(wanted * 0.9 <= *wait && *wait <= wanted * 1.1 + 0.6, "{number}: {waits:?}");
    }
    world.one.starts(Start::Good);
    pass(seconds(70)).await;
    let back = client.events_of("server_reconnected").await;
    assert_eq!(back.len(), 1, "{back:?}");
    assert_eq!(back[0]["data"]["type"], "restart");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_may_be_started_twice_is_given_up_after_two() {
    let restart = Restart { attempts_max: 2, ..Restart::default() };
    let world = World::planned(Plan { restart, alone: true, ..Plan::default() });
    let client = world.client().await;
    world.one.starts(Start::Dies);
    world.one.crash();
    pass(minutes(30) - seconds(5)).await;
    assert_eq!(world.one.started().len(), 3, "once, and two more");
    let told = client.events().await;
    let kinds: Vec<_> = told.iter().map(|event| event["type"].as_str().expect("a type")).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "server_restart_failed").count(), 1, "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| **kind == "server_disconnected").count(), 1, "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| **kind == "server_reconnecting").count(), 2, "{kinds:?}");
    let failed = told.iter().find(|event| event["type"] == "server_restart_failed").expect("told");
    assert_eq!(failed["data"]["attempts"], 2);
    assert_eq!(row(&client, "one").await["status"], "error");
    // It can still be asked for.
    world.one.starts(Start::Good);
    let again = client.call("reconnect_server", json!({ "name": "one" })).await;
    assert!(!again.is_error(), "{again:?}");
    assert_eq!(row(&client, "one").await["status"], "connected");
}

/// One that greets and dies at once must not go on for ever.
#[tokio::test(start_paused = true)]
async fn attempts_are_counted_anew_only_after_a_minute_of_good_work() {
    let restart = Restart { attempts_max: 3, ..Restart::default() };
    let world = World::planned(Plan { restart, alone: true, ..Plan::default() });
    let client = world.client().await;
    for round in 0..3_usize {
        world.one.crash();
        world.one.until(|script| round + 2 <= script.started().len() && script.open() == 1).await;
        pass(seconds(5)).await;
    }
    world.one.crash();
    pass(minutes(10)).await;
    assert_eq!(world.one.started().len(), 4, "given up");
    assert_eq!(row(&client, "one").await["status"], "error");
    assert!(!client.call("reconnect_server", json!({ "name": "one" })).await.is_error());
    pass(seconds(70)).await;
    world.one.crash();
    pass(minutes(2)).await;
    assert_eq!(row(&client, "one").await["status"], "connected", "a minute of good work counts");
}

#[tokio::test(start_paused = true)]
async fn a_jump_of_the_clock_makes_one_attempt() {
    let world = World::planned(patient());
    let client = world.client().await;
    world.one.starts(Start::Dies);
    world.one.crash();
    pass(seconds(20)).await;
    let before = world.one.started().len();
    // As after a suspend: hours are gone, nothing ran meanwhile.
    tokio::time::advance(minutes(20)).await;
    settle().await;
    assert_eq!(world.one.started().len(), before + 1);
    world.one.starts(Start::Good);
    pass(seconds(70)).await;
    assert_eq!(row(&client, "one").await["status"], "connected");
    client.events().await;
    assert_eq!(client.seen_of("server_disconnected").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn calls_while_a_server_is_being_connected_join_that() {
    let world = World::planned(patient());
    world.one.starts(Start::Silent);
    let client = Client::new(&world.front).await;
    let mut calls = Vec::new();
    for _ in 0..5 {
        calls.push(client.begin("execute_tool", json!({ "server": "one", "tool": "echo" })).await);
    }
    assert_eq!(world.one.started().len(), 1);
    let hello = world.one.heard_of("initialize")[0].clone();
    world.one.starts(Start::Good);
    let mut welcome = json!({ "capabilities": { "tools": {} }, "serverInfo": { "name": "s", "version": "1" } });
    welcome["protocolVersion"] = hello["params"]["protocolVersion"].clone();
    world.one.answer(&hello["id"], welcome);
    for call in calls {
        let answer = call.answer().await;
        assert_eq!((answer.text(0).as_str(), answer.is_error()), ("echo", false), "{answer:?}");
    }
    assert_eq!(world.one.started().len(), 1, "one connection for all of them");
    client.events().await;
    assert_eq!(client.seen_of("server_connected").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_to_a_lost_server_tries_at_once_and_says_how_it_stands() {
    let world = World::planned(patient());
    let client = world.client().await;
    world.one.starts(Start::Dies);
    world.one.crash();
    pass(seconds(5)).await;
    let before = world.one.started().len();
    let refused = client.call("execute_tool", json!({ "server": "one", "tool": "echo" })).await;
    assert!(refused.is_error() && refused.after < seconds(11), "{refused:?}");
    assert_eq!(world.one.started().len(), before + 1, "tried at once");
    assert_eq!(refused.code(), "TOOL_ERR_SERVER_DISCONNECTED");
    let details = &refused.response["result"]["structuredContent"]["error"]["details"];
    assert_eq!(details["status"], "reconnecting", "{refused:?}");
    assert!(details["attempt"].is_u64() && details["nextRetryMs"].is_u64() && details["lastError"].is_string());
    world.one.starts(Start::Good);
    let good = client.call("execute_tool", json!({ "server": "one", "tool": "echo" })).await;
    assert_eq!(good.text(0), "echo");
}

/// Calls neither wait for a server that fails again and again, nor start it more often than it is tried anyway.
#[tokio::test(start_paused = true)]
async fn calls_to_a_server_that_is_left_alone_are_refused_at_once_and_reconnect_server_tries_it() {
    let world = World::planned(patient());
    let client = world.client().await;
    world.one.starts(Start::Dies);
    world.one.crash();
    pass(seconds(40)).await;
    let call = || client.call("execute_tool", json!({ "server": "one", "tool": "echo" }));
    // The one that is let pass, if its time has come.
    call().await;
    let before = world.one.started().len();
    for _ in 0..20 {
        let refused = call().await;
        assert!(refused.is_error() && refused.after < seconds(1), "{refused:?}");
        assert!(refused.text(0).contains("is left alone for"), "{refused:?}");
        assert_eq!(refused.code(), "TOOL_ERR_SERVER_DISCONNECTED");
        let details = &refused.response["result"]["structuredContent"]["error"]["details"];
        assert!(details["nextRetryMs"].as_u64().is_some_and(|wait| 0 < wait), "{refused:?}");
    }
    assert_eq!(world.one.started().len(), before, "not started for them");
    assert!(client.call("reconnect_server", json!({ "name": "one" })).await.is_error());
    assert_eq!(world.one.started().len(), before + 1, "started for whoever insists");
    world.one.starts(Start::Good);
    assert!(!client.call("reconnect_server", json!({ "name": "one" })).await.is_error());
    assert_eq!(call().await.text(0), "echo");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_left_alone_comes_back_by_itself() {
    let world = World::planned(patient());
    let client = world.client().await;
    world.one.starts(Start::Dies);
    world.one.crash();
    pass(minutes(10)).await;
    world.one.starts(Start::Good);
    pass(minutes(6)).await;
    assert_eq!(row(&client, "one").await["status"], "connected");
}

#[tokio::test(start_paused = true)]
async fn losing_a_server_fails_its_calls_and_tasks_once_in_order() {
    let world = World::new();
    let client = world.client().await;
    let task = client.task(json!({})).await;
    let kept = client.call("execute_tool", json!({ "server": "two", "tool": "hold", "timeout_ms": 100 })).await.task();
    let running = client.begin("execute_tool", json!({ "server": "one", "tool": "hold" })).await;
    client.events().await;
    world.one.starts(Start::Dies);
    world.one.crash();
    let direct = running.answer().await;
    assert!(direct.is_error() && direct.after < seconds(1), "{direct:?}");
    assert_eq!(direct.code(), "TOOL_ERR_SERVER_DISCONNECTED");
    pass(minutes(4)).await;
    let mut told = client.events().await;
    if direct.response["result"]["content"].as_array().is_some_and(|blocks| 1 < blocks.len()) {
        let before = direct.json(1)["events"].as_array().cloned().unwrap_or_default();
        told.splice(0..0, before);
    }
    let kinds: Vec<_> = told.iter().map(|event| event["type"].as_str().expect("a type")).collect();
    assert_eq!(kinds.get(..3), Some(&["task_failed", "server_disconnected", "server_reconnecting"][..]), "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| **kind == "task_failed").count(), 1, "{kinds:?}");
    assert_eq!(told[0]["data"]["taskId"], *task);
    assert_eq!(client.task_row(&task).await["status"], "failed");
    assert_eq!(client.task_row(&kept).await["status"], "working", "another server's task goes on");
}
