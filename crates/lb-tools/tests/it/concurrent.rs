//! The same races on threads: nobody decides who comes first.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client::{Answer, Client};
use crate::script::text;
use crate::world::World;

/// Calls the same tool from several tasks at once.
async fn at_once(client: &Client, count: usize, tool: &'static str, arguments: &Value) -> Vec<Answer> {
    let mut set = JoinSet::new();
    for _ in 0..count {
        let (client, arguments) = (client.clone(), arguments.clone());
        set.spawn(async move { client.call(tool, arguments).await });
    }
    set.join_all().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_eight_who_answer_one_question_one_does() {
    let world = World::new();
    let client = world.client().await;
    for round in 0..50 {
        let id = format!("q{round}");
        world.one.elicit(&id);
        let told = client.call("await_activity", json!({})).await.json(0);
        let arguments = json!({ "request_id": told["events"][0]["data"]["requestId"], "action": "decline" });
        let answers = at_once(&client, 8, "respond_to_elicitation", &arguments).await;
        assert_eq!(answers.iter().filter(|answer| !answer.is_error()).count(), 1, "{answers:?}");
        world.one.until(|script| script.answer_to(&id).is_some()).await;
        assert_eq!(world.one.answers_to(&id).len(), 1);
    }
    assert!(client.events().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_task_that_is_answered_and_cancelled_ends_once() {
    let world = World::new();
    let client = world.client().await;
    for round in 1..=30 {
        let task = client.task(json!({})).await;
        let call = world.one.call(round).await;
        let script = world.one.clone();
        let mut set = JoinSet::new();
        set.spawn(async move { script.answer(&call, text("done")) });
        let cancelled = at_once(&client, 4, "cancel_task", &json!({ "task_id": task })).await;
        set.join_next().await;
        let ended = client.call("get_task_result", json!({ "task_id": task })).await;
        let status = client.task_row(&task).await["status"].clone();
        let wins = cancelled.iter().filter(|answer| !answer.is_error()).count();
        assert_eq!((wins, ended.is_error()), if status == "completed" { (0, false) } else { (1, true) }, "{status}");
        client.events().await;
        let told = ["task_completed", "task_cancelled"]
            .map(|kind| client.seen_of(kind).iter().filter(|event| event["data"]["taskId"] == *task).count());
        assert_eq!(told, if status == "completed" { [1, 0] } else { [0, 1] }, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_result_near_the_deadline_comes_one_way() {
    let world = World::new();
    let client = world.client().await;
    let (mut direct, mut tasks) = (0, 0);
    for round in 1..=30 {
        let arguments = json!({ "server": "one", "tool": "hold", "timeout_ms": 100 });
        let running = client.begin("execute_tool", arguments).await;
        let call = world.one.call(round).await;
        let script = world.one.clone();
        let near = Duration::from_micros(97_000 + 200 * u64::try_from(round).expect("few"));
        let mut set = JoinSet::new();
        set.spawn(async move {
            tokio::time::sleep(near).await;
            script.answer(&call, text("done"));
        });
        let answer = running.answer().await;
        set.join_next().await;
        if answer.text(0) == "done" {
            direct += 1;
        } else {
            tasks += 1;
            let result = client.call("get_task_result", json!({ "task_id": answer.task() })).await;
            assert_eq!(result.text(0), "done");
        }
    }
    let listed = client.call("list_tasks", json!({ "include_completed": true })).await.json(0);
    assert_eq!(listed.as_array().map(Vec::len), Some(tasks), "{direct} direct, {tasks} tasks");
    client.events().await;
    assert_eq!((client.seen_of("task_created").len(), client.seen_of("task_completed").len()), (tasks, tasks));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_session_ended_while_calls_come_in_answers_them_all() {
    let world = World::new();
    for _ in 0..20 {
        let client = world.client().await;
        let ending = client.clone();
        let mut set = JoinSet::new();
        set.spawn(async move {
            tokio::task::yield_now().await;
            ending.delete();
        });
        let arguments = json!({ "server": "one", "tool": "hold", "timeout_ms": 200 });
        let calls = at_once(&client, 8, "execute_tool", &arguments);
        let answers = tokio::time::timeout(Duration::from_secs(20), calls).await.expect("each is answered");
        for answer in answers {
            assert!([200, 202, 404].contains(&answer.status), "{answer:?}");
        }
        set.join_next().await;
    }
    world.one.until(|script| script.open() == 0).await;
    assert_eq!(world.gateway.sessions(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_who_reconnect_a_server_all_get_one_that_works() {
    let world = World::new();
    let client = world.client().await;
    for _ in 0..20 {
        let before = world.one.started().len();
        let answers = at_once(&client, 4, "reconnect_server", &json!({ "name": "one" })).await;
        assert!(answers.iter().all(|answer| !answer.is_error()), "{answers:?}");
        assert!(world.one.started().len() <= before + 4);
        let echoed = client.call("execute_tool", json!({ "server": "one", "tool": "echo" })).await;
        assert_eq!(echoed.text(0), "echo", "{echoed:?}");
        world.one.until(|script| script.open() == 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn questions_of_a_removed_server_end_for_that_reason() {
    for round in 0..5 {
        let world = World::new();
        let client = world.client().await;
        client.task(json!({})).await;
        world.one.elicit("q1");
        let told = client.call("await_activity", json!({})).await;
        assert!(!told.types().is_empty());
        let removed = client.call("remove_server", json!({ "name": "one" })).await;
        assert!(!removed.is_error(), "{removed:?}");
        client.events().await;
        let causes: Vec<_> =
            client.seen_of("elicitation_expired").iter().map(|event| event["data"]["cause"].clone()).collect();
        assert_eq!(causes, ["server_removed"], "round {round}");
        assert_eq!(client.seen_of("task_failed").len(), 1);
    }
}
