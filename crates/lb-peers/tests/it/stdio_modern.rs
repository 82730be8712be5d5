//! The modern wire over stdio.

use serde_json::{Value, json};

use crate::driver::{Stdio, TOOLS, answer_to, asking_tools, meta, obliging, text_of};

const TASKS: &str = "io.modelcontextprotocol/tasks";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// A modern client on a modern server.
struct Modern {
    peer: Stdio,
    capabilities: Value,
}

impl Modern {
    fn start(capabilities: Value) -> Self {
        Self { peer: Stdio::start(&["--era", "modern"]), capabilities }
    }

    fn with_tasks() -> Self {
        Self::start(json!({ "elicitation": {}, "extensions": { TASKS: {} } }))
    }

    fn params(&self, mut params: Value) -> Value {
        params["_meta"] = meta(&self.capabilities);
        params
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.peer.ask(method, self.params(params)).await
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await["result"].clone()
    }

    /// Calls `tasks/get` until the task has the status.
    async fn until(&mut self, task: &Value, status: &str) -> Value {
        for _ in 0..1000 {
            let detail = self.ask("tasks/get", json!({ "taskId": task })).await["result"].clone();
            if detail["status"] == status {
                return detail;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("task never became {status}");
    }
}

#[tokio::test]
async fn discover_and_lists_carry_what_the_wire_demands() {
    let mut client = Modern::start(json!({}));
    let discover = client.ask("server/discover", json!({})).await;
    assert_eq!(discover["result"]["supportedVersions"], json!(["2026-07-28"]));
    assert!(discover["result"]["capabilities"]["extensions"][TASKS].is_object());
    for method in ["server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        let result = client.ask(method, json!({})).await["result"].clone();
        assert_eq!(result["resultType"], "complete", "{method}");
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("public")), "{method}");
        assert!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"].is_string(), "{method}");
    }
    let tools = client.ask("tools/list", json!({})).await;
    let names: Vec<_> = tools["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, TOOLS);
}

#[tokio::test]
async fn what_a_request_lacks_is_refused() {
    let mut client = Modern::start(json!({}));
    let version = "io.modelcontextprotocol/protocolVersion";
    for (meta, code) in [
        (json!(null), -32602),
        (json!({}), -32602),
        (json!({ version: "2026-07-28" }), -32602),
        (json!({ version: "v999", "io.modelcontextprotocol/clientCapabilities": {} }), -32022),
    ] {
        let answer = client.peer.ask("tools/list", json!({ "_meta": meta })).await;
        assert_eq!(answer["error"]["code"], code, "{meta}");
    }
    for method in ["ping", "logging/setLevel", "resources/subscribe", "tasks/list", "tasks/result", "no/such"] {
        assert_eq!(client.ask(method, json!({})).await["error"]["code"], -32601, "{method}");
    }
    let initialize = client.peer.ask("initialize", json!({ "protocolVersion": "2025-11-25" })).await;
    assert_eq!(initialize["error"]["code"], -32022);
    assert_eq!(initialize["error"]["data"], json!({ "supported": ["2026-07-28"], "requested": "2025-11-25" }));
    for tool in ["test_missing_capability", "test_sampling"] {
        let answer = client.ask("tools/call", json!({ "name": tool, "arguments": { "prompt": "hi" } })).await;
        assert_eq!(answer["error"]["code"], -32021, "{tool}");
        assert_eq!(answer["error"]["data"]["requiredCapabilities"], json!({ "sampling": {} }), "{tool}");
    }
}

#[tokio::test]
async fn interactive_tools_ask_by_input_required() {
    let mut client = Modern::start(obliging());
    for (tool, arguments, rounds, word) in asking_tools() {
        let mut params = json!({ "name": tool, "arguments": arguments });
        for round in &rounds {
            let result = client.ask("tools/call", params.clone()).await["result"].clone();
            assert_eq!(result["resultType"], "input_required", "{tool}: {result}");
            let requests = result["inputRequests"].as_object().unwrap();
            let asked: Vec<_> = requests.values().map(|ask| ask["method"].as_str().unwrap()).collect();
            assert_eq!(&asked, round, "{tool}");
            let answers = requests.iter().map(|(key, ask)| (key.clone(), answer_to(ask["method"].as_str().unwrap())));
            params["inputResponses"] = answers.collect();
            params["requestState"] = result["requestState"].clone();
        }
        let result = client.ask("tools/call", params).await["result"].clone();
        assert_eq!(result["resultType"], "complete", "{tool}: {result}");
        assert!(text_of(&result).contains(word), "{tool}: {result}");
    }
}

#[tokio::test]
async fn a_state_is_good_for_its_own_tool_and_unchanged_only() {
    let mut client = Modern::start(obliging());
    let tool = "test_input_required_result_tampered_state";
    let state = client.call(tool, json!({})).await["requestState"].as_str().unwrap().to_owned();
    let other = "test_input_required_result_request_state";
    for (tool, state) in [(tool, format!("{state}-TAMPERED")), (other, state.clone())] {
        let answer = client.ask("tools/call", json!({ "name": tool, "requestState": state })).await;
        assert_eq!(answer["error"]["code"], -32602, "{tool}");
    }
}

#[tokio::test]
async fn log_messages_come_only_at_the_level_the_request_names() {
    let mut client = Modern::start(json!({}));
    client.call("log_burst", json!({ "count": 3 })).await;
    for (level, lines) in [("error", 0), ("info", 3), ("debug", 3)] {
        let mut params = client.params(json!({ "name": "log_burst", "arguments": { "count": 3 } }));
        params["_meta"]["io.modelcontextprotocol/logLevel"] = level.into();
        let id = client.peer.post("tools/call", params).await;
        for _ in 0..lines {
            assert_eq!(client.peer.receive().await["method"], "notifications/message", "{level}");
        }
        assert_eq!(client.peer.receive().await["id"], id, "{level}");
    }
}

#[tokio::test]
async fn a_listen_stream_hears_what_it_asked_for_until_it_is_cancelled() {
    let mut client = Modern::start(json!({}));
    let filter = json!({ "toolsListChanged": true, "resourceSubscriptions": ["test://watched-resource"] });
    let params = client.params(json!({ "notifications": filter }));
    let listen = client.peer.post("subscriptions/listen", params).await;
    let ack = client.peer.receive().await;
    assert_eq!(ack["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(ack["params"], json!({ "notifications": filter, "_meta": { SUBSCRIPTION: listen } }));

    client.call("test_trigger_prompt_change", json!({})).await;
    client.call("touch_resource", json!({ "uri": "test://static-text" })).await;
    for (tool, method) in
        [("touch_resource", "notifications/resources/updated"), ("change_tools", "notifications/tools/list_changed")]
    {
        let arguments = json!({ "uri": "test://watched-resource" });
        let params = client.params(json!({ "name": tool, "arguments": arguments }));
        let id = client.peer.post("tools/call", params).await;
        let notice = client.peer.receive().await;
        assert_eq!(notice["method"], method);
        assert_eq!(notice["params"]["_meta"][SUBSCRIPTION], listen);
        assert_eq!(client.peer.receive().await["id"], id);
    }

    client.peer.cancel(listen).await;
    // The listener goes a moment after the notification was read.
    for _ in 0..500 {
        let params = client.params(json!({ "name": "test_trigger_tool_change" }));
        let id = client.peer.post("tools/call", params).await;
        if client.peer.receive().await["id"] == id {
            return;
        }
        assert_eq!(client.peer.receive().await["id"], id);
    }
    panic!("the cancelled stream still hears");
}

#[tokio::test]
async fn cancelling_stops_the_tool() {
    let mut client = Modern::start(json!({}));
    let mut params = client.params(json!({ "name": "sleep", "arguments": { "ms": 600_000 } }));
    params["_meta"]["progressToken"] = "p".into();
    let id = client.peer.post("tools/call", params).await;
    assert_eq!(client.peer.receive().await["params"]["progressToken"], "p");
    client.peer.cancel(id).await;
    for _ in 0..500 {
        let params = client.params(json!({ "name": "counters" }));
        let counters = client.peer.post("tools/call", params).await;
        let mut answer = client.peer.receive().await;
        while answer["method"] == "notifications/progress" {
            answer = client.peer.receive().await;
        }
        assert_eq!(answer["id"], counters);
        if answer["result"]["structuredContent"]["sleep"]["cancelled"] == 1 {
            return;
        }
    }
    panic!("sleep was not stopped");
}

#[tokio::test]
async fn a_task_parks_until_it_is_answered() {
    let mut client = Modern::with_tasks();
    let created = client.call("multi_input", json!({})).await;
    assert_eq!(created["resultType"], "task");
    let task = &created["taskId"];
    let parked = client.until(task, "input_required").await;
    assert_eq!(parked["inputRequests"].as_object().unwrap().len(), 2);
    for (key, left) in [("unknown", 2), ("name", 1)] {
        let responses = json!({ key: answer_to("elicitation/create") });
        client.ask("tasks/update", json!({ "taskId": task, "inputResponses": responses })).await;
        let detail = client.until(task, "input_required").await;
        assert_eq!(detail["inputRequests"].as_object().unwrap().len(), left, "{key}");
    }
    let responses = json!({ "confirmation": answer_to("elicitation/create") });
    client.ask("tasks/update", json!({ "taskId": task, "inputResponses": responses })).await;
    let done = client.until(task, "completed").await;
    assert!(text_of(&done["result"]).contains("Alice"));
    assert_eq!(done["resultType"], "complete");
}

#[tokio::test]
async fn tasks_end_as_their_work_does() {
    let mut client = Modern::with_tasks();
    let failed = client.call("protocol_error_job", json!({})).await;
    let failed = client.until(&failed["taskId"], "failed").await;
    assert_eq!(failed["error"]["code"], -32603);
    let broken = client.call("failing_job", json!({})).await;
    let broken = client.until(&broken["taskId"], "completed").await;
    assert_eq!(broken["result"]["isError"], true);
    let slow = client.call("slow_compute", json!({ "seconds": 60 })).await;
    client.ask("tasks/cancel", json!({ "taskId": slow["taskId"] })).await;
    client.until(&slow["taskId"], "cancelled").await;
    let unknown = client.ask("tasks/get", json!({ "taskId": "no" })).await;
    assert_eq!(unknown["error"]["code"], -32602);
}

#[tokio::test]
async fn a_listener_is_told_of_its_tasks() {
    let mut client = Modern::with_tasks();
    let created = client.call("confirm_delete", json!({ "filename": "f" })).await;
    let task = created["taskId"].clone();
    client.until(&task, "input_required").await;
    let params = client.params(json!({ "notifications": { "taskIds": [task] } }));
    client.peer.post("subscriptions/listen", params).await;
    assert_eq!(client.peer.receive().await["params"]["notifications"]["taskIds"], json!([task]));
    let responses = json!({ "confirmation": answer_to("elicitation/create") });
    let params = client.params(json!({ "taskId": task, "inputResponses": responses }));
    client.peer.post("tasks/update", params).await;
    let mut statuses = Vec::new();
    while statuses.last().is_none_or(|status| status != "completed") {
        let message = client.peer.receive().await;
        if message["method"] == "notifications/tasks" {
            statuses.push(message["params"]["status"].clone());
        }
    }
    assert_eq!(statuses, ["working", "completed"]);
}

#[tokio::test]
async fn without_the_extension_tasks_run_inline_or_are_refused() {
    let mut client = Modern::start(obliging());
    let inline = client.call("slow_compute", json!({ "seconds": 0, "label": "x" })).await;
    assert_eq!(text_of(&inline), "Computed x");
    for tool in ["failing_job", "multi_input", "test_tool_with_task"] {
        let answer = client.ask("tools/call", json!({ "name": tool })).await;
        assert_eq!(answer["error"]["code"], -32021, "{tool}");
        assert!(answer["error"]["data"]["requiredCapabilities"]["extensions"][TASKS].is_object(), "{tool}");
    }
    assert_eq!(client.ask("tasks/get", json!({ "taskId": "x" })).await["error"]["code"], -32021);
}

#[tokio::test]
async fn both_eras_share_one_process() {
    let mut peer = Stdio::start(&[]);
    let modern = json!({ "_meta": meta(&json!({})) });
    assert!(peer.ask("server/discover", modern.clone()).await["result"]["resultType"].is_string());
    assert!(peer.initialize("2025-06-18", json!({})).await["result"].is_object());
    assert!(peer.ask("tools/list", json!({})).await["result"].get("resultType").is_none());
    assert!(peer.ask("tools/list", modern.clone()).await["result"]["resultType"].is_string());
    let mut confused = modern;
    confused["protocolVersion"] = "2025-11-25".into();
    assert_eq!(peer.ask("initialize", confused).await["error"]["code"], -32601);
}
