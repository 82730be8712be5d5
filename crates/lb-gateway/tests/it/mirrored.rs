//! Clients without headers on a modern HTTP server: what mirroring arguments into headers asks of an HTTP client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lb_exchange::{Mount, ServerName, ServerSpec, Target, Tasks};
use lb_front::{Front, Settings};
use lb_gateway::{Gateway, Setup};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client::Client;
use crate::servers;

fn tool(name: &str, header: &str) -> Value {
    let value = json!({ "type": "string", "x-mcp-header": header });
    json!({ "name": name, "inputSchema": { "type": "object", "properties": { "value": value } } })
}

/// What the server was asked.
#[derive(Default)]
struct Seen {
    lists: AtomicUsize,
    calls: AtomicUsize,
}

/// A modern server whose list names another header for `moving` each time it is asked. It takes the one of the second
/// list only, and refuses every call of `hopeless`.
fn server(seen: &Arc<Seen>) -> servers::Answer {
    let seen = seen.clone();
    Arc::new(move |message, headers| {
        let Some(id) = message.get("id") else { return (202, None) };
        let result = match message["method"].as_str().unwrap_or_default() {
            "server/discover" => json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } }),
            "tools/list" => {
                let header = format!("H{}", seen.lists.fetch_add(1, Ordering::Relaxed));
                json!({ "tools": [tool("moving", &header), tool("broken", "not a token"), tool("hopeless", "X")] })
            }
            "tools/call" => {
                seen.calls.fetch_add(1, Ordering::Relaxed);
                let good =
                    message["params"]["name"] == "moving" && headers.iter().any(|(name, _)| name == "mcp-param-h1");
                if !good {
                    let error = json!({ "code": -32020, "message": "headers do not match" });
                    return (400, Some(json!({ "jsonrpc": "2.0", "id": id, "error": error })));
                }
                json!({ "content": [{ "type": "text", "text": "done" }] })
            }
            method => {
                let error = json!({ "code": -32601, "message": format!("no {method}") });
                return (404, Some(json!({ "jsonrpc": "2.0", "id": id, "error": error })));
            }
        };
        let mut result = result;
        result["resultType"] = "complete".into();
        (200, Some(json!({ "jsonrpc": "2.0", "id": id, "result": result })))
    })
}

struct World {
    gateway: Gateway,
    client: Client,
    seen: Arc<Seen>,
    tasks: Tasks,
    _serving: JoinSet<()>,
}

impl World {
    async fn start() -> Self {
        let (seen, mut serving) = (Arc::new(Seen::default()), JoinSet::new());
        let url = servers::http_with(&mut serving, server(&seen)).await;
        let name = ServerName::parse("it").expect("a name");
        let specs = vec![ServerSpec::new(name, Target::Http { url, headers: Vec::new() })];
        let tasks = Tasks::default();
        let gateway = Gateway::new(specs, &servers::environment(&tasks), Setup::default()).expect("a gateway");
        let front = Front::new(Arc::new(gateway.clone()), Settings::default());
        let mut client = Client { front, mount: Mount::Default, session: None };
        client.seat().await;
        Self { gateway, client, seen, tasks, _serving: serving }
    }

    async fn call(&self, tool: &str) -> Value {
        let params = json!({ "name": tool, "arguments": { "value": "v" } });
        self.client.request(1, false, "tools/call", params).await
    }

    async fn end(self) {
        self.gateway.close().await;
        assert!(self.tasks.close(std::time::Duration::from_secs(5)).await, "every task ends");
    }
}

#[tokio::test]
async fn tools_with_an_invalid_annotation_are_not_shown_to_clients_without_headers() {
    let _alone = crate::ALONE.lock().await;
    let world = World::start().await;
    let names = |list: &Value| -> Vec<String> {
        let tools = list["result"]["tools"].as_array().expect("tools");
        tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    };
    let legacy = world.client.request(1, false, "tools/list", json!({})).await;
    assert_eq!(names(&legacy), ["moving", "hopeless"]);
    // A modern client over HTTP is the one to leave it out, and may want to say so.
    let modern = Client { front: world.client.front.clone(), mount: Mount::Default, session: None };
    let modern = modern.request(1, true, "tools/list", json!({})).await;
    assert_eq!(names(&modern), ["moving", "broken", "hopeless"]);
    world.end().await;
}

#[tokio::test]
async fn a_call_whose_headers_are_refused_is_sent_once_more_by_the_new_list() {
    let _alone = crate::ALONE.lock().await;
    let world = World::start().await;
    let answer = world.call("moving").await;
    assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
    let asked = [&world.seen.lists, &world.seen.calls].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(asked, [2, 2], "lists and calls");

    let answer = world.call("hopeless").await;
    assert_eq!(answer["error"]["code"], -32020, "{answer}");
    assert_eq!(world.seen.calls.load(Ordering::Relaxed), 4, "twice and no more");
    world.end().await;
}
