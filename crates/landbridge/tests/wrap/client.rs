//! A client on a pipe that sees every line.

use std::collections::VecDeque;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// How long anything may take that is not said to take longer.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// A server on a pipe, wrapped or not.
pub struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    ids: u64,
    /// What came while something else was waited for.
    heard: VecDeque<Value>,
}

/// These params, with what a modern request says of its client.
pub fn modern(params: Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
        "io.modelcontextprotocol/clientInfo": { "name": "tester", "version": "1" },
    });
    let mut params = params;
    params["_meta"] = meta;
    params
}

impl Client {
    /// Starts a program whose caches and logs are in this folder.
    pub fn start(program: &str, args: &[String], folder: &Path, env: &[(&str, &str)]) -> Self {
        let mut command = Command::new(program);
        command.args(args).env("XDG_CACHE_HOME", folder).env("XDG_RUNTIME_DIR", folder);
        command.env_remove("MCP_SERVER_NAME").envs(env.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("it starts");
        let stdin = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        Self { child, stdin, lines, ids: 0, heard: VecDeque::new() }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Sends a message.
    pub async fn send(&mut self, message: Value) {
        self.send_text(&message.to_string()).await;
    }

    /// Sends a line.
    pub async fn send_text(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(format!("{line}\n").as_bytes()).await.expect("it reads");
    }

    /// Sends a request and gives its id.
    pub async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.ids += 1;
        let id = json!(self.ids);
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    /// The next line, whatever it is.
    pub async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(ANSWER_MAX, self.lines.next_line()).await;
        let line = line.expect("an answer in time").expect("a readable line").expect("it goes on");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// The first line that fits, now or later.
    pub async fn find(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.heard.iter().position(&fits) {
            return self.heard.remove(at).expect("it is there");
        }
        loop {
            let message = self.next().await;
            if fits(&message) {
                return message;
            }
            self.heard.push_back(message);
        }
    }

    /// The answer to a request.
    pub async fn answer(&mut self, id: &Value) -> Value {
        self.find(|message| message["id"] == *id && message.get("method").is_none()).await
    }

    /// A request and its whole answer.
    pub async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params).await;
        self.answer(&id).await
    }

    /// The result of a request.
    pub async fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.request(method, params).await;
        answer.get("result").cloned().unwrap_or_else(|| panic!("{method}: {answer}"))
    }

    /// A request of a modern client: it says all about the client itself. Gives its id.
    pub async fn ask_modern(&mut self, method: &str, params: Value) -> Value {
        self.ask(method, modern(params)).await
    }

    /// The whole answer to such a request.
    pub async fn request_modern(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask_modern(method, params).await;
        self.answer(&id).await
    }

    /// The result of such a request.
    pub async fn modern(&mut self, method: &str, params: Value) -> Value {
        let answer = self.request_modern(method, params).await;
        answer.get("result").cloned().unwrap_or_else(|| panic!("{method}: {answer}"))
    }

    /// The text that a tool answers.
    pub async fn tool(&mut self, name: &str, arguments: Value) -> String {
        let result = self.result("tools/call", json!({ "name": name, "arguments": arguments })).await;
        result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
    }

    /// The handshake, with these capabilities; gives the server's answer.
    pub async fn hello_with(&mut self, capabilities: Value, version: &str) -> Value {
        let info = json!({ "name": "tester", "version": "1" });
        let params = json!({ "protocolVersion": version, "capabilities": capabilities, "clientInfo": info });
        let result = self.result("initialize", params).await;
        self.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        result
    }

    /// The handshake of a client that can be asked.
    pub async fn hello(&mut self) -> Value {
        self.hello_with(json!({ "elicitation": {}, "roots": { "listChanged": true } }), "2025-06-18").await
    }

    /// What a server notified of, and nobody has looked at.
    pub fn heard(&self, method: &str) -> usize {
        self.heard.iter().filter(|message| message["method"] == method).count()
    }

    /// Closes stdin.
    pub fn close(&mut self) {
        self.stdin = None;
    }

    /// Waits for its end and gives how it ended and what it wrote to stderr.
    pub async fn end(mut self) -> (ExitStatus, String) {
        let mut stderr = String::new();
        let mut pipe = self.child.stderr.take().expect("stderr is piped");
        let reading = async { tokio::join!(pipe.read_to_string(&mut stderr), self.child.wait()) };
        let (read, status) = tokio::time::timeout(ANSWER_MAX, reading).await.expect("it ends");
        read.expect("text");
        (status.expect("a status"), stderr)
    }
}
