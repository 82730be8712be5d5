//! What replies tell beside their own result: events, what waits for an answer, logs and notifications.

use std::collections::BTreeSet;

use lb_peers::suite;
use lb_peers::tools::{Reply, ToolClient};
use serde_json::{Value, json};

use crate::world::{context_of, desk, drain, fixture, over_http, task_of, tell, until, until_connected};

async fn with_desk() -> (lb_peers::harness::Gateway, ToolClient) {
    let (gateway, client) = over_http(json!({ "desk": desk(&[]) })).await;
    until_connected(&client, "desk").await;
    drain(&client).await;
    (gateway, client)
}

fn rows(reply: &Reply) -> Vec<Value> {
    reply.json().as_array().cloned().unwrap_or_default()
}

#[tokio::test]
async fn the_reply_of_any_tool_tells_that_a_task_has_ended() {
    let (_gateway, client) = over_http(fixture()).await;
    let args = json!({ "seconds": 0.5, "label": "x" });
    let arguments = json!({ "server": "fix", "tool": "slow_compute", "args": args, "timeout_ms": 100 });
    let task = task_of(&client.call("execute_tool", arguments).await);
    let told = |reply: &Reply| !reply.events_of("task_completed").is_empty();
    let reply = until(&client, "list_servers", json!({}), told).await;
    assert_eq!(reply.events_of("task_completed")[0]["data"]["taskId"], task);
    let again = client.call("list_servers", json!({})).await;
    assert!(again.events().is_empty(), "told once: {again}");
}

#[tokio::test]
async fn every_reply_shows_the_open_question_until_it_is_answered() {
    let (_gateway, client) = over_http(fixture()).await;
    let arguments = json!({ "server": "fix", "tool": "test_elicitation", "args": { "message": "who?" } });
    task_of(&client.call("execute_tool", arguments).await);
    let id = rows(&client.call("get_elicitations", json!({})).await)[0]["requestId"].clone();
    let mut tools = suite::tools();
    assert_eq!(tools.len(), 33);
    for tool in &mut tools {
        let reply = client.call(tool.name, tool.valid.take()).await;
        let shown = if tool.name == "await_activity" { reply.json() } else { context_of(&reply) };
        let pending = &shown["pending_client"];
        assert_eq!(pending["elicitation"], 1, "{}: {reply}", tool.name);
        assert_eq!(pending["elicitations"][0]["requestId"], id, "{}: {reply}", tool.name);
        assert_eq!(pending["sampling"], 0, "{}: {reply}", tool.name);
    }
    client.call("respond_to_elicitation", json!({ "request_id": id, "action": "decline" })).await;
    let after = client.call("list_servers", json!({})).await;
    assert!(context_of(&after).get("pending_client").is_none(), "{after}");
}

#[tokio::test]
async fn the_context_is_one_block_and_absent_when_there_is_nothing_to_say() {
    let (_gateway, client) = with_desk().await;
    let quiet = client.call("list_servers", json!({})).await;
    assert_eq!(quiet.blocks().len(), 1, "{quiet}");
    tell(&client, "asks", json!({ "count": 1, "after": 0.1 })).await;
    client.call("set_timer", json!({ "duration_ms": 1, "message": "tea" })).await;
    client.call("set_timer", json!({ "duration_ms": 1, "message": "more tea" })).await;
    let mut expired = BTreeSet::new();
    let reply =
        until(&client, "list_servers", json!({}), |reply| context_of(reply).get("pending_client").is_some()).await;
    assert_eq!(reply.blocks().len(), 2, "{reply}");
    for _ in 0..100 {
        let reply = client.call("list_servers", json!({})).await;
        assert_eq!(reply.blocks().len(), 2, "one block beside the result: {reply}");
        for timer in context_of(&reply)["expired_timers"].as_array().into_iter().flatten() {
            assert!(expired.insert(timer["id"].to_string()), "told twice: {reply}");
        }
    }
    assert!(expired.len() <= 2);
}

#[tokio::test]
async fn notifications_are_told_once_and_in_one_place() {
    let (_gateway, client) = with_desk().await;
    tell(&client, "say", json!({ "count": 3, "after": 0.3 })).await;
    let mut seen = Vec::new();
    for _ in 0..200 {
        let reply = client.call("get_notifications", json!({})).await;
        assert!(context_of(&reply).get("notifications").is_none(), "in one place only: {reply}");
        seen.extend(rows(&reply));
        if 3 <= seen.len() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let uris: Vec<&Value> = seen.iter().map(|row| &row["params"]["uri"]).collect();
    assert_eq!(uris, ["desk://0", "desk://1", "desk://2"]);
    assert!(seen.iter().all(|row| row["server"] == "desk" && row["method"] == "notifications/resources/updated"));
    let second = client.call("get_notifications", json!({})).await;
    assert_eq!(second.json(), json!([]), "{second}");
    let other = client.call("list_servers", json!({})).await;
    assert_eq!(other.blocks().len(), 1, "nor in the context of another: {other}");
    let waited = client.call("await_activity", json!({ "timeout_ms": 100 })).await;
    assert!(waited.events().is_empty(), "nor as an event: {waited}");
}

#[tokio::test]
async fn logs_are_filtered_and_cleared_as_asked() {
    let (_gateway, client) = with_desk().await;
    let logs = |arguments: Value| {
        let client = client.clone();
        async move { rows(&client.call("get_logs", arguments).await) }
    };
    for level in ["debug", "info", "warning", "error"] {
        tell(&client, "log", json!({ "level": level })).await;
    }
    tell(&client, "err", json!({ "count": 2 })).await;
    tell(&client, "out", json!({ "count": 2 })).await;
    let keep = |mut arguments: Value| {
        arguments["clear"] = json!(false);
        arguments
    };
    let full = |reply: &Reply| rows(reply).len() == 8;
    until(&client, "get_logs", keep(json!({})), full).await;
    let stderr = logs(keep(json!({ "sources": ["stderr"] }))).await;
    assert!(
        stderr.len() == 2 && stderr.iter().all(|row| row["source"] == "stderr" && row["level"] == "warning"),
        "{stderr:?}"
    );
    assert_eq!(stderr[0]["data"], "err 0");
    let stdout = logs(keep(json!({ "sources": ["stdout"] }))).await;
    assert!(
        stdout.len() == 2 && stdout.iter().all(|row| row["source"] == "stdout" && row["level"] == "info"),
        "{stdout:?}"
    );
    let protocol = logs(keep(json!({ "exclude_sources": ["stderr", "stdout"] }))).await;
    let levels: Vec<&Value> = protocol.iter().map(|row| &row["level"]).collect();
    assert_eq!(levels, ["debug", "info", "warning", "error"], "oldest first");
    assert_eq!(protocol[0]["logger"], "desk");
    assert_eq!(logs(keep(json!({ "level": "warning", "sources": ["protocol"] }))).await.len(), 2, "at least warning");
    assert_eq!(logs(keep(json!({ "server": "nobody" }))).await.len(), 0);
    assert_eq!(logs(keep(json!({ "limit": 3 }))).await.len(), 3);
    assert_eq!(logs(json!({ "sources": ["stderr"] })).await.len(), 2, "clears what it returns");
    assert_eq!(logs(json!({})).await.len(), 6, "and only that");
    assert_eq!(logs(json!({})).await.len(), 0);
}

#[tokio::test]
async fn concurrent_readers_get_every_log_row_once() {
    let (_gateway, client) = with_desk().await;
    let mut storm = client
        .start("execute_tool", json!({ "server": "desk", "tool": "log", "args": { "count": 400, "pause": 0.001 } }))
        .await;
    let mut seen = Vec::new();
    let mut ended = false;
    for _ in 0..500 {
        let [a, b, c, d] = [(); 4].map(|()| client.call("get_logs", json!({ "limit": 50 })));
        let (a, b, c, d) = tokio::join!(a, b, c, d);
        let new: Vec<Value> = [a, b, c, d].iter().flat_map(rows).collect();
        let idle = new.is_empty();
        seen.extend(new);
        if ended && idle {
            break;
        }
        ended = ended || storm.within(std::time::Duration::from_millis(1)).await.is_some();
    }
    let distinct: BTreeSet<i64> = seen.iter().filter_map(|row| row["data"].as_i64()).collect();
    assert_eq!((seen.len(), distinct.len()), (400, 400), "each row once");
}

#[tokio::test]
async fn a_wait_tells_what_the_server_and_the_client_still_owe() {
    let (_gateway, client) = with_desk().await;
    let hang = json!({ "server": "desk", "tool": "hang", "timeout_ms": 100 });
    let task = task_of(&client.call("execute_tool", hang).await);
    let params = json!({ "messages": [], "maxTokens": 1 });
    let ask = json!({ "method": "sampling/createMessage", "params": params });
    task_of(&client.call("execute_tool", json!({ "server": "desk", "tool": "ask", "args": ask })).await);
    tell(&client, "asks", json!({ "count": 1, "after": 0.1 })).await;
    until(&client, "get_elicitations", json!({}), |reply| rows(reply).len() == 1).await;
    drain(&client).await;
    let reply = client.call("await_activity", json!({ "timeout_ms": 100 })).await;
    let body = reply.json();
    let working = json!({ "taskId": "id", "toolName": "word", "status": "=working", "createdAt?": "time" });
    let server = json!(["+", { "server": "=desk", "working_tasks": ["+", working] }]);
    assert_eq!(suite::misfit(&server, &body["pending_server"]), None);
    let tasks = body["pending_server"][0]["working_tasks"].as_array().unwrap();
    assert!(tasks.iter().any(|row| row["taskId"] == task), "{reply}");
    let question = json!({ "requestId": "id", "server": "=desk", "message": "=question 0", "mode": "=form" });
    let sampling = json!(["+", { "requestId": "id", "server": "=desk" }]);
    let shape =
        json!({ "sampling": 1, "elicitation": 1, "elicitations": ["+", question], "sampling_requests": sampling });
    assert_eq!(suite::misfit(&shape, &body["pending_client"]), None);
    assert_eq!(body["triggers"], json!([{ "type": "timeout" }]), "{reply}");
    assert!(body["last_event_id"].is_string(), "the cursor is there on a timeout, too: {reply}");
}

#[tokio::test]
async fn the_cursor_of_a_wait_is_the_newest_event_and_stays_on_a_timeout() {
    let (_gateway, client) = with_desk().await;
    client.call("set_timer", json!({ "duration_ms": 1, "message": "x" })).await;
    let mut last = Value::Null;
    let mut newest = Value::Null;
    for _ in 0..100 {
        let reply = client.call("await_activity", json!({ "timeout_ms": 100 })).await;
        if let Some(event) = reply.events().last() {
            newest = event["id"].clone();
        }
        last = reply.json()["last_event_id"].clone();
        if reply.json()["triggered_by"] == "timeout" && newest.is_string() {
            break;
        }
    }
    assert!(newest.is_string(), "the timer is told by a wait");
    assert_eq!(last, newest);
}
