//! A server inside this process that repeats what it is told in every way there is, and numbers its connections.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use lb_backend::EmbeddedServers;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::task::JoinSet;

/// The one kind of server, under its name.
pub fn embedded() -> Arc<EmbeddedServers> {
    let (serving, count) = (Arc::new(Mutex::new(JoinSet::new())), AtomicUsize::new(0));
    let maker = move || {
        let (ours, theirs) = tokio::io::duplex(256 * 1024);
        let number = count.fetch_add(1, Ordering::Relaxed);
        serving.lock().expect("no panic holds it").spawn(serve(theirs, number));
        ours
    };
    let mut all = EmbeddedServers::new();
    all.insert("parrot".to_owned(), Arc::new(maker));
    Arc::new(all)
}

async fn serve(stream: DuplexStream, number: usize) {
    let (input, mut output) = tokio::io::split(stream);
    let mut lines = BufReader::new(input).lines();
    let mut marks: Vec<String> = Vec::new();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).expect("JSON");
        for said in answer(&message, number, &mut marks) {
            if output.write_all(format!("{said}\n").as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// What it says to one message. Everything is about the marks that came by this connection.
fn answer(message: &Value, number: usize, marks: &mut Vec<String>) -> Vec<Value> {
    let Some(id) = message.get("id") else { return Vec::new() };
    let params = &message["params"];
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": params["protocolVersion"],
            "capabilities": {
                "tools": { "listChanged": true }, "resources": { "subscribe": true }, "logging": {}, "prompts": {},
            },
            "serverInfo": { "name": format!("parrot conn-{number}-"), "version": "1" },
        }),
        Some("tools/list") => {
            let own = format!("conn-{number}-");
            let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
            json!({ "tools": [tool("say"), tool("hold"), tool("ask"), tool(&own)] })
        }
        Some("resources/list") => {
            let rows = marks.iter().map(|mark| json!({ "uri": format!("mark:{mark}"), "name": mark }));
            json!({ "resources": rows.collect::<Vec<_>>() })
        }
        Some("resources/templates/list") => json!({ "resourceTemplates": [] }),
        Some("prompts/list") => json!({ "prompts": [] }),
        Some("resources/read") => json!({ "contents": [{ "uri": params["uri"], "text": format!("{marks:?}") }] }),
        Some("tools/call") => return called(id, params, number, marks),
        Some("server/discover") => {
            return vec![json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "no" } })];
        }
        Some(_) => json!({}),
        None => return Vec::new(),
    };
    vec![json!({ "jsonrpc": "2.0", "id": id, "result": result })]
}

fn called(id: &Value, params: &Value, number: usize, marks: &mut Vec<String>) -> Vec<Value> {
    let mark = params["arguments"]["mark"].as_str().unwrap_or_default().to_owned();
    if !marks.contains(&mark) {
        marks.push(mark.clone());
    }
    let note = |method: &str, params: Value| json!({ "jsonrpc": "2.0", "method": method, "params": params });
    let told = [
        note("notifications/message", json!({ "level": "error", "data": format!("log {mark}") })),
        note("notifications/resources/updated", json!({ "uri": format!("mark:{mark}") })),
        note("notifications/parrot", json!({ "said": mark })),
    ];
    match params["name"].as_str() {
        // It never ends.
        Some("hold") => told.to_vec(),
        Some("ask") => {
            let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
            let asked = json!({ "message": format!("who is {mark}?"), "requestedSchema": schema });
            vec![
                json!({ "jsonrpc": "2.0", "id": format!("ask-{mark}"), "method": "elicitation/create", "params": asked }),
            ]
        }
        _ => {
            let text = format!("you said {marks:?} on conn-{number}-");
            let result = json!({ "content": [{ "type": "text", "text": text }] });
            told.into_iter().chain([json!({ "jsonrpc": "2.0", "id": id, "result": result })]).collect()
        }
    }
}
