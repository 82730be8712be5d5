//! The limits that can be reached from outside, and the error codes.
//!
//! Here: timers, tasks and waits of a session; notifications, log rows and questions of a server; items of a context
//! block; the length of a log line. Ranges of arguments are in the suite, the lifetime of tasks in `questions`, the
//! events of a stream in `entry`. Retention, sweeps, idle sessions and the event log itself are tested beside their code.

use lb_peers::tools::{Reply, Settings, ToolClient};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::world::{
    context_of, desk, drain, fixture, over_http, over_http_as, over_stdio, tell, until, until_connected,
};

async fn with_desk() -> (lb_peers::harness::Gateway, ToolClient) {
    let (gateway, client) = over_http(json!({ "desk": desk(&[]) })).await;
    until_connected(&client, "desk").await;
    drain(&client).await;
    (gateway, client)
}

/// The same call, so many times at once.
async fn at_once(client: &ToolClient, count: usize, name: &'static str, arguments: &Value) -> Vec<Reply> {
    let mut calls = JoinSet::new();
    for _ in 0..count {
        let (client, arguments) = (client.clone(), arguments.clone());
        calls.spawn(async move { client.call(name, arguments).await });
    }
    calls.join_all().await
}

#[tokio::test]
async fn a_session_has_a_hundred_timers_and_deleting_one_makes_room() {
    let (_gateway, client) = over_http(json!({})).await;
    let timer = json!({ "duration_ms": 3_600_000, "message": "x" });
    let mut ids = Vec::new();
    for _ in 0..100 {
        let reply = client.call("set_timer", timer.clone()).await;
        assert!(!reply.is_error(), "{reply}");
        ids.push(reply.json()["timerId"].clone());
    }
    let refused = client.call("set_timer", timer.clone()).await;
    assert_eq!(refused.code(), "LIMIT_EXCEEDED", "{refused}");
    assert_eq!(client.call("list_timers", json!({})).await.json().as_array().map(Vec::len), Some(100));
    let first = client.call("delete_timer", json!({ "timer_id": ids[0] })).await;
    let second = client.call("delete_timer", json!({ "timer_id": ids[0] })).await;
    assert!(!first.is_error() && !second.is_error(), "{second}");
    assert_eq!(first.json(), second.json(), "deleting twice says the same");
    assert_eq!(client.call("get_timer", json!({ "timer_id": ids[0] })).await.json()["status"], "deleted");
    assert!(!client.call("set_timer", timer).await.is_error(), "there is room again");
}

#[tokio::test]
async fn a_session_has_a_hundred_working_tasks_and_the_next_call_times_out() {
    let (_gateway, client) = with_desk().await;
    let hang = json!({ "server": "desk", "tool": "hang", "timeout_ms": 100 });
    // A session has 64 requests at a time.
    for _ in 0..2 {
        for reply in at_once(&client, 50, "execute_tool", &hang).await {
            assert!(!reply.is_error(), "{reply}");
        }
    }
    let refused = client.call("execute_tool", hang.clone()).await;
    assert_eq!(refused.code(), "TOOL_ERR_TIMEOUT", "{refused}");
    assert!(refused.text().contains("too many tasks"), "says why: {refused}");
    let tasks = client.call("list_tasks", json!({})).await.json();
    assert_eq!(tasks.as_array().map(Vec::len), Some(100));
    client.call("cancel_task", json!({ "task_id": tasks[0]["taskId"] })).await;
    assert!(!client.call("execute_tool", hang).await.is_error(), "there is room again");
}

#[tokio::test]
async fn sixteen_waits_at_once_are_enough() {
    // Lines keep their order, so that the seventeenth comes after the others.
    let client = over_stdio(json!({})).await;
    drain(&client).await;
    let mut waits = Vec::new();
    for _ in 0..16 {
        waits.push(client.start("await_activity", json!({ "timeout_ms": 60_000 })).await);
    }
    let refused = client.call("await_activity", json!({ "timeout_ms": 100 })).await;
    assert_eq!(refused.code(), "LIMIT_EXCEEDED", "{refused}");
    for wait in waits.drain(..8) {
        wait.cancel().await;
    }
    until(&client, "await_activity", json!({ "timeout_ms": 100 }), |reply| !reply.is_error()).await;
}

#[tokio::test]
async fn a_server_has_a_hundred_untold_notifications_and_the_rest_is_counted() {
    let (_gateway, client) = with_desk().await;
    // What a server says before it answers is there when the answer is.
    let mut reply = tell(&client, "say", json!({ "count": 150 })).await;
    let (mut seen, mut dropped) = (Vec::new(), 0);
    for _ in 0..10 {
        let lost = reply.events_of("events_dropped");
        dropped += lost.iter().filter_map(|event| event["data"]["count"].as_u64()).sum::<u64>();
        seen.extend(context_of(&reply)["notifications"].as_array().cloned().unwrap_or_default());
        reply = client.call("list_servers", json!({})).await;
    }
    assert_eq!((seen.len(), dropped), (100, 50), "the newest hundred, and a count of the others");
    let uri = |row: Option<&Value>| row.map(|row| row["params"]["uri"].clone());
    assert_eq!((uri(seen.first()), uri(seen.last())), (Some(json!("desk://50")), Some(json!("desk://149"))));
}

#[tokio::test]
async fn a_server_has_five_hundred_log_rows_and_the_oldest_go_first() {
    let (_gateway, client) = with_desk().await;
    tell(&client, "log", json!({ "count": 501 })).await;
    let reply = client.call("get_logs", json!({ "limit": 500 })).await;
    let rows = reply.json();
    let data: Vec<i64> = rows.as_array().unwrap().iter().filter_map(|row| row["data"].as_i64()).collect();
    assert_eq!((data.len(), data.first(), data.last()), (500, Some(&1), Some(&500)));
}

#[tokio::test]
async fn a_log_line_is_cut_at_sixteen_kibibytes() {
    let (_gateway, client) = with_desk().await;
    tell(&client, "err", json!({ "line": "x".repeat(100_000) })).await;
    let reply = until(&client, "get_logs", json!({ "clear": false }), |reply| reply.json() != json!([])).await;
    let line = reply.json()[0]["data"].as_str().unwrap().to_owned();
    assert!((16_000..17_000).contains(&line.len()), "{} bytes", line.len());
    assert!(!line.chars().all(|c| c == 'x'), "a mark says that it was cut");
}

#[tokio::test]
async fn a_server_has_a_hundred_open_questions_and_twenty_are_shown() {
    let (_gateway, client) = with_desk().await;
    tell(&client, "asks", json!({ "count": 100, "after": 0.2 })).await;
    let full = |reply: &Reply| reply.json().as_array().is_some_and(|rows| rows.len() == 100);
    let reply = until(&client, "get_elicitations", json!({}), full).await;
    let pending = &context_of(&reply)["pending_client"];
    assert_eq!(pending["elicitation"], 100, "{pending}");
    assert_eq!(pending["elicitations"].as_array().map(Vec::len), Some(20));
    tell(&client, "asks", json!({ "count": 1, "after": 0.1 })).await;
    let received = json!({ "server": "desk", "tool": "received" });
    let last = |reply: &Reply| reply.text().contains("desk-101");
    let reply = until(&client, "execute_tool", received, last).await;
    let answers: Vec<Value> =
        reply.json().as_array().unwrap().iter().filter(|m| m.get("id").is_some()).cloned().collect();
    assert_eq!(answers.len(), 1, "the hundred and first is refused at once, and only that: {answers:?}");
    assert_eq!(answers[0]["error"]["code"], -32000, "{answers:?}");
}

#[tokio::test]
async fn a_context_has_fifty_items_and_the_rest_comes_with_the_next_reply() {
    let (_gateway, client) = with_desk().await;
    let first = tell(&client, "say", json!({ "count": 60 })).await;
    let context = context_of(&first);
    assert_eq!(context["notifications"].as_array().map(Vec::len), Some(50), "{first}");
    assert_eq!(context["events_remaining"], 10, "{first}");
    let second = context_of(&client.call("list_servers", json!({})).await);
    assert_eq!(second["notifications"].as_array().map(Vec::len), Some(10));
    assert!(second.get("events_remaining").is_none(), "{second}");
}

#[tokio::test]
async fn each_of_the_six_codes_of_a_failed_tool_can_be_met() {
    let servers = json!({
        "fix": fixture()["fix"],
        "desk": desk(&[]),
        "away": { "url": "http://127.0.0.1:9/mcp" },
    });
    let (_gateway, client) = over_http_as(servers, Settings::modern()).await;
    until_connected(&client, "desk").await;
    let execute = |server: &str, tool: &str| json!({ "server": server, "tool": tool, "timeout_ms": 1000 });
    let timer = client.call("set_timer", json!({ "duration_ms": 3_600_000, "message": "x" })).await;
    let foreign = "f".repeat(timer.structured()["session"].as_str().unwrap().len());
    let mut wrong = Vec::new();
    for (name, arguments, code) in [
        ("list_timers", json!({ "session": foreign }), "TOOL_ERR_SESSION_NOT_FOUND"),
        ("execute_tool", execute("nobody", "x"), "TOOL_ERR_SERVER_NOT_FOUND"),
        ("execute_tool", execute("fix", "no_such_tool"), "TOOL_ERR_NOT_FOUND"),
        ("execute_tool", execute("fix", "protocol_error_job"), "TOOL_ERR_EXECUTION_FAILED"),
        ("execute_tool", execute("away", "x"), "TOOL_ERR_SERVER_DISCONNECTED"),
    ] {
        let reply = client.call(name, arguments.clone()).await;
        if reply.code() != code {
            wrong.push(format!("{code} for {name} {arguments}: {reply}"));
        }
    }
    let hang = json!({ "server": "desk", "tool": "hang", "timeout_ms": 100 });
    // A session has 64 requests at a time, and 100 tasks.
    let mut replies = at_once(&client, 50, "execute_tool", &hang).await;
    replies.extend(at_once(&client, 51, "execute_tool", &hang).await);
    let codes: Vec<&str> = replies.iter().map(Reply::code).filter(|code| !code.is_empty()).collect();
    assert_eq!(codes, ["TOOL_ERR_TIMEOUT"]);
    assert!(wrong.is_empty(), "expected {}", wrong.join("\n"));
}
