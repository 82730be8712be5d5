use std::time::Duration;

use lb_front::{Accept, Reply};
use lb_testkit::{ask, result, wait_for_answer, withdraw};
use serde_json::{Value, json};

use crate::desk::*;

async fn asking(capabilities: Value) -> (std::sync::Arc<lb_testkit::ScriptedMiddle>, Client) {
    let middle = middle();
    for (tool, method) in [
        ("elicits", "elicitation/create"),
        ("samples", "sampling/createMessage"),
        ("roots", "roots/list"),
        ("odd", "x/y"),
    ] {
        middle.on(tool, move |_, out| async move {
            out.step(ask("k", method, &json!({ "message": "?" }))).await;
            result(&json!(wait_for_answer(&out).await))
        });
    }
    let client = Client::seated(front(&middle), "2025-06-18", capabilities).await;
    (middle, client)
}

fn answer(id: u64, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

#[tokio::test(start_paused = true)]
async fn an_ask_is_a_request_on_the_stream_of_its_call() {
    let (_, client) = asking(json!({ "elicitation": {} })).await;
    let mut frames = stream_of(client.call(5, "elicits").await);
    let frame = frames.next().await.unwrap();
    assert_eq!(show(&frame), "ask 1 elicitation/create");
    assert!(event_id(&frame).is_some(), "asks are stored like every message");
    assert_eq!(json_of(client.post(&answer(1, json!({ "action": "accept" }))).await).0, 202);
    assert_eq!(rest(&mut frames).await, [r#"result 5 "{\"action\":\"accept\"}""#]);

    let mut frames = stream_of(client.call(6, "elicits").await);
    assert_eq!(show(&frames.next().await.unwrap()), "ask 2 elicitation/create", "ids are never used again");
    let error = json!({ "jsonrpc": "2.0", "id": 2, "error": { "code": -1, "message": "no" } });
    assert_eq!(json_of(client.post(&error).await).0, 202);
    assert_eq!(rest(&mut frames).await, [r#"result 6 "error {\"code\":-1,\"message\":\"no\"}""#]);
}

#[tokio::test(start_paused = true)]
async fn what_a_client_cannot_answer_is_refused_without_asking() {
    let (_, client) = asking(json!({ "tasks": {} })).await;
    for (tool, want) in [
        ("elicits", r#"{"action":"cancel"}"#),
        ("roots", r#"{"roots":[]}"#),
        ("samples", r#"error {"code":-32603,"message":"no client is there to sample for this request"}"#),
        ("odd", r#"error {"code":-32601,"message":"the client does not take this request"}"#),
    ] {
        assert_eq!(json_of(client.call(1, tool).await).1["result"], want, "tool {tool}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_json_only_is_asked_on_its_standalone_stream() {
    let (_, client) = asking(json!({ "elicitation": {} })).await;
    let client = Client { accept: Accept::Json, ..client };
    assert_eq!(json_of(client.call(1, "elicits").await).1["result"], r#"{"action":"cancel"}"#, "nobody listens");

    let mut listening = stream_of(Client { accept: Accept::Both, ..client.clone() }.get(None));
    let talk = async {
        let mut shown = vec![];
        while shown.last().is_none_or(|last: &String| !last.starts_with("ask")) {
            shown.push(show(&listening.next().await.unwrap()));
        }
        client.post(&answer(1, json!({ "action": "decline" }))).await;
        shown
    };
    let (reply, shown) = tokio::join!(client.call(2, "elicits"), talk);
    assert_eq!(json_of(reply).1["result"], r#"{"action":"decline"}"#);
    assert_eq!(shown, ["comment", "retry 3000", "ask 1 elicitation/create"]);
}

#[tokio::test(start_paused = true)]
async fn a_question_taken_back_is_cancelled_at_the_client() {
    let middle = middle();
    middle.on("fickle", |_, out| async move {
        out.step(ask("k", "elicitation/create", &json!({}))).await;
        out.step(withdraw("k")).await;
        out.step(ask("l", "elicitation/create", &json!({}))).await;
        result(&json!("never mind"))
    });
    let client = Client::seated(front(&middle), "2025-06-18", json!({ "elicitation": {} })).await;
    let mut frames = stream_of(client.call(1, "fickle").await);
    assert_eq!(
        rest(&mut frames).await,
        [
            "ask 1 elicitation/create",
            "note notifications/cancelled",
            "ask 2 elicitation/create",
            "note notifications/cancelled",
            "result 1 \"never mind\"",
        ]
    );
    assert_eq!(json_of(client.post(&answer(2, json!({}))).await).0, 202, "a late answer is taken and ignored");
}

#[tokio::test(start_paused = true)]
async fn a_question_nobody_answers_is_refused_after_ten_minutes_and_the_call_goes_on() {
    let (_, client) = asking(json!({ "elicitation": {} })).await;
    let mut frames = stream_of(client.call(1, "elicits").await);
    let start = tokio::time::Instant::now();
    let mut shown = rest(&mut frames).await;
    shown.retain(|frame| frame != "comment");
    assert_eq!(start.elapsed().as_secs(), 600, "the call's own deadline of 300 s stands still");
    assert_eq!(
        shown,
        ["ask 1 elicitation/create", "note notifications/cancelled", r#"result 1 "{\"action\":\"cancel\"}""#]
    );
}

#[tokio::test(start_paused = true)]
async fn the_clock_goes_on_once_the_answer_is_there() {
    let middle = middle();
    middle.on("dawdles", |_, out| async move {
        out.step(ask("k", "elicitation/create", &json!({}))).await;
        wait_for_answer(&out).await;
        std::future::pending().await
    });
    let client = Client::seated(front(&middle), "2025-06-18", json!({ "elicitation": {} })).await;
    let mut frames = stream_of(client.call(1, "dawdles").await);
    let start = tokio::time::Instant::now();
    frames.next().await.unwrap();
    tokio::time::sleep(Duration::from_secs(500)).await;
    client.post(&answer(1, json!({}))).await;
    let mut shown = rest(&mut frames).await;
    shown.retain(|frame| frame != "comment");
    assert_eq!((start.elapsed().as_secs(), shown), (800, vec!["error 1 -32603".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn asks_survive_the_connection_and_come_again_on_resume() {
    let (middle, client) = asking(json!({ "elicitation": {} })).await;
    let middle_log = middle.clone();
    let cursor = {
        middle.on("two", |_, out| async move {
            out.step(lb_testkit::note("notifications/message", &json!({}))).await;
            tokio::time::sleep(Duration::from_secs(2)).await;
            out.step(ask("k", "elicitation/create", &json!({}))).await;
            result(&json!(wait_for_answer(&out).await))
        });
        let client = Client::seated(client.front.clone(), "2025-06-18", json!({ "elicitation": {} })).await;
        let mut frames = stream_of(client.call(1, "two").await);
        let cursor = event_id(&frames.next().await.unwrap()).unwrap();
        drop(frames);
        tokio::time::sleep(Duration::from_secs(3)).await;
        (client, cursor)
    };
    let (client, cursor) = cursor;
    assert!(middle_log.log().contains(&"adopt".to_owned()));
    let mut frames = stream_of(client.get(Some(&cursor)));
    assert_eq!(show(&frames.next().await.unwrap()), "ask 1 elicitation/create");
    let Reply::Empty { status: 202 } = client.post(&answer(1, json!({ "ok": 1 }))).await else { panic!() };
    assert_eq!(rest(&mut frames).await, [r#"result 1 "{\"ok\":1}""#]);
}

#[tokio::test(start_paused = true)]
async fn what_was_asked_of_a_client_that_left_before_it_could_know_does_not_wait_for_it() {
    let (middle, client) = asking(json!({ "elicitation": {} })).await;
    let start = tokio::time::Instant::now();
    drop(stream_of(client.call(1, "elicits").await));
    middle.happened("end elicits").await;
    assert!(start.elapsed() < Duration::from_secs(10), "it does not wait for the time that an answer has");
    let late = client.post(&answer(1, json!({ "action": "accept" }))).await;
    assert_eq!(json_of(late).0, 202, "nobody waits for it any more");

    let mut listening = stream_of(client.get(None));
    drop(stream_of(client.call(2, "elicits").await));
    let mut shown = vec![];
    while shown.last().is_none_or(|last: &String| !last.starts_with("ask")) {
        shown.push(show(&listening.next().await.unwrap()));
    }
    assert_eq!(shown, ["comment", "retry 3000", "ask 2 elicitation/create"], "it is asked where it listens");
    client.post(&answer(2, json!({ "action": "accept" }))).await;
    middle.happened_times("end elicits", 2).await;
}
