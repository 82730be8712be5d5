//! A gateway that lets in who has a key, with the server beside this file.

use std::process::Stdio;

use lb_peers::harness::Gateway;
use lb_peers::raw::http::Response;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::world::{Client, OPERATOR, get, value};
use crate::{LANDBRIDGE, SERVER};

/// What is started, and its keys in the order of their scopes.
pub struct Keyed {
    pub command: Command,
    pub folder: tempfile::TempDir,
    pub keys: Vec<String>,
}

impl Keyed {
    /// Not started, with this server and one key for each of these scopes.
    pub async fn new(server: Value, toml: &str, scopes: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("mcp.json"), json!({ "mcpServers": { "it": server } }).to_string()).expect("written");
        std::fs::write(at("landbridge.toml"), toml).expect("written");
        let mut keys = Vec::new();
        for (number, scopes) in scopes.iter().enumerate() {
            let mut new = Command::new(LANDBRIDGE);
            new.args(["auth", "key", "new", &format!("key-{number}"), "--scope", scopes, "--file"]).arg(at("keys"));
            let out = new.stdin(Stdio::null()).output().await.expect("it runs");
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
            keys.push(String::from_utf8_lossy(&out.stdout).trim().to_owned());
        }
        let mut command = Command::new(LANDBRIDGE);
        command.args(["serve", "--listen", "127.0.0.1:0"]).env("LANDBRIDGE_DATA", at("data"));
        command.arg("--settings").arg(at("landbridge.toml")).arg("--config").arg(at("mcp.json"));
        command.args(["--auth", "keys"]).arg(at("keys"));
        command.env("LANDBRIDGE_OPERATOR_TOKEN", OPERATOR).stdin(Stdio::null());
        Self { command, folder, keys }
    }

    pub async fn start(self) -> (Gateway, Vec<String>) {
        let gateway = Gateway::launch(self.command, self.folder).await;
        (gateway, self.keys)
    }
}

/// The server beside this file, with these words on its command line.
pub fn server(words: &[&str]) -> Value {
    let args: Vec<&str> = std::iter::once(SERVER).chain(words.iter().copied()).collect();
    json!({ "command": "python3", "args": args })
}

/// A page for operators.
pub async fn page(gateway: &Gateway, path: &str) -> Response {
    get(gateway.address, path, &[("Authorization", &format!("Bearer {OPERATOR}"))]).await
}

/// The result of a call, wherever in the answer it stands.
pub fn result(answer: &Response) -> Value {
    let text = answer.text();
    let last = text.lines().filter_map(|line| line.strip_prefix("data:")).next_back();
    let whole: Value = match last {
        Some(data) => serde_json::from_str(data).expect("JSON"),
        None => value(answer),
    };
    whole.get("result").cloned().unwrap_or(whole)
}

/// What a tool of ours says.
pub async fn tool(client: &Client, name: &str, arguments: Value) -> Value {
    result(&client.call(name, arguments).await)
}
