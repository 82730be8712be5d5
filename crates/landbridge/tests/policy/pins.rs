//! A server that is trusted and then says something else of a tool.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::keyed::{Keyed, result, server, tool};
use crate::world::Client;

/// What a server lists on the surface of tools, and all that was said with it.
async fn listed(client: &Client, server: &str) -> (Vec<Value>, String) {
    let listed = tool(client, "list_tools", json!({ "server": server })).await;
    let tools = listed["structuredContent"]["tools"].as_array().cloned().unwrap_or_else(|| panic!("{listed}"));
    (tools, listed.to_string())
}

/// What is listed on the server's own path.
async fn listed_alone(client: &Client) -> Value {
    result(&client.ask(1, "tools/list", json!({})).await)
}

fn greet(tools: &[Value]) -> Option<&Value> {
    tools.iter().find(|tool| tool["name"] == "greet")
}

/// Lists three times, has the server turn, and lists once more.
async fn turn(client: &Client, server: &str) -> (Vec<Value>, String) {
    for _ in 0..3 {
        let (tools, _) = listed(client, server).await;
        assert!(greet(&tools).is_some_and(|tool| tool["changed"].is_null()), "{tools:?}");
    }
    let turned =
        tool(client, "execute_tool", json!({ "server": server, "tool": "plain", "args": { "turn": true } })).await;
    assert_eq!(turned["content"][0]["text"], "plained", "{turned}");
    let (tools, said) = listed(client, server).await;
    (tools, format!("{turned}{said}"))
}

/// The same on the server's own path.
async fn turn_alone(client: &Client) -> Value {
    for _ in 0..3 {
        let list = listed_alone(client).await;
        assert!(list["tools"].as_array().map(Vec::len) == Some(3) && list["_meta"].is_null(), "{list}");
    }
    let turned = result(&client.call("plain", json!({ "turn": true })).await);
    assert_eq!(turned["content"][0]["text"], "plained", "{turned}");
    listed_alone(client).await
}

#[tokio::test]
async fn a_tool_that_says_something_else_later_is_told_on_both_surfaces() {
    let folder = tempfile::tempdir().expect("a folder");
    let audit = folder.path().join("audit");
    let mut keyed = Keyed::new(server(&[]), "", &["mcp:read mcp:call"]).await;
    keyed.command.arg("--audit-log").arg(&audit);
    let (gateway, keys) = keyed.start().await;
    let client = Client::begin(gateway.address, &keys[0]).await;
    let (tools, said) = turn(&client, "it").await;
    assert_eq!(greet(&tools).map(|tool| &tool["changed"]), Some(&json!(true)), "{tools:?}");
    assert!(tools.iter().filter(|tool| tool["name"] != "greet").all(|tool| tool["changed"].is_null()), "{tools:?}");
    let later = tool(&client, "await_activity", json!({ "timeout_ms": 1_000 })).await.to_string();
    assert!(format!("{said}{later}").contains("notifications/landbridge/tool_changed"), "{said}{later}");
    let called = tool(&client, "execute_tool", json!({ "server": "it", "tool": "greet" })).await;
    assert_eq!(called["content"][0]["text"], "greeted", "it is only told: {called}");

    let own = Client::begin_at(gateway.address, &keys[0], "/mcp/server/it").await;
    let list = turn_alone(&own).await;
    assert_eq!(list["_meta"]["landbridge/changedTools"], json!(["greet"]), "{list}");
    assert_eq!(list["tools"].as_array().map(Vec::len), Some(3));
    let said = gateway.said();
    assert!(said.contains("tool_changed"), "{said}");
    let began = Instant::now();
    while !std::fs::read_to_string(&audit).is_ok_and(|text| text.contains("\"event\":\"tool_changed\"")) {
        assert!(began.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_tool_that_changed_can_be_hidden_until_it_is_accepted() {
    let mut keyed = Keyed::new(server(&[]), "pin = \"hide\"\n", &["mcp:admin"]).await;
    let words = format!("/usr/bin/env python3 {}", crate::SERVER);
    keyed.command.args(["--allow-commands", &words]);
    let (gateway, keys) = keyed.start().await;
    let own = Client::begin_at(gateway.address, &keys[0], "/mcp/server/it").await;
    let list = turn_alone(&own).await;
    assert!(list["tools"].as_array().is_some_and(|tools| tools.len() == 2 && greet(tools).is_none()), "{list}");
    let refused = result(&own.call("greet", json!({})).await);
    assert_eq!(refused["error"]["data"]["reason"], "tool_changed", "{refused}");
    assert!(refused["error"]["message"].as_str().is_some_and(|why| why.contains("adding it again")), "{refused}");
    let plain = result(&own.call("plain", json!({})).await);
    assert_eq!(plain["content"][0]["text"], "plained", "{plain}");

    // Servers that clients add are looked at in the same way, and are accepted by whoever may add them.
    let client = Client::begin(gateway.address, &keys[0]).await;
    let refused = tool(&client, "remove_server", json!({ "name": "it" })).await;
    assert_eq!(refused["structuredContent"]["error"]["code"], "FORBIDDEN", "it is there for others, too: {refused}");
    let asked = json!({ "name": "mine", "command": "/usr/bin/env", "args": ["python3", crate::SERVER] });
    let added = tool(&client, "add_server", asked.clone()).await;
    assert_ne!(added["isError"], true, "{added}");
    let (tools, _) = turn(&client, "mine").await;
    assert!(greet(&tools).is_none() && tools.len() == 2, "{tools:?}");
    let greets = json!({ "server": "mine", "tool": "greet" });
    let refused = tool(&client, "execute_tool", greets.clone()).await;
    let error = &refused["structuredContent"]["error"];
    assert!(refused["isError"] == true && error["code"] == "FORBIDDEN", "{refused}");
    assert!(error["message"].as_str().is_some_and(|why| why.contains("adding it again")), "{refused}");
    tool(&client, "reconnect_server", json!({ "server": "mine" })).await;
    tool(&client, "remove_server", json!({ "name": "mine" })).await;
    let added = tool(&client, "add_server", asked).await;
    assert_ne!(added["isError"], true, "{added}");
    let greeted = tool(&client, "execute_tool", greets).await;
    assert_eq!(greeted["content"][0]["text"], "greeted", "{greeted}");
}

#[tokio::test]
async fn what_was_seen_first_is_known_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut saw = Vec::new();
    // The second process says from the beginning what the first one did not.
    for turned in ["", "1"] {
        let mut it = server(&[]);
        it["env"] = json!({ "TURNED": turned });
        let mut keyed = Keyed::new(it, "", &["mcp:read mcp:call"]).await;
        keyed.command.arg("--data").arg(folder.path());
        let (mut gateway, keys) = keyed.start().await;
        let client = Client::begin(gateway.address, &keys[0]).await;
        let (tools, _) = listed(&client, "it").await;
        saw.push(greet(&tools).expect("a tool")["changed"].clone());
        let pid = Pid::from_raw(gateway.pid().cast_signed()).expect("a process");
        kill_process(pid, Signal::TERM).expect("it is told");
        gateway.child().wait().await.expect("it ends");
    }
    assert_eq!(saw, [Value::Null, json!(true)]);
}
