use std::time::Duration;

use lb_gateway::{AskMode, Policy};
use lb_wire::revision::Revision;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::stage::{Stage, finish};

const ASK: &str = "ask";

fn call(tool: &str) -> Value {
    json!({ "server": "s", "tool": tool, "timeout_ms": 120_000 })
}

#[tokio::test(start_paused = true)]
async fn a_client_that_can_is_asked_itself_and_time_stands_still() {
    let stage = Stage::new(Revision::V2025_11_25, r#"{"elicitation":{}}"#).await;
    let mut exchange = stage.tool("execute_tool", json!({ "server": "s", "tool": ASK, "timeout_ms": 1000 }));
    let lb_exchange::Step::Ask(ask) = exchange.step().await else { panic!("the client is asked") };
    assert!(tokio::time::timeout(Duration::from_secs(60), exchange.step()).await.is_err(), "a person may take long");
    let answer = lb_wire::Raw::from_static(r#"{"action":"accept","content":{"name":"Ada"}}"#);
    exchange.remote().answer(ask.key, lb_exchange::Answer::Result(answer));
    let ended = finish(exchange, |_| panic!()).await;
    assert_eq!(ended.block(0), r#"{"action":"accept","content":{"name":"Ada"}}"#);
}

#[tokio::test(start_paused = true)]
async fn a_question_to_the_model_makes_a_task_at_once_and_its_answer_brings_the_result() {
    let stage = Stage::new(Revision::V2025_11_25, "{}").await;
    let start = Instant::now();
    let asked = stage.call("execute_tool", call(ASK)).await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    let facts = asked.json(1);
    assert_eq!((&facts["timeout"], &facts["waiting_for_input"]), (&json!(false), &json!(true)));
    let request = facts["server_pending"]["elicitations"][0]["requestId"].as_str().expect("an id");
    assert!(asked.block(0).contains(request) && asked.block(0).contains("respond_to_elicitation"), "{}", asked.text);
    assert_eq!(asked.context()["pending_client"]["elicitation"], 1);

    let wrong = json!({ "request_id": request, "action": "accept", "content": { "name": 7 } });
    let refused = stage.call("respond_to_elicitation", wrong).await;
    assert_eq!(refused.code(), "INVALID_ARGUMENT", "{}", refused.text);
    assert_eq!(stage.call("get_elicitations", json!({})).await.json(0)[0]["requestId"], request);

    let right = json!({ "request_id": request, "action": "accept", "content": { "name": "Ada" } });
    let answered = stage.call("respond_to_elicitation", right.clone()).await;
    assert!(answered.block(0).starts_with("Answered request"), "{}", answered.text);
    assert_eq!(answered.block(1), r#"{"action":"accept","content":{"name":"Ada"}}"#);
    assert_eq!(stage.call("respond_to_elicitation", right).await.code(), "REQUEST_NOT_FOUND");
}

#[tokio::test(start_paused = true)]
async fn an_answer_within_the_grace_needs_no_task() {
    let stage = Stage::new(Revision::V2025_11_25, "{}").await;
    stage.call("list_tools", json!({})).await;
    let answering = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let request = stage.call("get_elicitations", json!({})).await.json(0)[0]["requestId"].clone();
        stage.call("respond_to_elicitation", json!({ "request_id": request, "action": "decline" })).await
    };
    let (direct, _) = tokio::join!(stage.call("execute_tool", call(ASK)), answering);
    assert_eq!(direct.block(0), r#"{"action":"decline"}"#);
    assert_eq!(stage.call("list_tasks", json!({ "include_completed": true })).await.json(0), json!([]));
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_for_a_password_and_nobody_at_all_if_so_set() {
    let stage = Stage::new(Revision::V2025_11_25, "{}").await;
    assert_eq!(stage.call("execute_tool", call("phish")).await.block(0), r#"{"action":"cancel"}"#);
    let never = Policy { ask: AskMode::Never, ..Policy::default() };
    let stage = Stage::with(Revision::V2025_11_25, r#"{"elicitation":{}}"#, never).await;
    assert_eq!(stage.call("execute_tool", call(ASK)).await.block(0), r#"{"action":"cancel"}"#);
}

#[tokio::test(start_paused = true)]
async fn a_question_can_be_given_up() {
    let stage = Stage::new(Revision::V2025_11_25, "{}").await;
    let asked = stage.call("execute_tool", call(ASK)).await.json(1);
    let request = &asked["server_pending"]["elicitations"][0]["requestId"];
    let cancelled = stage.call("cancel_elicitation_request", json!({ "request_id": request })).await;
    assert_eq!(cancelled.result["structuredContent"]["success"], true, "{}", cancelled.text);
    let result = stage.call("get_task_result", json!({ "task_id": asked["task"]["taskId"] })).await;
    assert_eq!(result.block(0), r#"{"action":"cancel"}"#);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_starts_while_a_question_waits_is_waited_for() {
    let stage = Stage::new(Revision::V2025_11_25, "{}").await;
    assert_eq!(stage.call("execute_tool", call(ASK)).await.json(1)["waiting_for_input"], true);
    let slow = json!({ "server": "s", "tool": "slow", "args": { "ms": 2000 } });
    assert_eq!(stage.call("execute_tool", slow).await.block(0), "done");
}

#[tokio::test(start_paused = true)]
async fn a_question_that_may_be_of_any_call_makes_tasks_of_all() {
    let stage = Stage::new(Revision::V2025_11_25, "{}").await;
    stage.call("list_tools", json!({})).await;
    let hang = json!({ "server": "s", "tool": "hang" });
    let start = Instant::now();
    let (hangs, asked) = tokio::join!(stage.call("execute_tool", hang), stage.call("execute_tool", call(ASK)));
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(hangs.json(1)["waiting_for_input"], true, "{}", hangs.text);
    let request = &asked.json(1)["server_pending"]["elicitations"][0]["requestId"];
    let answered = stage.call("respond_to_elicitation", json!({ "request_id": request, "action": "decline" })).await;
    assert!(answered.block(0).starts_with("Answered"), "{}", answered.text);
    let result = stage.call("get_task_result", json!({ "task_id": asked.json(1)["task"]["taskId"] })).await;
    assert_eq!(result.block(0), r#"{"action":"decline"}"#);
}

#[tokio::test(start_paused = true)]
async fn an_answer_waits_for_the_task_that_asked_among_several() {
    let stage = Stage::new(Revision::V2025_11_25, "{}").await;
    let asked = stage.call("execute_tool", call(ASK)).await.json(1);
    stage.call("execute_tool", json!({ "server": "s", "tool": "hang", "timeout_ms": 100 })).await;
    let request = &asked["server_pending"]["elicitations"][0]["requestId"];
    let answered = stage.call("respond_to_elicitation", json!({ "request_id": request, "action": "decline" })).await;
    assert_eq!(answered.block(1), r#"{"action":"decline"}"#, "{}", answered.text);
}
