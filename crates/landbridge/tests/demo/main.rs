//! The demo server as its own program: over HTTP and stdio, its smoke test, and projects made from its template.

mod http;
mod init;
mod smoke;
mod stdio;

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

const LANDBRIDGE: &str = env!("CARGO_BIN_EXE_landbridge");
/// Longer than a start, a stop or an answer should take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The binary with these arguments, and nothing of our own environment that would change what it does.
fn landbridge(args: &[&str]) -> Command {
    let mut command = Command::new(LANDBRIDGE);
    for (name, _) in std::env::vars() {
        if name.starts_with("LANDBRIDGE_") || name == "SAMPLE_TOOL_NAME" {
            command.env_remove(name);
        }
    }
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// Something that can be waited for, but not for ever.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it happens in time")
}

/// How the command ends by itself: code, stdout, stderr.
async fn ends(command: &mut Command) -> (Option<i32>, String, String) {
    let output = soon(command.output()).await.expect("its output");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A running `demo --http`; killed when dropped.
struct Demo {
    address: SocketAddr,
    /// What it said until it listened, and after.
    said: String,
    _child: Child,
}

impl Demo {
    async fn start() -> Self {
        let mut child = landbridge(&["demo", "--http", "127.0.0.1:0"]).spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("stderr is piped")).lines();
        let mut said = String::new();
        while !said.contains("Stop with Ctrl-C.") {
            let line = soon(lines.next_line()).await.expect("text");
            said += &(line.unwrap_or_else(|| panic!("ended after {said}")) + "\n");
        }
        child.stderr = Some(lines.into_inner().into_inner());
        let address = said.lines().find_map(|line| line.strip_prefix("listening on http://")).expect("an address");
        Self { address: address.parse().expect("an address"), said, _child: child }
    }
}
