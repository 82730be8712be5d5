//! A server inside this process that does what a test tells it to.
//!
//! Answers the handshake, pings and lists by itself unless told otherwise; calls of `echo` too. Everything else is
//! written down and left to the test.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Longest wait for something to hold, on the paused clock.
const UNTIL_MAX: Duration = Duration::from_secs(3_600);

/// How a new connection of the server behaves in the handshake.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Start {
    /// As it should.
    Good,
    /// It dies when it is introduced to.
    Dies,
    /// It says nothing.
    Silent,
}

/// One scripted server, over all its connections.
#[derive(Clone)]
pub struct Script(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    tasks: Mutex<JoinSet<()>>,
    changed: watch::Sender<u64>,
}

struct State {
    start: Start,
    pings: bool,
    heard: Vec<(usize, Value)>,
    connections: Vec<Option<mpsc::Sender<Value>>>,
    started: Vec<Instant>,
}

impl Script {
    pub fn new() -> Self {
        let (heard, connections, started) = Default::default();
        let state = State { start: Start::Good, pings: true, heard, connections, started };
        Self(Arc::new(Shared { state: Mutex::new(state), tasks: Mutex::default(), changed: watch::Sender::new(0) }))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().expect("no panic holds it")
    }

    /// A new connection: our end of its stream.
    pub fn connect(&self) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(1024 * 1024);
        let (say, said) = mpsc::channel(256);
        let number = {
            let mut state = self.state();
            state.connections.push(Some(say));
            state.started.push(Instant::now());
            state.connections.len() - 1
        };
        self.0.tasks.lock().expect("no panic holds it").spawn(self.clone().serve(number, theirs, said));
        self.touch();
        ours
    }

    fn touch(&self) {
        self.0.changed.send_modify(|count| *count += 1);
    }

    async fn serve(self, number: usize, stream: DuplexStream, mut said: mpsc::Receiver<Value>) {
        let (input, mut output) = tokio::io::split(stream);
        let mut lines = BufReader::new(input).lines();
        loop {
            let out = tokio::select! {
                biased;
                said = said.recv() => match said { Some(message) => Some(message), None => break },
                line = lines.next_line() => match line {
                    Ok(Some(line)) => {
                        let message: Value = serde_json::from_str(&line).expect("JSON");
                        let (answer, dies) = self.hear(number, &message);
                        if dies { break }
                        answer
                    }
                    _ => break,
                },
            };
            if let Some(out) = out
                && output.write_all(format!("{out}\n").as_bytes()).await.is_err()
            {
                break;
            }
        }
        if let Some(connection) = self.state().connections.get_mut(number) {
            *connection = None;
        }
        self.touch();
    }

    fn hear(&self, number: usize, message: &Value) -> (Option<Value>, bool) {
        let (start, pings) = {
            let mut state = self.state();
            state.heard.push((number, message.clone()));
            (state.start, state.pings)
        };
        self.touch();
        let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) else { return (None, false) };
        let result = match (method, start) {
            ("initialize" | "server/discover", Start::Dies) => return (None, true),
            ("initialize" | "server/discover", Start::Silent) => return (None, false),
            ("initialize", Start::Good) => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": { "tools": { "listChanged": true }, "logging": {} },
                "serverInfo": { "name": "scripted", "version": "1" },
            }),
            ("ping", _) if pings => json!({}),
            ("tools/list", _) => {
                let tool = |name| json!({ "name": name, "inputSchema": { "type": "object" } });
                json!({ "tools": [tool("echo"), tool("hold")] })
            }
            ("resources/list", _) => json!({ "resources": [] }),
            ("resources/templates/list", _) => json!({ "resourceTemplates": [] }),
            ("prompts/list", _) => json!({ "prompts": [] }),
            ("tools/call", _) if message["params"]["name"] == "echo" => text("echo"),
            ("server/discover", _) => {
                return (
                    Some(json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "no" } })),
                    false,
                );
            }
            _ => return (None, false),
        };
        (Some(json!({ "jsonrpc": "2.0", "id": id, "result": result })), false)
    }

    /// How the next connections start.
    pub fn starts(&self, start: Start) {
        self.state().start = start;
    }

    /// Whether it answers pings.
    pub fn answers_pings(&self, pings: bool) {
        self.state().pings = pings;
    }

    /// When its connections were made.
    pub fn started(&self) -> Vec<Instant> {
        self.state().started.clone()
    }

    /// Connections that are open.
    pub fn open(&self) -> usize {
        self.state().connections.iter().flatten().count()
    }

    /// Everything heard so far.
    pub fn heard(&self) -> Vec<Value> {
        self.state().heard.iter().map(|(_, message)| message.clone()).collect()
    }

    /// What was heard last.
    pub fn last(&self) -> Option<Value> {
        self.state().heard.last().map(|(_, message)| message.clone())
    }

    /// What was heard of one method.
    pub fn heard_of(&self, method: &str) -> Vec<Value> {
        self.heard().into_iter().filter(|message| message["method"] == method).collect()
    }

    /// The answer to a request of its own, if there is one.
    pub fn answer_to(&self, id: &str) -> Option<Value> {
        self.heard().into_iter().find(|message| message["id"] == id && message.get("method").is_none())
    }

    /// All answers to a request of its own.
    pub fn answers_to(&self, id: &str) -> Vec<Value> {
        self.heard().into_iter().filter(|message| message["id"] == id && message.get("method").is_none()).collect()
    }

    /// Says something on the newest connection.
    pub fn say(&self, message: Value) {
        let connection = self.state().connections.iter().rev().find_map(Clone::clone);
        connection.expect("a connection").try_send(message).expect("room to say something");
    }

    /// Says it on one connection.
    pub fn say_on(&self, number: usize, message: Value) {
        let connection = self.state().connections.get(number).cloned().flatten();
        connection.expect("that connection is open").try_send(message).expect("room to say something");
    }

    /// Answers a request of the gateway.
    pub fn answer(&self, id: &Value, result: Value) {
        self.say(json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    /// Asks for input by the model or a human.
    pub fn elicit(&self, id: &str) {
        let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
        let params = json!({ "message": "who?", "requestedSchema": schema });
        self.say(json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params }));
    }

    /// Asks for a message by a model.
    pub fn sample(&self, id: &str) {
        let message = json!({ "role": "user", "content": { "type": "text", "text": "say" } });
        let params = json!({ "messages": [message], "maxTokens": 10 });
        self.say(json!({ "jsonrpc": "2.0", "id": id, "method": "sampling/createMessage", "params": params }));
    }

    /// A notification.
    pub fn notify(&self, method: &str) {
        self.say(json!({ "jsonrpc": "2.0", "method": method }));
    }

    /// Closes every connection, as a crash does.
    pub fn crash(&self) {
        self.state().connections.iter_mut().for_each(|connection| *connection = None);
        self.touch();
    }

    /// Waits until something holds.
    pub async fn until(&self, holds: impl Fn(&Self) -> bool) {
        let mut changes = self.0.changed.subscribe();
        let held = async {
            while !holds(self) {
                changes.changed().await.expect("the script is there");
            }
        };
        tokio::time::timeout(UNTIL_MAX, held).await.expect("it holds within an hour");
    }

    /// Waits for the nth call of a tool; gives its id.
    pub async fn call(&self, nth: usize) -> Value {
        self.until(|script| nth <= script.heard_of("tools/call").len()).await;
        self.heard_of("tools/call")[nth - 1]["id"].clone()
    }
}

/// The result of a tool: one text.
pub fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}
