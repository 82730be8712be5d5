//! Every tool with its documented parameters.

use serde_json::{Value, json};

/// What a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Any string.
    Text,
    /// A string of so many characters.
    Length(usize, usize),
    /// A server's name.
    Name,
    /// A regular expression.
    Regex,
    /// An integer, within limits where they are documented.
    Integer(Option<i64>, Option<i64>),
    /// Any number.
    Number,
    /// True or false.
    Flag,
    /// One of these.
    OneOf(&'static [&'static str]),
    /// Some of these.
    SomeOf(&'static [&'static str]),
    /// Strings.
    Texts,
    /// Strings by name.
    TextMap,
    /// Any object.
    Object,
    /// A string, an object or a list.
    Content,
}

/// One parameter.
#[derive(Clone, Debug)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Whether it must be given.
    pub is_required: bool,
    /// What holds when it is left out, where that is documented.
    pub default: Option<Value>,
}

/// One tool.
#[derive(Clone, Debug)]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// Its parameters without `session`, which every tool takes.
    pub params: Vec<Param>,
    /// Arguments that are all valid, whatever comes of the call.
    pub valid: Value,
}

const LEVELS: &[&str] = &["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
const SOURCES: &[&str] = &["protocol", "stderr", "stdout"];
const STATES: &[&str] = &["working", "completed", "failed", "cancelled", "expired"];

fn needs(name: &'static str, kind: Kind) -> Param {
    Param { name, kind, is_required: true, default: None }
}

fn takes(name: &'static str, kind: Kind) -> Param {
    Param { name, kind, is_required: false, default: None }
}

fn default(name: &'static str, kind: Kind, value: Value) -> Param {
    Param { name, kind, is_required: false, default: Some(value) }
}

fn tool<const N: usize>(name: &'static str, valid: Value, params: [Param; N]) -> Tool {
    Tool { name, params: params.into(), valid }
}

/// All tools.
#[must_use]
pub fn tools() -> Vec<Tool> {
    [servers(), primitives(), tasks(), activity(), questions(), timers()].concat()
}

fn servers() -> Vec<Tool> {
    use Kind::{Name, Object, Text, TextMap, Texts};
    let named = || json!({ "name": "no-such-server" });
    vec![
        // Nothing listens there, so that no call of this table adds anything.
        tool(
            "add_server",
            json!({ "name": "added", "url": "http://127.0.0.1:9/mcp" }),
            [
                needs("name", Name),
                takes("url", Text),
                takes("headers", TextMap),
                takes("command", Text),
                takes("args", Texts),
                takes("env", TextMap),
                takes("cwd", Text),
                takes("restartConfig", Object),
                takes("auth", Kind::OneOf(&["none", "user"])),
            ],
        ),
        tool("remove_server", named(), [needs("name", Text)]),
        tool("reconnect_server", named(), [needs("name", Text)]),
        tool("list_servers", json!({}), []),
        tool("get_server_status", json!({ "server": "fix" }), [needs("server", Text)]),
    ]
}

fn primitives() -> Vec<Tool> {
    use Kind::{Flag, Object, OneOf, Regex, Text, TextMap};
    let uri = || json!({ "server": "fix", "uri": "test://static-text" });
    let place = || [needs("server", Text), needs("uri", Text)];
    let reference = json!({ "type": "ref/prompt", "name": "test_prompt_with_arguments" });
    vec![
        tool("list_tools", json!({}), [default("server", Regex, json!(".*")), default("tool", Regex, json!(".*"))]),
        tool("list_resources", json!({ "server": "fix" }), [takes("server", Text)]),
        tool("list_resource_templates", json!({ "server": "fix" }), [takes("server", Text)]),
        tool("list_prompts", json!({ "server": "fix" }), [takes("server", Text)]),
        tool(
            "read_resource",
            uri(),
            [needs("server", Text), needs("uri", Text), default("include_blob", Flag, json!(false))],
        ),
        tool("subscribe_resource", uri(), place()),
        tool("unsubscribe_resource", uri(), place()),
        tool(
            "get_prompt",
            json!({ "server": "fix", "name": "test_simple_prompt" }),
            [needs("server", Text), needs("name", Text), takes("arguments", TextMap)],
        ),
        tool(
            "complete",
            json!({ "server": "fix", "ref": reference, "argument": { "name": "arg1", "value": "t" } }),
            [needs("server", Text), needs("ref", Object), needs("argument", Object), takes("context", Object)],
        ),
        tool(
            "set_log_level",
            json!({ "server": "fix", "level": "info" }),
            [needs("server", Text), needs("level", OneOf(LEVELS))],
        ),
    ]
}

fn tasks() -> Vec<Tool> {
    use Kind::{Flag, Integer, Object, OneOf, Text};
    let task = || json!({ "task_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV" });
    vec![
        tool(
            "execute_tool",
            json!({ "server": "fix", "tool": "test_simple_text" }),
            [
                needs("server", Text),
                needs("tool", Text),
                default("args", Object, json!({})),
                default("timeout_ms", Integer(Some(100), Some(900_000)), json!(120_000)),
                takes("task_ttl_ms", Integer(None, None)),
            ],
        ),
        tool(
            "list_tasks",
            json!({}),
            [default("include_completed", Flag, json!(false)), takes("server", Text), takes("status", OneOf(STATES))],
        ),
        tool("get_task", task(), [needs("task_id", Text)]),
        tool(
            "get_task_result",
            task(),
            [needs("task_id", Text), default("timeout_ms", Integer(None, Some(900_000)), json!(30_000))],
        ),
        tool("cancel_task", task(), [needs("task_id", Text)]),
    ]
}

fn activity() -> Vec<Tool> {
    use Kind::{Flag, Integer, OneOf, SomeOf, Text};
    vec![
        tool("get_notifications", json!({}), [takes("server", Text)]),
        tool(
            "get_logs",
            json!({}),
            [
                takes("server", Text),
                takes("level", OneOf(LEVELS)),
                default("limit", Integer(Some(1), Some(500)), json!(100)),
                takes("sources", SomeOf(SOURCES)),
                takes("exclude_sources", SomeOf(SOURCES)),
                default("clear", Flag, json!(true)),
            ],
        ),
        tool(
            "await_activity",
            json!({ "timeout_ms": 100 }),
            [default("timeout_ms", Integer(Some(100), Some(900_000)), json!(30_000)), takes("last_event_id", Text)],
        ),
    ]
}

fn questions() -> Vec<Tool> {
    use Kind::{Content, Object, OneOf, Text};
    let request = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    let cancels = || [needs("request_id", Text), default("reason", Text, json!("User cancelled"))];
    vec![
        tool("get_sampling_requests", json!({}), []),
        tool(
            "respond_to_sampling",
            json!({ "request_id": request, "role": "assistant", "content": "x", "model": "m" }),
            [
                needs("request_id", Text),
                needs("role", OneOf(&["user", "assistant"])),
                needs("content", Content),
                needs("model", Text),
                takes("stop_reason", OneOf(&["endTurn", "maxTokens", "stopSequence", "toolUse"])),
            ],
        ),
        tool("cancel_sampling_request", json!({ "request_id": request }), cancels()),
        tool("get_elicitations", json!({}), []),
        tool(
            "respond_to_elicitation",
            json!({ "request_id": request, "action": "decline" }),
            [
                needs("request_id", Text),
                needs("action", OneOf(&["accept", "decline", "cancel"])),
                takes("content", Object),
            ],
        ),
        tool("cancel_elicitation_request", json!({ "request_id": request }), cancels()),
    ]
}

fn timers() -> Vec<Tool> {
    use Kind::{Flag, Integer, Length, Text};
    let timer = || json!({ "timer_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV" });
    vec![
        tool(
            "set_timer",
            json!({ "duration_ms": 3_600_000, "message": "x" }),
            [
                needs("duration_ms", Integer(Some(1), Some(86_400_000))),
                needs("message", Length(1, 500)),
                default("interval", Flag, json!(false)),
            ],
        ),
        tool("list_timers", json!({}), [default("include_inactive", Flag, json!(false))]),
        tool("get_timer", timer(), [needs("timer_id", Text)]),
        tool("delete_timer", timer(), [needs("timer_id", Text)]),
    ]
}
