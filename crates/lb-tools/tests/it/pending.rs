//! Questions that nobody answers.

use serde_json::json;

use crate::world::{World, minutes, pass, seconds};

#[tokio::test(start_paused = true)]
async fn questions_end_after_ten_minutes_and_everybody_is_told_once() {
    let world = World::new();
    let client = world.client().await;
    world.one.elicit("q1");
    world.one.sample("q2");
    pass(minutes(10) - seconds(2)).await;
    assert!(world.one.answer_to("q1").is_none() && world.one.answer_to("q2").is_none());
    let told = client.events().await;
    let kinds: Vec<_> = told.iter().map(|event| event["type"].as_str().expect("a type")).collect();
    assert_eq!(kinds, ["elicitation_request", "sampling_request"]);
    pass(seconds(3)).await;
    assert_eq!(world.one.answers_to("q1").len(), 1);
    assert_eq!(world.one.answer_to("q1").expect("an answer")["result"], json!({ "action": "cancel" }));
    assert_eq!(world.one.answers_to("q2").len(), 1);
    assert_eq!(world.one.answer_to("q2").expect("an answer")["error"]["code"], -32001);
    let mut ended = client.events().await;
    ended.sort_by_key(|event| event["type"].to_string());
    let shown: Vec<_> = ended.iter().map(|e| (e["type"].clone(), e["data"]["cause"].clone())).collect();
    assert_eq!(
        shown,
        [(json!("elicitation_expired"), json!("timeout")), (json!("sampling_expired"), json!("timeout"))]
    );
    assert_eq!(ended[0]["data"]["requestId"], told[0]["data"]["requestId"]);
    let late = json!({ "request_id": told[0]["data"]["requestId"], "action": "decline" });
    assert_eq!(client.call("respond_to_elicitation", late).await.code(), "REQUEST_NOT_FOUND");
}

#[tokio::test(start_paused = true)]
async fn a_question_that_its_server_takes_back_gets_no_answer() {
    let world = World::new();
    let client = world.client().await;
    world.one.elicit("q1");
    assert_eq!(client.call("await_activity", json!({})).await.types(), ["elicitation_request"]);
    world.one.say(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "q1" } }));
    let told = client.call("await_activity", json!({})).await;
    assert_eq!(told.types(), ["elicitation_expired"]);
    assert_eq!(told.json(0)["events"][0]["data"]["cause"], "server_cancelled");
    assert_eq!(client.call("get_elicitations", json!({})).await.json(0), json!([]));
    pass(minutes(11)).await;
    assert!(world.one.answer_to("q1").is_none());
}

#[tokio::test(start_paused = true)]
async fn questions_of_a_server_that_is_gone_are_given_up_and_no_others() {
    let world = World::new();
    let client = world.client().await;
    world.one.elicit("q1");
    world.one.sample("q2");
    world.two.elicit("q3");
    pass(seconds(1)).await;
    client.events().await;
    world.one.crash();
    pass(seconds(0)).await;
    let told = client.events().await;
    let given_up: Vec<_> = told.iter().filter(|e| e["data"]["cause"] == "server_disconnected").collect();
    assert_eq!(given_up.len(), 2, "{told:?}");
    assert!(given_up.iter().all(|event| event["server"] == "one"));
    let left = client.call("get_elicitations", json!({})).await.json(0);
    assert_eq!((left.as_array().map(Vec::len), &left[0]["server"]), (Some(1), &json!("two")));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_answers_every_question() {
    let world = World::new();
    let client = world.client().await;
    world.one.elicit("q1");
    world.two.sample("q2");
    pass(seconds(1)).await;
    assert_eq!(client.delete(), 200);
    pass(seconds(2)).await;
    assert_eq!(world.one.answers_to("q1").len(), 1, "{:?}", world.one.heard());
    assert_eq!(world.one.answer_to("q1").expect("an answer")["result"]["action"], "cancel");
    assert_eq!(world.two.answers_to("q2").len(), 1);
    assert!(world.two.answer_to("q2").expect("an answer")["error"].is_object());
}

/// A timer left behind would answer a second time, or wake somebody for nothing.
#[tokio::test(start_paused = true)]
async fn answered_questions_leave_nothing_behind() {
    let world = World::new();
    let client = world.client().await;
    for number in 0..10_000 {
        let id = format!("q{number}");
        world.one.elicit(&id);
        let told = client.call("await_activity", json!({})).await.json(0);
        let request = told["events"][0]["data"]["requestId"].clone();
        let answered =
            client.call("respond_to_elicitation", json!({ "request_id": request, "action": "decline" })).await;
        assert!(!answered.is_error(), "{answered:?}");
        world.one.until(|script| script.last().is_some_and(|message| message["id"] == *id)).await;
    }
    pass(minutes(11)).await;
    let told = client.events().await;
    assert!(told.is_empty(), "{told:?}");
    let answers = world.one.heard().iter().filter(|message| message.get("method").is_none()).count();
    assert_eq!(answers, 10_000);
}

#[tokio::test(start_paused = true)]
async fn a_server_may_ask_a_hundred_things_at_once() {
    let world = World::new();
    let client = world.client().await;
    for number in 0..101 {
        world.one.elicit(&format!("q{number}"));
        pass(seconds(0)).await;
    }
    pass(seconds(1)).await;
    assert_eq!(client.call("get_elicitations", json!({})).await.json(0).as_array().map(Vec::len), Some(100));
    let refused = world.one.answer_to("q100").expect("the one too many is answered");
    assert_eq!(refused["error"]["code"], -32000, "{refused}");
    assert!(world.one.answer_to("q99").is_none());
}
