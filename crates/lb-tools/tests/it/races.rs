//! Two things at once: whichever comes first, one of them wins and nothing is said twice.

use std::time::Duration;

use lb_front::Reply;
use serde_json::{Value, json};

use crate::client::{Client, settle};
use crate::limits::{in_order, questions};
use crate::script::{Start, text};
use crate::world::{Plan, World, minutes, pass, seconds};

#[derive(Clone, Copy, Debug, PartialEq)]
enum First {
    One,
    Other,
    Together,
}

const ORDERS: [First; 3] = [First::One, First::Other, First::Together];

async fn question(client: &Client) -> Value {
    client.call("get_elicitations", json!({})).await.json(0)[0]["requestId"].clone()
}

#[tokio::test(start_paused = true)]
async fn an_answer_and_the_end_of_its_time() {
    for order in ORDERS {
        let world = World::new();
        let client = world.client().await;
        world.one.elicit("q1");
        pass(seconds(0)).await;
        let answer = json!({ "request_id": question(&client).await, "action": "decline" });
        let wait = match order {
            First::One => minutes(10) - Duration::from_millis(5),
            First::Other => minutes(10) + Duration::from_millis(5),
            First::Together => minutes(10),
        };
        tokio::time::sleep(wait).await;
        let responded = client.call("respond_to_elicitation", answer).await;
        pass(seconds(1)).await;
        assert_eq!(world.one.answers_to("q1").len(), 1, "{order:?}: one reply");
        let expired = client.events_of("elicitation_expired").await.len()
            + responded.response.to_string().matches("elicitation_expired").count();
        assert_eq!(expired, usize::from(responded.is_error()), "{order:?}: {responded:?}");
        let action = world.one.answer_to("q1").expect("an answer")["result"]["action"].clone();
        assert_eq!(action, if responded.is_error() { "cancel" } else { "decline" });
    }
}

#[tokio::test(start_paused = true)]
async fn two_answers_to_one_question() {
    let world = World::new();
    let client = world.client().await;
    world.one.elicit("q1");
    pass(seconds(0)).await;
    let request = question(&client).await;
    let first = client.begin("respond_to_elicitation", json!({ "request_id": request, "action": "decline" })).await;
    let second = client.begin("cancel_elicitation_request", json!({ "request_id": request })).await;
    let (first, second) = (first.answer().await, second.answer().await);
    assert!(!first.is_error() && second.is_error(), "{first:?} {second:?}");
    assert_eq!(second.code(), "REQUEST_NOT_FOUND");
    pass(seconds(1)).await;
    assert_eq!(world.one.answers_to("q1").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_task_by_its_server_its_client_and_its_time() {
    for first in ["complete", "cancel", "expire"] {
        for second in ["complete", "cancel", "expire"] {
            let world = World::new();
            let client = world.client().await;
            let task = client.task(json!({ "task_ttl_ms": 10_000 })).await;
            let call = world.one.call(1).await;
            client.events().await;
            for what in [first, second] {
                match what {
                    "complete" => world.one.answer(&call, text("done")),
                    "cancel" => drop(client.call("cancel_task", json!({ "task_id": task })).await),
                    _ => tokio::time::sleep(seconds(11)).await,
                }
                pass(seconds(0)).await;
            }
            pass(seconds(1)).await;
            let status = client.task_row(&task).await["status"].clone();
            let wanted = match first {
                "complete" => "completed",
                "cancel" => "cancelled",
                _ => "expired",
            };
            assert_eq!(status, wanted, "{first} then {second}");
            let cancelled = world.one.heard_of("notifications/cancelled").len();
            assert_eq!(cancelled, usize::from(first != "complete"), "{first} then {second}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_task_is_told_once_when_all_comes_at_once() {
    let world = World::new();
    let client = world.client().await;
    let task = client.task(json!({ "task_ttl_ms": 5_000 })).await;
    let call = world.one.call(1).await;
    client.events().await;
    let waiting = client.begin("get_task_result", json!({ "task_id": task, "timeout_ms": 60_000 })).await;
    // Everything is due when the clock has jumped: the answer lies in the pipe, the time is over, the client cancels.
    world.one.answer(&call, text("done"));
    let cancelling = client.clone();
    let id = task.clone();
    let mut set = tokio::task::JoinSet::new();
    set.spawn(async move { cancelling.call("cancel_task", json!({ "task_id": id })).await });
    tokio::time::advance(seconds(6)).await;
    let cancelled = set.join_next().await.expect("a call").expect("no panic");
    let result = waiting.answer().await;
    pass(seconds(1)).await;
    let status = client.task_row(&task).await["status"].as_str().expect("a status").to_owned();
    let mut told: Vec<String> = Vec::new();
    for event in client.events().await {
        told.push(event["type"].as_str().expect("a type").to_owned());
    }
    for answer in [&cancelled, &result] {
        for kind in ["task_completed", "task_cancelled", "task_expired"] {
            let seen = answer.response.to_string().matches(&format!("\\\"type\\\":\\\"{kind}\\\"")).count();
            told.extend(std::iter::repeat_n(kind.to_owned(), seen));
        }
    }
    assert_eq!(told, [format!("task_{status}")]);
    assert_eq!(result.is_error(), status != "completed", "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn a_result_at_the_moment_of_promotion() {
    for order in ORDERS {
        let world = World::new();
        let client = world.client().await;
        let running =
            client.begin("execute_tool", json!({ "server": "one", "tool": "hold", "timeout_ms": 1_000 })).await;
        let call = world.one.call(1).await;
        match order {
            First::One => world.one.answer(&call, text("done")),
            First::Other => tokio::time::sleep(Duration::from_millis(1_005)).await,
            First::Together => {
                world.one.answer(&call, text("done"));
                tokio::time::advance(seconds(1)).await;
            }
        }
        settle().await;
        if order == First::Other {
            world.one.answer(&call, text("done"));
        }
        let answer = running.answer().await;
        pass(seconds(1)).await;
        let tasks = client.call("list_tasks", json!({ "include_completed": true })).await.json(0);
        if answer.text(0) == "done" {
            assert_ne!(order, First::Other);
            assert_eq!(tasks, json!([]), "{order:?}: a direct result leaves no task");
        } else {
            assert_ne!(order, First::One);
            assert_eq!(tasks[0]["status"], "completed", "{order:?}");
            let result = client.call("get_task_result", json!({ "task_id": answer.task() })).await;
            assert_eq!(result.text(0), "done");
        }
        assert!(world.one.heard_of("notifications/cancelled").is_empty(), "{order:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_removed_while_it_is_connected() {
    for reconnecting in [false, true] {
        let world = World::new();
        let client = if reconnecting { world.client().await } else { Client::new(&world.front).await };
        world.one.starts(Start::Silent);
        if reconnecting {
            world.one.crash();
            pass(seconds(2)).await;
            assert_eq!(world.one.started().len(), 2, "an attempt is under way");
        } else {
            settle().await;
        }
        let running = client.begin("execute_tool", json!({ "server": "one", "tool": "echo" })).await;
        let removed = client.call("remove_server", json!({ "name": "one" })).await;
        assert!(!removed.is_error(), "{removed:?}");
        let failed = running.answer().await;
        assert!(failed.is_error() && failed.after < seconds(10), "{failed:?}");
        world.one.starts(Start::Good);
        pass(minutes(10)).await;
        assert_eq!(world.one.open(), 0, "no zombie");
        assert!(world.one.started().len() <= 2, "no attempt after it was removed");
        let told = client.events().await;
        let connected = |event: &&Value| {
            event["server"] == "one"
                && ["server_connected", "server_reconnected"].contains(&event["type"].as_str().unwrap_or_default())
        };
        assert_eq!(told.iter().filter(connected).count(), 0, "no late news: {told:?}");
        let rows = client.call("list_servers", json!({})).await.json(0);
        assert!(rows.as_array().expect("rows").iter().all(|row| row["name"] != "one"), "{rows}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_who_reconnect_a_server_share_one_attempt() {
    let world = World::new();
    let client = world.client().await;
    let before = world.one.started().len();
    let first = client.begin("reconnect_server", json!({ "name": "one" })).await;
    drop(first.answer().await);
    assert_eq!(world.one.started().len(), before + 1);
    client.events().await;
    let other = client.clone();
    let mut both = tokio::task::JoinSet::new();
    for client in [client.clone(), other] {
        both.spawn(async move { client.call("reconnect_server", json!({ "name": "one" })).await });
    }
    while let Some(answer) = both.join_next().await {
        let answer = answer.expect("no panic");
        assert!(!answer.is_error(), "{answer:?}");
    }
    pass(seconds(5)).await;
    assert_eq!(world.one.started().len(), before + 2, "the second joins the first");
    assert_eq!(world.one.open(), 1);
    let good = client.call("execute_tool", json!({ "server": "one", "tool": "echo" })).await;
    assert_eq!(good.text(0), "echo");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_during_a_call() {
    for promoted in [false, true] {
        let world = World::new();
        let client = world.client().await;
        let running =
            client.begin("execute_tool", json!({ "server": "one", "tool": "hold", "timeout_ms": 1_000 })).await;
        let call = world.one.call(1).await;
        if promoted {
            pass(seconds(2)).await;
        }
        assert_eq!(client.delete(), 200);
        world.one.answer(&call, text("late"));
        let answer = running.answer().await;
        assert_ne!(answer.text(0), "late", "{answer:?}");
        pass(seconds(10)).await;
        assert_eq!(world.one.open(), 0);
        // The gateway is none the worse for it.
        let next = world.client().await;
        assert_eq!(next.call("execute_tool", json!({ "server": "one", "tool": "echo" })).await.text(0), "echo");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_in_the_handshake_is_a_failed_attempt_and_nothing_else() {
    let world = World::planned(Plan::default());
    world.one.starts(Start::Dies);
    let client = Client::new(&world.front).await;
    let other = client.call("execute_tool", json!({ "server": "two", "tool": "hold", "timeout_ms": 100 })).await.task();
    pass(seconds(10)).await;
    let told = client.events().await;
    let of = |kind: &str| told.iter().filter(|e| e["type"] == kind && e["server"] == "one").count();
    assert_eq!((of("server_connected"), of("server_disconnected"), of("task_failed")), (0, 0, 0), "{told:?}");
    assert!(1 < of("server_reconnecting"), "{told:?}");
    assert_eq!(client.task_row(&other).await["status"], "working");
}

#[tokio::test(start_paused = true)]
async fn a_definition_removed_while_sessions_connect_to_it() {
    let world = World::new();
    world.one.starts(Start::Silent);
    let first = Client::new(&world.front).await;
    let second = Client::new(&world.front).await;
    settle().await;
    assert_eq!(world.one.started().len(), 2, "each session tries");
    let hellos = world.one.heard_of("initialize");
    let removing = first.begin("remove_server", json!({ "name": "one" })).await;
    assert!(!removing.answer().await.is_error());
    for (number, hello) in hellos.iter().enumerate() {
        let welcome = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": { "name": "s", "version": "1" } });
        let answer = json!({ "jsonrpc": "2.0", "id": hello["id"], "result": welcome });
        // The stream may be closed already, which is as good.
        if number < world.one.open() {
            world.one.say_on(number, answer);
        }
    }
    pass(minutes(5)).await;
    assert_eq!((world.one.open(), world.one.started().len()), (0, 2));
    for client in [first, second] {
        let told = client.events().await;
        assert!(client.seen_of("server_connected").iter().all(|event| event["server"] != "one"), "{told:?}");
        assert_eq!(client.seen_of("server_removed").len(), 1, "{told:?}");
    }
}

/// A reply on its way holds its events: none of them is evicted, whether the reply arrives or not.
#[tokio::test(start_paused = true)]
async fn events_on_their_way_stay_while_others_are_evicted() {
    for arrives in [true, false] {
        let world = World::new();
        let client = world.client().await;
        questions(&world, 0..20).await;
        let reply = client.untaken("await_activity", json!({})).await;
        let Reply::Json { body, receipt: Some(receipt), .. } = reply else { panic!("no receipt: {reply:?}") };
        let response: Value = serde_json::from_slice(&body).expect("JSON");
        let text = response["result"]["content"][0]["text"].as_str().expect("a text");
        let body: Value = serde_json::from_str(text).expect("JSON");
        let (_, held) = in_order(body["events"].as_array().expect("events"));
        assert_eq!(held.len(), 40);
        assert!(client.events().await.is_empty(), "nobody else gets them meanwhile");
        questions(&world, 20..620).await;
        if arrives {
            receipt.commit();
        } else {
            drop(receipt);
        }
        let (dropped, ids) = in_order(&client.events().await);
        let again = held.iter().filter(|id| ids.contains(id)).count();
        assert_eq!(again, if arrives { 0 } else { 40 }, "arrives: {arrives}");
        assert_eq!(usize::try_from(dropped).expect("few") + ids.len() - again, 1_200, "arrives: {arrives}");
    }
}
