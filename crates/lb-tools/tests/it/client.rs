//! A client of the tools.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use lb_exchange::{Mount, Visitor};
use lb_front::{Accept, Frame, Front, Headers, Reply, Request};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// One session.
#[derive(Clone)]
pub struct Client {
    front: Front,
    session: String,
    visitor: Visitor,
    ids: Arc<AtomicU64>,
    seen: Arc<Mutex<Vec<Value>>>,
}

/// What a tool answered.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The whole response.
    pub response: Value,
    /// Notifications that came first, and how long after the start.
    pub notes: Vec<(Duration, Value)>,
    /// How long it took.
    pub after: Duration,
}

impl Answer {
    pub fn is_error(&self) -> bool {
        self.response["result"]["isError"] == true
    }

    /// The text of one block.
    pub fn text(&self, block: usize) -> String {
        self.response["result"]["content"][block]["text"].as_str().unwrap_or_default().to_owned()
    }

    /// One block as JSON.
    pub fn json(&self, block: usize) -> Value {
        serde_json::from_str(&self.text(block)).unwrap_or_else(|_| panic!("block {block} is no JSON: {self:?}"))
    }

    /// The code of its error.
    pub fn code(&self) -> String {
        self.response["result"]["structuredContent"]["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    /// The task that a call became.
    pub fn task(&self) -> String {
        self.json(1)["task"]["taskId"].as_str().unwrap_or_else(|| panic!("no task: {self:?}")).to_owned()
    }

    /// The events in the body of `await_activity`, by their types.
    pub fn types(&self) -> Vec<String> {
        types(&self.json(0)["events"])
    }
}

/// The types of a list of events.
pub fn types(events: &Value) -> Vec<String> {
    let events = events.as_array().cloned().unwrap_or_default();
    events.iter().map(|event| event["type"].as_str().unwrap_or_default().to_owned()).collect()
}

/// A call under way.
pub struct Running(JoinSet<Answer>);

impl Running {
    pub async fn answer(mut self) -> Answer {
        self.0.join_next().await.expect("a call").expect("no panic")
    }

    /// Whether it has ended.
    pub async fn is_done(&mut self) -> bool {
        settle().await;
        // Looks without waiting; an answer that is there is put back.
        match self.0.try_join_next() {
            Some(answer) => {
                let answer = answer.expect("no panic");
                self.0.spawn(async move { answer });
                true
            }
            None => false,
        }
    }
}

/// Lets everything run that can run without time passing.
pub async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

impl Client {
    pub async fn new(front: &Front) -> Self {
        Self::with(front, json!({})).await
    }

    /// A client with these capabilities.
    pub async fn with(front: &Front, capabilities: Value) -> Self {
        Self::of(front, Visitor::local(), capabilities).await
    }

    /// A client of somebody.
    pub async fn of(front: &Front, visitor: Visitor, capabilities: Value) -> Self {
        let info = json!({ "name": "c", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info });
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let session = match send(front, (&visitor, None), &hello).await {
            Reply::Json { session: Some(session), .. } => session.as_str().to_owned(),
            other => panic!("no session: {other:?}"),
        };
        let (front, ids) = (front.clone(), Arc::new(AtomicU64::new(1)));
        let client = Self { front, session, visitor, ids, seen: Arc::default() };
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert!(matches!(send(&client.front, client.sender(), &ready).await, Reply::Empty { status: 202 }));
        client
    }

    /// Calls a tool.
    pub async fn call(&self, tool: &str, arguments: Value) -> Answer {
        self.call_with(json!({ "name": tool, "arguments": arguments })).await
    }

    /// Calls a tool with a token for progress.
    pub async fn call_watched(&self, tool: &str, arguments: Value) -> Answer {
        let meta = json!({ "progressToken": "watch" });
        self.call_with(json!({ "name": tool, "arguments": arguments, "_meta": meta })).await
    }

    async fn call_with(&self, params: Value) -> Answer {
        let answer = self.send_call(params).await;
        for block in 0..answer.response["result"]["content"].as_array().map_or(0, Vec::len) {
            let body: Value = serde_json::from_str(&answer.text(block)).unwrap_or_default();
            let events = body["events"].as_array().cloned().unwrap_or_default();
            self.seen.lock().expect("no panic holds it").extend(events);
        }
        answer
    }

    /// Every event of one type that any reply has told so far.
    pub fn seen_of(&self, kind: &str) -> Vec<Value> {
        let seen = self.seen.lock().expect("no panic holds it");
        seen.iter().filter(|event| event["type"] == kind).cloned().collect()
    }

    /// The reply of a tool before anybody has taken it: what it tells is neither delivered nor free for others.
    pub async fn untaken(&self, tool: &str, arguments: Value) -> Reply {
        self.post(json!({ "name": tool, "arguments": arguments })).await
    }

    async fn post(&self, params: Value) -> Reply {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        send(&self.front, self.sender(), &request).await
    }

    async fn send_call(&self, params: Value) -> Answer {
        let start = Instant::now();
        let mut notes = Vec::new();
        match self.post(params).await {
            Reply::Json { status, body, receipt, .. } => {
                if let Some(receipt) = receipt {
                    receipt.commit();
                }
                let response = serde_json::from_slice(&body).expect("JSON");
                Answer { status, response, notes, after: start.elapsed() }
            }
            Reply::Stream { mut frames, .. } => {
                let mut response = Value::Null;
                while let Some(frame) = frames.next().await {
                    let Frame::Message { line, receipt, .. } = frame else { continue };
                    if let Some(receipt) = receipt {
                        receipt.commit();
                    }
                    let message: Value = serde_json::from_slice(line.as_bytes()).expect("JSON");
                    match message.get("method") {
                        Some(_) => notes.push((start.elapsed(), message)),
                        None => response = message,
                    }
                }
                Answer { status: 200, response, notes, after: start.elapsed() }
            }
            Reply::Empty { status } => Answer { status, response: Value::Null, notes, after: start.elapsed() },
            other => panic!("{other:?}"),
        }
    }

    /// Begins a call, and lets it go as far as it can without time passing.
    pub async fn begin(&self, tool: &'static str, arguments: Value) -> Running {
        let client = self.clone();
        let mut set = JoinSet::new();
        set.spawn(async move { client.call(tool, arguments).await });
        settle().await;
        Running(set)
    }

    /// Calls a tool of the server `one` and lets it become a task; gives the task.
    pub async fn task(&self, more: Value) -> String {
        let mut arguments = json!({ "server": "one", "tool": "hold", "timeout_ms": 100 });
        for (key, value) in more.as_object().cloned().unwrap_or_default() {
            arguments[key] = value;
        }
        self.call("execute_tool", arguments).await.task()
    }

    /// What a task says of itself.
    pub async fn task_row(&self, task: &str) -> Value {
        self.call("get_task", json!({ "task_id": task })).await.json(0)
    }

    /// All events there are now: those of `await_activity` until it has none.
    pub async fn events(&self) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let answer = self.call("await_activity", json!({ "timeout_ms": 100 })).await.json(0);
            let events = answer["events"].as_array().cloned().unwrap_or_default();
            if events.is_empty() {
                return all;
            }
            all.extend(events);
        }
    }

    /// The events of one type among those there are now.
    pub async fn events_of(&self, kind: &str) -> Vec<Value> {
        self.events().await.into_iter().filter(|event| event["type"] == kind).collect()
    }

    /// Ends the session.
    pub fn delete(&self) -> u16 {
        match self.front.delete(&self.request(None)) {
            Reply::Empty { status } | Reply::Json { status, .. } => status,
            other => panic!("{other:?}"),
        }
    }

    /// Opens the standalone stream.
    pub fn listen(&self) -> Reply {
        self.front.get(&self.request(None))
    }

    fn request(&self, last_event_id: Option<&'static [u8]>) -> Request<'_> {
        let headers = Headers {
            version: Some(b"2025-11-25"),
            session: Some(self.session.as_bytes()),
            last_event_id,
            accept: Accept::Both,
            ..Headers::default()
        };
        Request { mount: Mount::Default, visitor: self.visitor.clone(), headers }
    }

    fn sender(&self) -> (&Visitor, Option<&str>) {
        (&self.visitor, Some(&self.session))
    }

    /// The same session, with another token.
    pub fn by(&self, visitor: Visitor) -> Self {
        Self { visitor, ..self.clone() }
    }
}

async fn send(front: &Front, (visitor, session): (&Visitor, Option<&str>), message: &Value) -> Reply {
    let headers = Headers {
        version: Some(b"2025-11-25"),
        session: session.map(str::as_bytes),
        accept: Accept::Both,
        ..Headers::default()
    };
    let request = Request { mount: Mount::Default, visitor: visitor.clone(), headers };
    front.post(request, Vec::new(), Bytes::from(message.to_string())).reply().await
}
