//! Starting the fixture, and the client's half of a conversation with it.

use std::net::SocketAddr;

use lb_peers::raw::http::{Headers, headers, modern_headers, post_headers};
use lb_peers::raw::sse::Event;
use lb_peers::raw::{RawHttp, RawStdio};
use serde_json::{Value, json};
use tokio::process::Command;

/// Every tool of the fixture list, in its order, then our own.
pub const TOOLS: [&str; 43] = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_error_handling",
    "test_tool_with_progress",
    "json_schema_2020_12_tool",
    "test_tool_with_logging",
    "test_sampling",
    "test_elicitation",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_reconnection",
    "test_missing_capability",
    "test_streaming_elicitation",
    "test_logging_tool",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
    "test_custom_header",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
    "greet",
    "slow_compute",
    "failing_job",
    "protocol_error_job",
    "confirm_delete",
    "multi_input",
    "test_tool_with_task",
    "sleep",
    "echo",
    "progress_burst",
    "change_tools",
    "touch_resource",
    "structured",
    "log_burst",
    "counters",
];

const ELICIT: &str = "elicitation/create";
const SAMPLE: &str = "sampling/createMessage";
const ROOTS: &str = "roots/list";

/// Every tool that asks: arguments, the methods it asks by, round after round, and a word of its result.
pub fn asking_tools() -> Vec<(&'static str, Value, Vec<Vec<&'static str>>, &'static str)> {
    vec![
        ("test_sampling", json!({ "prompt": "hi" }), vec![vec![SAMPLE]], "Paris"),
        ("test_elicitation", json!({ "message": "who?" }), vec![vec![ELICIT]], "accept"),
        ("test_elicitation_sep1034_defaults", json!({}), vec![vec![ELICIT]], "accept"),
        ("test_elicitation_sep1330_enums", json!({}), vec![vec![ELICIT]], "accept"),
        ("test_streaming_elicitation", json!({}), vec![vec![ELICIT]], "accept"),
        ("test_input_required_result_elicitation", json!({}), vec![vec![ELICIT]], "Alice"),
        ("test_input_required_result_sampling", json!({}), vec![vec![SAMPLE]], "Paris"),
        ("test_input_required_result_list_roots", json!({}), vec![vec![ROOTS]], "file:///test/root"),
        ("test_input_required_result_request_state", json!({}), vec![vec![ELICIT]], "state-ok"),
        ("test_input_required_result_multiple_inputs", json!({}), vec![vec![ELICIT, SAMPLE, ROOTS]], "Alice"),
        ("test_input_required_result_multi_round", json!({}), vec![vec![ELICIT], vec![ELICIT]], "Alice"),
        ("test_input_required_result_tampered_state", json!({}), vec![vec![ELICIT]], "state-ok"),
        ("test_input_required_result_capabilities", json!({}), vec![vec![ELICIT, SAMPLE, ROOTS]], "greeting"),
    ]
}

/// What an obliging client answers to a question.
pub fn answer_to(method: &str) -> Value {
    match method {
        ELICIT => {
            json!({ "action": "accept", "content": { "name": "Alice", "color": "red", "confirm": true, "context": "ctx" } })
        }
        SAMPLE => json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "Paris" } }),
        ROOTS => json!({ "roots": [{ "uri": "file:///test/root" }] }),
        other => panic!("the server asked {other}"),
    }
}

/// Capabilities of a client that can be asked anything.
pub fn obliging() -> Value {
    json!({ "sampling": {}, "elicitation": {}, "roots": {} })
}

/// The text of the first content block.
pub fn text_of(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {result}"))
}

/// The `_meta` of a modern request.
pub fn meta(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": { "name": "it", "version": "1" },
    })
}

/// A request as JSON.
pub fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// The fixture on stdio.
pub struct Stdio {
    pub process: RawStdio,
    last_id: u64,
}

impl Stdio {
    pub fn start(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fixture"));
        command.args(args);
        Self { process: RawStdio::spawn(command).expect("the fixture starts"), last_id: 0 }
    }

    /// The fixture with a legacy session of the latest revision.
    pub async fn legacy(capabilities: Value) -> Self {
        let mut peer = Self::start(&["--era", "legacy"]);
        peer.initialize("2025-11-25", capabilities).await;
        peer
    }

    pub async fn initialize(&mut self, version: &str, capabilities: Value) -> Value {
        let params = json!({ "protocolVersion": version, "capabilities": capabilities, "clientInfo": { "name": "it", "version": "1" } });
        let answer = self.ask("initialize", params).await;
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        answer
    }

    pub async fn send(&mut self, message: &Value) {
        self.process.send(message.to_string().as_bytes()).await.expect("the fixture answers");
    }

    pub async fn receive(&mut self) -> Value {
        serde_json::from_str(&self.process.text().await.expect("the fixture answers")).expect("the fixture sends JSON")
    }

    /// Sends a request and returns its id.
    pub async fn post(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        self.send(&request(self.last_id, method, &params)).await;
        self.last_id
    }

    /// Sends a request; its response must be the next message.
    pub async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.post(method, params).await;
        let answer = self.receive().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    pub async fn cancel(&mut self, id: u64) {
        let params = json!({ "requestId": id });
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })).await;
    }
}

/// The fixture on a free port.
pub struct Http {
    pub address: SocketAddr,
    _process: RawStdio,
}

impl Http {
    pub async fn start(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fixture"));
        command.args(["--http", "127.0.0.1:0"]).args(args);
        let mut process = RawStdio::spawn(command).expect("the fixture starts");
        let line = process.stderr_line().await.expect("stderr").expect("a line");
        let address = line.strip_prefix("listening on http://").and_then(|rest| rest.strip_suffix("/mcp"));
        Self { address: address.unwrap_or_else(|| panic!("{line:?}")).parse().expect("an address"), _process: process }
    }

    pub async fn connect(&self) -> RawHttp {
        RawHttp::connect(self.address).await.expect("the fixture listens")
    }

    /// Opens a legacy session and returns the headers to use in it.
    pub async fn session(&self, version: &str, capabilities: Value) -> Headers {
        let params = json!({ "protocolVersion": version, "capabilities": capabilities, "clientInfo": { "name": "it", "version": "1" } });
        let body = request(0, "initialize", &params).to_string();
        let answer =
            self.connect().await.post("/mcp", &post_headers(), body.as_bytes()).await.expect("the fixture answers");
        let id = answer.head.header("mcp-session-id").unwrap_or_else(|| panic!("{}", answer.text())).to_owned();
        let mut all = post_headers();
        all.extend(headers(&[("MCP-Protocol-Version", version), ("Mcp-Session-Id", &id)]));
        all
    }

    /// Posts one message on a connection of its own: the status and the JSON body, `Null` when empty.
    pub async fn post(&self, headers: &Headers, message: &Value) -> (u16, Value) {
        let answer = self
            .connect()
            .await
            .post("/mcp", headers, message.to_string().as_bytes())
            .await
            .expect("the fixture answers");
        (answer.head.status(), serde_json::from_slice(&answer.body).unwrap_or_default())
    }

    /// Sends a request and leaves its response to be read.
    pub async fn open(&self, method: &str, headers: &Headers, body: &Value) -> RawHttp {
        let mut client = self.connect().await;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        client.send(method, "/mcp", headers, body.as_bytes()).await.expect("the fixture answers");
        client
    }

    /// A modern tool call, with headers that agree with it.
    pub fn modern_call(id: u64, name: &str, arguments: Value, capabilities: &Value) -> (Headers, Value) {
        let params = json!({ "name": name, "arguments": arguments, "_meta": meta(capabilities) });
        (modern_headers("tools/call", Some(name)), request(id, "tools/call", &params))
    }

    /// Asks for the counters of one tool until they say that `cancelled` calls were stopped.
    pub async fn until_cancelled(&self, tool: &str, cancelled: u64) {
        let (headers, body) = Self::modern_call(1, "counters", json!({}), &json!({}));
        for _ in 0..500 {
            let (_, answer) = self.post(&headers, &body).await;
            if answer["result"]["structuredContent"][tool]["cancelled"] == cancelled {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("{tool} was not stopped");
    }
}

/// The next message of a stream, skipping comments and empty events.
pub async fn message(client: &mut RawHttp) -> Option<Value> {
    event(client).await.map(|event| serde_json::from_str(&event.text()).expect("the fixture sends JSON"))
}

/// The next event of a stream that carries a message.
pub async fn event(client: &mut RawHttp) -> Option<Event> {
    while let Some(event) = client.event().await.expect("the fixture answers") {
        if !event.text().is_empty() {
            return Some(event);
        }
    }
    None
}
