//! Every stated error, with its code.

use serde_json::json;

use super::steps::Probe;
use super::{Tally, World};
use crate::tools::ToolClient;

pub(super) async fn check(client: &ToolClient, world: &World, tally: &mut Tally) {
    let mut probe = Probe::new(client, tally).await;
    unknown_things(&mut probe).await;
    servers(&mut probe, world).await;
    let unknown = probe.client.call("no_such_tool", json!({})).await;
    probe.tally.check(unknown.rpc_code() == Some(-32602), || format!("an unknown tool of the gateway: {unknown}"));
}

async fn unknown_things(probe: &mut Probe<'_>) {
    let uri = json!({ "server": "nope", "uri": "test://x" });
    let reference = json!({ "type": "ref/prompt", "name": "x" });
    for (name, arguments) in [
        ("get_server_status", json!({ "server": "nope" })),
        ("list_resources", json!({ "server": "nope" })),
        ("list_resource_templates", json!({ "server": "nope" })),
        ("list_prompts", json!({ "server": "nope" })),
        ("read_resource", uri.clone()),
        ("subscribe_resource", uri.clone()),
        ("unsubscribe_resource", uri),
        ("get_prompt", json!({ "server": "nope", "name": "x" })),
        ("complete", json!({ "server": "nope", "ref": reference, "argument": { "name": "a", "value": "" } })),
        ("set_log_level", json!({ "server": "nope", "level": "info" })),
        ("execute_tool", json!({ "server": "nope", "tool": "x" })),
        ("remove_server", json!({ "name": "nope" })),
        ("reconnect_server", json!({ "name": "nope" })),
    ] {
        let reply = probe.refused(name, arguments, "TOOL_ERR_SERVER_NOT_FOUND").await;
        let named = reply.text().contains("Server 'nope' not found");
        probe.tally.check(named, || format!("{name}: does not name the server: {reply}"));
    }
    let id = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    for (name, member, code) in [
        ("get_task", "task_id", "TASK_NOT_FOUND"),
        ("get_task_result", "task_id", "TASK_NOT_FOUND"),
        ("cancel_task", "task_id", "TASK_NOT_FOUND"),
        ("cancel_sampling_request", "request_id", "REQUEST_NOT_FOUND"),
        ("cancel_elicitation_request", "request_id", "REQUEST_NOT_FOUND"),
        ("get_timer", "timer_id", "TIMER_NOT_FOUND"),
        ("delete_timer", "timer_id", "TIMER_NOT_FOUND"),
    ] {
        for id in [id, "nope"] {
            probe.refused(name, json!({ member: id }), code).await;
        }
    }
    let decline = json!({ "request_id": id, "action": "decline" });
    probe.refused("respond_to_elicitation", decline, "REQUEST_NOT_FOUND").await;
    let answer = json!({ "request_id": id, "role": "assistant", "content": "x", "model": "m" });
    probe.refused("respond_to_sampling", answer, "REQUEST_NOT_FOUND").await;
    let tool = json!({ "server": "fix", "tool": "no_such_tool" });
    probe.refused("execute_tool", tool, "TOOL_ERR_NOT_FOUND").await;
    for arguments in [json!({ "server": "(" }), json!({ "tool": "*" })] {
        probe.refused("list_tools", arguments, "INVALID_ARGUMENT").await;
    }
    for last in ["nope", "", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "00000000000000000000000000"] {
        let arguments = json!({ "timeout_ms": 100, "last_event_id": last });
        probe.refused("await_activity", arguments, "INVALID_ARGUMENT").await;
    }
    let plain = json!({ "server": "plain", "uri": "test://x" });
    probe.refused("subscribe_resource", plain, "NOT_SUPPORTED").await;
}

async fn servers(probe: &mut Probe<'_>, world: &World) {
    let both = json!({ "name": "added", "url": "http://127.0.0.1:9/mcp", "command": "true" });
    let reply = probe.refused("add_server", both, "INVALID_ARGUMENT").await;
    let named = ["'url'", "'command'", "not both"].iter().all(|word| reply.text().contains(word));
    probe.tally.check(named, || format!("add_server with both: {reply}"));
    let reply = probe.refused("add_server", json!({ "name": "added" }), "INVALID_ARGUMENT").await;
    let named = ["url", "command"].iter().all(|word| reply.text().contains(word));
    probe.tally.check(named, || format!("add_server with neither: {reply}"));
    for url in ["nope", "/mcp", "ftp://127.0.0.1/", "http://", "file:///etc/passwd", ""] {
        probe.refused("add_server", json!({ "name": "added", "url": url }), "INVALID_ARGUMENT").await;
    }
    for url in ["http://169.254.169.254/mcp", "http://[fe80::1]/mcp"] {
        probe.refused("add_server", json!({ "name": "added", "url": url }), "FORBIDDEN").await;
    }
    let program = json!({ "name": "added", "command": "/no/such/program" });
    if world.may_spawn {
        let reply = probe.client.call("add_server", program).await;
        let failed = reply.is_error() && !["", "INVALID_ARGUMENT", "FORBIDDEN"].contains(&reply.code());
        probe.tally.check(failed, || format!("add_server of a program that is not there: {reply}"));
    } else {
        probe.refused("add_server", program, "FORBIDDEN").await;
    }
    let reply = probe.client.call("add_server", json!({ "name": "added", "url": "http://127.0.0.1:9/mcp" })).await;
    let failed = reply.is_error() && !["", "INVALID_ARGUMENT"].contains(&reply.code());
    probe.tally.check(failed, || format!("add_server where nothing listens: {reply}"));
    let rows = probe.client.call("list_servers", json!({})).await;
    let names: Vec<String> = rows.json().as_array().into_iter().flatten().map(|row| row["name"].to_string()).collect();
    probe.tally.check(names == [r#""fix""#, r#""plain""#], || format!("a failed add_server leaves {names:?}"));
}
