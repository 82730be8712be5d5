//! What two runs of the same scenario may differ in: nothing, unless the gateway joins two eras.
//!
//! Then each side has words that the other lacks: members of every modern result, legacy tasks, subscriptions.

use serde_json::{Map, Value};

/// The members that every modern result has and no legacy one.
const MODERN_ONLY: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The capabilities that both eras have.
const CAPABILITIES: [&str; 5] = ["tools", "prompts", "resources", "completions", "logging"];

/// A run as it would look in either era.
pub fn without_era(mut run: Value) -> Value {
    if let Some(steps) = run["steps"].as_array_mut() {
        for result in steps.iter_mut().filter_map(|step| step.get_mut("result")?.as_object_mut()) {
            strip(result);
        }
    }
    if let Some(server) = run["server"].as_object_mut() {
        server.remove("revision");
        if let Some(capabilities) = server.get_mut("capabilities").and_then(Value::as_object_mut) {
            capabilities.retain(|name, _| CAPABILITIES.contains(&name.as_str()));
            if let Some(resources) = capabilities.get_mut("resources").and_then(Value::as_object_mut) {
                resources.remove("subscribe");
            }
        }
    }
    run
}

fn strip(result: &mut Map<String, Value>) {
    for name in MODERN_ONLY {
        result.remove(name);
    }
    if let Some(meta) = result.get_mut("_meta").and_then(Value::as_object_mut) {
        meta.remove(SERVER_INFO);
        if meta.is_empty() {
            result.remove("_meta");
        }
    }
    let tools = result.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten();
    for tool in tools.filter_map(Value::as_object_mut) {
        // Whether a tool runs as a legacy task.
        tool.remove("execution");
    }
}

/// Where two values differ first, and how.
pub fn difference(path: &str, one: &Value, two: &Value) -> Option<String> {
    match (one, two) {
        (Value::Object(one), Value::Object(two)) => {
            let names = one.keys().chain(two.keys().filter(|name| !one.contains_key(*name)));
            names.map(|name| (name, one.get(name), two.get(name))).find_map(|(name, one, two)| match (one, two) {
                (Some(one), Some(two)) => difference(&format!("{path}.{name}"), one, two),
                (one, two) => Some(format!("{path}.{name}: {} against {}", shown(one), shown(two))),
            })
        }
        (Value::Array(one), Value::Array(two)) if one.len() == two.len() => {
            one.iter().zip(two).enumerate().find_map(|(at, (one, two))| difference(&format!("{path}[{at}]"), one, two))
        }
        _ if one == two => None,
        _ => Some(format!("{path}: {one} against {two}")),
    }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), Value::to_string)
}
