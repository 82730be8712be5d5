//! The tools that ask the client: in the handshake era by requests, in the later one by `input_required`.

use serde_json::{Value, json};

use crate::client::{Client, ERAS, Era, failed, text};

fn able() -> Value {
    json!({ "elicitation": { "form": {} }, "sampling": {}, "roots": {} })
}

/// Calls `tool`, checks and answers its question in the way of the era, and returns the call's result.
async fn answered(era: Era, tool: &str, method: &str, answer: &Value) -> (Value, Value) {
    let mut client = Client::open(era, able()).await;
    let params = json!({ "name": tool, "arguments": {} });
    let id = client.request("tools/call", params.clone()).await;
    let (question, result) = match era {
        Era::Handshake => {
            let question = client.next().await;
            client.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer })).await;
            (question, client.result_of(id).await)
        }
        Era::Stateless => {
            let asked = client.result_of(id).await;
            assert_eq!(asked["resultType"], "input_required");
            let questions = asked["inputRequests"].as_object().unwrap();
            assert_eq!(questions.len(), 1);
            let (key, question) = questions.iter().next().unwrap();
            let mut params = params;
            params["inputResponses"] = json!({ key.as_str(): answer });
            (question.clone(), client.ask("tools/call", params).await)
        }
    };
    assert_eq!(question["method"], method, "{era:?} {question}");
    client.close().await;
    (question["params"].clone(), result)
}

#[tokio::test(start_paused = true)]
async fn elicitation_makes_the_round_trip() {
    for era in ERAS {
        for (answer, fails, says) in [
            (json!({ "action": "accept", "content": { "name": " Ada " } }), false, "Hello, Ada!"),
            (json!({ "action": "decline" }), false, "rather not"),
            (json!({ "action": "cancel" }), false, "closed"),
            (json!({ "action": "accept", "content": {} }), true, "without a name"),
            (json!({ "odd": 1 }), true, "not a form result"),
        ] {
            let (question, result) = answered(era, "elicit_demo", "elicitation/create", &answer).await;
            assert_eq!(question["message"], "What is your name?");
            assert_eq!(question["requestedSchema"]["required"], json!(["name"]));
            assert_eq!(question["requestedSchema"]["properties"]["name"]["type"], "string");
            assert_eq!(failed(&result), fails, "{era:?} {answer}: {result}");
            assert!(text(&result).contains(says), "{era:?} {answer}: {result}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn sampling_makes_the_round_trip() {
    for era in ERAS {
        let block = json!({ "type": "text", "text": "A protocol." });
        for (content, fails, says) in [
            (block.clone(), false, "tiny says: A protocol."),
            (json!([block, block]), false, "tiny says: A protocol.\nA protocol."),
            (json!({ "type": "image", "data": "", "mimeType": "image/png" }), true, "no text"),
        ] {
            let answer = json!({ "role": "assistant", "content": content, "model": "tiny" });
            let (question, result) = answered(era, "sample_demo", "sampling/createMessage", &answer).await;
            assert_eq!(question["messages"][0]["role"], "user");
            assert_eq!(question["maxTokens"], 200);
            assert_eq!((failed(&result), text(&result).contains(says)), (fails, true), "{era:?} {content}: {result}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn asking_for_roots_makes_the_round_trip() {
    for era in ERAS {
        let folder = json!({ "uri": "file:///home/ada", "name": "home" });
        for (roots, says) in [(json!([folder]), "You work in\n- home: file:///home/ada"), (json!([]), "no folder")] {
            let (_, result) = answered(era, "roots_demo", "roots/list", &json!({ "roots": roots })).await;
            assert!(!failed(&result) && text(&result).contains(says), "{era:?}: {result}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_cannot_be_asked_gets_plain_words() {
    for era in ERAS {
        let only_url = json!({ "elicitation": { "url": {} } });
        for (capabilities, tool, says) in [
            (json!({}), "elicit_demo", "capabilities.elicitation"),
            (only_url, "elicit_demo", "capabilities.elicitation"),
            (json!({}), "sample_demo", "capabilities.sampling"),
            (json!({}), "roots_demo", "capabilities.roots"),
        ] {
            let mut client = Client::open(era, capabilities).await;
            let result = client.call(tool, json!({})).await;
            assert!(!failed(&result) && text(&result).contains(says), "{era:?} {tool}: {result}");
            client.close().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_elicitation_capability_means_forms() {
    let mut client = Client::open(Era::Stateless, json!({ "elicitation": {} })).await;
    assert_eq!(client.call("elicit_demo", json!({})).await["resultType"], "input_required");
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_question_fails_the_call_with_the_reason() {
    let mut client = Client::open(Era::Handshake, able()).await;
    let id = client.request("tools/call", json!({ "name": "sample_demo", "arguments": { "question": "Why?" } })).await;
    let question = client.next().await;
    assert_eq!(question["params"]["messages"][0]["content"]["text"], "Why?");
    let error = json!({ "code": -1, "message": "the user said no" });
    client.send(json!({ "jsonrpc": "2.0", "id": question["id"], "error": error })).await;
    let result = client.result_of(id).await;
    assert!(failed(&result) && text(&result).contains("the user said no"), "{result}");
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn cancelling_the_call_takes_the_question_back() {
    let mut client = Client::open(Era::Handshake, able()).await;
    let id = client.request("tools/call", json!({ "name": "elicit_demo", "arguments": {} })).await;
    let question = client.next().await;
    client.notify("notifications/cancelled", json!({ "requestId": id })).await;
    let taken_back = client.next().await;
    assert_eq!(taken_back["method"], "notifications/cancelled");
    assert_eq!(taken_back["params"]["requestId"], question["id"]);
    // Nothing else is left over: the next message answers the next call.
    assert_eq!(text(&client.call("echo", json!({ "message": "on" })).await), "on");
    client.close().await;
}
