//! What becomes of tasks as time passes.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::script::text;
use crate::world::{World, minutes, pass, seconds};

#[tokio::test(start_paused = true)]
async fn a_task_lives_ten_minutes_unless_told_and_thirty_at_most() {
    let world = World::new();
    let client = world.client().await;
    for (more, ttl) in [
        (json!({}), 600_000),
        (json!({ "task_ttl_ms": 5_000 }), 5_000),
        (json!({ "task_ttl_ms": 3_600_000 }), 1_800_000),
    ] {
        let task = client.task(more).await;
        assert_eq!(client.task_row(&task).await["ttl"], ttl);
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_expires_within_a_tenth_of_a_second_of_its_time_and_the_server_is_told() {
    let world = World::new();
    let client = world.client().await;
    let task = client.task(json!({})).await;
    let promoted = Instant::now();
    let call = world.one.call(1).await;
    client.events().await;
    pass(minutes(10) - promoted.elapsed() - Duration::from_millis(50)).await;
    assert_eq!(client.task_row(&task).await["status"], "working");
    assert!(world.one.heard_of("notifications/cancelled").is_empty());
    pass(Duration::from_millis(150)).await;
    assert_eq!(client.task_row(&task).await["status"], "expired");
    let told = world.one.heard_of("notifications/cancelled");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["params"]["requestId"], call);
    // A late answer changes nothing.
    world.one.answer(&call, text("late"));
    pass(seconds(1)).await;
    assert_eq!(client.task_row(&task).await["status"], "expired");
    let ended: Vec<_> = client.events().await.into_iter().filter(|event| event["data"]["taskId"] == *task).collect();
    assert!(ended.len() <= 1, "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn an_expired_task_is_told_once() {
    let world = World::new();
    let client = world.client().await;
    let task = client.task(json!({ "task_ttl_ms": 1_000 })).await;
    client.events().await;
    let woken = client.call("await_activity", json!({ "timeout_ms": 60_000 })).await;
    assert_eq!(woken.types(), ["task_expired"]);
    assert_eq!(woken.json(0)["events"][0]["data"]["taskId"], *task);
    assert!(woken.after < seconds(2), "{:?}", woken.after);
    pass(minutes(2)).await;
    assert!(client.events().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn ended_tasks_are_kept_for_five_minutes() {
    let world = World::new();
    let client = world.client().await;
    let task = client.task(json!({})).await;
    let call = world.one.call(1).await;
    world.one.answer(&call, text("done"));
    let result = client.call("get_task_result", json!({ "task_id": task })).await;
    assert_eq!(result.text(0), "done");
    pass(minutes(5) - seconds(2)).await;
    assert_eq!(client.task_row(&task).await["status"], "completed");
    pass(seconds(62)).await;
    let gone = client.call("get_task", json!({ "task_id": task })).await;
    assert!(gone.is_error() && gone.text(0).contains("not found"), "{gone:?}");
    assert_eq!(gone.code(), "TASK_NOT_FOUND");
}

#[tokio::test(start_paused = true)]
async fn a_task_does_not_expire_while_somebody_is_asked_for_it() {
    let world = World::new();
    let client = world.client().await;
    let task = client.task(json!({})).await;
    world.one.call(1).await;
    pass(minutes(5)).await;
    world.one.elicit("q1");
    pass(minutes(7)).await;
    assert_eq!(client.task_row(&task).await["status"], "working", "twelve minutes old, but a question is open");
    // The question itself ends ten minutes after it was asked, and with it what held up the end of the task.
    pass(minutes(3) + seconds(61)).await;
    assert!(world.one.answer_to("q1").is_some());
    assert_eq!(client.task_row(&task).await["status"], "expired");
}

#[tokio::test(start_paused = true)]
async fn no_question_holds_up_the_end_of_a_task_beyond_thirty_minutes() {
    let world = World::new();
    let client = world.client().await;
    let task = client.task(json!({})).await;
    world.one.call(1).await;
    let promoted = Instant::now();
    for question in ["q1", "q2", "q3", "q4"] {
        world.one.elicit(question);
        pass(minutes(7)).await;
        assert_eq!(client.task_row(&task).await["status"], "working", "{question}, {:?}", promoted.elapsed());
    }
    world.one.elicit("q5");
    pass(minutes(2) + seconds(1)).await;
    assert_eq!(client.task_row(&task).await["status"], "expired");
}

#[tokio::test(start_paused = true)]
async fn a_question_of_another_server_holds_nothing_up() {
    let world = World::new();
    let client = world.client().await;
    let task = client.task(json!({})).await;
    pass(minutes(5)).await;
    world.two.elicit("q1");
    pass(minutes(5) + seconds(1)).await;
    assert_eq!(client.task_row(&task).await["status"], "expired");
}
