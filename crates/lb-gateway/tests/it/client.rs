//! A client of the front, in either era.

use bytes::Bytes;
use lb_exchange::{Mount, Visitor};
use lb_front::{Accept, Front, Headers, Reply, Request};
use serde_json::{Value, json};

const MODERN: &str = "2026-07-28";

/// One client of one server.
pub struct Client {
    pub front: Front,
    pub mount: Mount,
    pub session: Option<String>,
}

impl Client {
    pub async fn post(&self, method: &str, message: &Value) -> Reply {
        let name = message["params"]["name"].as_str().map(str::as_bytes);
        let modern = message["params"].get("_meta").is_some();
        let headers = Headers {
            version: Some(if modern { MODERN.as_bytes() } else { b"2025-11-25" }),
            session: self.session.as_deref().map(str::as_bytes),
            method: Some(method.as_bytes()).filter(|_| modern),
            name: name.filter(|_| modern),
            accept: Accept::Both,
            ..Headers::default()
        };
        let request = Request { mount: self.mount.clone(), visitor: Visitor::local(), headers };
        self.front.post(request, Vec::new(), Bytes::from(message.to_string())).reply().await
    }

    /// Listens, or resumes a stream.
    pub fn get(&self, last_event_id: Option<&str>) -> Reply {
        let headers = Headers {
            version: Some(b"2025-11-25"),
            session: self.session.as_deref().map(str::as_bytes),
            last_event_id: last_event_id.map(str::as_bytes),
            accept: Accept::Both,
            ..Headers::default()
        };
        self.front.get(&Request { mount: self.mount.clone(), visitor: Visitor::local(), headers })
    }

    /// Opens a legacy session; gives the reply to `initialize`.
    pub async fn seat(&mut self) -> Value {
        self.seat_with(json!({})).await
    }

    /// The same for a client that can do this.
    pub async fn seat_with(&mut self, capabilities: Value) -> Value {
        let info = json!({ "name": "c", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info });
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let welcome = match self.post("initialize", &hello).await {
            Reply::Json { session: Some(session), body, .. } => {
                self.session = Some(session.as_str().to_owned());
                serde_json::from_slice(&body).expect("JSON")
            }
            other => panic!("no session: {other:?}"),
        };
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert!(matches!(self.post("", &ready).await, Reply::Empty { status: 202 }));
        welcome
    }

    /// One plain call, answered with JSON.
    pub async fn call(&self, id: u64, modern: bool) {
        let answer = self.request(id, modern, "tools/call", json!({ "name": "echo", "arguments": { "n": id } })).await;
        assert_eq!(answer["result"]["content"][0]["text"], "plain", "{answer}");
    }

    /// A request that is answered with JSON.
    pub async fn request(&self, id: u64, modern: bool, method: &str, mut params: Value) -> Value {
        if modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        match self.post(method, &request).await {
            Reply::Json { body, .. } => serde_json::from_slice(&body).expect("JSON"),
            other => panic!("no answer: {other:?}"),
        }
    }
}
