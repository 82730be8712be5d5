//! The documented shape of every tool's success, in an order in which each has something to show.

use serde_json::{Value, json};

use super::shape::misfit;
use super::steps::{Block, Probe, event_shape, notification_shape, pending_shape};
use super::{Tally, World};
use crate::tools::{Reply, ToolClient};

pub(super) async fn check(client: &ToolClient, world: &World, tally: &mut Tally) {
    let mut probe = Probe::new(client, tally).await;
    primitives(&mut probe).await;
    servers(&mut probe, world).await;
    timers(&mut probe).await;
    tasks(&mut probe).await;
    elicitations(&mut probe).await;
    sampling(&mut probe).await;
    activity(&mut probe).await;
}

async fn primitives(probe: &mut Probe<'_>) {
    let tool = json!({
        "server": "word", "name": "word", "title?": "text", "description?": "text", "inputSchema": "object",
        "outputSchema?": "object", "annotations?": "object", "icons?": "list", "execution?": "object", "_meta?": "object",
    });
    probe.fits("list_tools", json!({}), Block::List("tools"), &json!(["+", tool])).await;
    let one =
        probe.fits("list_tools", json!({ "tool": "simple_text$" }), Block::List("tools"), &json!(["+", tool])).await;
    probe.tally.check(one.json().as_array().map(Vec::len) == Some(1), || format!("list_tools of one: {one}"));
    probe.fits("list_tools", json!({ "tool": "^none$" }), Block::List("tools"), &json!([tool])).await;
    let resource = json!({ "server": "=fix", "uri": "word", "name": "word", "title?": "text", "description?": "text", "mimeType?": "text", "size?": "number" });
    probe.fits("list_resources", json!({}), Block::List("resources"), &json!(["+", resource])).await;
    let template = json!({ "server": "=fix", "uriTemplate": "word", "name": "word", "title?": "text", "description?": "text", "mimeType?": "text" });
    probe.fits("list_resource_templates", json!({}), Block::List("resourceTemplates"), &json!(["+", template])).await;
    let prompt =
        json!({ "server": "=fix", "name": "word", "title?": "text", "description?": "text", "arguments?": "list" });
    probe.fits("list_prompts", json!({ "server": "fix" }), Block::List("prompts"), &json!(["+", prompt])).await;

    let text = json!({ "contents": ["+", { "uri": "word", "mimeType?": "text", "text": "word" }] });
    let uri = |uri: &str| json!({ "server": "fix", "uri": uri });
    probe.fits("read_resource", uri("test://static-text"), Block::Object, &text).await;
    let omitted = json!({ "contents": ["+", { "uri": "word", "mimeType?": "text", "blobBytes": "number", "blobOmitted": true }] });
    probe.fits("read_resource", uri("test://static-binary"), Block::Object, &omitted).await;
    let messages = json!({ "description?": "text", "messages": ["+", "object"] });
    let arguments = json!({ "server": "fix", "name": "test_simple_prompt" });
    probe.fits("get_prompt", arguments, Block::Object, &messages).await;
    let completion = json!({ "completion": { "values": ["word"], "total?": "number", "hasMore?": "flag" } });
    let reference = json!({ "type": "ref/prompt", "name": "test_prompt_with_arguments" });
    let arguments = json!({ "server": "fix", "ref": reference, "argument": { "name": "arg1", "value": "t" } });
    probe.fits("complete", arguments, Block::Object, &completion).await;
    probe.fits("set_log_level", json!({ "server": "fix", "level": "debug" }), Block::Sentence, &json!("any")).await;
    probe.fits("subscribe_resource", uri("test://watched-resource"), Block::Sentence, &json!("any")).await;
    let status = probe.good("get_server_status", json!({ "server": "fix" })).await;
    let subscribed = status.json()["subscriptions"] == json!(["test://watched-resource"]);
    probe.tally.check(subscribed, || format!("the subscription does not show: {status}"));
    probe.fits("unsubscribe_resource", uri("test://watched-resource"), Block::Sentence, &json!("any")).await;
    probe.fits("unsubscribe_resource", uri("test://never-subscribed"), Block::Sentence, &json!("any")).await;
}

fn server_row() -> Value {
    json!({
        "name": "word", "url": "word", "transport": "http|stdio",
        "status": "connecting|connected|disconnected|reconnecting|error|not_connected", "connected": "flag",
        "connectedAt?": "time", "lastError?": "text", "reconnectAttempt?": "number", "nextRetryMs?": "number",
        "healthStatus?": "word", "consecutiveHealthFailures?": "number", "pid?": "number",
    })
}

async fn servers(probe: &mut Probe<'_>, world: &World) {
    probe.fits("list_servers", json!({}), Block::List("servers"), &json!(["+", server_row()])).await;
    let flags = json!({ "tools": "flag", "resources": "flag", "prompts": "flag", "resourceTemplates": "flag", "resourceSubscriptions": "flag" });
    let added = json!({
        "name": "=more", "transport": "=http", "status": "=connected", "capabilities": flags, "serverInfo": "object",
        "protocolVersion": "word", "toolCount": "number",
    });
    let more = json!({ "name": "more", "url": world.url, "headers": { "x-secret": "tell-nobody" } });
    for _ in 0..2 {
        let reply = probe.fits("add_server", more.clone(), Block::Sentence, &added).await;
        let said = reply.text().starts_with(&format!("Connected to server 'more' at {}", world.url));
        let capabilities = reply.text().lines().any(|line| line.starts_with("Capabilities: {"));
        probe.tally.check(said && capabilities, || format!("add_server says: {reply}"));
    }
    let list = probe.good("list_servers", json!({})).await;
    probe.tally.check(!list.message.to_string().contains("tell-nobody"), || format!("a header is told: {list}"));
    let status = json!({
        "server": server_row(), "capabilities": "object", "serverInfo": "object", "protocolVersion": "word",
        "working_tasks": [{ "taskId": "id", "toolName": "word", "status": "=working", "createdAt": "time" }],
        "pending": { "elicitations": "list", "sampling_requests": "list" }, "subscriptions": ["word"],
        "counts": { "notifications": "number", "logs": "number" }, "lastStderr": ["text"],
    });
    probe.fits("get_server_status", json!({ "server": "more" }), Block::Object, &status).await;
    let again = json!({ "name": "=more", "status": "=connected", "attemptsTaken": 0, "forced": true });
    let reply = probe.fits("reconnect_server", json!({ "name": "more" }), Block::Sentence, &again).await;
    let said = reply.text().starts_with("Reconnected to server 'more'");
    probe.tally.check(said, || format!("reconnect_server says: {reply}"));
    probe.fits("remove_server", json!({ "name": "more" }), Block::Sentence, &json!("any")).await;
    probe.refused("remove_server", json!({ "name": "more" }), "TOOL_ERR_SERVER_NOT_FOUND").await;
}

async fn timers(probe: &mut Probe<'_>) {
    // A shorter interval would flush the event log: it is refused or made longer.
    let often = probe.client.call("set_timer", json!({ "duration_ms": 1, "message": "x", "interval": true })).await;
    let slower = often.code() == "INVALID_ARGUMENT" || often.json()["durationMs"] == 1000;
    probe.tally.check(slower, || format!("an interval of 1 ms: {often}"));
    probe.client.call("delete_timer", json!({ "timer_id": often.json()["timerId"] })).await;
    let set = json!({ "timerId": "id", "message": "=tea", "durationMs": 3_600_000, "interval": false, "createdAt": "time", "expiresAt": "time" });
    let arguments = json!({ "duration_ms": 3_600_000, "message": "tea" });
    let timer = probe.fits("set_timer", arguments, Block::Object, &set).await;
    let id = timer.json()["timerId"].clone();
    let row = |status: &str| {
        json!({
            "id": "id", "message": "word", "durationMs": "number", "status": status, "interval": "flag",
            "fireCount": "number", "createdAt": "time", "expiresAt": "time",
        })
    };
    probe.fits("list_timers", json!({}), Block::List("timers"), &json!(["+", row("=active")])).await;
    probe.fits("get_timer", json!({ "timer_id": id }), Block::Object, &row("=active")).await;
    let deleted = json!({ "deleted": true, "timer": row("=deleted") });
    for _ in 0..2 {
        probe.fits("delete_timer", json!({ "timer_id": id }), Block::Object, &deleted).await;
    }
    let all = json!({ "include_inactive": true });
    let reply =
        probe.fits("list_timers", all, Block::List("timers"), &json!(["+", row("active|expired|deleted")])).await;
    let kept = reply.json().as_array().is_some_and(|rows| rows.iter().any(|row| row["id"] == id));
    probe.tally.check(kept, || format!("a deleted timer is forgotten: {reply}"));
}

/// The block that tells of a call that went on as a task.
fn promotion(waiting: bool) -> Value {
    let task = json!({
        "taskId": "id", "server": "=fix", "toolName": "word", "status": "=working", "createdAt": "time", "ttl": "number",
        "lastUpdatedAt?": "time", "expiresAt?": "time", "hasResult?": "flag", "statusMessage?": "text",
    });
    let pending = json!({
        "server": "=fix",
        "working_tasks": ["+", "object"],
        "elicitations": "list",
        "sampling_requests": "list",
    });
    let mut shape = json!({ "timeout": !waiting, "task": task, "server_pending": pending, "note": "word" });
    if waiting {
        shape["waiting_for_input"] = json!(true);
    }
    shape
}

/// Calls a tool that goes on as a task; its id.
async fn promoted(probe: &mut Probe<'_>, tool: &str, args: Value, waiting: bool) -> Value {
    let limit = if waiting { 120_000 } else { 100 };
    let arguments = json!({ "server": "fix", "tool": tool, "args": args, "timeout_ms": limit });
    let reply = probe.good("execute_tool", arguments).await;
    let block = reply.objects().find(|(at, _)| *at == 1).map(|(_, value)| value).unwrap_or_default();
    let fault = misfit(&promotion(waiting), &block);
    probe.tally.check(fault.is_none(), || format!("{tool}: {}: {reply}", fault.unwrap_or_default()));
    let id = block["task"]["taskId"].clone();
    let told = reply.text().contains(id.as_str().unwrap_or("?"));
    probe.tally.check(told && reply.json().is_null(), || format!("{tool}: no sentence names the task: {reply}"));
    id
}

async fn tasks(probe: &mut Probe<'_>) {
    let direct = probe.good("execute_tool", json!({ "server": "fix", "tool": "test_image_content" })).await;
    let image = direct.blocks().first().is_some_and(|block| block["type"] == "image" && block["data"].is_string());
    probe.tally.check(image, || format!("an image does not come through: {direct}"));
    let id = promoted(probe, "slow_compute", json!({ "seconds": 60, "label": "x" }), false).await;
    let row = json!({
        "taskId": "id", "server": "=fix", "toolName": "=slow_compute", "status": "=working", "statusMessage?": "text",
        "createdAt": "time", "lastUpdatedAt": "time", "ttl": "number", "expiresAt": "time", "error?": "text", "hasResult": false,
    });
    probe.fits("list_tasks", json!({}), Block::List("tasks"), &json!(["+", row])).await;
    probe.fits("list_tasks", json!({ "server": "plain" }), Block::List("tasks"), &json!([row])).await;
    let task = json!({
        "taskId": "id", "server": "=fix", "toolName": "=slow_compute", "args": { "seconds": 60, "label": "x" },
        "status": "=working", "statusMessage?": "text", "createdAt": "time", "lastUpdatedAt": "time", "ttl": 600_000,
        "error?": "text", "result?": "any", "pending_elicitations": "list",
    });
    probe.fits("get_task", json!({ "task_id": id }), Block::Object, &task).await;
    let still = probe.good("get_task_result", json!({ "task_id": id, "timeout_ms": 100 })).await;
    let working = still.json()["status"] == "working" && still.json()["taskId"] == id;
    probe.tally.check(working, || format!("get_task_result of a working task: {still}"));
    probe
        .fits("cancel_task", json!({ "task_id": id }), Block::Sentence, &json!({ "success": true, "taskId?": "id" }))
        .await;
    let again = probe.client.call("cancel_task", json!({ "task_id": id })).await;
    probe.tally.check(again.is_error(), || format!("cancel_task of a cancelled task: {again}"));
    let ended = probe.client.call("get_task_result", json!({ "task_id": id })).await;
    probe.tally.check(ended.is_error(), || format!("get_task_result of a cancelled task: {ended}"));
    probe.good("get_task", json!({ "task_id": id })).await;
    let failed = promoted(probe, "slow_compute", json!({ "seconds": 60, "label": "y" }), false).await;
    probe.good("reconnect_server", json!({ "name": "fix" })).await;
    let task = probe.good("get_task", json!({ "task_id": failed })).await;
    probe.tally.check(task.json()["status"] == "failed", || format!("a task of a closed connection: {task}"));
    let all = probe.good("list_tasks", json!({ "include_completed": true, "status": "cancelled" })).await;
    let listed = all.json().as_array().is_some_and(|rows| rows.iter().any(|row| row["taskId"] == id));
    probe.tally.check(listed, || format!("a cancelled task is not listed: {all}"));
}

/// The only row of a list, and its id.
fn only(reply: &Reply) -> Value {
    reply.json()[0]["requestId"].clone()
}

async fn elicitations(probe: &mut Probe<'_>) {
    let row = json!({
        "requestId": "id", "server": "=fix", "timestamp": "time", "expiresAt": "time", "mode": "form|url", "message": "word",
        "requestedSchema?": "object", "elicitationId?": "word", "url?": "word", "relatedTaskId?": "id",
    });
    let none = json!([]);
    let empty = probe.good("get_elicitations", json!({})).await;
    probe.tally.check(empty.json() == none, || format!("no elicitations: {empty}"));
    let task = promoted(probe, "test_elicitation", json!({ "message": "who?" }), true).await;
    let rows = probe.fits("get_elicitations", json!({}), Block::List("elicitations"), &json!(["+", row])).await;
    let id = only(&rows);
    for content in [json!({}), json!({ "username": 7, "email": "a@b.c" }), json!({ "username": "a" })] {
        let answer = json!({ "request_id": id, "action": "accept", "content": content });
        probe.refused("respond_to_elicitation", answer, "INVALID_ARGUMENT").await;
    }
    probe.refused("respond_to_elicitation", json!({ "request_id": id, "action": "accept" }), "INVALID_ARGUMENT").await;
    let content = json!({ "username": "ada", "email": "a@b.c" });
    let answer = json!({ "request_id": id, "action": "accept", "content": content });
    let reply = probe.good("respond_to_elicitation", answer.clone()).await;
    let result = reply.blocks().iter().any(|block| block["text"].as_str().is_some_and(|text| text.contains("ada")));
    probe.tally.check(result, || format!("the tool's result does not come with the answer: {reply}"));
    probe.refused("respond_to_elicitation", answer, "REQUEST_NOT_FOUND").await;
    probe.good("get_task_result", json!({ "task_id": task })).await;
    promoted(probe, "test_elicitation", json!({ "message": "again?" }), true).await;
    let rows = probe.good("get_elicitations", json!({})).await;
    let cancel = json!({ "request_id": only(&rows), "reason": "no time" });
    probe.fits("cancel_elicitation_request", cancel.clone(), Block::Sentence, &json!("any")).await;
    probe.refused("cancel_elicitation_request", cancel, "REQUEST_NOT_FOUND").await;
}

async fn sampling(probe: &mut Probe<'_>) {
    let row = json!({
        "requestId": "id", "server": "=fix", "timestamp": "time", "expiresAt": "time", "maxTokens": 100, "systemPrompt?": "text",
        "temperature?": "number", "stopSequences?": "list", "messages": ["+", "object"], "modelPreferences?": "object",
        "includeContext?": "text", "tools?": "list", "toolChoice?": "object", "relatedTaskId?": "id",
    });
    promoted(probe, "test_sampling", json!({ "prompt": "why?" }), true).await;
    let rows =
        probe.fits("get_sampling_requests", json!({}), Block::List("samplingRequests"), &json!(["+", row])).await;
    let answer = json!({ "request_id": only(&rows), "role": "assistant", "content": "because", "model": "m", "stop_reason": "endTurn" });
    let reply = probe.good("respond_to_sampling", answer.clone()).await;
    let result = reply.blocks().iter().any(|block| block["text"].as_str().is_some_and(|text| text.contains("because")));
    probe.tally.check(result, || format!("the tool's result does not come with the answer: {reply}"));
    probe.refused("respond_to_sampling", answer, "REQUEST_NOT_FOUND").await;
    promoted(probe, "test_sampling", json!({ "prompt": "why now?" }), true).await;
    let rows = probe.good("get_sampling_requests", json!({})).await;
    let cancel = json!({ "request_id": only(&rows) });
    probe.fits("cancel_sampling_request", cancel.clone(), Block::Sentence, &json!("any")).await;
    probe.refused("cancel_sampling_request", cancel, "REQUEST_NOT_FOUND").await;
}

async fn activity(probe: &mut Probe<'_>) {
    let logs = json!({ "server": "=fix", "level": "word", "logger?": "text", "source": "protocol|stderr|stdout", "timestamp": "time", "data": "any" });
    probe.good("execute_tool", json!({ "server": "fix", "tool": "test_tool_with_logging" })).await;
    probe.fits("get_logs", json!({}), Block::List("logs"), &json!(["+", logs])).await;
    probe.fits("get_logs", json!({}), Block::List("logs"), &json!([logs])).await;
    probe.fits("get_notifications", json!({}), Block::List("notifications"), &json!([notification_shape()])).await;
    let trigger = json!({ "type": "immediate|event|timeout|server_disconnected|shutdown", "server?": "word", "eventType?": "word" });
    let working = json!({ "taskId": "id", "toolName": "word", "status": "=working", "createdAt?": "time" });
    let body = json!({
        "triggers": ["+", trigger], "triggered_by": "word", "events": [event_shape()], "dropped?": "object",
        "pending_server": [{ "server": "word", "working_tasks": ["+", working] }], "pending_client": pending_shape(), "last_event_id": "id",
    });
    probe.good("set_timer", json!({ "duration_ms": 1, "message": "soon" })).await;
    probe.fits("await_activity", json!({}), Block::Object, &body).await;
    let quiet = json!({ "timeout_ms": 100 });
    for _ in 0..5 {
        let reply = probe.fits("await_activity", quiet.clone(), Block::Object, &body).await;
        if reply.json()["triggered_by"] == "timeout" {
            let empty = reply.json()["events"] == json!([]) && reply.json()["triggers"][0]["type"] == "timeout";
            probe.tally.check(empty, || format!("a timeout with events: {reply}"));
            return;
        }
    }
    probe.tally.check(false, || "await_activity never times out".to_owned());
}
