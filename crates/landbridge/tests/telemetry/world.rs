//! Gateways, servers behind them, and clients in front.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lb_peers::harness::{Gateway, config, peer};
use lb_peers::raw::hex;
use lb_peers::raw::http::{RawHttp, Response, modern_headers, modern_meta};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::LANDBRIDGE;

/// How long anything may take here that is not a matter of time.
pub const SOON: Duration = Duration::from_secs(20);

/// A server that writes down what it gets and takes any tool.
pub struct Recorder {
    folder: tempfile::TempDir,
}

impl Recorder {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    /// Its entry in a config.
    pub fn entry(&self, era: &str) -> Value {
        let args = ["--era", era, "--record", &self.file().to_string_lossy()].map(str::to_owned);
        json!({ "command": peer(LANDBRIDGE, "recorder"), "args": args })
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("record")
    }

    /// What it got of this method, as text.
    pub fn got(&self, method: &str) -> Vec<String> {
        let record = std::fs::read_to_string(self.file()).unwrap_or_default();
        let lines = record.lines().filter_map(hex::decode).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        lines.filter(|line| parsed(line)["method"] == method).collect()
    }
}

/// A gateway with these variables.
pub async fn gateway(surface: &str, servers: Value, env: &[(&str, &str)]) -> Gateway {
    let (folder, config) = config(&servers);
    let mut command = Command::new(LANDBRIDGE);
    command.args(["serve", "--surface", surface, "--listen", "127.0.0.1:0", "--config"]).arg(config);
    command.envs(env.iter().copied());
    Gateway::launch(command, folder).await
}

/// JSON.
pub fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The message of an answer, whatever form it came in.
pub fn answer(response: &Response) -> Value {
    match response.events().pop().and_then(|event| event.data) {
        Some(data) => parsed(&String::from_utf8_lossy(&data)),
        None => parsed(&response.text()),
    }
}

/// A modern `tools/call`; `meta` holds further members of `_meta`, each after a comma.
pub async fn call(http: &mut RawHttp, path: &str, tool: &str, arguments: &Value, meta: &str) -> Value {
    call_with(http, path, tool, arguments, meta, &[]).await
}

/// The same with further headers.
pub async fn call_with(
    http: &mut RawHttp,
    path: &str,
    tool: &str,
    arguments: &Value,
    meta: &str,
    headers: &[(&str, &str)],
) -> Value {
    let meta = modern_meta(meta);
    let params = format!(r#"{{"name":"{tool}","arguments":{arguments},"_meta":{meta}}}"#);
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
    let mut all = modern_headers("tools/call", Some(tool));
    all.extend(headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    answer(&http.post(path, &all, body.as_bytes()).await.expect("an answer"))
}

/// Waits until `look` finds something.
pub async fn until<T>(within: Duration, what: &str, look: impl Fn() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < within, "not within {within:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A `landbridge stdio` as a server of a gateway, in front of one server.
pub fn stdio_gateway(folder: &Path, server: &Value, env: &[(&str, &str)]) -> Value {
    let config = folder.join("inner.json");
    std::fs::write(&config, json!({ "mcpServers": { "inner": server } }).to_string()).expect("the config is written");
    let env: serde_json::Map<_, _> = env.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    json!({ "command": LANDBRIDGE, "args": ["stdio", "--config", config, "--server", "inner"], "env": env })
}
