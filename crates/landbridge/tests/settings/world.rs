//! The binary with settings of its own: no variable and no file of whoever runs the tests counts.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lb_peers::raw::RawHttp;
use lb_peers::tools::{Settings, ToolClient};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

pub const LANDBRIDGE: &str = env!("CARGO_BIN_EXE_landbridge");
/// A server whose tools make things happen.
pub const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/activity/server.py");
/// Longer than anything here should take.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A folder for files, which is also the home of what is started.
pub struct World {
    pub folder: tempfile::TempDir,
}

impl World {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    /// Where a file of this name is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file the way editors do: another one takes its place.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let (path, new) = (self.path(name), self.path("new"));
        std::fs::write(&new, text).expect("written");
        std::fs::rename(&new, &path).expect("renamed");
        path
    }

    /// Writes `mcp.json` with these servers.
    pub fn servers(&self, servers: &Value) -> PathBuf {
        self.write("mcp.json", &json!({ "mcpServers": servers }).to_string())
    }

    /// The binary with these arguments.
    pub fn landbridge(&self, args: &[&str]) -> Command {
        let mut command = Command::new(LANDBRIDGE);
        command.args(args).env_clear().env("HOME", self.folder.path()).current_dir(self.folder.path());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }
}

/// Runs a command to its end.
pub async fn output(command: &mut Command) -> (Option<i32>, String, String) {
    let ended: Output = tokio::time::timeout(PATIENCE, command.output()).await.expect("it ends").expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (ended.status.code(), text(ended.stdout), text(ended.stderr))
}

/// A gateway that runs.
pub struct Run {
    pub child: Child,
    said: Arc<Mutex<String>>,
    _reading: JoinSet<()>,
}

impl Run {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("stderr is piped")).lines();
        let said = Arc::<Mutex<String>>::default();
        let (mut reading, heard) = (JoinSet::new(), said.clone());
        reading.spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                heard.lock().expect("no panic holds it").push_str(&(line + "\n"));
            }
        });
        Self { child, said, _reading: reading }
    }

    /// What it has written to stderr.
    pub fn said(&self) -> String {
        self.said.lock().expect("no panic holds it").clone()
    }

    /// Waits until it has written this, as often as this.
    pub async fn says(&self, text: &str, times: usize) {
        until(&format!("{text:?} on stderr, which has"), || self.said(), |said| times <= said.matches(text).count())
            .await;
    }

    /// Where it listens.
    pub async fn address(&self) -> SocketAddr {
        let is_whole = |said: &String| said.contains("Stop with Ctrl-C.") || said.contains("\"event\":\"listening\"");
        let said = until("where it listens, in", || self.said(), is_whole).await;
        said.lines().find_map(lb_peers::harness::listening).expect("an address")
    }

    pub async fn http(&self) -> RawHttp {
        RawHttp::connect(self.address().await).await.expect("it listens")
    }

    pub async fn client(&self) -> ToolClient {
        ToolClient::at(self.address().await, Settings::default()).await
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.expect("it runs"), signal).expect("it is ours");
    }

    /// Stops it as an operator does, and gives everything that it wrote.
    pub async fn stop(&mut self) -> String {
        self.signal(rustix::process::Signal::TERM);
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("it ends").expect("its end");
        assert_eq!(ended.code(), Some(0), "{}", self.said());
        // The last words are read after the end.
        until("the end of stderr", || self._reading.try_join_next().is_some(), |ended| *ended).await;
        self.said()
    }
}

/// Looks again and again until it is as wanted.
pub async fn until<T: std::fmt::Debug>(what: &str, mut look: impl FnMut() -> T, good: impl Fn(&T) -> bool) -> T {
    let start = Instant::now();
    loop {
        let seen = look();
        if good(&seen) {
            return seen;
        }
        assert!(start.elapsed() < PATIENCE, "waited for {what} {seen:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The lines of a file, each read as JSON.
pub fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"))).collect()
}

/// The servers that a client sees, by name, with their state.
pub async fn servers(client: &ToolClient) -> Vec<String> {
    let reply = client.call("list_servers", json!({})).await;
    let rows = reply.structured()["servers"].as_array().cloned().unwrap_or_default();
    rows.iter().map(|row| row["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// What a tool of a server answers.
pub async fn execute(client: &ToolClient, server: &str, tool: &str, args: Value) -> String {
    let reply = client.call("execute_tool", json!({ "server": server, "tool": tool, "args": args })).await;
    reply.text().to_owned()
}

/// A config entry for the server above, which says this when asked who it is.
pub fn server(who: &str) -> Value {
    json!({ "command": "python3", "args": [SERVER, who] })
}

/// A path as an argument.
pub fn arg(path: &Path) -> &str {
    path.to_str().expect("text")
}
