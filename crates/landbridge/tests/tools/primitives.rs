//! Tools, resources, templates and prompts of servers, seen through the gateway's own tools.

use lb_peers::harness::peer;
use lb_peers::raw::RawStdio;
use lb_peers::raw::http::initialize_request;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::world::{BIN, desk, fixture, over_http, over_stdio, task_of, until_connected};

/// The results of tools of the fixture, asked without a gateway.
async fn direct(tools: &[&str]) -> Vec<Value> {
    let mut command = Command::new(peer(BIN, "fixture"));
    command.args(["--era", "legacy"]);
    let mut child = RawStdio::spawn(command).expect("the fixture starts");
    child.ask(&initialize_request("0", "2025-11-25")).await.expect("an answer");
    let mut results = Vec::new();
    for (id, tool) in tools.iter().enumerate() {
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool } });
        let answer: Value =
            serde_json::from_str(&child.ask(&line.to_string()).await.expect("an answer")).expect("JSON");
        results.push(answer["result"].clone());
    }
    results
}

#[tokio::test]
async fn a_result_passes_through_untouched_whatever_it_holds() {
    let tools = [
        "test_simple_text",
        "test_image_content",
        "test_audio_content",
        "test_embedded_resource",
        "test_multiple_content_types",
        "test_error_handling",
    ];
    let want = direct(&tools).await;
    let (_gateway, http) = over_http(fixture()).await;
    let stdio = over_stdio(fixture()).await;
    for client in [http, stdio] {
        until_connected(&client, "fix").await;
        crate::world::drain(&client).await;
        for (tool, want) in tools.iter().zip(&want) {
            let reply = client.call("execute_tool", json!({ "server": "fix", "tool": tool })).await;
            assert_eq!(reply.result(), want, "{tool}");
        }
    }
}

#[tokio::test]
async fn a_call_that_outlives_its_timeout_goes_on_as_a_task_that_completes() {
    let (_gateway, client) = over_http(fixture()).await;
    until_connected(&client, "fix").await;
    let args = json!({ "seconds": 1, "label": "x" });
    let arguments = json!({ "server": "fix", "tool": "slow_compute", "args": args, "timeout_ms": 200 });
    let reply = client.call("execute_tool", arguments).await;
    assert!(!reply.is_error() && reply.text().contains("get_task_result"), "{reply}");
    let task = task_of(&reply);
    let result = client.call("get_task_result", json!({ "task_id": task })).await;
    assert!(!result.is_error() && !result.text().is_empty(), "{result}");
    assert_eq!(client.call("get_task", json!({ "task_id": task })).await.json()["status"], "completed");
}

#[tokio::test]
async fn list_tools_filters_by_two_regular_expressions_and_refuses_a_bad_one() {
    let mut servers = fixture();
    servers["desk"] = desk(&[]);
    let (_gateway, client) = over_http(servers).await;
    for server in ["fix", "desk"] {
        until_connected(&client, server).await;
    }
    let listed = |arguments: Value| {
        let client = client.clone();
        async move {
            let rows = client.call("list_tools", arguments).await.json();
            let row = |row: &Value| format!("{}/{}", row["server"].as_str().unwrap(), row["name"].as_str().unwrap());
            rows.as_array().unwrap().iter().map(row).collect::<Vec<_>>()
        }
    };
    assert_eq!(listed(json!({ "server": "^de", "tool": "^rec" })).await, ["desk/received"]);
    assert_eq!(listed(json!({ "tool": "simple|^received$" })).await, ["fix/test_simple_text", "desk/received"]);
    assert_eq!(listed(json!({ "server": "^desk$" })).await.len(), 10);
    assert_eq!(listed(json!({ "tool": "^RECEIVED$" })).await.len(), 0, "case counts");
    for arguments in [json!({ "server": "(" }), json!({ "tool": "a{2" , "server": "[" })] {
        let reply = client.call("list_tools", arguments).await;
        assert_eq!(reply.code(), "INVALID_ARGUMENT", "{reply}");
    }
}

#[tokio::test]
async fn lists_of_several_pages_are_read_to_their_end() {
    let (_gateway, client) = over_http(json!({ "desk": desk(&["--pages"]) })).await;
    for (tool, member, key) in [
        ("list_tools", "tool", "name"),
        ("list_resources", "resource", "name"),
        ("list_resource_templates", "template", "name"),
        ("list_prompts", "prompt", "name"),
    ] {
        let rows = client.call(tool, json!({})).await.json();
        let seen: Vec<&str> = rows.as_array().unwrap().iter().filter_map(|row| row[key].as_str()).collect();
        let want: Vec<String> = (0..3).flat_map(|page| (0..2).map(move |n| format!("{member}-{page}-{n}"))).collect();
        assert_eq!(seen, want, "{tool}");
    }
}

#[tokio::test]
async fn a_resource_template_is_listed_with_its_server() {
    let (_gateway, client) = over_http(fixture()).await;
    let rows = client.call("list_resource_templates", json!({ "server": "fix" })).await.json();
    let row = &rows[0];
    assert_eq!((&row["server"], &row["uriTemplate"]), (&json!("fix"), &json!("test://template/{id}/data")));
    assert!(row["name"].is_string() && row["mimeType"] == "application/json", "{row}");
    let read = client.call("read_resource", json!({ "server": "fix", "uri": "test://template/123/data" })).await;
    assert!(read.json()["contents"][0]["text"].as_str().unwrap().contains("123"), "{read}");
}

#[tokio::test]
async fn binary_contents_are_left_out_until_they_are_asked_for() {
    let (_gateway, client) = over_http(fixture()).await;
    let read = |uri: &str, include: bool| {
        let arguments = json!({ "server": "fix", "uri": uri, "include_blob": include });
        let client = client.clone();
        async move { client.call("read_resource", arguments).await }
    };
    let text = read("test://static-text", false).await;
    assert!(text.json()["contents"][0]["text"].as_str().is_some_and(|text| !text.is_empty()), "{text}");
    let omitted = read("test://static-binary", false).await;
    let row = &omitted.json()["contents"][0];
    assert!(row["blobOmitted"] == true && row["blobBytes"].as_u64().is_some_and(|n| 0 < n), "{omitted}");
    assert!(row.get("blob").is_none(), "{omitted}");
    let included = read("test://static-binary", true).await;
    let image = included.blocks().iter().find(|block| block["type"] == "image").expect("an image block");
    assert!(image["mimeType"] == "image/png" && image["data"].as_str().is_some_and(|data| !data.is_empty()));
}

#[tokio::test]
async fn prompts_are_listed_and_their_arguments_reach_the_server() {
    let (_gateway, client) = over_http(fixture()).await;
    let rows = client.call("list_prompts", json!({ "server": "fix" })).await.json();
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == "test_prompt_with_arguments").unwrap();
    assert_eq!(row["arguments"][0]["name"], "arg1");
    let values = json!({ "arg1": "first \u{1F980}", "arg2": "second" });
    let arguments = json!({ "server": "fix", "name": "test_prompt_with_arguments", "arguments": values });
    let reply = client.call("get_prompt", arguments).await;
    let text = reply.json()["messages"][0]["content"]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("first \u{1F980}") && text.contains("second"), "{reply}");
}

#[tokio::test]
async fn a_list_names_the_servers_that_could_not_be_asked() {
    let mut servers = fixture();
    servers["desk"] = desk(&["--sulky"]);
    servers["away"] = json!({ "url": "http://127.0.0.1:9/mcp" });
    let (_gateway, client) = over_http(servers).await;
    let reply = client.call("list_tools", json!({})).await;
    assert!(!reply.is_error(), "{reply}");
    assert!(reply.json().as_array().unwrap().iter().all(|row| row["server"] == "fix"), "{reply}");
    let errors = reply.structured()["errors"].as_array().cloned().unwrap_or_default();
    let desk = errors.iter().find(|error| error["server"] == "desk").unwrap_or_else(|| panic!("{reply}"));
    assert!(desk["message"].as_str().unwrap().contains("no lists today"), "{desk}");
    for (name, arguments) in [
        ("list_resources", json!({ "server": "away" })),
        ("list_prompts", json!({ "server": "away" })),
        ("read_resource", json!({ "server": "away", "uri": "test://x" })),
    ] {
        let reply = client.call(name, arguments).await;
        assert_eq!(reply.code(), "TOOL_ERR_SERVER_DISCONNECTED", "{name}: {reply}");
    }
}

#[tokio::test]
async fn progress_of_a_tool_reaches_the_caller_under_its_own_token() {
    let (_gateway, http) = over_http(json!({ "desk": desk(&[]) })).await;
    let stdio = over_stdio(json!({ "desk": desk(&[]) })).await;
    for client in [http, stdio] {
        until_connected(&client, "desk").await;
        let arguments = json!({ "server": "desk", "tool": "progress", "args": { "count": 3, "pause": 0.01 } });
        let meta = json!({ "progressToken": "mine" });
        let reply = client.call_with_meta("execute_tool", arguments, meta).await;
        assert_eq!(reply.text(), "done", "{reply}");
        let notes = client.notes();
        let steps: Vec<&Value> = notes.iter().filter(|note| note["method"] == "notifications/progress").collect();
        let tokens = steps.iter().all(|note| note["params"]["progressToken"] == "mine");
        let values: Vec<i64> = steps.iter().filter_map(|note| note["params"]["progress"].as_i64()).collect();
        assert!(tokens && values == [0, 1, 2], "{notes:?}");
    }
}
