//! A gateway with a server behind it that writes down what reaches it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lb_peers::harness::Gateway;
use lb_peers::raw::RawHttp;
use lb_peers::raw::endpoint;
use lb_peers::raw::http::{Response, headers};
use lb_peers::raw::http1::{Conn, Head};
use lb_peers::tools::{Reply, ToolClient};
use serde_json::{Value, json};
use tokio::task::JoinSet;

pub const LANDBRIDGE: &str = env!("CARGO_BIN_EXE_landbridge");
/// The server beside this file.
pub const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/threats/server.py");
/// Longer than anything here should take.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A gateway whose only server is called `it`.
pub struct World {
    pub gateway: Gateway,
    pub folder: tempfile::TempDir,
}

impl World {
    pub async fn start(args: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let entry =
            json!({ "command": "python3", "args": [SERVER], "env": { "RECORD": folder.path().join("record") } });
        let gateway = Gateway::serve_tools(LANDBRIDGE, json!({ "it": entry }), args).await;
        Self { gateway, folder }
    }

    /// How many messages the server was sent.
    pub fn heard(&self) -> usize {
        let record: PathBuf = self.folder.path().join("record");
        std::fs::read_to_string(record).unwrap_or_default().lines().count()
    }

    /// A client whose call has reached the server once.
    pub async fn client(&self) -> ToolClient {
        let client = ToolClient::http(&self.gateway).await;
        works(&client).await;
        client
    }
}

/// Checks that the server can be called.
pub async fn works(client: &ToolClient) {
    let reply = run(client, "echo", json!({ "a": 1 })).await;
    assert!(!reply.is_error() && reply.text() == r#"{"a": 1}"#, "{reply}");
}

/// Calls a tool of the server.
pub async fn run(client: &ToolClient, tool: &str, args: Value) -> Reply {
    client.call("execute_tool", json!({ "server": "it", "tool": tool, "args": args })).await
}

/// A call of the server's tool, as the body of a request.
pub fn call_body() -> String {
    let params = json!({ "name": "execute_tool", "arguments": { "server": "it", "tool": "echo", "args": {} } });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string()
}

pub async fn connect(address: SocketAddr) -> RawHttp {
    RawHttp::connect(address).await.expect("it listens")
}

/// Sends a head, line by line, and a body with its length; the answer, if there is one.
pub async fn send(address: SocketAddr, lines: &[String], body: &str) -> Option<Response> {
    let mut http = connect(address).await;
    let text = format!("{}\r\nContent-Length: {}\r\n\r\n{body}", lines.join("\r\n"), body.len());
    http.send_raw(text.as_bytes()).await.expect("it reads");
    let head = http.head().await.ok()?;
    let (body, complete) = if head.is_sse() { (Vec::new(), false) } else { http.body().await.expect("a body") };
    Some(Response { head, body, complete })
}

/// Asks on a connection of its own.
pub async fn ask(address: SocketAddr, method: &str, path: &str, extra: &[(&str, &str)], body: &str) -> Response {
    let mut http = connect(address).await;
    http.request(method, path, &headers(extra), body.as_bytes()).await.expect("an answer")
}

/// A server that gives every request the same answer, and how often it was connected to and asked.
pub struct Always {
    pub address: SocketAddr,
    pub heads: std::sync::Arc<std::sync::Mutex<Vec<Head>>>,
    _serving: JoinSet<()>,
}

impl Always {
    pub async fn answers(answer: Vec<u8>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let heads = std::sync::Arc::<std::sync::Mutex<Vec<Head>>>::default();
        let (seen, mut serving) = (heads.clone(), JoinSet::new());
        serving.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let mut conn = Conn::new(stream);
                while let Ok(Some((head, _))) = endpoint::read(&mut conn).await {
                    seen.lock().expect("lock").push(head);
                    if conn.write(&answer).await.is_err() {
                        break;
                    }
                }
            }
        });
        Self { address, heads, _serving: serving }
    }

    pub fn asked(&self) -> usize {
        self.heads.lock().expect("lock").len()
    }
}

/// The names of everything in a folder.
pub fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
    names.sort();
    names.into_iter().map(|name| name.to_string_lossy().into_owned()).collect()
}
