//! A gateway in front of ledgers, watched, and everything that has to be true when it is over.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use lb_peers::harness::{Gateway, HttpPeer, peer};
use lb_peers::procs;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::caller::{Caller, Door, Way};
use crate::history::{History, Record};
use crate::jobs::Ledger;
use crate::random::Random;
use crate::scenario::Setup;
use crate::watch::Watch;

/// The variable that marks every process of a run.
pub const MARK: &str = "LB_SOAK_MARK";

/// How long the gateway may take to end, and its processes after it.
const STOP_MAX: Duration = Duration::from_secs(40);
const GONE_MAX: Duration = Duration::from_secs(10);

/// What there is before the gateway is started.
pub struct Ground {
    /// The setup.
    pub setup: Setup,
    /// What is written.
    pub history: History,
    /// What is random.
    pub random: Random,
    /// What the servers write down.
    pub ledger: Ledger,
    /// What marks the processes of this run.
    pub mark: String,
    folder: tempfile::TempDir,
}

impl Ground {
    /// Of one scenario.
    pub fn new(setup: &Setup, scenario: &str, seed: u64) -> Self {
        let history = History::create(setup.folder.join(format!("history-{scenario}-{seed}.jsonl")), scenario, seed);
        let mut random = Random::new(seed);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ledger = Ledger::create(folder.path().join("ledger"));
        let mark = format!("soak-{}-{:x}", std::process::id(), random.bits());
        Self { setup: setup.clone(), history, random, ledger, mark, folder }
    }

    /// A config entry for a ledger as a child, with further members.
    pub fn child(&self, more: &Value) -> Value {
        let entry = json!({
            "command": peer(&self.setup.binary, "ledger"),
            "args": ["--ledger", self.ledger.path()],
            "env": { MARK: self.mark },
            "restartConfig": { "baseDelayMs": 0, "maxAttempts": 1000 },
        });
        with(entry, more)
    }

    /// A place of this name in the folder of the run.
    pub fn place(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts the gateway in front of these servers; `before` stands before it on the command line.
    pub async fn build(self, servers: Value, args: &[&str], before: &[&str]) -> World {
        let file = self.folder.path().join("mcp.json");
        std::fs::write(&file, json!({ "mcpServers": servers }).to_string()).expect("the config is written");
        let mut command = self.command(&file, "127.0.0.1:0", before);
        command.args(args);
        let gateway = Gateway::launch(command, tempfile::tempdir().expect("a folder")).await;
        let pid = gateway_pid(&gateway, &self.setup.binary);
        let watch = Watch::start(&self.history, pid, "start");
        World { gateway, pid, config: file, watch, peers: Vec::new(), ground: self }
    }

    /// The command that serves this config file.
    pub fn command(&self, file: &Path, listen: &str, before: &[&str]) -> Command {
        let mut words = before.iter().copied().chain([self.setup.binary.as_str()]);
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words).args(["serve", "--surface", "server", "--listen", listen, "--config"]).arg(file);
        command.env(MARK, &self.mark).env("XDG_STATE_HOME", self.folder.path()).stdin(Stdio::null());
        command
    }

    /// A ledger over HTTP, on a port of its own or on this one.
    pub async fn remote(&self, port: u16, more: &[&str]) -> HttpPeer {
        let ledger = self.ledger.path().to_string_lossy().into_owned();
        let mut args = vec!["--ledger", &ledger];
        args.extend(more);
        HttpPeer::start_at(&peer(&self.setup.binary, "ledger"), port, &args).await
    }
}

/// The gateway's own process: the one that was started, or the one that it became.
pub fn gateway_pid(gateway: &Gateway, binary: &str) -> u32 {
    let is_it = |pid: u32| {
        std::fs::read_link(format!("/proc/{pid}/exe"))
            .is_ok_and(|exe| std::fs::canonicalize(binary).is_ok_and(|path| path == exe))
    };
    let started = gateway.pid();
    if is_it(started) {
        return started;
    }
    let below = procs::descendants(started);
    below.iter().map(|process| process.pid).find(|pid| is_it(*pid)).unwrap_or(started)
}

/// A running gateway.
pub struct World {
    /// The gateway.
    pub gateway: Gateway,
    /// Its process.
    pub pid: u32,
    /// Its config file.
    pub config: PathBuf,
    /// Who takes the samples.
    pub watch: Watch,
    /// Servers elsewhere, which live as long as this.
    pub peers: Vec<HttpPeer>,
    /// What it stands on.
    pub ground: Ground,
}

impl World {
    /// Where clients go.
    pub fn door(&self) -> Door {
        let ground = &self.ground;
        let program = (ground.setup.binary.clone(), self.config.clone(), ground.mark.clone());
        Door { address: self.gateway.address, program }
    }

    /// The history.
    pub fn history(&self) -> &History {
        &self.ground.history
    }

    /// How many descriptors it has open.
    pub fn fds(&self) -> usize {
        procs::descriptors(self.pid)
    }

    /// How many processes there are below it.
    pub fn processes(&self) -> usize {
        procs::descendants(self.pid).len()
    }

    /// Looks at the process that there is now.
    pub fn watch_again(&mut self) {
        self.watch = Watch::start(&self.ground.history, self.pid, "start");
    }

    /// A client.
    ///
    /// # Panics
    /// When the gateway does not let it in.
    pub async fn caller(&mut self, way: Way, server: &str, label: &str) -> Caller {
        let (door, history) = (self.door(), self.ground.history.clone());
        let opened = Caller::open(&door, &history, way, server, label, &mut self.ground.random).await;
        opened.unwrap_or_else(|error| panic!("{label}: no session of {server}: {error}\n{}", self.gateway.said()))
    }

    /// Stops the gateway in order and writes down what is left, then what the servers did; the last line.
    pub async fn close(mut self) -> PathBuf {
        let history = self.ground.history.clone();
        // One that ended just now is collected in a moment.
        let pid = self.pid;
        let zombies = || procs::descendants(pid).into_iter().filter(|process| process.state == 'Z').collect();
        let zombies = gone(GONE_MAX, zombies).await.len();
        history.count("zombies at the end", i64::try_from(zombies).unwrap_or(i64::MAX));
        history.bound_count("zombies at the end", 0, 0);
        self.watch.phase("end");
        // Descent says what it started, the mark what carries its environment; nothing of either may survive.
        let below: BTreeSet<u32> = procs::descendants(self.pid).iter().map(|process| process.pid).collect();
        // While it stops, what it ends is there for a moment before it is collected.
        self.watch.phase("stop");
        signal(self.pid, Signal::TERM);
        let code = match tokio::time::timeout(STOP_MAX, self.gateway.child().wait()).await {
            Ok(Ok(status)) => status.code().map_or(-1, i64::from),
            _ => -2,
        };
        if code != 0 {
            let said = self.gateway.said();
            let tail = said.lines().rev().take(5).collect::<Vec<_>>().join(" / ");
            history.note(format!("the gateway ended with {code}: {tail}"));
        }
        history.count("exit code of the gateway", code);
        history.bound_count("exit code of the gateway", 0, 0);
        let left = gone(GONE_MAX, || {
            let mut left = marked(&self.ground.mark);
            let all = procs::all();
            left.extend(all.into_iter().filter(|process| below.contains(&process.pid) && procs::exists(process.pid)));
            left
        })
        .await;
        for process in left {
            let what = format!("{} {}, child of {}", process.state, process.command, process.parent);
            history.write(&Record::Left { pid: process.pid, what });
        }
        if self.gateway.said().contains("panicked") {
            history.count("panics", 1);
            history.bound_count("panics", 0, 0);
        }
        self.ground.ledger.copy_to(&history);
        history.write(&Record::Done);
        history.path().to_owned()
    }
}

/// Live processes with this mark in their environment.
pub fn marked(mark: &str) -> Vec<procs::Process> {
    procs::marked(&format!("{MARK}={mark}"))
}

/// Waits until nothing is found any more; what was found last.
pub async fn gone(within: Duration, found: impl Fn() -> Vec<procs::Process>) -> Vec<procs::Process> {
    let start = Instant::now();
    loop {
        let left = found();
        if left.is_empty() || within < start.elapsed() {
            return left;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Sends a signal to a process that may be gone.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw)
        && let Err(error) = kill_process(pid, signal)
    {
        eprintln!("{pid:?}: {error}");
    }
}

/// The same entry with further members.
pub fn with(mut entry: Value, more: &Value) -> Value {
    for (key, value) in more.as_object().into_iter().flatten() {
        entry[key.as_str()] = value.clone();
    }
    entry
}
