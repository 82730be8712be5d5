//! Starting the servers, and the messages sent to them.

use std::net::SocketAddr;
use std::time::Duration;

use lb_peers::raw::http::{Headers, Response, modern_headers, modern_meta};
use lb_peers::raw::{RawHttp, RawStdio};
use tokio::process::Command;

/// Long enough for 50 MB on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// `evil` on stdio, after it said that it is ready.
pub async fn evil(args: &[&str]) -> RawStdio {
    let mut process = spawn(env!("CARGO_BIN_EXE_evil"), args);
    assert_eq!(process.stderr_line().await.expect("stderr").as_deref(), Some("evil: ready"));
    process
}

/// A server on a free port; it ends with this value.
pub struct HttpPeer {
    pub process: RawStdio,
    pub address: SocketAddr,
}

impl HttpPeer {
    pub async fn evil(args: &[&str]) -> Self {
        Self::start(env!("CARGO_BIN_EXE_evil"), args).await
    }

    pub async fn start(program: &str, args: &[&str]) -> Self {
        let mut all = vec!["--http", "127.0.0.1:0"];
        all.extend_from_slice(args);
        let mut process = spawn(program, &all);
        let line = process.stderr_line().await.expect("stderr").expect("a line on stderr");
        let url = line.strip_prefix("listening on http://").and_then(|rest| rest.strip_suffix("/mcp"));
        let address = url.and_then(|address| address.parse().ok());
        Self { process, address: address.unwrap_or_else(|| panic!("no address in {line:?}")) }
    }

    pub async fn connect(&self) -> RawHttp {
        let mut client = RawHttp::connect(self.address).await.expect("the server listens");
        client.patience = PATIENCE;
        client
    }

    /// A connection with a legacy session, and the headers to use in it.
    pub async fn session(&self) -> (RawHttp, Headers) {
        let mut client = self.connect().await;
        let session = client.initialize("/mcp", "2025-11-25").await.expect("initialize");
        assert!(session.id.is_some());
        (client, session.headers())
    }
}

pub fn spawn(program: &str, args: &[&str]) -> RawStdio {
    let mut command = Command::new(program);
    command.args(args);
    let mut process = RawStdio::spawn(command).expect("the server starts");
    process.patience = PATIENCE;
    process
}

/// A legacy call; `arguments` is JSON text.
pub fn call(id: &str, tool: &str, arguments: &str) -> String {
    let params = format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
}

/// A legacy strike with `text` as its message.
pub fn strike(id: &str, text: &str) -> String {
    call(id, "strike", &format!(r#"{{"message":"{text}"}}"#))
}

/// A legacy call of calm.
pub fn calm(id: &str, text: &str) -> String {
    call(id, "calm", &format!(r#"{{"message":"{text}"}}"#))
}

/// What a legacy call with that text is answered with.
pub fn answer(id: &str, text: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#)
}

/// A modern request; `members` are further params, as `"key":value,`.
pub fn modern(id: &str, method: &str, members: &str) -> String {
    let meta = modern_meta("");
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{members}"_meta":{meta}}}}}"#)
}

/// A modern call.
pub fn modern_call(id: &str, tool: &str, text: &str) -> String {
    modern(id, "tools/call", &format!(r#""name":"{tool}","arguments":{{"message":"{text}"}},"#))
}

/// What a modern call with that text is answered with.
pub fn modern_answer(id: &str, text: &str) -> String {
    answer(id, text).replace(r#"{"content""#, r#"{"resultType":"complete","content""#)
}

/// Posts a modern call.
pub async fn post_modern_call(client: &mut RawHttp, id: &str, tool: &str, text: &str) -> Response {
    let body = modern_call(id, tool, text);
    client.post("/mcp", &modern_headers("tools/call", Some(tool)), body.as_bytes()).await.expect("a response")
}

/// Posts a message in a legacy session.
pub async fn post(client: &mut RawHttp, headers: &Headers, body: &str) -> Response {
    client.post("/mcp", headers, body.as_bytes()).await.expect("a response")
}

/// The data of all events of a response.
pub fn data(response: &Response) -> Vec<String> {
    assert!(response.head.is_sse(), "no event stream: {}", response.head.start);
    assert!(response.complete);
    response.events().iter().map(|event| event.text()).collect()
}
