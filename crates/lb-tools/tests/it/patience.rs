//! How long a call is waited for before it becomes a task.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::types;
use crate::script::text;
use crate::world::{World, pass, seconds};

const HOLD: fn() -> Value = || json!({ "server": "one", "tool": "hold" });

#[tokio::test(start_paused = true)]
async fn a_caller_that_named_no_time_and_sees_no_progress_waits_forty_five_seconds() {
    let world = World::new();
    let client = world.client().await;
    let answer = client.call("execute_tool", HOLD()).await;
    assert!(!answer.is_error());
    assert!(seconds(45) <= answer.after && answer.after < seconds(46), "{:?}", answer.after);
    let body = answer.json(1);
    assert_eq!(body["timeout"], true);
    assert_eq!(body["task"]["status"], "working");
    assert_eq!(body["task"]["toolName"], "hold");
    assert_eq!(body["server_pending"]["server"], "one");
    assert!(answer.text(0).contains("get_task_result") && answer.text(0).contains(&answer.task()), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_named_a_time_waits_that_long() {
    let world = World::new();
    let client = world.client().await;
    for (milliseconds, named) in [(60_000, seconds(60)), (100, Duration::from_millis(100))] {
        let answer =
            client.call("execute_tool", json!({ "server": "one", "tool": "hold", "timeout_ms": milliseconds })).await;
        assert!(named <= answer.after && answer.after < named + seconds(1), "{:?}", answer.after);
        assert_eq!(answer.json(1)["timeout"], true);
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_sees_progress_waits_two_minutes_and_hears_of_it_every_fifteen_seconds() {
    let world = World::new();
    let client = world.client().await;
    let answer = client.call_watched("execute_tool", HOLD()).await;
    assert!(seconds(120) <= answer.after && answer.after < seconds(121), "{:?}", answer.after);
    assert_eq!(answer.json(1)["timeout"], true);
    let steps: Vec<_> = answer.notes.iter().filter(|(_, note)| note["method"] == "notifications/progress").collect();
    assert!((7..=8).contains(&steps.len()), "{steps:?}");
    let mut last = -1.0;
    for (number, (at, note)) in steps.iter().enumerate() {
        let due = seconds(15) * u32::try_from(number + 1).expect("few");
        assert!(due <= *at && *at < due + seconds(1), "step {number} after {at:?}");
        assert_eq!(note["params"]["progressToken"], "watch");
        let progress = note["params"]["progress"].as_f64().expect("a number");
        assert!(last < progress, "progress grows: {steps:?}");
        last = progress;
    }
}

#[tokio::test(start_paused = true)]
async fn progress_of_the_server_reaches_the_caller_and_later_the_task() {
    let world = World::new();
    let client = world.client().await;
    let caller = client.clone();
    let mut calls = tokio::task::JoinSet::new();
    calls.spawn(async move {
        caller.call_watched("execute_tool", json!({ "server": "one", "tool": "hold", "timeout_ms": 5_000 })).await
    });
    world.one.call(1).await;
    let token = world.one.heard_of("tools/call")[0]["params"]["_meta"]["progressToken"].clone();
    assert!(!token.is_null() && token != "watch", "the token is ours: {token}");
    let step = |progress: u64, message: &str| {
        let params = json!({ "progressToken": token, "progress": progress, "total": 9, "message": message });
        world.one.say(json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }));
    };
    step(1, "before");
    let answer = calls.join_next().await.expect("a call").expect("no panic");
    let seen: Vec<_> = answer.notes.iter().filter(|(_, note)| note["params"]["message"] == "before").collect();
    assert_eq!(seen.len(), 1, "{:?}", answer.notes);
    assert_eq!(seen[0].1["params"]["progressToken"], "watch");
    step(2, "after");
    pass(seconds(1)).await;
    assert_eq!(client.task_row(&answer.task()).await["statusMessage"], "after");
}

#[tokio::test(start_paused = true)]
async fn a_result_in_time_is_passed_on_and_leaves_no_task() {
    let world = World::new();
    let client = world.client().await;
    let running = client.begin("execute_tool", HOLD()).await;
    let call = world.one.call(1).await;
    pass(seconds(40)).await;
    world.one.answer(&call, json!({ "content": [{ "type": "text", "text": "in time" }], "isError": true }));
    let answer = running.answer().await;
    assert_eq!(answer.text(0), "in time");
    assert!(answer.is_error(), "what the server says is an error stays one");
    assert_eq!(client.call("list_tasks", json!({ "include_completed": true })).await.json(0), json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_promoted_call_tells_of_its_task_once_and_of_its_end_once() {
    let world = World::new();
    let client = world.client().await;
    let running = client.begin("execute_tool", json!({ "server": "one", "tool": "hold", "timeout_ms": 200 })).await;
    let call = world.one.call(1).await;
    let answer = running.answer().await;
    let mut told = Vec::new();
    // What its own answer told is not told again.
    if answer.response["result"]["content"].as_array().is_some_and(|blocks| 2 < blocks.len()) {
        told.extend(types(&answer.json(2)["events"]));
    }
    world.one.answer(&call, text("done"));
    pass(seconds(1)).await;
    for event in client.events().await {
        assert_eq!(event["data"]["taskId"], *answer.task());
        told.push(event["type"].as_str().expect("a type").to_owned());
    }
    assert_eq!(told, ["task_created", "task_completed"]);
    let result = client.call("get_task_result", json!({ "task_id": answer.task() })).await;
    assert_eq!((result.text(0).as_str(), result.is_error()), ("done", false));
}
