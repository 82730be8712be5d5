//! A client that writes and reads raw lines.

use lb_demo::Ended;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Longer than anything a test waits for; most tests run on a paused clock.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// `initialize`, then a session.
    Handshake,
    /// Every request carries version and capabilities.
    Stateless,
}

pub const ERAS: [Era; 2] = [Era::Handshake, Era::Stateless];

pub struct Client {
    era: Era,
    capabilities: Value,
    write: WriteHalf<DuplexStream>,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    server: JoinSet<Ended>,
    next_id: u64,
}

impl Client {
    /// A connection on which nothing has been said.
    pub fn silent(era: Era, capabilities: Value) -> Self {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let mut server = JoinSet::new();
        let demo = lb_demo::Server::new(Some("sample_tool")).unwrap();
        server.spawn(async move { demo.serve(theirs).await });
        let (read, write) = tokio::io::split(ours);
        Self { era, capabilities, write, lines: BufReader::new(read).lines(), server, next_id: 1 }
    }

    /// A connection that is ready for requests.
    pub async fn open(era: Era, capabilities: Value) -> Self {
        let mut client = Self::silent(era, capabilities);
        if era == Era::Handshake {
            client.initialize().await;
        }
        client
    }

    pub async fn initialize(&mut self) -> Value {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": self.capabilities,
            "clientInfo": { "name": "test", "version": "1" },
        });
        let id = self.request("initialize", params).await;
        let result = self.result_of(id).await;
        self.notify("notifications/initialized", json!({})).await;
        result
    }

    /// Sends a request and returns its id.
    pub async fn request(&mut self, method: &str, mut params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        if self.era == Era::Stateless {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({ "name": "test", "version": "1" });
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        }
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    pub async fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    pub async fn send(&mut self, message: Value) {
        self.write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// The next message of the server.
    pub async fn next(&mut self) -> Value {
        let line = timeout(PATIENCE, self.lines.next_line()).await.expect("a message in time").unwrap();
        serde_json::from_str(&line.expect("a message before the end")).unwrap()
    }

    /// The next message, which must answer `id` with a result.
    pub async fn result_of(&mut self, id: u64) -> Value {
        let message = self.next().await;
        assert_eq!(message["id"], id, "{message}");
        assert!(message["result"].is_object(), "{message}");
        message["result"].clone()
    }

    /// A request and the result that must come next.
    pub async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params).await;
        self.result_of(id).await
    }

    /// A request and the code of the error that must come next.
    pub async fn refused(&mut self, method: &str, params: Value) -> Value {
        self.error(method, params).await["code"].clone()
    }

    /// A request and the error that must come next.
    pub async fn error(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params).await;
        let message = self.next().await;
        assert_eq!(message["id"], id, "{message}");
        message["error"].clone()
    }

    pub async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// A call, what was told before its result, and the result.
    pub async fn telling(&mut self, tool: &str, arguments: Value, meta: Value) -> (Vec<Value>, Value) {
        let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
        let id = self.request("tools/call", params).await;
        let mut told = Vec::new();
        loop {
            let message = self.next().await;
            if message["id"] == id {
                return (told, message["result"].clone());
            }
            told.push(message);
        }
    }

    /// Adds a note and takes in whatever comes with it.
    pub async fn add_note(&mut self, note: &str) {
        let id = self.request("tools/call", json!({ "name": "add_note", "arguments": { "note": note } })).await;
        while self.next().await["id"] != id {}
    }

    /// Closes our end and waits until the server has returned.
    pub async fn close(self) {
        let Self { write, lines, server, .. } = self;
        drop((write, lines));
        assert_eq!(ended(server).await, Ended::Closed);
    }

    /// How the server ended by itself, with nothing more said.
    pub async fn ended(mut self) -> Ended {
        let more = timeout(PATIENCE, self.lines.next_line()).await.expect("an end in time").unwrap();
        assert_eq!(more, None);
        ended(self.server).await
    }

    /// Drops the server's future and waits for the end of the stream.
    pub async fn abort_server(mut self) {
        self.server.abort_all();
        while timeout(PATIENCE, self.lines.next_line()).await.expect("an end in time").unwrap().is_some() {}
    }
}

async fn ended(mut server: JoinSet<Ended>) -> Ended {
    timeout(PATIENCE, server.join_next()).await.expect("the server ends").unwrap().unwrap()
}

/// The text of a result's first block.
pub fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

pub fn failed(result: &Value) -> bool {
    result["isError"] == true
}
