//! The end of a session, as its client and its servers see it.

use serde_json::json;

use crate::client::settle;
use crate::world::{World, pass, seconds};

#[tokio::test(start_paused = true)]
async fn the_end_answers_questions_then_cancels_tasks_then_closes() {
    let world = World::new();
    let client = world.client().await;
    client.task(json!({})).await;
    let call = world.one.call(1).await;
    world.one.elicit("q1");
    pass(seconds(1)).await;
    client.events().await;
    let result = client.begin("execute_tool", json!({ "server": "two", "tool": "hold", "timeout_ms": 600_000 })).await;
    world.two.call(1).await;
    let before = world.one.heard().len();

    assert_eq!(client.delete(), 200);
    // New requests find nothing from that moment on.
    assert_eq!(client.call("list_servers", json!({})).await.status, 404);
    let aborted = result.answer().await;
    assert!(aborted.after < seconds(4), "{aborted:?}");
    pass(seconds(10)).await;

    let heard = world.one.heard().split_off(before);
    let question = heard.iter().position(|message| message["id"] == "q1" && message.get("method").is_none());
    let cancelled = heard
        .iter()
        .position(|message| message["method"] == "notifications/cancelled" && message["params"]["requestId"] == call);
    assert!(question.is_some() && cancelled.is_some(), "{heard:?}");
    assert!(question < cancelled, "questions are answered before tasks are cancelled: {heard:?}");
    assert_eq!(world.two.heard_of("notifications/cancelled").len(), 1, "the open call is cancelled too");
    assert_eq!((world.one.open(), world.two.open()), (0, 0));
    assert_eq!(world.gateway.sessions(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_end_tells_who_waits_for_activity() {
    let world = World::new();
    let client = world.client().await;
    let waiting = client.begin("await_activity", json!({ "timeout_ms": 600_000 })).await;
    pass(seconds(5)).await;
    assert_eq!(client.delete(), 200);
    let woken = waiting.answer().await;
    assert_eq!(woken.json(0)["triggers"][0]["type"], "shutdown", "{woken:?}");
}

#[tokio::test(start_paused = true)]
async fn ending_twice_is_ending_once() {
    let world = World::new();
    let client = world.client().await;
    client.task(json!({})).await;
    assert_eq!(client.delete(), 200);
    assert_eq!(client.delete(), 404);
    settle().await;
    assert_eq!(client.delete(), 404);
    pass(seconds(5)).await;
    assert_eq!(world.one.heard_of("notifications/cancelled").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn shutting_down_wakes_who_waits_and_closes_every_session() {
    let world = World::new();
    let first = world.client().await;
    let second = world.client().await;
    world.one.say_on(0, json!({ "jsonrpc": "2.0", "id": "s1", "method": "ping" }));
    let mut waiting = Vec::new();
    for client in [&first, &second] {
        waiting.push(client.begin("await_activity", json!({ "timeout_ms": 600_000 })).await);
    }
    world.gateway.close().await;
    for waiting in waiting {
        let woken = waiting.answer().await;
        assert_eq!(woken.json(0)["triggers"][0]["type"], "shutdown", "{woken:?}");
        assert!(woken.after < seconds(10));
    }
    pass(seconds(10)).await;
    assert_eq!((world.one.open(), world.two.open(), world.gateway.sessions()), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_one_session_is_no_end_of_another() {
    let world = World::new();
    let first = world.client().await;
    let second = world.client().await;
    let task = second.task(json!({})).await;
    assert_eq!(first.delete(), 200);
    pass(seconds(10)).await;
    assert_eq!(second.task_row(&task).await["status"], "working");
    assert_eq!(world.one.open(), 1, "each session has its own connection");
    assert!(world.one.heard_of("notifications/cancelled").is_empty());
}
