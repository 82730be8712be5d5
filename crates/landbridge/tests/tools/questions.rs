//! Questions of servers, answered by the model through tools, and tasks that are cancelled.

use lb_peers::tools::{Reply, ToolClient};
use serde_json::{Value, json};

use crate::world::{desk, fixture, over_http, task_of, tell, until, until_connected};

/// Has the scripted server ask, and tells the id under which the question is open.
async fn ask(client: &ToolClient, method: &str, params: Value, list: &str) -> Value {
    let args = json!({ "method": method, "params": params });
    let reply = client.call("execute_tool", json!({ "server": "desk", "tool": "ask", "args": args })).await;
    task_of(&reply);
    client.call(list, json!({})).await.json()[0]["requestId"].clone()
}

/// The reply that the server was given, which is the text of its tool's result.
fn given(reply: &Reply) -> Value {
    let found = reply.objects().map(|(_, value)| value).find(|value| value["jsonrpc"] == "2.0");
    found.unwrap_or_else(|| panic!("the result of the tool: {reply}"))
}

#[tokio::test]
async fn an_answer_to_sampling_reaches_the_server_as_a_message() {
    let (_gateway, client) = over_http(json!({ "desk": desk(&[]) })).await;
    until_connected(&client, "desk").await;
    let prompt = json!({ "role": "user", "content": { "type": "text", "text": "why?" } });
    let params = json!({ "messages": [prompt], "maxTokens": 50, "systemPrompt": "short", "temperature": 0.5 });
    let image = json!({ "type": "image", "data": "aGk=", "mimeType": "image/png" });
    for (content, want) in
        [(json!("because"), json!({ "type": "text", "text": "because" })), (image.clone(), image.clone())]
    {
        let id = ask(&client, "sampling/createMessage", params.clone(), "get_sampling_requests").await;
        let row = client.call("get_sampling_requests", json!({})).await.json()[0].clone();
        for member in ["messages", "maxTokens", "systemPrompt", "temperature"] {
            assert_eq!(row[member], params[member], "{member}");
        }
        let answer = json!({ "request_id": id, "role": "assistant", "content": content, "model": "m-1", "stop_reason": "endTurn" });
        let reply = client.call("respond_to_sampling", answer).await;
        let result = given(&reply)["result"].clone();
        assert_eq!(result, json!({ "role": "assistant", "content": want, "model": "m-1", "stopReason": "endTurn" }));
    }
}

#[tokio::test]
async fn an_elicitation_is_accepted_declined_or_cancelled_and_survives_a_bad_answer() {
    let (_gateway, client) = over_http(json!({ "desk": desk(&[]) })).await;
    until_connected(&client, "desk").await;
    let age = json!({ "type": "integer", "minimum": 18 });
    let schema = json!({ "type": "object", "properties": { "age": age }, "required": ["age"] });
    let params = json!({ "message": "how old?", "requestedSchema": schema });
    for (action, content, want) in [
        ("accept", json!({ "age": 20 }), json!({ "action": "accept", "content": { "age": 20 } })),
        ("decline", Value::Null, json!({ "action": "decline" })),
        ("cancel", Value::Null, json!({ "action": "cancel" })),
    ] {
        let id = ask(&client, "elicitation/create", params.clone(), "get_elicitations").await;
        for bad in [json!({}), json!({ "age": "20" }), json!({ "age": 17 }), json!({ "age": 20.5 })] {
            let answer = json!({ "request_id": id, "action": "accept", "content": bad });
            let reply = client.call("respond_to_elicitation", answer).await;
            assert_eq!(reply.code(), "INVALID_ARGUMENT", "{bad}: {reply}");
        }
        assert_eq!(client.call("get_elicitations", json!({})).await.json()[0]["requestId"], id, "still open");
        let mut answer = json!({ "request_id": id, "action": action });
        if !content.is_null() {
            answer["content"] = content;
        }
        let reply = client.call("respond_to_elicitation", answer).await;
        assert_eq!(given(&reply)["result"], want);
    }
    let id = ask(&client, "elicitation/create", params, "get_elicitations").await;
    client.call("cancel_elicitation_request", json!({ "request_id": id })).await;
    let reply = until(&client, "list_tasks", json!({}), |reply| reply.json() == json!([])).await;
    assert!(!reply.is_error());
}

/// A model that waits for the result of a task could never answer what the task waits for.
#[tokio::test]
async fn whoever_waits_for_a_task_is_told_at_once_what_the_task_waits_for() {
    let (_gateway, client) = over_http(json!({ "desk": desk(&[]) })).await;
    until_connected(&client, "desk").await;
    let params = json!({ "message": "how old?", "requestedSchema": { "type": "object", "properties": {} } });
    let args = json!({ "method": "elicitation/create", "params": params });
    let asked = client.call("execute_tool", json!({ "server": "desk", "tool": "ask", "args": args })).await;
    let task = task_of(&asked);
    let id = client.call("get_elicitations", json!({})).await.json()[0]["requestId"].clone();
    let begun = std::time::Instant::now();
    let reply = client.call("get_task_result", json!({ "task_id": task, "timeout_ms": 50_000 })).await;
    assert!(begun.elapsed().as_secs() < 10, "it waited: {reply}");
    assert!(!reply.is_error(), "{reply}");
    for part in ["how old?", "respond_to_elicitation", id.as_str().expect("an id")] {
        assert!(reply.text().contains(part), "{part}: {reply}");
    }
    let row = reply.structured();
    assert_eq!((&row["taskId"], &row["status"]), (&task, &json!("working")), "{reply}");
    assert_eq!(row["waiting_for_input"], true, "{reply}");
    client.call("respond_to_elicitation", json!({ "request_id": id, "action": "decline" })).await;
    let reply = client.call("get_task_result", json!({ "task_id": task })).await;
    assert_eq!(given(&reply)["result"], json!({ "action": "decline" }));
}

#[tokio::test]
async fn no_server_is_left_waiting_for_an_answer() {
    let (_gateway, client) = over_http(json!({ "desk": desk(&[]) })).await;
    until_connected(&client, "desk").await;
    // The server asks during a call and ends the call without waiting.
    tell(&client, "asks", json!({ "count": 1 })).await;
    let open = client.call("get_elicitations", json!({})).await;
    if open.json() == json!([]) {
        let answered = |reply: &Reply| reply.text().contains("desk-1");
        until(&client, "execute_tool", json!({ "server": "desk", "tool": "received" }), answered).await;
    }
}

#[tokio::test]
async fn cancelling_a_task_tells_the_server() {
    let (_gateway, client) = over_http(json!({ "desk": desk(&[]) })).await;
    until_connected(&client, "desk").await;
    let hang = json!({ "server": "desk", "tool": "hang", "timeout_ms": 100, "args": { "a": 1 } });
    let task = task_of(&client.call("execute_tool", hang).await);
    let listed = client.call("list_tasks", json!({})).await.json();
    assert_eq!((&listed[0]["taskId"], &listed[0]["status"]), (&task, &json!("working")));
    assert_eq!(client.call("get_task", json!({ "task_id": task })).await.json()["args"], json!({ "a": 1 }));
    let before = tell(&client, "received", json!({})).await.json();
    let said =
        |value: &Value| value.as_array().unwrap().iter().filter(|m| m["method"] == "notifications/cancelled").count();
    assert_eq!(said(&before), 0);
    let reply = client.call("cancel_task", json!({ "task_id": task })).await;
    assert!(!reply.is_error(), "{reply}");
    let received = json!({ "server": "desk", "tool": "received" });
    let reply = until(&client, "execute_tool", received, |reply| said(&reply.json()) == 1).await;
    let cancelled =
        reply.json().as_array().unwrap().iter().find(|m| m["method"] == "notifications/cancelled").unwrap().clone();
    assert!(!cancelled["params"]["requestId"].is_null(), "{cancelled}");
    assert_eq!(client.call("list_tasks", json!({})).await.json(), json!([]));
    assert_eq!(client.call("get_task", json!({ "task_id": task })).await.json()["status"], "cancelled");
}

#[tokio::test]
async fn a_task_shows_its_documented_members_and_nothing_else() {
    let (_gateway, client) = over_http(json!({ "desk": desk(&[]) })).await;
    until_connected(&client, "desk").await;
    let hang = json!({ "server": "desk", "tool": "hang", "timeout_ms": 100 });
    let task = task_of(&client.call("execute_tool", hang).await);
    let known = [
        "taskId",
        "server",
        "toolName",
        "args",
        "status",
        "statusMessage",
        "createdAt",
        "lastUpdatedAt",
        "ttl",
        "expiresAt",
        "error",
        "result",
        "hasResult",
        "pending_elicitations",
    ];
    let row = client.call("list_tasks", json!({})).await.json()[0].clone();
    let one = client.call("get_task", json!({ "task_id": task })).await.json();
    for shown in [row, one] {
        for member in shown.as_object().unwrap().keys() {
            assert!(known.contains(&member.as_str()), "{member} is shown: {shown}");
        }
    }
}

#[tokio::test]
async fn the_lifetime_of_a_task_is_taken_from_the_call_and_has_a_maximum() {
    let (_gateway, client) = over_http(json!({ "desk": desk(&[]) })).await;
    until_connected(&client, "desk").await;
    for (asked, want) in [(None, 600_000), (Some(5_000), 5_000), (Some(86_400_000), 1_800_000)] {
        let mut arguments = json!({ "server": "desk", "tool": "hang", "timeout_ms": 100 });
        if let Some(asked) = asked {
            arguments["task_ttl_ms"] = json!(asked);
        }
        let task = task_of(&client.call("execute_tool", arguments).await);
        assert_eq!(client.call("get_task", json!({ "task_id": task })).await.json()["ttl"], want, "{asked:?}");
    }
    let arguments = json!({ "server": "desk", "tool": "hang", "timeout_ms": 100, "task_ttl_ms": 1000 });
    let task = task_of(&client.call("execute_tool", arguments).await);
    let reply = client.call("get_task_result", json!({ "task_id": task, "timeout_ms": 20_000 })).await;
    assert!(reply.is_error(), "{reply}");
    assert_eq!(client.call("get_task", json!({ "task_id": task })).await.json()["status"], "expired");
}

/// A question of another call is that call's to be answered.
#[tokio::test]
async fn a_call_tells_of_its_own_question_and_not_of_anothers() {
    let (_gateway, client) = over_http(fixture()).await;
    let call = |tool: &str, args: Value| json!({ "server": "fix", "tool": tool, "args": args });
    let first = client.call("execute_tool", call("test_elicitation", json!({ "message": "who?" }))).await;
    let id = client.call("get_elicitations", json!({})).await.json()[0]["requestId"].clone();
    let id = id.as_str().expect("an id").to_owned();
    assert!(first.text().contains(&id), "{first}");
    let second = client.call("execute_tool", call("test_sampling", json!({ "prompt": "and?" }))).await;
    let told = second.blocks()[0]["text"].as_str().unwrap_or_default().to_owned();
    assert!(told.contains("respond_to_sampling") && !told.contains(&id), "{second}");
}
