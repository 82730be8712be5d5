//! A plain call on a warm connection starts no task.

use std::sync::Arc;

use bytes::Bytes;
use lb_backend::Environment;
use lb_exchange::{Mount, Principal, ServerName, ServerSpec, Target, Tasks};
use lb_front::{Accept, Front, Headers, Reply, Request, Settings};
use lb_gateway::{Gateway, Limits};
use serde_json::json;
use tokio::task::JoinSet;

use crate::servers;

const CALLS: u64 = 200;
const MODERN: &str = "2026-07-28";

/// One client of one server.
struct Client {
    front: Front,
    mount: Mount,
    session: Option<String>,
}

impl Client {
    async fn post(&self, method: &str, message: &serde_json::Value) -> Reply {
        let name = message["params"]["name"].as_str().map(str::as_bytes);
        let modern = message["params"].get("_meta").is_some();
        let headers = Headers {
            version: Some(if modern { MODERN.as_bytes() } else { b"2025-11-25" }),
            session: self.session.as_deref().map(str::as_bytes),
            method: Some(method.as_bytes()).filter(|_| modern),
            name: name.filter(|_| modern),
            last_event_id: None,
            accept: Accept::Both,
        };
        let request = Request { mount: self.mount.clone(), principal: Principal::local(), headers };
        self.front.post(request, Vec::new(), Bytes::from(message.to_string())).await
    }

    /// Opens a legacy session.
    async fn seat(&mut self) {
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } });
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        match self.post("initialize", &hello).await {
            Reply::Json { session: Some(session), .. } => self.session = Some(session.as_str().to_owned()),
            other => panic!("no session: {other:?}"),
        }
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert!(matches!(self.post("", &ready).await, Reply::Empty { status: 202 }));
    }

    /// One plain call, answered with JSON.
    async fn call(&self, id: u64, modern: bool) {
        let mut params = json!({ "name": "echo", "arguments": { "n": id } });
        if modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        match self.post("tools/call", &call).await {
            Reply::Json { status: 200, body, .. } => {
                assert!(String::from_utf8_lossy(&body).contains("plain"), "{body:?}");
            }
            other => panic!("no answer: {other:?}"),
        }
    }
}

/// All in one test: the count is of the whole process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_call_on_a_warm_connection_starts_no_task() {
    let mut serving = JoinSet::new();
    let url = servers::http(&mut serving).await;
    let name = |text: &str| ServerName::parse(text).expect("a name");
    let tasks = Tasks::default();
    let specs = vec![
        ServerSpec::new(name("http"), Target::Http { url, headers: Vec::new() }),
        ServerSpec::new(name("pipe"), Target::Embedded("plain".into())),
    ];
    let environment = Environment {
        supervisor: "no-children-here".into(),
        embedded: servers::embedded(),
        tasks: tasks.clone(),
        children: Arc::new(tokio::sync::Semaphore::new(0)),
    };
    let gateway = Gateway::new(specs, &environment, Limits::default()).expect("a gateway");
    let front = Front::new(Arc::new(gateway.clone()), Settings::default());
    for server in ["http", "pipe"] {
        for modern in [false, true] {
            let mut client = Client { front: front.clone(), mount: Mount::Server(name(server)), session: None };
            if !modern {
                client.seat().await;
            }
            // Warm: connected, greeted, and whatever the first call still has to learn.
            client.call(1, modern).await;
            client.call(2, modern).await;
            let before = Tasks::spawned();
            for id in 3..3 + CALLS {
                client.call(id, modern).await;
            }
            assert_eq!(Tasks::spawned() - before, 0, "{server}, modern: {modern}");
        }
    }
    assert!(0 < Tasks::spawned(), "the count counts");
    gateway.close().await;
    assert!(tasks.close(std::time::Duration::from_secs(5)).await, "every task ends");
}
