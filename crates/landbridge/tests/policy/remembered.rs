//! What a session remembers of a server that is taken from its principal.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::keyed::{Keyed, page, server, tool};
use crate::world::{Client, value};

fn rules(servers: &str) -> String {
    format!("[[auth.rules]]\nservers = [\"{servers}\"]\n")
}

/// Asks again until it comes out like this.
async fn until(client: &Client, name: &str, arguments: &Value, want: impl Fn(&Value) -> bool) {
    let began = Instant::now();
    loop {
        let told = tool(client, name, arguments.clone()).await;
        if want(&told) {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{told}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn rows(told: &Value, of: &str) -> usize {
    told["structuredContent"][of].as_array().map_or(0, Vec::len)
}

#[tokio::test]
async fn what_is_remembered_of_a_server_is_there_for_whom_the_rules_let_use_it() {
    let keyed = Keyed::new(server(&[]), &rules("it"), &["mcp:read mcp:call"]).await;
    let settings = keyed.folder.path().join("landbridge.toml");
    let (gateway, keys) = keyed.start().await;
    let client = Client::begin(gateway.address, &keys[0]).await;
    let form = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    let asked = json!([{ "message": "Please", "requestedSchema": form }]);
    let call = json!({ "server": "it", "tool": "ask", "args": { "asked": asked } });
    let begun = tool(&client, "execute_tool", call).await;
    assert!(begun.to_string().contains("pending_client"), "every reply says that it waits: {begun}");
    let tasks = tool(&client, "list_tasks", json!({})).await;
    let questions = tool(&client, "get_elicitations", json!({})).await;
    assert_eq!((rows(&tasks, "tasks"), rows(&questions, "elicitations")), (1, 1), "{tasks} {questions}");
    let task = json!({ "task_id": tasks["structuredContent"]["tasks"][0]["taskId"] });
    let request = questions["structuredContent"]["elicitations"][0]["requestId"].clone();
    let answer = json!({ "request_id": request, "action": "accept", "content": { "name": "Ada" } });

    std::fs::write(&settings, rules("other")).expect("written");
    until(&client, "list_tasks", &json!({}), |told| rows(told, "tasks") == 0).await;
    for (name, arguments, code) in [
        ("get_task", &task, "TASK_NOT_FOUND"),
        ("get_task_result", &task, "TASK_NOT_FOUND"),
        ("cancel_task", &task, "TASK_NOT_FOUND"),
        ("respond_to_elicitation", &answer, "REQUEST_NOT_FOUND"),
        ("cancel_elicitation_request", &answer, "REQUEST_NOT_FOUND"),
    ] {
        let told = tool(&client, name, arguments.clone()).await;
        assert_eq!(told["structuredContent"]["error"]["code"], code, "{name}: {told}");
    }
    for name in ["get_elicitations", "get_notifications", "get_logs", "list_servers"] {
        let told = tool(&client, name, json!({})).await.to_string();
        assert!(!told.contains("Please") && !told.contains("pending_client"), "{name}: {told}");
    }
    let waited = tool(&client, "await_activity", json!({ "timeout_ms": 100 })).await.to_string();
    assert!(!waited.contains("Please") && !waited.contains("\"it\""), "{waited}");

    std::fs::write(&settings, rules("it")).expect("written");
    until(&client, "list_tasks", &json!({}), |told| rows(told, "tasks") == 1).await;
    let told = tool(&client, "respond_to_elicitation", answer).await;
    assert!(told.to_string().contains("Ada"), "it waited all the time: {told}");
}

/// A session at a server ends when the rules take the server away, with all that is open in it.
#[tokio::test]
async fn a_session_at_a_server_ends_when_the_rules_take_it_away() {
    let keyed = Keyed::new(server(&[]), &rules("it"), &["mcp:read mcp:call"]).await;
    let settings = keyed.folder.path().join("landbridge.toml");
    let (gateway, keys) = keyed.start().await;
    let client = Client::begin_at(gateway.address, &keys[0], "/mcp/server/it").await;
    let other = Client::begin(gateway.address, &keys[0]).await;
    assert_eq!(client.call("plain", json!({})).await.head.status(), 200);
    let sessions = async || value(&page(&gateway, "/sessions").await)["activeSessions"].clone();
    assert_eq!(sessions().await, 2);
    std::fs::write(&settings, rules("other")).expect("written");
    let began = Instant::now();
    while sessions().await != 1 {
        assert!(began.elapsed() < Duration::from_secs(30), "{}", page(&gateway, "/sessions").await.text());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(other.call("list_timers", json!({})).await.head.status(), 200, "the one with tools goes on");
    std::fs::write(&settings, rules("it")).expect("written");
    let began = Instant::now();
    while client.call("plain", json!({})).await.head.status() == 403 {
        assert!(began.elapsed() < Duration::from_secs(30));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(client.call("plain", json!({})).await.head.status(), 404, "it has ended, and does not come back");
}

/// A rule that names tools holds for names that are none.
#[tokio::test]
async fn a_name_that_is_no_text_passes_no_rule() {
    let toml = "[[auth.rules]]\nservers = [\"it\"]\ntools = [\"pl*\"]\n";
    let (gateway, keys) = Keyed::new(server(&[]), toml, &["mcp:read mcp:call"]).await.start().await;
    let client = Client::begin_at(gateway.address, &keys[0], "/mcp/server/it").await;
    let status = async |name: Value| {
        let params = json!({ "name": name, "arguments": {} });
        client.ask(7, "tools/call", params).await.head.status()
    };
    assert_eq!((status(json!("plain")).await, status(json!("greet")).await), (200, 403));
    for name in [json!(["greet"]), json!({}), json!(7), Value::Null] {
        assert_eq!(status(name.clone()).await, 403, "{name}");
    }
    assert_eq!(client.ask(8, "tools/call", json!({})).await.head.status(), 403, "nor does none at all");
}

/// What everybody uses is changed by who runs the gateway, not by a model that was talked into it.
#[tokio::test]
async fn a_server_of_the_config_is_not_replaced_by_a_tool() {
    let mut keyed = Keyed::new(server(&[]), "", &["mcp:admin"]).await;
    let words = format!("/usr/bin/env python3 {} *", crate::SERVER);
    keyed.command.args(["--allow-commands", &words]);
    let (gateway, keys) = keyed.start().await;
    let client = Client::begin(gateway.address, &keys[0]).await;
    let add = |name: &str| json!({ "name": name, "command": "/usr/bin/env", "args": ["python3", crate::SERVER, "x"] });
    let refused = tool(&client, "add_server", add("it")).await;
    let message = refused["structuredContent"]["error"]["message"].as_str().unwrap_or_default();
    assert!(refused["isError"] == true && message.contains("there for others too"), "{refused}");
    let added = tool(&client, "add_server", add("mine")).await;
    assert_ne!(added["isError"], true, "{added}");
}
