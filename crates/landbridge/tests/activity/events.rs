//! Events: once each, in one place, and whoever waits is woken.

use std::time::{Duration, Instant};

use lb_peers::tools::{Reply, Settings, ToolClient};
use serde_json::{Value, json};

use crate::world::{self, count, drain, events, execute, gateway, promoted, question, until};

/// A client that waits for activity, and what it is told once `cause` has happened.
async fn woken(client: &ToolClient, cause: impl Future<Output = ()>) -> (Vec<Value>, Value, Duration) {
    let waiting = client.start("await_activity", json!({ "timeout_ms": 20_000 })).await;
    cause.await;
    let start = Instant::now();
    let reply = waiting.wait().await;
    (events(&reply), reply.json()["triggers"][0].clone(), start.elapsed())
}

#[tokio::test]
async fn a_task_is_told_once_when_it_begins_and_once_when_it_ends() {
    let gateway = gateway().await;
    let client = world::http(&gateway).await;
    let (reply, task) = promoted(&client, "slow", json!({ "ms": 1_000 })).await;
    let mut told = reply.events();
    told.extend(until(&client, "task_completed").await);
    told.extend(drain(&client).await);
    let of_task: Vec<_> = told.iter().filter(|event| event["data"]["taskId"] == *task).collect();
    let kinds: Vec<_> = of_task.iter().map(|event| event["type"].as_str().expect("a type")).collect();
    assert_eq!(kinds, ["task_created", "task_completed"]);
    assert_eq!(of_task[1]["data"]["toolName"], "slow");
}

#[tokio::test]
async fn questions_of_servers_wake_who_waits() {
    let gateway = gateway().await;
    let client = world::http(&gateway).await;
    for (tool, kind, list) in
        [("elicit", "elicitation_request", "get_elicitations"), ("sample", "sampling_request", "get_sampling_requests")]
    {
        let mut running = None;
        let (told, trigger, _) = woken(&client, async {
            running = Some(client.start("execute_tool", json!({ "server": "one", "tool": tool })).await);
        })
        .await;
        assert_eq!(count(&told, kind), 1, "{told:?}");
        assert_eq!(trigger["type"], "event", "{trigger}");
        let request = question(&client, list).await;
        assert_eq!(told.iter().find(|event| event["type"] == kind).expect("told")["data"]["requestId"], request);
        let answered = if tool == "elicit" {
            client.call("respond_to_elicitation", json!({ "request_id": request, "action": "decline" })).await
        } else {
            let content = json!({ "request_id": request, "role": "assistant", "content": "hi", "model": "m" });
            client.call("respond_to_sampling", content).await
        };
        assert!(!answered.is_error(), "{answered}");
        running.expect("started").wait().await;
        drain(&client).await;
    }
}

#[tokio::test]
async fn a_changed_list_is_told_once_and_in_one_place() {
    let gateway = gateway().await;
    let client = world::http(&gateway).await;
    let reply = execute(&client, "one", "changed", json!({})).await;
    let in_context = reply.context().map_or(0, |context| context["notifications"].as_array().map_or(0, Vec::len));
    let rows = client.call("get_notifications", json!({})).await.json();
    let listed = rows.as_array().expect("rows").len();
    let later = drain(&client).await;
    assert_eq!(in_context + listed + count(&later, "notification"), 1, "{reply} {rows} {later:?}");
}

#[tokio::test]
async fn a_notification_that_was_fetched_is_nowhere_else() {
    let gateway = gateway().await;
    let client = world::http(&gateway).await;
    let other = world::http(&gateway).await;
    execute(&client, "one", "later", json!({ "ms": 300, "n": 5 })).await;
    let start = Instant::now();
    let rows = loop {
        // Reads of another session take nothing from this one.
        drain(&other).await;
        let rows = client.call("get_notifications", json!({})).await;
        if rows.json() != json!([]) || world::PATIENCE < start.elapsed() {
            break rows;
        }
    };
    assert_eq!(rows.json()[0]["method"], "notifications/later", "{rows}");
    assert_eq!((&rows.json()[0]["server"], &rows.json()[0]["params"]["n"]), (&json!("one"), &json!(5)));
    assert!(rows.context().is_none_or(|context| context.get("notifications").is_none()), "{rows}");
    assert_eq!(client.call("get_notifications", json!({})).await.json(), json!([]));
    assert!(drain(&client).await.is_empty());
}

#[tokio::test]
async fn a_timer_is_told_once_in_one_channel() {
    let gateway = gateway().await;
    let client = world::http(&gateway).await;
    let set = client.call("set_timer", json!({ "duration_ms": 300, "message": "tea" })).await.json();
    let told = until(&client, "timer_expired").await;
    assert_eq!(count(&told, "timer_expired"), 1);
    assert_eq!(told[0]["data"]["timerId"], set["timerId"]);
    let next = client.call("list_servers", json!({})).await;
    assert!(!next.to_string().contains("tea"), "{next}");
    assert!(drain(&client).await.is_empty());
}

#[tokio::test]
async fn a_crash_is_told_as_the_loss_of_a_server_and_each_task_of_it_fails_once() {
    let gateway = gateway().await;
    let client = world::http(&gateway).await;
    let (_, first) = promoted(&client, "hold", json!({})).await;
    let (_, second) = promoted(&client, "hold", json!({})).await;
    drain(&client).await;
    let mut crashing = None;
    let (mut told, trigger, _) = woken(&client, async {
        let arguments = json!({ "server": "one", "tool": "crash", "args": { "code": 3 } });
        crashing = Some(client.start("execute_tool", arguments).await);
    })
    .await;
    let crashed = crashing.expect("started").wait().await;
    assert_eq!(crashed.code(), "TOOL_ERR_SERVER_DISCONNECTED", "{crashed}");
    // Whatever this reply tells came after what woke the other.
    let first_kind = told[0]["type"].as_str().expect("a type").to_owned();
    told.extend(crashed.events());
    if !told.iter().any(|event| event["type"] == "server_reconnected") {
        told.extend(until(&client, "server_reconnected").await);
    }
    told.extend(drain(&client).await);
    for task in [first, second] {
        let failed = told.iter().filter(|e| e["type"] == "task_failed" && e["data"]["taskId"] == *task).count();
        assert_eq!(failed, 1, "{told:?}");
    }
    assert_eq!((count(&told, "server_disconnected"), count(&told, "server_process_crashed")), (1, 1), "{told:?}");
    assert_eq!(count(&told, "server_reconnected"), 1);
    let crash = told.iter().find(|event| event["type"] == "server_process_crashed").expect("told");
    assert_eq!(crash["data"]["exitCode"], 3);
    let wanted = if first_kind == "server_disconnected" { "server_disconnected" } else { "event" };
    assert_eq!(trigger["type"], wanted, "{trigger} {told:?}");
}

#[tokio::test]
async fn connecting_and_disconnecting_are_told_once_each() {
    let gateway = gateway().await;
    let client = ToolClient::http(&gateway).await;
    let mut told = Vec::new();
    for server in ["one", "two"] {
        let reply = execute(&client, server, "echo", json!({})).await;
        assert!(!reply.is_error(), "{reply}");
        told.extend(reply.events());
    }
    let again = client.call("reconnect_server", json!({ "name": "two" })).await;
    assert!(!again.is_error(), "{again}");
    told.extend(again.events());
    told.extend(client.call("remove_server", json!({ "name": "two" })).await.events());
    told.extend(drain(&client).await);
    let of_two = told.iter().filter(|event| event["server"] == "two" || event["data"]["name"] == "two");
    let kinds: Vec<_> = of_two.map(|event| event["type"].as_str().expect("a type")).collect();
    let wanted =
        ["server_connected", "server_disconnected", "server_reconnected", "server_disconnected", "server_removed"];
    assert_eq!(kinds, wanted);
}

#[tokio::test]
async fn who_waits_is_told_at_once_or_that_its_time_is_over() {
    let gateway = gateway().await;
    let client = world::http(&gateway).await;
    let start = Instant::now();
    let over = client.call("await_activity", json!({ "timeout_ms": 300 })).await.json();
    assert_eq!((&over["triggers"][0]["type"], &over["events"]), (&json!("timeout"), &json!([])));
    assert!(Duration::from_millis(300) <= start.elapsed());
    assert!(over["last_event_id"].is_string(), "a cursor, even so: {over}");
    // Something that happened before comes at once.
    client.call("set_timer", json!({ "duration_ms": 1, "message": "x" })).await;
    let told = until(&client, "timer_expired").await;
    assert_eq!(count(&told, "timer_expired"), 1);
    // Something that happens while it waits wakes it. The server needs a moment, the gateway must not.
    execute(&client, "one", "later", json!({ "ms": 200 })).await;
    let (told, trigger, took) = woken(&client, async {}).await;
    assert_eq!((count(&told, "notification"), &trigger["type"]), (1, &json!("event")), "{told:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[tokio::test]
async fn events_are_told_over_stdio_too() {
    let client = world::stdio().await;
    execute(&client, "two", "later", json!({ "ms": 200, "n": 1 })).await;
    let told = until(&client, "notification").await;
    assert_eq!((count(&told, "notification"), &told[0]["server"]), (1, &json!("two")));
    let (_, task) = promoted(&client, "slow", json!({ "ms": 500 })).await;
    let told = until(&client, "task_completed").await;
    assert!(told.iter().any(|event| event["data"]["taskId"] == *task));
}

#[tokio::test]
async fn the_end_of_a_session_is_told_to_who_waits() {
    let gateway = gateway().await;
    let client = world::http(&gateway).await;
    let waiting = client.start("await_activity", json!({ "timeout_ms": 60_000 })).await;
    // The call is known to wait when another is answered after it.
    client.call("list_timers", json!({})).await;
    assert_eq!(client.end().await, 200);
    let reply = waiting.wait().await;
    assert_eq!(reply.json()["triggers"][0]["type"], "shutdown", "{reply}");
}

/// Long before calls that do something are cut off.
#[tokio::test]
async fn the_end_of_the_process_is_told_at_once_to_who_waits() {
    for front in ["legacy", "modern", "stdio"] {
        let gateway = gateway().await;
        let (client, pid) = match front {
            "stdio" => {
                let client = world::stdio().await;
                let pid = client.pid().expect("a process");
                (client, pid)
            }
            "modern" => {
                let client = ToolClient::http_as(&gateway, Settings::modern()).await;
                (world::ready(client).await, gateway.pid())
            }
            _ => (world::http(&gateway).await, gateway.pid()),
        };
        let waiting = client.start("await_activity", json!({ "timeout_ms": 60_000 })).await;
        client.call("list_timers", json!({})).await;
        let start = Instant::now();
        let status = std::process::Command::new("kill").args(["-TERM", &pid.to_string()]).status().expect("kill");
        assert!(status.success());
        let reply = waiting.wait().await;
        assert_eq!(reply.json()["triggers"], json!([{ "type": "shutdown" }]), "{front}: {reply}");
        assert!(start.elapsed() < Duration::from_secs(8), "{front}: {:?}", start.elapsed());
    }
}

/// In the session of modern clients that name none, a look at it takes nothing away.
#[tokio::test]
async fn a_look_at_a_shared_session_leaves_its_events() {
    let gateway = gateway().await;
    let client = ToolClient::http_as(&gateway, Settings::modern()).await;
    client.call("set_timer", json!({ "duration_ms": 1, "message": "tea" })).await;
    let start = Instant::now();
    let remaining = |reply: &Reply| reply.context().and_then(|context| context["events_remaining"].as_u64());
    while remaining(&client.call("list_timers", json!({})).await).is_none() {
        assert!(start.elapsed() < world::PATIENCE, "it fires");
    }
    let first = client.call("list_servers", json!({})).await;
    let again = client.call("list_servers", json!({})).await;
    assert!(first.events().is_empty() && again.events().is_empty(), "{first}");
    assert!(remaining(&first) <= remaining(&again) && remaining(&first).is_some(), "{first} {again}");
    let told = until(&client, "timer_expired").await;
    assert_eq!(count(&told, "timer_expired"), 1);
    assert_eq!(count(&drain(&client).await, "timer_expired"), 0);
}
