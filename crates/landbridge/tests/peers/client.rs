//! The clients: scripts that take a scenario on stdin and print what they saw, and the Rust SDK beside them.

use std::process::Stdio;
use std::time::Duration;

use lb_peers::installed;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::{beside, rust};

/// How long a script may take with all its runs.
const RUN_MAX: Duration = Duration::from_secs(50);

/// Whose client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    TypeScript1,
    TypeScript2,
    Python,
    Rmcp,
}

/// Which era the client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    Legacy,
    Modern,
}

impl Era {
    /// Its name in a scenario.
    pub fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }

    /// The newest revision of it, which every client here asks for.
    pub fn revision(self) -> &'static str {
        match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
        }
    }
}

impl Client {
    /// Does all runs side by side; what each one saw, in order.
    pub async fn run(self, runs: Value) -> Vec<Value> {
        match self {
            Self::TypeScript1 => typescript("ts1.mjs", "typescript-v1", runs).await,
            Self::TypeScript2 => typescript("ts2.mjs", "typescript-v2", runs).await,
            Self::Python => {
                let python = installed::file("python", "bin/python");
                script(Command::new(python).arg(beside("client.py")), runs).await
            }
            Self::Rmcp => rust::run(&runs).await,
        }
    }
}

async fn typescript(name: &str, peer: &str, runs: Value) -> Vec<Value> {
    script(Command::new(installed::node()).arg(beside(name)).arg(installed::folder(peer)), runs).await
}

async fn script(command: &mut Command, runs: Value) -> Vec<Value> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let mut stdin = child.stdin.take().expect("stdin is piped");
    stdin.write_all(json!({ "runs": runs }).to_string().as_bytes()).await.expect("the script reads its scenario");
    drop(stdin);
    let output = tokio::time::timeout(RUN_MAX, child.wait_with_output()).await;
    let output = output.unwrap_or_else(|_| panic!("{command:?} does not end")).expect("it can be waited for");
    let mut seen: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{command:?}: {error}: {}", String::from_utf8_lossy(&output.stderr)));
    match seen["runs"].take() {
        Value::Array(runs) => runs,
        other => panic!("{command:?} printed {other}"),
    }
}
