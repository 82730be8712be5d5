//! Plain servers that speak both eras: one on an HTTP port, the others on streams inside this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use lb_backend::{Children, EmbeddedServers, Environment};
use lb_exchange::Tasks;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The answer to one message; none to notifications.
fn answer(message: &Value) -> Option<Value> {
    let id = message.get("id")?;
    let modern = message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].is_string();
    let mut result = match message["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "plain", "version": "1" },
        }),
        "server/discover" => json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } }),
        "tools/list" => json!({ "tools": [{ "name": "echo", "inputSchema": { "type": "object" } }] }),
        _ => json!({ "content": [{ "type": "text", "text": "plain" }] }),
    };
    if modern {
        result["resultType"] = "complete".into();
    }
    Some(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}

/// What an HTTP server does with a message and the names and values of its headers, in lower case: status and body.
pub type Answer = Arc<dyn Fn(&Value, &[(String, String)]) -> (u16, Option<Value>) + Send + Sync>;

/// Serves plain HTTP on a free port; gives the URL. Ends with the set.
pub async fn http(tasks: &mut JoinSet<()>) -> String {
    http_with(tasks, Arc::new(|message, _| (200, answer(message)))).await
}

/// Serves HTTP on a free port; gives the URL. Ends with the set.
pub async fn http_with(tasks: &mut JoinSet<()>, answer: Answer) -> String {
    serve(tasks, answer, "Mcp-Session-Id: s\r\n").await
}

/// The same with a server that has no sessions.
pub async fn stateless(tasks: &mut JoinSet<()>, answer: Answer) -> String {
    serve(tasks, answer, "").await
}

async fn serve(tasks: &mut JoinSet<()>, answer: Answer, session: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(serve_http(stream, answer.clone(), session));
        }
    });
    url
}

async fn serve_http(stream: TcpStream, answer: Answer, session: &str) {
    let mut stream = BufReader::new(stream);
    while let Some((headers, message)) = request(&mut stream).await {
        let reply = match answer(&message, &headers) {
            (status, Some(answer)) => {
                let body = answer.to_string();
                let head = format!("HTTP/1.1 {status} .\r\nContent-Type: application/json\r\n{session}");
                format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())
            }
            (_, None) => "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_owned(),
        };
        if stream.get_mut().write_all(reply.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn request(stream: &mut BufReader<TcpStream>) -> Option<(Vec<(String, String)>, Value)> {
    let mut headers = Vec::new();
    let mut line = String::new();
    loop {
        line.clear();
        match stream.read_line(&mut line).await {
            Ok(0) | Err(_) => return None,
            Ok(_) if line.trim().is_empty() => break,
            Ok(_) => {}
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.push((name.to_lowercase(), value.trim().to_owned()));
        }
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().expect("a length"))];
    stream.read_exact(&mut body).await.expect("a body");
    Some((headers, serde_json::from_slice(&body).unwrap_or_default()))
}

/// Everything a gateway in front of these servers needs.
pub fn environment(tasks: &Tasks) -> Environment {
    Environment {
        supervisor: "no-children-here".into(),
        embedded: embedded(),
        tasks: tasks.clone(),
        children: Children::new(0),
        logins: None,
        names: lb_backend::Names::default(),
    }
}

/// Makers of embedded servers: `plain`, and `escaped`, which speaks an older revision and spells the member that says
/// so with an escape.
fn embedded() -> Arc<EmbeddedServers> {
    let tasks = Arc::new(Mutex::new(JoinSet::new()));
    let maker = |spell: fn(String) -> String| {
        let tasks = tasks.clone();
        move || {
            let (ours, theirs) = tokio::io::duplex(64 * 1024);
            tasks.lock().expect("no panic holds it").spawn(serve_lines(theirs, spell));
            ours
        }
    };
    let mut all: EmbeddedServers = HashMap::new();
    all.insert("plain".to_owned(), Arc::new(maker(|answer| answer)));
    all.insert("escaped".to_owned(), Arc::new(maker(escaped)));
    all.insert("asks".to_owned(), Arc::new(maker(asks)));
    Arc::new(all)
}

/// Asks a person instead of answering a call, and waits.
fn asks(answer: String) -> String {
    static ASKED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    if !answer.contains(r#""content""#) {
        return answer;
    }
    let id = ASKED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": { "message": "?" } }).to_string()
}

fn escaped(answer: String) -> String {
    let written = r#""protocol\u0056ersion":"2025-06-18""#;
    answer.replace(r#""protocolVersion":"2025-11-25""#, written)
}

async fn serve_lines(stream: DuplexStream, spell: fn(String) -> String) {
    let (input, mut output) = tokio::io::split(stream);
    let mut lines = BufReader::new(input).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).expect("JSON");
        if let Some(answer) = answer(&message)
            && output.write_all((spell(answer.to_string()) + "\n").as_bytes()).await.is_err()
        {
            return;
        }
    }
}
