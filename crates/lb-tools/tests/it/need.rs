//! Calls that wait for input.

use std::time::Duration;

use serde_json::json;

use crate::client::Client;
use crate::script::text;
use crate::world::{World, pass, seconds};

#[tokio::test(start_paused = true)]
async fn a_call_that_asks_the_model_becomes_a_task_after_a_quarter_of_a_second() {
    let world = World::new();
    let client = world.client().await;
    let running = client.begin("execute_tool", json!({ "server": "one", "tool": "hold", "timeout_ms": 120_000 })).await;
    let call = world.one.call(1).await;
    world.one.elicit("q1");
    let answer = running.answer().await;
    assert!(Duration::from_millis(250) <= answer.after && answer.after < seconds(1), "{:?}", answer.after);
    let body = answer.json(1);
    assert_eq!((&body["timeout"], &body["waiting_for_input"]), (&json!(false), &json!(true)));
    assert!(answer.text(0).contains("respond_to_elicitation"), "{answer:?}");
    let asked = client.call("get_elicitations", json!({})).await.json(0);
    let request = asked[0]["requestId"].as_str().expect("a request");
    assert_eq!(body["server_pending"]["elicitations"][0]["requestId"], request);

    // The usual question costs one turn more: its answer brings the result.
    let mut arguments = json!({ "request_id": request, "action": "accept" });
    arguments["content"] = json!({ "name": "Ada" });
    let responding = client.begin("respond_to_elicitation", arguments).await;
    world.one.until(|script| script.answer_to("q1").is_some()).await;
    let given = world.one.answer_to("q1").expect("an answer");
    assert_eq!(given["result"], json!({ "action": "accept", "content": { "name": "Ada" } }));
    world.one.answer(&call, text("hello Ada"));
    let responded = responding.answer().await;
    assert!(!responded.is_error());
    assert!(responded.response.to_string().contains("hello Ada"), "{responded:?}");
    assert!(responded.after < seconds(10));
}

#[tokio::test(start_paused = true)]
async fn an_answer_waits_ten_seconds_for_the_end_of_its_task() {
    let world = World::new();
    let client = world.client().await;
    let running = client.begin("execute_tool", json!({ "server": "one", "tool": "hold" })).await;
    world.one.call(1).await;
    world.one.elicit("q1");
    let task = running.answer().await.task();
    let asked = client.call("get_elicitations", json!({})).await.json(0);
    let arguments = json!({ "request_id": asked[0]["requestId"], "action": "decline" });
    let responded = client.call("respond_to_elicitation", arguments).await;
    assert!(!responded.is_error(), "{responded:?}");
    assert!(seconds(10) <= responded.after && responded.after < seconds(11), "{:?}", responded.after);
    assert!(responded.response.to_string().contains(&task), "the task is named: {responded:?}");
    assert_eq!(world.one.answers_to("q1").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_question_to_a_client_that_can_answer_makes_no_task_and_stops_the_clock() {
    let world = World::new();
    let client = Client::with(&world.front, json!({ "elicitation": {} })).await;
    client.call("list_tools", json!({})).await;
    client.events().await;
    let mut running =
        client.begin("execute_tool", json!({ "server": "one", "tool": "hold", "timeout_ms": 5_000 })).await;
    world.one.call(1).await;
    world.one.elicit("q1");
    pass(seconds(60)).await;
    assert!(!running.is_done().await, "the clock stands still while the client is asked");
    assert_eq!(client.call("list_tasks", json!({})).await.json(0), json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_question_of_no_call_in_particular_makes_tasks_of_all_calls_of_that_server() {
    let world = World::new();
    let client = world.client().await;
    let first = client.begin("execute_tool", json!({ "server": "one", "tool": "hold" })).await;
    let second = client.begin("execute_tool", json!({ "server": "one", "tool": "hold" })).await;
    let mut other = client.begin("execute_tool", json!({ "server": "two", "tool": "hold" })).await;
    world.one.call(2).await;
    world.one.elicit("q1");
    for running in [first, second] {
        let answer = running.answer().await;
        assert!(answer.after < seconds(1), "{:?}", answer.after);
        assert_eq!(answer.json(1)["waiting_for_input"], true);
        assert_eq!(answer.json(1)["server_pending"]["elicitations"].as_array().map(Vec::len), Some(1));
    }
    assert!(!other.is_done().await, "another server's call goes on");
}

#[tokio::test(start_paused = true)]
async fn two_calls_that_ran_out_of_time_list_one_question_and_one_answer_settles_it() {
    let world = World::new();
    let client = world.client().await;
    let mut tasks = Vec::new();
    let first = client.begin("execute_tool", json!({ "server": "one", "tool": "hold", "timeout_ms": 100 })).await;
    let second = client.begin("execute_tool", json!({ "server": "one", "tool": "hold", "timeout_ms": 100 })).await;
    world.one.elicit("q1");
    world.two.elicit("other");
    for running in [first, second] {
        let answer = running.answer().await;
        let shown = answer.json(1)["server_pending"]["elicitations"].clone();
        assert_eq!(shown.as_array().map(Vec::len), Some(1), "only this server's question: {shown}");
        assert_eq!(shown[0]["server"], "one");
        tasks.push(answer.task());
    }
    let asked = client.call("get_elicitations", json!({})).await.json(0);
    assert_eq!(asked.as_array().map(Vec::len), Some(2), "{asked}");
    let question = asked.as_array().expect("rows").iter().find(|row| row["server"] == "one").expect("a row");
    let arguments = json!({ "request_id": question["requestId"], "action": "cancel" });
    let settled = client.call("respond_to_elicitation", arguments.clone()).await;
    assert!(!settled.is_error(), "{settled:?}");
    world.one.until(|script| script.answers_to("q1").len() == 1).await;
    let again = client.call("respond_to_elicitation", arguments).await;
    assert_eq!(again.code(), "REQUEST_NOT_FOUND");
    for task in tasks {
        assert_eq!(client.task_row(&task).await["pending_elicitations"], json!([]));
    }
}
