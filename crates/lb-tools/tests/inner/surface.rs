use lb_wire::revision::Revision;
use serde_json::json;

use crate::server::ODD;
use crate::stage::{Stage, finish};

#[tokio::test(start_paused = true)]
async fn a_result_comes_through_byte_for_byte() {
    let stage = Stage::new(Revision::V2025_11_25, "{}").await;
    // What happened so far is told first, so that nothing is left to add.
    stage.call("list_servers", json!({})).await;
    stage.call("execute_tool", json!({ "server": "s", "tool": "odd" })).await;
    let ended = stage.call("execute_tool", json!({ "server": "s", "tool": "odd", "args": { "a": 1 } })).await;
    assert_eq!(ended.text, ODD);
}

#[tokio::test(start_paused = true)]
async fn lists_are_bare_arrays_with_the_server_first() {
    let stage = Stage::new(Revision::V2025_11_25, "{}").await;
    let tools = stage.call("list_tools", json!({ "tool": "^o" })).await;
    let want = json!([{ "server": "s", "name": "odd", "inputSchema": { "type": "object", "x": 1.0 } }]);
    assert_eq!(tools.json(0), want);
    assert_eq!(tools.result["structuredContent"]["tools"], want);
    let resources = stage.call("list_resources", json!({ "server": "s" })).await;
    assert_eq!(resources.json(0), json!([{ "server": "s", "uri": "a:1", "name": "one" }]));
    assert_eq!(stage.call("list_prompts", json!({})).await.json(0), json!([]));
    let read = stage.call("read_resource", json!({ "server": "s", "uri": "a:1" })).await;
    assert_eq!(read.json(0), json!({ "contents": [{ "uri": "a:1", "text": "t" }] }));
    let servers = stage.call("list_servers", json!({})).await;
    assert_eq!(servers.json(0)[0]["status"], "connected", "{}", servers.text);
    let status = stage.call("get_server_status", json!({ "server": "s" })).await;
    assert_eq!(status.json(0)["serverInfo"]["name"], "scripted");
}

#[tokio::test(start_paused = true)]
async fn failures_have_codes_and_words() {
    let stage = Stage::new(Revision::V2025_11_25, "{}").await;
    for (tool, arguments, code, word) in [
        ("execute_tool", json!({ "server": "x", "tool": "t" }), "TOOL_ERR_SERVER_NOT_FOUND", "Server 'x' not found"),
        ("execute_tool", json!({ "server": "s" }), "INVALID_ARGUMENT", "'tool' is required"),
        ("execute_tool", json!({ "server": "s", "tool": "t", "timeout_ms": 5 }), "INVALID_ARGUMENT", "100 to 900000"),
        ("execute_tool", json!({ "server": "s", "tool": "fail" }), "TOOL_ERR_EXECUTION_FAILED", "broken"),
        ("list_tools", json!({ "server": "(" }), "INVALID_ARGUMENT", "regular expression"),
        ("list_prompts", json!({ "server": "x" }), "TOOL_ERR_SERVER_NOT_FOUND", "not found"),
        ("remove_server", json!({ "name": "x" }), "TOOL_ERR_SERVER_NOT_FOUND", "not found"),
        ("get_task", json!({ "task_id": "x" }), "TASK_NOT_FOUND", "Task 'x' not found"),
        ("get_timer", json!({ "timer_id": "x" }), "TIMER_NOT_FOUND", "Timer 'x' not found"),
        (
            "respond_to_elicitation",
            json!({ "request_id": "x", "action": "cancel" }),
            "REQUEST_NOT_FOUND",
            "'x' not found",
        ),
        ("set_timer", json!({ "duration_ms": 0, "message": "m" }), "INVALID_ARGUMENT", "1 to 86400000"),
    ] {
        let ended = stage.call(tool, arguments.clone()).await;
        assert_eq!(ended.result["isError"], true, "{tool} {arguments}: {}", ended.text);
        assert_eq!(ended.code(), code, "{tool} {arguments}: {}", ended.text);
        assert!(ended.block(0).starts_with("Failed to ") && ended.block(0).contains(word), "{}", ended.text);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_a_tool_of_ours_is_refused_by_name() {
    let stage = Stage::new(Revision::V2025_11_25, "{}").await;
    let unknown = stage.call("odd", json!({})).await;
    assert_eq!(unknown.result["error"]["code"], -32602);
    assert!(unknown.text.contains("unknown tool 'odd'"), "{}", unknown.text);
    let method = finish(stage.open("prompts/list", json!({})), |_| panic!()).await;
    assert_eq!(method.result["error"]["code"], -32601);
    let listed = finish(stage.open("resources/list", json!({})), |_| panic!()).await;
    assert_eq!(listed.result["resources"][0]["uri"], "landbridge://diagrams");
    let read = finish(stage.open("resources/read", json!({ "uri": "landbridge://diagrams" })), |_| panic!()).await;
    let by_tool = stage.call("read_resource", json!({ "server": "landbridge", "uri": "landbridge://diagrams" })).await;
    assert_eq!(by_tool.json(0), read.result);
    let other = finish(stage.open("resources/read", json!({ "uri": "x:y" })), |_| panic!()).await;
    assert_eq!(other.result["error"]["code"], -32002);
}
