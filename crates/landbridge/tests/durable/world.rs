//! A gateway that is ended and started again on what it keeps, and a client that writes down all that it is told.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use lb_peers::harness::Gateway;
use lb_peers::raw::RawHttp;
use lb_peers::raw::http::{Headers, Response, headers, post_headers};
use lb_peers::tools::{Reply, Running, Settings, ToolClient};
use lb_peers::valkey::{Program, Valkey};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::Command;

pub const LANDBRIDGE: &str = env!("CARGO_BIN_EXE_landbridge");
const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/activity/server.py");
/// What everything on a server is sealed with.
pub const KEY: &str = "0123456789abcdef0123456789abcdef-durable";
/// Nothing that was acknowledged is lost, whenever the process dies.
pub const STRICT: &[&str] = &["--durability", "event"];
/// Ten times what may be lost without that.
pub const LOSS_MAX: Duration = Duration::from_millis(100);
/// How long a test waits for something to happen.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Where sessions are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    Disk,
    Valkey,
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// As an operator stops it.
    Stop,
    /// As the system does that is out of memory.
    Kill,
}

/// A server whose tools make things happen.
pub fn script() -> Value {
    json!({ "command": "python3", "args": [SERVER] })
}

/// That server as `one`, and no other.
pub fn one() -> Value {
    json!({ "one": script() })
}

/// One gateway after another, on the same port and with the same state.
pub struct World {
    pub folder: tempfile::TempDir,
    pub valkey: Option<Valkey>,
    pub port: u16,
    flags: Vec<String>,
    gateway: Option<Gateway>,
    /// A session of a process that was killed, by which it is seen when the next one may serve those that it had.
    orphan: Option<ToolClient>,
    /// What the clock of the gateways from the next one on is ahead.
    ahead: Option<&'static str>,
}

impl World {
    /// Starts the first gateway.
    pub async fn start(keep: Keep, servers: Value, flags: &[&str]) -> Self {
        let valkey = (keep == Keep::Valkey).then(|| Valkey::start_with(Program::Valkey, &["--rdbcompression", "no"]));
        let folder = tempfile::tempdir().expect("a folder");
        let config = json!({ "mcpServers": servers }).to_string();
        std::fs::write(folder.path().join("mcp.json"), config).expect("the config is written");
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut world = Self { folder, valkey, port: free_port(), flags, gateway: None, orphan: None, ahead: None };
        world.begin().await;
        world
    }

    /// The command that starts a gateway here.
    pub fn command(&self) -> Command {
        let mut command = Command::new(LANDBRIDGE);
        let listen = format!("127.0.0.1:{}", self.port);
        command.args(["serve", "--allow-stdio-spawn", "--listen", &listen, "--config"]);
        command.arg(self.folder.path().join("mcp.json")).args(&self.flags).stdin(Stdio::null());
        command.env("XDG_STATE_HOME", self.folder.path());
        if let Some(valkey) = &self.valkey {
            command.args(["--store", &valkey.url()]).env("LANDBRIDGE_KEY", KEY);
        }
        if let Some(ahead) = self.ahead {
            command.env("LD_PRELOAD", faketime()).env("FAKETIME", ahead);
            command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
        }
        command
    }

    /// Starts a gateway where none runs.
    pub async fn begin(&mut self) {
        assert!(self.gateway.is_none(), "one at a time");
        let nothing = tempfile::tempdir().expect("a folder");
        self.gateway = Some(Gateway::launch(self.command(), nothing).await);
        if let Some(orphan) = self.orphan.take() {
            self.adopt(&orphan).await;
        }
    }

    /// Waits until a session of the process that was killed is served. On a server of its own, that process counts as
    /// alive until its lease is over: whoever comes earlier is told to come again, and never that there is no session.
    async fn adopt(&self, orphan: &ToolClient) {
        let start = Instant::now();
        loop {
            let reply = orphan.request("ping", json!({})).await;
            if reply.status != 503 {
                assert_eq!(reply.status, 200, "{reply}");
                break;
            }
            assert!(start.elapsed() < PATIENCE, "the lease is over: {reply}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(orphan.end().await, 200);
    }

    /// Ends the gateway, a kill when all that was done is safe in every mode: what may be lost then has a test of its own.
    pub async fn end(&mut self, how: End) {
        if how == End::Kill {
            if self.valkey.is_some() {
                self.orphan = Some(ToolClient::at(self.address(), Settings::default()).await);
            }
            tokio::time::sleep(LOSS_MAX).await;
        }
        self.end_now(how).await;
    }

    /// Ends the gateway whatever it does.
    pub async fn end_now(&mut self, how: End) {
        let mut gateway = self.gateway.take().expect("it runs");
        let signal = if how == End::Stop { Signal::TERM } else { Signal::KILL };
        let pid = i32::try_from(gateway.pid()).ok().and_then(Pid::from_raw).expect("it runs");
        kill_process(pid, signal).expect("it is ours");
        let ended = tokio::time::timeout(Duration::from_secs(40), gateway.child().wait()).await;
        let status = ended.expect("it ends").expect("it was started here");
        assert!(how == End::Kill || status.success(), "{status}: {}", gateway.said());
    }

    /// Ends the gateway and starts the next one.
    pub async fn restart(&mut self, how: End) {
        self.end(how).await;
        self.begin().await;
    }

    /// Other flags for the gateways from the next one on.
    pub fn flags(&mut self, flags: &[&str]) {
        self.flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    }

    /// Puts the clock forward for the gateways from the next one on.
    pub fn put_clock_forward(&mut self, ahead: &'static str) {
        self.ahead = Some(ahead);
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// What the gateway that runs has written to stderr.
    pub fn said(&self) -> String {
        self.gateway.as_ref().map(Gateway::said).unwrap_or_default()
    }

    /// Where state is on disk.
    pub fn state(&self) -> PathBuf {
        self.folder.path().join("landbridge")
    }

    /// A new session of the surface of tools, with its servers connected and everything told.
    pub async fn desk(&self) -> Desk {
        let mut desk = Desk::new(ToolClient::at(self.address(), Settings::default()).await);
        desk.connected().await;
        desk
    }

    /// A page for operators.
    pub async fn page(&self, path: &str) -> Value {
        serde_json::from_slice(&self.look(path).await.body).unwrap_or_default()
    }

    /// A page for operators with its status.
    pub async fn look(&self, path: &str) -> Response {
        let mut http = RawHttp::connect(self.address()).await.expect("it listens");
        http.request("GET", path, &Vec::new(), b"").await.expect("an answer")
    }

    /// Waits until the only session is as wanted. A look at it tells the session nothing, and takes nothing from it.
    pub async fn session_is(&self, what: &str, test: impl Fn(&Value) -> bool) {
        let start = Instant::now();
        loop {
            let page = self.page("/sessions").await;
            if test(&page["sessions"][0]) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{what}: {page}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Everything that is kept, as the bytes that lie on the disk.
    pub fn kept_bytes(&self) -> Vec<u8> {
        match &self.valkey {
            Some(valkey) => {
                assert!(valkey.command(&["SAVE"]).starts_with("+OK"), "it saves");
                std::fs::read(valkey.folder().join("dump.rdb")).expect("the dump")
            }
            None => std::fs::read(self.state().join("state.redb")).expect("the state"),
        }
    }
}

/// Whether bytes hold this text.
pub fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// The bits of a file's mode.
pub fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode() & 0o777
}

/// The library that puts the clock forward.
fn faketime() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").expect("a system").filter_map(|entry| Some(entry.ok()?.path()));
    let library = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).find(|path| path.exists());
    library.expect("libfaketime is not installed: run `cargo xtask peers`")
}

/// A free port below those that the system gives to connections: none of them takes it while the gateway is away.
fn free_port() -> u16 {
    for _ in 0..1_000 {
        let port = rand::random_range(20_000..32_000);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port");
}

/// The headers of requests in a session of 2025-11-25.
pub fn headers_of(session: &str) -> Headers {
    let mut all = post_headers();
    all.extend(headers(&[("Mcp-Session-Id", session), ("MCP-Protocol-Version", "2025-11-25")]));
    all
}

/// The one answer to a request, or `None` where its stream ends without it. An error for a connection that broke.
pub async fn exchange(
    address: SocketAddr,
    headers: &Headers,
    id: u64,
    request: &Value,
) -> std::io::Result<Option<Reply>> {
    let mut http = RawHttp::connect(address).await?;
    http.send("POST", "/mcp", headers, request.to_string().as_bytes()).await?;
    let head = http.head().await?;
    if !head.is_sse() {
        let (body, whole) = http.body().await?;
        let message = || serde_json::from_slice(&body).unwrap_or_default();
        return Ok(whole.then(|| Reply::new(head.status(), message())));
    }
    let mut found: Option<Value> = None;
    while let Some(event) = http.event().await? {
        let message: Value = serde_json::from_str(&event.text()).unwrap_or_default();
        if message["id"] == id && message.get("method").is_none() {
            assert!(found.is_none(), "two answers: {found:?} {message}");
            found = Some(message);
        }
    }
    Ok(found.map(|message| Reply::new(200, message)))
}

/// A session of the surface of tools, and everything it was told, in order.
pub struct Desk {
    pub client: ToolClient,
    pub told: Vec<Value>,
}

impl Desk {
    pub fn new(client: ToolClient) -> Self {
        Self { client, told: Vec::new() }
    }

    /// Waits until `one` answers, and forgets what was told until then.
    pub async fn connected(&mut self) {
        self.ok("execute_tool", json!({ "server": "one", "tool": "echo" })).await;
        self.drain().await;
        self.told.clear();
    }

    /// Calls a tool.
    pub async fn call(&mut self, name: &str, arguments: Value) -> Reply {
        let reply = self.client.call(name, arguments).await;
        assert_eq!(reply.status, 200, "{name}: {reply}");
        self.note(&reply);
        reply
    }

    /// Calls a tool that must not fail.
    pub async fn ok(&mut self, name: &str, arguments: Value) -> Reply {
        let reply = self.call(name, arguments).await;
        assert!(!reply.is_error() && reply.rpc_error().is_none(), "{name}: {reply}");
        reply
    }

    /// Calls a tool of the server `one`.
    pub async fn execute(&mut self, tool: &str, args: Value) -> Reply {
        self.ok("execute_tool", json!({ "server": "one", "tool": tool, "args": args })).await
    }

    /// Waits for a reply that was asked for before.
    pub async fn wait(&mut self, running: Running) -> Reply {
        let reply = running.wait().await;
        self.note(&reply);
        reply
    }

    /// Calls a tool that becomes a task; gives the task.
    pub async fn promoted(&mut self, server: &str, tool: &str, args: Value, ttl_ms: Option<u64>) -> String {
        // A server that is not connected yet has no time to be in a tenth of a second.
        let hello = json!({ "server": server, "tool": "echo", "args": { "message": "x" } });
        self.ok("execute_tool", hello).await;
        let mut arguments = json!({ "server": server, "tool": tool, "args": args, "timeout_ms": 100 });
        if let Some(ttl_ms) = ttl_ms {
            arguments["task_ttl_ms"] = ttl_ms.into();
        }
        let reply = self.ok("execute_tool", arguments).await;
        let task = reply.objects().find_map(|(_, body)| body["task"]["taskId"].as_str().map(str::to_owned));
        task.unwrap_or_else(|| panic!("no task: {reply}"))
    }

    /// A task as `get_task` shows it.
    pub async fn task(&mut self, task: &str) -> Value {
        self.ok("get_task", json!({ "task_id": task })).await.json()
    }

    /// Reads everything that was not told yet; gives the cursor behind it.
    pub async fn drain(&mut self) -> Value {
        loop {
            let body = self.ok("await_activity", json!({ "timeout_ms": 100 })).await.json();
            if body["events"].as_array().is_none_or(Vec::is_empty) {
                return body["last_event_id"].clone();
            }
        }
    }

    /// Reads until so many events of a type were told in all.
    pub async fn until(&mut self, kind: &str, times: usize) {
        let start = Instant::now();
        while self.of(kind).len() < times {
            assert!(start.elapsed() < PATIENCE, "no {kind}: {:#?}", self.told);
            self.ok("await_activity", json!({ "timeout_ms": 1_000 })).await;
        }
    }

    /// What was told of a type.
    pub fn of(&self, kind: &str) -> Vec<Value> {
        self.told.iter().filter(|event| event["type"] == kind).cloned().collect()
    }

    /// What was told of a type about a task, a timer or a request.
    pub fn about(&self, kind: &str, id: &Value) -> Vec<Value> {
        let is_it = |event: &Value| ["taskId", "timerId", "requestId"].iter().any(|key| event["data"][key] == *id);
        self.of(kind).into_iter().filter(is_it).collect()
    }

    /// The numbers in notifications of bursts, as they were told.
    pub fn numbers(&self) -> Vec<u64> {
        let numbers = self.of("notification");
        numbers.iter().filter_map(|event| event["data"]["params"]["n"].as_u64()).collect()
    }

    /// What a process that ended without a word leaves behind: one gap for each.
    pub fn lost_nodes(&self) -> usize {
        self.of("events_dropped").iter().filter(|event| event["data"]["cause"] == "node_lost").count()
    }

    /// Writes down what a reply tells: events, and those of them that a context block shows in its own way.
    fn note(&mut self, reply: &Reply) {
        self.told.extend(reply.events());
        let Some(context) = reply.context() else { return };
        for row in context["notifications"].as_array().into_iter().flatten() {
            self.told.push(json!({ "type": "notification", "server": row["server"], "data": row }));
        }
        for row in context["expired_timers"].as_array().into_iter().flatten() {
            self.told
                .push(json!({ "type": "timer_expired", "data": { "timerId": row["id"], "message": row["message"] } }));
        }
    }
}
