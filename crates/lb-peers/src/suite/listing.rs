//! What `tools/list` says of each tool.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Tally;
use super::table::{Kind, Param, Tool, tools};
use crate::tools::ToolClient;

/// Compares the list with the table, both ways.
pub(super) async fn check(client: &ToolClient, tally: &mut Tally) {
    let reply = client.request("tools/list", json!({})).await;
    let listed = reply.result()["tools"].as_array().cloned().unwrap_or_default();
    let names: BTreeSet<&str> = listed.iter().filter_map(|tool| tool["name"].as_str()).collect();
    let want: BTreeSet<&str> = tools().iter().map(|tool| tool.name).collect();
    tally.check(names == want, || format!("tools/list: {names:?} instead of {want:?}"));
    tally.check(listed.len() == want.len(), || format!("tools/list has {} tools", listed.len()));
    for tool in tools() {
        let Some(found) = listed.iter().find(|found| found["name"] == tool.name) else { continue };
        of_tool(&tool, found, tally);
    }
    let add = listed.iter().find(|tool| tool["name"] == "add_server").unwrap_or(&Value::Null);
    let restart = &add["inputSchema"]["properties"]["restartConfig"]["properties"];
    for (name, kind, value) in [
        ("enabled", "boolean", json!(true)),
        ("maxAttempts", "integer", json!(5)),
        ("baseDelayMs", "integer", json!(1000)),
        ("maxDelayMs", "integer", json!(60_000)),
        ("backoffMultiplier", "number", json!(2)),
    ] {
        let told = || format!("add_server: restartConfig.{name} is {}", restart[name]);
        tally.check(restart[name]["type"] == kind && restart[name]["default"] == value, told);
    }
}

fn of_tool(tool: &Tool, found: &Value, tally: &mut Tally) {
    let schema = &found["inputSchema"];
    let name = tool.name;
    let described = found["description"].as_str().is_some_and(|text| !text.is_empty());
    tally.check(described && schema["type"] == "object", || format!("{name}: no description, or schema no object"));
    let properties: BTreeSet<&str> =
        schema["properties"].as_object().into_iter().flat_map(|all| all.keys()).map(String::as_str).collect();
    let want: BTreeSet<&str> = tool.params.iter().map(|param| param.name).chain(["session"]).collect();
    tally.check(properties == want, || format!("{name}: parameters {properties:?} instead of {want:?}"));
    let texts = |value: &Value| -> BTreeSet<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let required = texts(&schema["required"]);
    let want: BTreeSet<String> =
        tool.params.iter().filter(|param| param.is_required).map(|param| param.name.to_owned()).collect();
    tally.check(required == want, || format!("{name}: requires {required:?} instead of {want:?}"));
    tally.check(schema["properties"]["session"]["type"] == "string", || format!("{name}: session is no string"));
    of_output(name, found.get("outputSchema"), tally);
    for param in &tool.params {
        let at = &schema["properties"][param.name];
        of_param(name, param, at, tally);
    }
}

/// Tools whose results are, or hold, what a server sent.
const PASSING: [&str; 6] =
    ["execute_tool", "get_task_result", "read_resource", "get_prompt", "respond_to_elicitation", "respond_to_sampling"];

/// A tool that passes content through promises no shape; any other promise leaves room for `error`.
fn of_output(name: &str, schema: Option<&Value>, tally: &mut Tally) {
    let Some(schema) = schema else { return };
    tally.check(!PASSING.contains(&name), || format!("{name}: passes content through and declares {schema}"));
    let open = schema["type"] == "object" && schema["properties"].get("error").is_some();
    let free = schema["required"].as_array().is_none_or(Vec::is_empty);
    tally.check(open && free, || format!("{name}: outputSchema does not admit an error: {schema}"));
}

fn of_param(tool: &str, param: &Param, at: &Value, tally: &mut Tally) {
    let name = param.name;
    let told = |what: &str| format!("{tool}: {name} {what}: {at}");
    tally.check(at["description"].as_str().is_some_and(|text| !text.is_empty()), || told("has no description"));
    if let Some(want) = &param.default {
        tally.check(at.get("default") == Some(want), || told("has another default"));
    }
    tally.check(matches_kind(param.kind, at), || told("is of another kind"));
}

/// Whether a property's schema says what is documented; limits that are not documented may be there.
fn matches_kind(kind: Kind, at: &Value) -> bool {
    let is = |wanted: &str| at["type"] == wanted;
    let limit = |key: &str, want: Option<i64>| want.is_none() || at[key].as_i64() == want;
    let length = |key: &str, want: usize| at[key].as_u64() == u64::try_from(want).ok();
    match kind {
        Kind::Text | Kind::Regex => is("string"),
        Kind::Name => is("string") && at["pattern"].as_str().is_some_and(|text| text.contains("{1,32}")),
        Kind::Length(low, high) => is("string") && length("minLength", low) && length("maxLength", high),
        Kind::Integer(low, high) => is("integer") && limit("minimum", low) && limit("maximum", high),
        Kind::Number => is("number"),
        Kind::Flag => is("boolean"),
        Kind::OneOf(values) => at["enum"] == json!(values),
        Kind::SomeOf(values) => is("array") && at["items"]["enum"] == json!(values),
        Kind::Texts => is("array") && at["items"]["type"] == "string",
        Kind::TextMap => is("object") && at["additionalProperties"]["type"] == "string",
        Kind::Object => is("object"),
        Kind::Content => {
            at["type"] == json!(["string", "object", "array"]) || at.get("anyOf").is_some() || at.get("oneOf").is_some()
        }
    }
}
