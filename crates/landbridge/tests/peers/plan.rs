//! What the clients do: one list of steps per server.
//!
//! A step says what to `do`; `fails` that its end is an error, `asks` how often the server asks back, `progressed` how
//! often it reports progress. Clients know nothing of those three: they only say what they saw.

use serde_json::{Value, json};

use crate::server::Behind;

/// The steps with a server; `asking` where it can ask the client for input.
pub fn steps(behind: Behind, asking: bool) -> Vec<Value> {
    match behind {
        Behind::Everything => everything(asking),
        Behind::Fixture(_) => fixture(asking),
    }
}

/// How the client answers whatever it is asked.
pub fn answers() -> Value {
    json!({
        "elicitation/create": { "action": "accept", "content": { "name": "Ada", "color": "blue", "ok": true } },
        "sampling/createMessage": {
            "role": "assistant",
            "model": "a-model",
            "stopReason": "endTurn",
            "content": { "type": "text", "text": "Paris, ça va \u{1f5fc}" },
        },
        "roots/list": { "roots": [{ "uri": "file:///work", "name": "work" }] },
    })
}

/// What the client declares when it can be asked.
pub fn capabilities() -> Value {
    json!({ "elicitation": { "form": {}, "url": {} }, "sampling": {}, "roots": {} })
}

fn fixture(asking: bool) -> Vec<Value> {
    let mut steps = lists();
    steps.extend([
        call("test_simple_text", json!({})),
        call("test_image_content", json!({})),
        call("test_audio_content", json!({})),
        call("test_embedded_resource", json!({})),
        call("test_multiple_content_types", json!({})),
        call("test_error_handling", json!({})),
        call("structured", json!({})),
        call("test_custom_header", json!({ "value": " grüße " })),
        call("json_schema_2020_12_tool", json!({ "name": "n", "address": { "street": "s" } })),
        call("echo", json!({ "message": "line\nbreak \u{2028} \u{1f600} \\ \" \u{7f}" })),
        failing(call("no_such_tool", json!({}))),
        json!({ "do": "read", "uri": "test://static-text" }),
        json!({ "do": "read", "uri": "test://static-binary" }),
        json!({ "do": "read", "uri": "test://template/7/data" }),
        failing(json!({ "do": "read", "uri": "test://no-such-resource" })),
        prompt("test_simple_prompt", json!({})),
        prompt("test_prompt_with_arguments", json!({ "arg1": "one", "arg2": "two" })),
        prompt("test_prompt_with_embedded_resource", json!({ "resourceUri": "test://static-text" })),
        prompt("test_prompt_with_image", json!({})),
        failing(prompt("no_such_prompt", json!({}))),
        complete("test_prompt_with_arguments", "arg1", "te"),
        progressing("test_tool_with_progress", json!({}), 3),
        json!({ "do": "cancel", "name": "sleep", "arguments": { "ms": 60000 } }),
        json!({ "do": "counters", "tool": "sleep" }),
    ]);
    if asking {
        steps.extend(fixture_asks());
    }
    steps
}

fn fixture_asks() -> Vec<Value> {
    let message = json!({ "message": "Who are you?" });
    let mut prompted = prompt("test_input_required_result_prompt", json!({}));
    prompted["asks"] = 1.into();
    let mut declined = asking("test_elicitation", message.clone(), 1);
    declined["answers"] = json!({ "elicitation/create": { "action": "decline" } });
    let mut dismissed = asking("test_elicitation", message.clone(), 1);
    dismissed["answers"] = json!({ "elicitation/create": { "action": "cancel" } });
    vec![
        asking("test_elicitation", message, 1),
        declined,
        dismissed,
        asking("test_elicitation_sep1034_defaults", json!({}), 1),
        asking("test_elicitation_sep1330_enums", json!({}), 1),
        asking("test_streaming_elicitation", json!({}), 1),
        asking("test_sampling", json!({ "prompt": "Capital of France?" }), 1),
        asking("test_input_required_result_elicitation", json!({}), 1),
        asking("test_input_required_result_sampling", json!({}), 1),
        asking("test_input_required_result_list_roots", json!({}), 1),
        asking("test_input_required_result_request_state", json!({}), 1),
        asking("test_input_required_result_multiple_inputs", json!({}), 3),
        asking("test_input_required_result_multi_round", json!({}), 2),
        prompted,
    ]
}

fn everything(asking_too: bool) -> Vec<Value> {
    let mut steps = Vec::new();
    if asking_too {
        // It asks for the roots by itself, soon after the start and outside of any call.
        steps.push(json!({ "do": "await", "method": "roots/list" }));
    }
    steps.extend(lists());
    steps.extend([
        call("echo", json!({ "message": "line\nbreak \u{1f600}" })),
        call("get-sum", json!({ "a": 2, "b": 3.5 })),
        call("get-tiny-image", json!({})),
        call("get-annotated-message", json!({ "messageType": "error", "includeImage": true })),
        call("get-resource-links", json!({ "count": 3 })),
        call("get-structured-content", json!({ "location": "New York" })),
        json!({ "do": "read", "uri": "demo://resource/static/document/architecture.md" }),
        failing(json!({ "do": "read", "uri": "demo://no-such-resource" })),
        prompt("simple-prompt", json!({})),
        prompt("args-prompt", json!({ "city": "Paris", "state": "Texas" })),
        failing(prompt("no-such-prompt", json!({}))),
        complete("completable-prompt", "department", "E"),
        progressing("trigger-long-running-operation", json!({ "duration": 0.4, "steps": 4 }), 4),
        json!({ "do": "cancel", "name": "trigger-long-running-operation", "arguments": { "duration": 20, "steps": 100 } }),
        call("echo", json!({ "message": "after the cancelled call" })),
    ]);
    if asking_too {
        steps.extend([
            asking("trigger-elicitation-request", json!({}), 1),
            asking("trigger-sampling-request", json!({ "prompt": "Capital of France?", "maxTokens": 20 }), 1),
            asking("get-roots-list", json!({}), 0),
        ]);
    }
    steps
}

fn lists() -> Vec<Value> {
    ["tools", "prompts", "resources", "templates"].map(|what| json!({ "do": "list", "what": what })).into()
}

fn call(name: &str, arguments: Value) -> Value {
    json!({ "do": "call", "name": name, "arguments": arguments })
}

fn progressing(name: &str, arguments: Value, times: usize) -> Value {
    json!({ "do": "call", "name": name, "arguments": arguments, "progress": true, "progressed": times })
}

fn asking(name: &str, arguments: Value, times: usize) -> Value {
    json!({ "do": "call", "name": name, "arguments": arguments, "asks": times })
}

fn prompt(name: &str, arguments: Value) -> Value {
    json!({ "do": "prompt", "name": name, "arguments": arguments })
}

fn complete(prompt: &str, argument: &str, value: &str) -> Value {
    let reference = json!({ "type": "ref/prompt", "name": prompt });
    json!({ "do": "complete", "ref": reference, "argument": { "name": argument, "value": value } })
}

fn failing(mut step: Value) -> Value {
    step["fails"] = true.into();
    step
}
