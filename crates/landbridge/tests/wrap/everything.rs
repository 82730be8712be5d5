//! The reference server of the protocol's authors, wrapped: every feature that it has.

use std::time::Duration;

use serde_json::{Value, json};

use crate::real::node;
use crate::tours::{Tour, same};

mod peer_everything {
    #[tokio::test]
    async fn all_of_the_reference_server_is_there_wrapped() {
        let program = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
        let command = super::node("everything", program, &["stdio"]);
        super::same(&command, &[], || (), super::all).await;
    }
}

async fn all(tour: &mut Tour) {
    plain(tour).await;
    roots(tour).await;
    resources(tour).await;
    prompts(tour).await;
    logs(tour).await;
    progress(tour).await;
    questions(tour).await;
    task(tour).await;
}

async fn plain(tour: &mut Tour) {
    for list in ["prompts/list", "resources/list", "resources/templates/list"] {
        tour.ask(list, json!({})).await;
    }
    tour.call("echo", json!({ "message": "ä\u{1F600}" })).await;
    tour.call("get-sum", json!({ "a": 1.5, "b": 2 })).await;
    tour.call("get-sum", json!({ "a": "not a number" })).await;
    tour.call("get-tiny-image", json!({})).await;
    tour.call("get-annotated-message", json!({ "messageType": "error", "includeImage": true })).await;
    tour.call("get-resource-links", json!({ "count": 4 })).await;
    let structured = tour.call("get-structured-content", json!({ "location": "Chicago" })).await;
    assert!(structured["result"]["structuredContent"].is_object(), "{structured}");
    assert!(tour.text("get-env", json!({})).await.contains("PATH"));
    tour.call("no-such-tool", json!({})).await;
}

/// It asks by itself, some time after it was started, and again when it is told to.
async fn roots(tour: &mut Tour) {
    tour.answer("roots/list", json!({ "roots": [{ "uri": "file:///one", "name": "one" }] })).await;
    tour.told("notifications/message").await;
    tour.call("get-roots-list", json!({})).await;
    tour.tell("notifications/roots/list_changed").await;
    let two = json!({ "roots": [{ "uri": "file:///one" }, { "uri": "file:///two", "name": "two" }] });
    tour.answer("roots/list", two).await;
    tour.told("notifications/message").await;
    let listed = tour.call("get-roots-list", json!({})).await;
    assert!(listed.to_string().contains("2 total") && listed.to_string().contains("file:///two"), "{listed}");
    // The tools that it has depend on what a client can: here it has all of them.
    tour.ask("tools/list", json!({})).await;
}

async fn resources(tour: &mut Tour) {
    let uri = json!({ "uri": "demo://resource/static/document/features.md" });
    tour.ask("resources/read", uri.clone()).await;
    let made = tour.client.result("resources/read", json!({ "uri": "demo://resource/dynamic/blob/7" })).await;
    assert!(made["contents"][0]["blob"].is_string(), "{made}");
    tour.ask("resources/read", json!({ "uri": "demo://none" })).await;
    // One that is there from now on.
    tour.call("gzip-file-as-resource", json!({ "name": "x.gz", "data": "data:text/plain,hello" })).await;
    tour.told("notifications/resources/list_changed").await;
    tour.ask("resources/read", json!({ "uri": "demo://resource/session/x.gz" })).await;
    let listed = tour.ask("resources/list", json!({})).await;
    assert!(listed.to_string().contains("demo://resource/session/x.gz"), "{listed}");
    tour.ask("resources/subscribe", uri.clone()).await;
    tour.told("notifications/message").await;
    tour.call("toggle-subscriber-updates", json!({})).await;
    let updated = tour.told("notifications/resources/updated").await;
    assert_eq!(updated["params"], uri);
    tour.call("toggle-subscriber-updates", json!({})).await;
    tour.ask("resources/unsubscribe", uri).await;
    tour.told("notifications/message").await;
}

async fn prompts(tour: &mut Tour) {
    tour.ask("prompts/get", json!({ "name": "simple-prompt" })).await;
    tour.ask("prompts/get", json!({ "name": "args-prompt", "arguments": { "city": "Ulm" } })).await;
    tour.ask("prompts/get", json!({ "name": "args-prompt" })).await;
    let arguments = json!({ "resourceType": "Text", "resourceId": "1" });
    let made = tour.client.result("prompts/get", json!({ "name": "resource-prompt", "arguments": arguments })).await;
    assert_eq!(made["messages"][1]["content"]["resource"]["uri"], "demo://resource/dynamic/text/1", "{made}");
    let prompt = json!({ "type": "ref/prompt", "name": "completable-prompt" });
    let department = json!({ "name": "department", "value": "S" });
    let values = tour.ask("completion/complete", json!({ "ref": prompt, "argument": department })).await;
    assert_eq!(values["result"]["completion"]["values"], json!(["Sales", "Support"]));
    let (name, context) = (json!({ "name": "name", "value": "" }), json!({ "arguments": { "department": "Sales" } }));
    tour.ask("completion/complete", json!({ "ref": prompt, "argument": name, "context": context })).await;
    let template = json!({ "type": "ref/resource", "uri": "demo://resource/dynamic/text/{resourceId}" });
    let id = json!({ "name": "resourceId", "value": "1" });
    tour.ask("completion/complete", json!({ "ref": template, "argument": id })).await;
}

/// What it logs is of a level at random; the most urgent one is the only one that always passes.
async fn logs(tour: &mut Tour) {
    tour.ask("logging/setLevel", json!({ "level": "debug" })).await;
    tour.call("toggle-simulated-logging", json!({})).await;
    let logged = tour.client.find(|message| message["method"] == "notifications/message").await;
    assert!(logged["params"]["data"].as_str().is_some_and(|text| text.contains("message")), "{logged}");
    tour.call("toggle-simulated-logging", json!({})).await;
    tour.ask("logging/setLevel", json!({ "level": "emergency" })).await;
    // It would log this at the level `info`, before it answers.
    let uri = json!({ "uri": "demo://resource/static/document/startup.md" });
    tour.ask("resources/subscribe", uri.clone()).await;
    tour.ask("resources/unsubscribe", uri).await;
    assert_eq!(tour.client.heard("notifications/message"), 0, "the level is the server's");
    tour.ask("logging/setLevel", json!({ "level": "loud" })).await;
}

async fn progress(tour: &mut Tour) {
    let arguments = json!({ "duration": 0.4, "steps": 4 });
    let meta = json!({ "progressToken": "mine" });
    let params = json!({ "name": "trigger-long-running-operation", "arguments": arguments, "_meta": meta });
    let id = tour.client.ask("tools/call", params.clone()).await;
    let done = tour.client.answer(&id).await;
    assert!(done["result"].to_string().contains("completed"), "{done}");
    assert_eq!(tour.client.heard("notifications/progress"), 4, "all of it comes before the result");
    for _ in 0..4 {
        tour.told("notifications/progress").await;
    }
    // One that is cancelled is not answered, and nothing else waits for it.
    // The server goes on with it all the same, and does not end before.
    let arguments = json!({ "duration": 3, "steps": 30 });
    let params = json!({ "name": "trigger-long-running-operation", "arguments": arguments, "_meta": meta });
    let id = tour.client.ask("tools/call", params).await;
    tour.client.find(|message| message["method"] == "notifications/progress").await;
    let cancelled = json!({ "requestId": id, "reason": "enough" });
    tour.client.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled })).await;
    tour.call("echo", json!({ "message": "still there" })).await;
}

async fn questions(tour: &mut Tour) {
    let answers = [
        json!({ "action": "accept", "content": { "name": "Ada", "check": true, "integer": 7 } }),
        json!({ "action": "decline" }),
        json!({ "action": "cancel" }),
    ];
    for answer in answers {
        let params = json!({ "name": "trigger-elicitation-request", "arguments": {} });
        asked(tour, params, "elicitation/create", answer).await;
    }
    let arguments = json!({ "prompt": "two words", "maxTokens": 10 });
    let params = json!({ "name": "trigger-sampling-request", "arguments": arguments });
    let content = json!({ "type": "text", "text": "dark matter" });
    let answer = json!({ "role": "assistant", "content": content, "model": "m", "stopReason": "endTurn" });
    asked(tour, params, "sampling/createMessage", answer).await;
}

/// A call during which the server asks.
async fn asked(tour: &mut Tour, params: Value, method: &str, answer: Value) {
    let id = tour.client.ask("tools/call", params).await;
    tour.answer(method, answer).await;
    let mut done = tour.client.answer(&id).await;
    done["id"] = Value::Null;
    assert_ne!(done["result"]["isError"], true, "{done}");
    tour.note("answered", done);
}

/// A tool that is only there as a task of the server.
async fn task(tour: &mut Tour) {
    tour.call("simulate-research-query", json!({ "topic": "bridges" })).await;
    let arguments = json!({ "topic": "bridges" });
    let params = json!({ "name": "simulate-research-query", "arguments": arguments, "task": { "ttl": 60_000 } });
    let begun = tour.client.result("tools/call", params).await;
    let id = begun["task"]["taskId"].clone();
    assert!(id.is_string(), "{begun}");
    let listed = tour.client.result("tasks/list", json!({})).await;
    assert!(listed.to_string().contains(id.as_str().expect("text")), "{listed}");
    let told = tour.client.find(|message| message["method"] == "notifications/tasks/status").await;
    assert_eq!(told["params"]["taskId"], id);
    let start = tokio::time::Instant::now();
    loop {
        let status = tour.client.result("tasks/get", json!({ "taskId": id })).await;
        if status["status"] == "completed" {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "{status}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let result = tour.client.result("tasks/result", json!({ "taskId": id })).await;
    assert!(result.to_string().contains("bridges"), "{result}");
}
