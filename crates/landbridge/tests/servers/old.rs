//! Servers that speak only HTTP+SSE, the transport of 2024-11-05: one of the Python SDK, started on loopback.

use std::process::Stdio;
use std::time::Duration;

use lb_peers::harness::{Gateway, listening};
use lb_peers::installed;
use lb_peers::tools::{Settings, ToolClient};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::LANDBRIDGE;
use crate::desk::{Desk, Front};

const START_MAX: Duration = Duration::from_secs(40);

/// The server beside this file; killed when dropped.
struct Old {
    child: Child,
    port: u16,
}

impl Old {
    /// On this port, or on a free one.
    async fn start(port: u16) -> Self {
        let script = format!("{}/tests/servers/old.py", env!("CARGO_MANIFEST_DIR"));
        let mut child = Command::new(installed::file("python", "bin/python"))
            .args([script, port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("python starts");
        let mut lines = BufReader::new(child.stderr.take().expect("stderr is piped")).lines();
        let found = async {
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some(address) = listening(&line) {
                    return Some(address.port());
                }
            }
            None
        };
        let port = tokio::time::timeout(START_MAX, found).await.ok().flatten().expect("the server listens");
        Self { child, port }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/sse", self.port)
    }

    /// Kills it, and starts another one in its place.
    async fn restart(&mut self) {
        self.kill().await;
        *self = Self::start(self.port).await;
    }

    async fn kill(&mut self) {
        self.child.kill().await.expect("it was running");
    }
}

#[tokio::test]
async fn the_tools_use_it_ask_for_it_and_outlive_its_restart() {
    for front in [Front::Stdio, Front::ModernHttp] {
        let mut old = Old::start(0).await;
        let mut desk = Desk::open(front, json!({ "old": { "url": old.url() } })).await;
        let tools = desk.ok("list_tools", json!({ "server": "old" })).await.json();
        assert_eq!(tools.as_array().map(Vec::len), Some(5), "{front:?} {tools}");
        desk.works("old").await;

        let asked = desk.ok("execute_tool", json!({ "server": "old", "tool": "who", "timeout_ms": 120_000 })).await;
        assert!(asked.text().contains("respond_to_elicitation"), "{front:?} {asked}");
        let open = desk.ok("get_elicitations", json!({})).await.json();
        let answer = json!({ "request_id": open[0]["requestId"], "action": "accept", "content": { "name": "Ada" } });
        let done = desk.ok("respond_to_elicitation", answer).await;
        assert!(done.message.to_string().contains("accept Ada"), "{front:?} {done}");

        let task = desk.task("old", "sleep", json!({ "ms": 60_000 })).await;
        old.restart().await;
        let failed = desk.event("task_failed").await;
        assert_eq!(failed["taskId"], task, "{front:?} {failed}");
        desk.event("server_reconnected").await;
        desk.works("old").await;
    }
}

/// A client of one server, behind `landbridge serve`.
async fn direct(entry: Value) -> (Gateway, ToolClient) {
    let gateway = Gateway::serve(LANDBRIDGE, json!({ "old": entry })).await;
    let settings = Settings { path: "/mcp/server/old".to_owned(), ..Settings::default() };
    let client = ToolClient::at(gateway.address, settings).await;
    (gateway, client)
}

#[tokio::test]
async fn a_call_ends_with_its_server_and_the_next_one_finds_the_new_one() {
    for entry in [json!({}), json!({ "type": "sse" }), json!({ "type": "sse", "isolation": "shared" })] {
        let mut old = Old::start(0).await;
        let mut definition = entry.clone();
        definition["url"] = old.url().into();
        let (gateway, client) = direct(definition).await;
        let said = client.call("echo", json!({ "message": "one" })).await;
        assert_eq!(said.text(), "one", "{entry} {said}; {}", gateway.said());
        let set = client.request("logging/setLevel", json!({ "level": "warning" })).await;
        assert!(set.rpc_error().is_none(), "{entry} {set}");
        let running = client.start("sleep", json!({ "ms": 60_000 })).await;
        // Once another call is back, this one has been sent.
        client.call("echo", json!({ "message": "two" })).await;
        old.kill().await;
        let lost = running.wait().await;
        let error = lost.rpc_error().unwrap_or_else(|| panic!("{entry} {lost}"));
        assert_eq!(error["data"]["reason"], "backend_closed", "{entry} {error}");
        old = Old::start(old.port).await;
        let said = client.call("echo", json!({ "message": "three" })).await;
        assert_eq!(said.text(), "three", "{entry} {said}; {}", gateway.said());
        let level = client.call("level", json!({})).await;
        assert_eq!(level.text(), "warning", "the new one is told what the old one was: {entry} {level}");
        drop(old);
    }
}
