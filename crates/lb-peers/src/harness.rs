//! Starts the gateway under test as a user would: its binary, a config file, loopback.
//!
//! Knows the gateway only by its command line and by the line `listening on http://ADDR` on its stderr.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// How long the gateway may take to listen.
const START_MAX: Duration = Duration::from_secs(20);

/// A running gateway. Dropping it kills it.
pub struct Gateway {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it has written to stderr.
    pub stderr: Arc<Mutex<String>>,
    child: Child,
    _folder: tempfile::TempDir,
}

impl Gateway {
    /// Starts `landbridge serve` on a free port, with these `mcpServers`.
    ///
    /// # Panics
    /// When it does not start, with its stderr.
    pub async fn serve(binary: &str, servers: Value) -> Self {
        Self::serve_with(binary, servers, &[]).await
    }

    /// The same with further arguments.
    ///
    /// # Panics
    /// When it does not start, with its stderr.
    pub async fn serve_with(binary: &str, servers: Value, args: &[&str]) -> Self {
        Self::start(binary, "server", servers, args).await
    }

    /// The gateway with its tools at `/mcp`, in front of these servers.
    ///
    /// # Panics
    /// When it does not start, with its stderr.
    pub async fn serve_tools(binary: &str, servers: Value, args: &[&str]) -> Self {
        Self::start(binary, "tools", servers, args).await
    }

    async fn start(binary: &str, surface: &str, servers: Value, args: &[&str]) -> Self {
        let (folder, config) = config(&servers);
        let mut command = Command::new(binary);
        command.args(["serve", "--surface", surface, "--listen", "127.0.0.1:0", "--config"]).arg(&config).args(args);
        command.stdin(Stdio::null());
        Self::launch(command, folder).await
    }

    /// Starts a command that ends in a gateway which prints where it listens, whatever stands before it. The folder lives
    /// as long as the gateway.
    ///
    /// # Panics
    /// When it does not start, with its stderr.
    pub async fn launch(mut command: Command, folder: tempfile::TempDir) -> Self {
        command.stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        // State of its own, and not that of whoever runs this.
        if !command.as_std().get_envs().any(|(name, _)| name == "XDG_STATE_HOME" || name == "LANDBRIDGE_DATA") {
            command.env("XDG_STATE_HOME", folder.path());
        }
        let mut child = command.spawn().expect("the gateway's binary starts");
        let stderr = Arc::new(Mutex::new(String::new()));
        let mut lines = BufReader::new(child.stderr.take().expect("stderr is piped")).lines();
        let said = stderr.clone();
        let (found, address) = tokio::sync::oneshot::channel();
        reader(async move {
            let mut found = Some(found);
            while let Ok(Some(line)) = lines.next_line().await {
                let address = listening(&line);
                said.lock().expect("no panic holds it").push_str(&(line + "\n"));
                if let Some(address) = address
                    && let Some(found) = found.take()
                    && found.send(address).is_err()
                {
                    return; // the test has given up waiting
                }
            }
        });
        let address = tokio::time::timeout(START_MAX, address).await.ok().and_then(Result::ok);
        let address =
            address.unwrap_or_else(|| panic!("the gateway does not listen: {}", stderr.lock().expect("lock")));
        Self { address, stderr, child, _folder: folder }
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// What it has written to stderr so far.
    pub fn said(&self) -> String {
        self.stderr.lock().expect("no panic holds it").clone()
    }

    /// The process, to wait for or to kill.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// The URL of one server.
    pub fn url(&self, server: &str) -> String {
        format!("http://{}/mcp/server/{server}", self.address)
    }
}

/// The address in a line that says where the gateway listens, as text or within a line of JSON.
#[must_use]
pub fn listening(line: &str) -> Option<SocketAddr> {
    let (before, rest) = line.split_once("listening on http")?;
    let within = |c: char| !c.is_whitespace() && c != '"';
    let rest = rest.strip_prefix("s://").or_else(|| rest.strip_prefix("://"))?;
    let address: String = rest.chars().take_while(|c| within(*c)).collect();
    if before.is_empty() || before.starts_with('{') { address.parse().ok() } else { None }
}

/// Reads a peer's stderr to its end; the task ends with the process.
#[expect(clippy::disallowed_methods, reason = "tests have no task owner; the process that is read from is one")]
fn reader(task: impl Future<Output = ()> + Send + 'static) {
    tokio::task::spawn(task);
}

/// A config file with these `mcpServers`, in a folder that lives as long as the first value.
pub fn config(servers: &Value) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("mcp.json");
    std::fs::write(&file, json!({ "mcpServers": servers }).to_string()).expect("the config is written");
    (folder, file)
}

/// A binary of this crate, which lies beside the gateway's: `fixture`, `evil`, `recorder`.
///
/// # Panics
/// When it is not built.
pub fn peer(gateway_binary: &str, name: &str) -> String {
    let path = Path::new(gateway_binary).with_file_name(name);
    assert!(path.exists(), "{name} is not built: cargo build -p lb-peers --bins");
    path.to_string_lossy().into_owned()
}

/// A peer that serves HTTP on a free port, and where.
pub struct HttpPeer {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its process, killed when dropped.
    pub child: Child,
}

impl HttpPeer {
    /// Starts a peer with `--http 127.0.0.1:0` and these arguments.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start(binary: &str, args: &[&str]) -> Self {
        Self::start_at(binary, 0, args).await
    }

    /// The same on a port that another one had.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start_at(binary: &str, port: u16, args: &[&str]) -> Self {
        let mut child = Command::new(binary)
            .args(["--http", &format!("127.0.0.1:{port}")])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the peer starts");
        let mut lines = BufReader::new(child.stderr.take().expect("stderr is piped")).lines();
        let listening = async {
            while let Ok(Some(line)) = lines.next_line().await {
                let rest = line.strip_prefix("listening on http://");
                if let Some(address) = rest.and_then(|rest| rest.trim_end_matches("/mcp").parse().ok()) {
                    return Some(address);
                }
            }
            None
        };
        let address = tokio::time::timeout(START_MAX, listening).await.ok().flatten().expect("the peer listens");
        reader(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { address, child }
    }

    /// Its endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }
}
