//! What is measured: the programs, how they are started, and which stand side by side.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::Part;
use super::load::{self, Effort, Measured};
use crate::conformance::write_private;
use crate::sh::{self, Server};
use crate::workspace;

/// The only profile worth measuring.
pub const PROFILE: &str = "release";

/// Our own row.
pub const LANDBRIDGE: &str = "landbridge";
/// Our own row through the surface of tools.
pub const EXECUTE_TOOL: &str = "execute_tool";
/// Our own row through `landbridge wrap`.
pub const WRAP: &str = "wrap";

/// What nodes of one store have in common.
const KEY: &str = "a-key-of-the-benches-with-more-than-thirty-two-characters";

/// One comparison never takes longer, however slow a target is.
const COMPARE_DURATION_MAX: Duration = Duration::from_secs(900);

/// One path and wire, with the targets that belong side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Sessions, SSE replies.
    HttpHttpLegacy,
    /// No sessions at the server, JSON replies.
    HttpHttpJson,
    HttpHttpModern,
    HttpStdioLegacy,
    HttpStdioModern,
    StdioStdio,
}

impl Setting {
    pub const ALL: &[Self] = &[
        Self::HttpHttpLegacy,
        Self::HttpHttpJson,
        Self::HttpHttpModern,
        Self::HttpStdioLegacy,
        Self::HttpStdioModern,
        Self::StdioStdio,
    ];

    pub fn path(self) -> &'static str {
        match self {
            Self::HttpHttpLegacy | Self::HttpHttpJson | Self::HttpHttpModern => "http-http",
            Self::HttpStdioLegacy | Self::HttpStdioModern => "http-stdio",
            Self::StdioStdio => "stdio-stdio",
        }
    }

    pub fn part(self) -> Part {
        match self {
            Self::HttpHttpLegacy | Self::HttpHttpJson | Self::HttpHttpModern => Part::HttpHttp,
            Self::HttpStdioLegacy | Self::HttpStdioModern => Part::HttpStdio,
            Self::StdioStdio => Part::StdioStdio,
        }
    }

    pub fn wire(self) -> &'static str {
        match self {
            Self::HttpHttpLegacy | Self::HttpStdioLegacy | Self::StdioStdio => "legacy",
            Self::HttpHttpJson => "legacy-json",
            Self::HttpHttpModern | Self::HttpStdioModern => "modern",
        }
    }

    /// The bare hop landbridge is held against.
    pub fn hop(self) -> Option<&'static str> {
        match self {
            Self::HttpHttpLegacy | Self::HttpHttpJson | Self::HttpHttpModern => Some("route"),
            Self::HttpStdioLegacy | Self::HttpStdioModern => Some("rawstdio"),
            Self::StdioStdio => None,
        }
    }

    /// How many times the hop's added latency ours may be.
    pub fn added_max(self) -> f64 {
        match self {
            Self::HttpHttpLegacy | Self::HttpHttpJson | Self::HttpHttpModern => 1.3,
            Self::HttpStdioLegacy | Self::HttpStdioModern | Self::StdioStdio => 1.5,
        }
    }
}

/// The programs, built.
pub struct Bench {
    mcpload: PathBuf,
    echo: PathBuf,
    rawproxy: PathBuf,
    rawstdio: PathBuf,
    allocs: PathBuf,
    ledger: PathBuf,
    valkey: PathBuf,
    login: PathBuf,
    landbridge: Option<PathBuf>,
    /// Config files and logs.
    folder: PathBuf,
    /// How many of the former there are.
    configs: Cell<usize>,
    /// Two runs at once would measure each other.
    _alone: std::fs::File,
}

/// Started servers and what `mcpload compare` is told about them. Servers end when this is dropped.
#[derive(Default)]
pub struct Running {
    targets: Vec<Value>,
    servers: Vec<Server>,
}

impl Bench {
    pub fn build(floors: bool) -> Result<Self> {
        let build = |package: &str, bin: &str| -> Result<PathBuf> {
            let path = workspace::build_bin(package, bin, PROFILE)?;
            if !path.parent().is_some_and(|folder| folder.ends_with(PROFILE)) {
                bail!("{} is no {PROFILE} build; its figures would mean nothing", path.display());
            }
            Ok(path)
        };
        let (folder, alone) = workspace::exclusive_folder("bench")?;
        Ok(Self {
            mcpload: build("mcpload", "mcpload")?,
            echo: build("echo-mcp", "echo-mcp")?,
            rawproxy: build("limits", "rawproxy")?,
            rawstdio: build("limits", "rawstdio")?,
            allocs: build("allocs", "allocs")?,
            ledger: build("lb-peers", "ledger")?,
            valkey: build("lb-peers", "valkey_server")?,
            login: build("lb-peers", "login")?,
            landbridge: (!floors).then(|| build("landbridge", "landbridge")).transpose()?,
            folder,
            configs: Cell::new(0),
            _alone: alone,
        })
    }

    /// Starts the targets of a setting, the direct one first.
    pub fn start(&self, setting: Setting) -> Result<Running> {
        let mut running = Running::default();
        if setting == Setting::StdioStdio {
            running.targets.push(json!({"name": "direct", "command": [self.echo, "stdio"]}));
            if let Some(landbridge) = &self.landbridge {
                let config = self.config(&self.stdio_server())?;
                let command = json!([landbridge, "stdio", "--config", config, "--server", "echo"]);
                running.targets.push(json!({"name": LANDBRIDGE, "command": command}));
                let command = json!([landbridge, "wrap", "--no-cache", "--", self.echo, "stdio"]);
                running.targets.push(json!({"name": WRAP, "command": command}));
            }
            return Ok(running);
        }
        let era = if setting.wire() == "modern" { "modern" } else { "legacy" };
        let echo = self.echo_on_http(setting == Setting::HttpHttpJson)?;
        let at = echo.url.clone();
        running.add("direct", era, "/mcp", echo);
        let upstream = if setting.path() == "http-stdio" {
            let mut hop = Command::new(&self.rawstdio);
            hop.arg("127.0.0.1:0").arg(&self.echo).arg("stdio");
            running.add("rawstdio", era, "/mcp", self.server(&mut hop, "rawstdio")?);
            self.stdio_server()
        } else {
            let address = at.strip_prefix("http://").context("the echo server printed no http URL")?;
            for mode in ["pass", "route"] {
                let mut hop = Command::new(&self.rawproxy);
                hop.args(["127.0.0.1:0", address, mode]);
                running.add(mode, era, "/mcp", self.server(&mut hop, mode)?);
            }
            json!({"url": format!("{at}/mcp")})
        };
        if self.landbridge.is_some() {
            running.add(LANDBRIDGE, era, "/mcp/server/echo", self.gateway(&upstream)?);
            if era == "legacy" {
                running.add_tools(self.gateway(&upstream)?);
            }
        }
        Ok(running)
    }

    /// Puts every target under the same load in turns.
    pub fn compare(
        &self,
        running: &Running,
        concurrency: usize,
        bytes: usize,
        method: &str,
        effort: Effort,
    ) -> Result<Vec<Measured>> {
        let targets = self.folder.join("targets.json");
        std::fs::write(&targets, serde_json::to_vec(&running.targets)?)?;
        let mut command = Command::new(&self.mcpload);
        command.args(["compare", "--json", "--max-seconds", "10", "--method", method]).arg("--targets").arg(targets);
        command.args(["--rounds", &effort.rounds.to_string(), "--calls", &effort.calls.to_string()]);
        command.args(["--concurrency", &concurrency.to_string(), "--payload", &bytes.to_string()]);
        load::parse(&self.mcpload_text(&mut command)?)
    }

    /// Milliseconds from start to the first `initialize` answered, and the KiB resident after the first list, with a
    /// server that runs already.
    pub fn startup(&self, effort: Effort) -> Result<(f64, f64)> {
        let echo = self.echo_on_http(false)?;
        self.startup_with(&json!({"url": format!("{}/mcp", echo.url)}), effort)
    }

    /// The same with a server that has to be started, and the milliseconds that this server takes by itself.
    pub fn startup_with_child(&self, effort: Effort) -> Result<(f64, f64)> {
        let (all, _) = self.startup_with(&self.stdio_server(), effort)?;
        let mut command = Command::new(&self.mcpload);
        command.args(["startup", "--stdio", &format!("{} stdio", self.echo.display())]);
        command.args(["--rounds", &effort.rounds.to_string()]);
        Ok((all, number(&self.one_line(&mut command)?, "initialize_ms")?))
    }

    fn startup_with(&self, upstream: &Value, effort: Effort) -> Result<(f64, f64)> {
        let landbridge = self.landbridge.as_ref().context("landbridge was not built")?;
        let config = self.config(upstream)?;
        // mcpload must know the port beforehand: take one that was free a moment ago.
        let address = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let mut command = Command::new(&self.mcpload);
        command.args(["startup", "--url", &format!("http://{address}/mcp/server/echo")]);
        command.args(["--rounds", &effort.rounds.to_string(), "--"]);
        command
            .arg(landbridge)
            .args(["serve", "--surface", "server", "--data", "none", "--config"])
            .arg(config)
            .args(["--listen", &address]);
        self.own_home(&mut command);
        let found = self.one_line(&mut command)?;
        if found.get("ok").and_then(Value::as_u64) != Some(effort.rounds as u64) {
            bail!("not every start succeeded: {found}");
        }
        Ok((number(&found, "initialize_ms")?, number(&found, "rss_kb")?))
    }

    /// What one warm call allocates in the whole gateway.
    pub fn allocations(&self, setting: Setting) -> Result<f64> {
        let echo = self.echo_on_http(true)?;
        let upstream = match setting.path() {
            "http-stdio" => self.stdio_server(),
            _ => json!({"url": format!("{}/mcp", echo.url)}),
        };
        let wire = if setting.wire() == "modern" { "modern" } else { "legacy" };
        let mut command = Command::new(&self.allocs);
        command.arg(self.config(&upstream)?).args(["echo", wire]);
        number(&self.one_line(&mut command)?, "allocations")
    }

    /// KiB that landbridge grows by for each of `sessions` held at once, once the server that they share runs.
    pub fn held_sessions(&self, sessions: usize) -> Result<f64> {
        let gateway = self.gateway(&self.stdio_server())?;
        let mut first = Command::new(&self.mcpload);
        first.args(["run", "--url", &format!("{}/mcp/server/echo", gateway.url), "--calls", "1"]);
        self.mcpload_text(&mut first)?;
        let mut command = Command::new(&self.mcpload);
        command.args(["idle", "--url", &format!("{}/mcp/server/echo", gateway.url)]);
        command.args(["--pid", &gateway.pid().to_string(), "--sessions", &sessions.to_string()]);
        let found = self.one_line(&mut command)?;
        if found.get("held").and_then(Value::as_u64) != Some(sessions as u64) {
            bail!("not all {sessions} sessions were held: {found}");
        }
        number(&found, "rss_kb_per_session")
    }

    /// Microseconds from an event to the answer of a request that waits for it: the median, and the 99th of 100.
    pub fn wake_up(&self) -> Result<(f64, f64)> {
        let landbridge = self.landbridge.as_ref().context("landbridge was not built")?;
        let mut command = Command::new(&self.mcpload);
        command.args(["wake", "--rounds", "200", "--stdio", &format!("{} stdio", landbridge.display())]);
        self.own_home(&mut command);
        let found = self.one_line(&mut command)?;
        Ok((number(&found, "wake_p50_us")?, number(&found, "wake_p99_us")?))
    }

    /// MB resident with this many sessions of tools, each with 10 events.
    pub fn sessions_with_events(&self, sessions: usize) -> Result<f64> {
        let gateway = self.gateway(&self.stdio_server())?;
        let mut command = Command::new(&self.mcpload);
        command.args(["idle", "--url", &format!("{}/mcp/tools", gateway.url), "--call", "10", "--tool", "set_timer"]);
        command.args(["--args", r#"{"duration_ms":1,"message":"an event that somebody may want to hear of"}"#]);
        command.args(["--pid", &gateway.pid().to_string(), "--sessions", &sessions.to_string()]);
        let found = self.one_line(&mut command)?;
        if found.get("held").and_then(Value::as_u64) != Some(sessions as u64) {
            bail!("not all {sessions} sessions were held: {found}");
        }
        let at = found.get("at").context("mcpload's JSON has no figures")?;
        Ok(number(at, "rss_kb")? / 1024.0)
    }

    fn gateway(&self, upstream: &Value) -> Result<Server> {
        self.gateway_with(&json!({"echo": upstream}))
    }

    /// A gateway in front of these servers that keeps nothing.
    pub fn gateway_with(&self, servers: &Value) -> Result<Server> {
        self.gateway_that(servers, &["--data", "none"])
    }

    /// A gateway in front of these servers, with further arguments.
    pub fn gateway_that(&self, servers: &Value, args: &[&str]) -> Result<Server> {
        let landbridge = self.landbridge.as_ref().context("landbridge was not built")?;
        let mut command = Command::new(landbridge);
        command.args(["serve", "--surface", "server", "--config"]).arg(self.config_of(servers)?);
        command.args(["--listen", "127.0.0.1:0"]).args(args).env("LANDBRIDGE_KEY", KEY);
        self.own_home(&mut command);
        self.server(&mut command, LANDBRIDGE)
    }

    /// A gateway in front of these servers, at this address, where people log in at this provider.
    pub fn guarded_gateway(&self, servers: &Value, address: &str, issuer: &str) -> Result<Server> {
        let landbridge = self.landbridge.as_ref().context("landbridge was not built")?;
        let mut command = Command::new(landbridge);
        command.args(["serve", "--surface", "server", "--data", "none", "--listen", address, "--config"]);
        command.arg(self.config_of(servers)?).args(["--public-url", &format!("http://{address}")]);
        command.args(["--auth", "oidc", "--oidc-issuer", issuer, "--oidc-client-id", "gateway", "--allow-any-user"]);
        command.args(["--rate-limit-principal", "0", "--log-level", "warn"]);
        command.env("LANDBRIDGE_OIDC_CLIENT_SECRET", "gateway-secret-for-tests-only").env("LANDBRIDGE_KEY", KEY);
        self.own_home(&mut command);
        self.server(&mut command, "guarded")
    }

    /// A store of its own.
    pub fn valkey(&self) -> Result<Server> {
        self.server(&mut Command::new(&self.valkey), "valkey")
    }

    /// The server that answers with what it is sent, with sessions or without.
    pub fn echo_on_http(&self, stateless: bool) -> Result<Server> {
        let mut echo = Command::new(&self.echo);
        echo.args(["http", "127.0.0.1:0"]);
        if stateless {
            echo.arg("stateless");
        }
        self.server(&mut echo, "echo")
    }

    /// Neither the settings nor the state of whoever runs this may have a part in it.
    fn own_home(&self, command: &mut Command) {
        for variable in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"] {
            command.env(variable, self.folder.join("home"));
        }
    }

    /// One child for all sessions, as the bare hop has.
    pub fn stdio_server(&self) -> Value {
        json!({"command": self.echo, "args": ["stdio"], "isolation": "shared"})
    }

    fn config(&self, server: &Value) -> Result<PathBuf> {
        self.config_of(&json!({"echo": server}))
    }

    fn config_of(&self, servers: &Value) -> Result<PathBuf> {
        // A file of its own for each: a gateway that runs takes over what is written to its file.
        let number = self.configs.get() + 1;
        self.configs.set(number);
        let path = self.folder.join(format!("mcp-{number}.json"));
        write_private(&path, &serde_json::to_vec_pretty(&json!({"mcpServers": servers}))?)?;
        Ok(path)
    }

    /// Where files of a run go.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The load generator.
    pub fn mcpload(&self) -> &Path {
        &self.mcpload
    }

    /// The server that sends as many notifications as it is asked for.
    pub fn ledger(&self) -> &Path {
        &self.ledger
    }

    /// The provider of a login, and somebody who logs in.
    pub fn login(&self) -> &Path {
        &self.login
    }

    /// Starts a program that says where it listens.
    pub fn server(&self, command: &mut Command, name: &str) -> Result<Server> {
        Server::start(command, &self.log(name))
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    fn mcpload_text(&self, command: &mut Command) -> Result<String> {
        let output = sh::capture(command, COMPARE_DURATION_MAX)?;
        match output.status {
            Some(status) if status.success() => Ok(output.text),
            Some(status) => bail!("mcpload: {status}\n{}", output.text),
            None => bail!("mcpload did not end within {COMPARE_DURATION_MAX:?}"),
        }
    }

    /// The one line of JSON that a command prints.
    pub fn one_line(&self, command: &mut Command) -> Result<Value> {
        let text = self.mcpload_text(command)?;
        let line = text.lines().find(|line| line.starts_with('{')).context("mcpload printed no JSON")?;
        Ok(serde_json::from_str(line)?)
    }
}

impl Running {
    /// A target whose sessions were opened at another node.
    pub fn add_forwarded(&mut self, name: &str, path: &str, opened_at: &str, server: Server) {
        self.add(name, "legacy", path, server);
        if let Some(target) = self.targets.last_mut() {
            target["opened_at"] = opened_at.into();
        }
    }

    /// Has the clients of all targets take nothing but streams.
    pub fn take_streams(&mut self) {
        for target in &mut self.targets {
            target["stream"] = true.into();
        }
    }

    /// What every request to the target that was added last has, as in `Name: value`.
    pub fn with_header(&mut self, header: &str) {
        if let Some(target) = self.targets.last_mut() {
            target["headers"] = json!([header]);
        }
    }

    /// What must run as long as the targets do.
    pub fn keep(&mut self, server: Server) {
        self.servers.push(server);
    }

    /// A target at a path of a server.
    pub fn add(&mut self, name: &str, era: &str, path: &str, server: Server) {
        let url = format!("{}{path}", server.url);
        self.targets.push(json!({"name": name, "url": url, "pid": server.pid(), "era": era}));
        self.servers.push(server);
    }

    /// The same tool, called through `execute_tool`.
    fn add_tools(&mut self, server: Server) {
        let url = format!("{}/mcp/tools", server.url);
        let args = json!({"server": "echo", "tool": "echo", "args": {"message": "$MESSAGE"}});
        let (name, pid) = (EXECUTE_TOOL, server.pid());
        self.targets.push(json!({"name": name, "url": url, "pid": pid, "tool": EXECUTE_TOOL, "args": args}));
        self.servers.push(server);
    }
}

/// A figure of such a line.
pub fn number(found: &Value, key: &str) -> Result<f64> {
    found.get(key).and_then(Value::as_f64).with_context(|| format!("mcpload's JSON has no {key}: {found}"))
}
