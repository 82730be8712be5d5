//! Arguments that are missing, of a wrong type, out of range or unknown.

use serde_json::{Value, json};

use super::Tally;
use super::table::{Kind, Param, Tool, tools};
use crate::tools::{Reply, ToolClient};

/// Tries every bad value of every parameter of every tool.
pub(super) async fn check(client: &ToolClient, tally: &mut Tally) {
    for tool in tools() {
        for param in &tool.params {
            parameter(client, &tool, param, tally).await;
        }
        let mut arguments = tool.valid.clone();
        arguments["session"] = json!(7);
        refused(client, &tool, "session", arguments, tally).await;
        unknown_handle(client, &tool, tally).await;
        extra_ignored(client, &tool, tally).await;
        no_object(client, &tool, tally).await;
    }
}

/// Tries every bad value of one parameter, and to leave it out where it is required.
async fn parameter(client: &ToolClient, tool: &Tool, param: &Param, tally: &mut Tally) {
    let mut valid = tool.valid.clone();
    // An answer is judged against a question that is open; to an unknown one there are two right refusals.
    let open = open_question(client, tool.name).await;
    if let Some(id) = &open {
        valid["request_id"] = id.clone();
    }
    for bad in bad_values(param.kind) {
        let mut arguments = valid.clone();
        arguments[param.name] = bad;
        refused(client, tool, param.name, arguments, tally).await;
    }
    if param.is_required {
        let mut arguments = valid.clone();
        arguments.as_object_mut().and_then(|all| all.remove(param.name));
        refused(client, tool, param.name, arguments, tally).await;
    }
    if let Some(id) = open {
        still_open(client, tool, &id, tally).await;
    }
}

/// Has a tool ask, where answers to the question are about to be tried; the question's id.
async fn open_question(client: &ToolClient, tool: &str) -> Option<Value> {
    let (asker, args, list) = match tool {
        "respond_to_elicitation" => ("test_elicitation", json!({ "message": "who?" }), "get_elicitations"),
        "respond_to_sampling" => ("test_sampling", json!({ "prompt": "why?" }), "get_sampling_requests"),
        _ => return None,
    };
    client.call("execute_tool", json!({ "server": "fix", "tool": asker, "args": args })).await;
    let id = client.call(list, json!({})).await.json()[0]["requestId"].clone();
    id.is_string().then_some(id)
}

/// A refused answer leaves the question open.
async fn still_open(client: &ToolClient, tool: &Tool, id: &Value, tally: &mut Tally) {
    let cancel = tool.name.replace("respond_to", "cancel") + "_request";
    let reply = client.call(&cancel, json!({ "request_id": id })).await;
    tally.check(!reply.is_error(), || format!("{}: a refused answer ends the question: {reply}", tool.name));
}

/// Values that a parameter of this kind must refuse.
fn bad_values(kind: Kind) -> Vec<Value> {
    let text = |length: usize| json!("x".repeat(length));
    match kind {
        Kind::Text => vec![json!(7), json!(true), json!(["x"]), json!({})],
        Kind::Regex => vec![json!(7), json!({}), json!("("), json!("[z-a]")],
        Kind::Name => {
            let names = ["", "a b", "a/b", "a.b", "ä", "a__b", "landbridge"].map(|name| json!(name));
            [names.to_vec(), vec![json!(7), text(33)]].concat()
        }
        Kind::Length(low, high) => {
            let mut bad = vec![json!(7), json!(["x"]), text(high + 1)];
            bad.extend((0 < low).then(|| text(low - 1)));
            bad
        }
        Kind::Integer(low, high) => {
            let mut bad = vec![json!("1000"), json!(true), json!(1000.5), json!([1000])];
            bad.extend(low.map(|low| json!(low - 1)));
            bad.extend(low.map(|_| json!(-1)));
            bad.extend(high.map(|high| json!(high + 1)));
            bad.extend(high.map(|_| json!(u64::MAX)));
            bad
        }
        Kind::Number => vec![json!("2"), json!(true)],
        Kind::Flag => vec![json!("true"), json!(1), json!({})],
        Kind::OneOf(values) => {
            let capital = values.first().map(|value| json!(value.to_uppercase()));
            [vec![json!("no-such-value"), json!(""), json!(1)], capital.into_iter().collect()].concat()
        }
        Kind::SomeOf(_) => vec![json!("protocol"), json!(["no-such-value"]), json!([1])],
        Kind::Texts => vec![json!("x"), json!([1]), json!({})],
        Kind::TextMap => vec![json!("x"), json!([]), json!({ "a": 1 }), json!({ "a": {} })],
        Kind::Object => vec![json!("x"), json!([]), json!(1)],
        Kind::Content => vec![json!(7), json!(true)],
    }
}

async fn refused(client: &ToolClient, tool: &Tool, param: &str, arguments: Value, tally: &mut Tally) {
    let name = tool.name;
    let reply = client.call(name, arguments.clone()).await;
    let told = |what: &str, reply: &Reply| format!("{name} {}: {what}: {reply}", cut(&arguments));
    let refused = reply.is_error() && reply.code() == "INVALID_ARGUMENT";
    tally.check(refused, || told("not refused as INVALID_ARGUMENT", &reply));
    tally.check(!refused || reply.text().contains(param), || told(&format!("does not name {param}"), &reply));
    let same = reply.structured()["error"]["message"].as_str() == Some(reply.text());
    tally.check(!refused || same, || told("block 1 and error.message differ", &reply));
}

/// Every tool takes a session handle and knows no foreign one.
async fn unknown_handle(client: &ToolClient, tool: &Tool, tally: &mut Tally) {
    let mut arguments = tool.valid.clone();
    arguments["session"] = json!("0".repeat(64));
    let reply = client.call(tool.name, arguments).await;
    let refused = reply.is_error() && reply.code() == "TOOL_ERR_SESSION_NOT_FOUND";
    tally.check(refused, || format!("{}: an unknown session handle: {reply}", tool.name));
}

/// What is not documented makes no difference.
async fn extra_ignored(client: &ToolClient, tool: &Tool, tally: &mut Tally) {
    let plain = client.call(tool.name, tool.valid.clone()).await;
    let mut arguments = tool.valid.clone();
    arguments["no_such_parameter"] = json!({ "x": [1] });
    let reply = client.call(tool.name, arguments).await;
    let same = reply.is_error() == plain.is_error() && reply.code() == plain.code() && reply.rpc_error().is_none();
    tally.check(same, || format!("{}: an unknown property makes a difference: {reply}", tool.name));
}

/// Arguments that are no object are no call at all, or a bad argument; never a success.
async fn no_object(client: &ToolClient, tool: &Tool, tally: &mut Tally) {
    let reply = client.call(tool.name, json!("text")).await;
    let refused = reply.rpc_code() == Some(-32602) || reply.code() == "INVALID_ARGUMENT";
    tally.check(refused, || format!("{}: arguments that are a string: {reply}", tool.name));
}

fn cut(value: &Value) -> String {
    value.to_string().chars().take(200).collect()
}
