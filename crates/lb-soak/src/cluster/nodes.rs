//! Nodes on one store, which are started, killed, told to end and started again.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lb_peers::harness::{Gateway, HttpPeer};
use lb_peers::procs;
use lb_peers::valkey::{Program, Valkey};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::process::Command;

use super::balancer::Balancer;
use super::client::Place;
use crate::history::{History, Record};
use crate::scenario::library;
use crate::world::{Ground, MARK, gone, marked, signal};

/// How many there are.
pub const NODES: usize = 3;
/// How long the children of a node that was killed may be there.
const ORPHANS_MAX: Duration = Duration::from_secs(5);
/// How long a node may take to end in order, and everything else after it.
const STOP_MAX: Duration = Duration::from_secs(45);
const GONE_MAX: Duration = Duration::from_secs(10);
/// The same for all nodes of a run; nothing outside of it.
const KEY: &str = "a-key-of-the-soak-with-more-than-thirty-two-characters";

/// What is counted.
pub const EXITS: &str = "nodes that did not end in order";

/// How the nodes are started.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// `batch` or `event`.
    pub durability: &'static str,
    /// Further arguments of every node.
    pub args: &'static [&'static str],
    /// Further arguments of the store.
    pub store: &'static [&'static str],
    /// Whether the last node has a clock that can be set.
    pub clock: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Self { durability: "batch", args: &[], store: &[], clock: false }
    }
}

/// The nodes, their store and their servers.
pub struct Nodes {
    /// What they stand on.
    pub ground: Ground,
    /// The store.
    pub store: Valkey,
    /// In front of them.
    pub balancer: Arc<Balancer>,
    /// When all that was done to them is over.
    pub calm_at: Instant,
    terms: Terms,
    config: PathBuf,
    nodes: Vec<Node>,
    _remote: HttpPeer,
}

/// One of them.
struct Node {
    gateway: Option<Gateway>,
    /// What earlier processes said.
    said: String,
}

impl Nodes {
    /// Starts the store, the servers `child` and `remote`, and the nodes in front of them.
    pub async fn start(ground: Ground, terms: Terms) -> Self {
        let store = Valkey::start_with(Program::Valkey, terms.store);
        let remote = ground.remote(0, &[]).await;
        let servers = json!({ "child": ground.child(&json!({})), "remote": { "url": remote.url() } });
        let config = ground.place("mcp.json");
        std::fs::write(&config, json!({ "mcpServers": servers }).to_string()).expect("the config is written");
        std::fs::write(ground.place("offset"), "+0").expect("written");
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
        let balancer = Arc::new(Balancer::start(vec![nowhere; NODES]).await);
        let nodes = (0..NODES).map(|_| Node { gateway: None, said: String::new() }).collect();
        let calm_at = Instant::now();
        let mut all = Self { ground, store, balancer, calm_at, terms, config, nodes, _remote: remote };
        for node in 0..NODES {
            all.launch(node).await;
        }
        all
    }

    /// For clients.
    pub fn place(&self) -> Place {
        Place { balancer: self.balancer.clone(), history: self.ground.history.clone() }
    }

    /// The history.
    pub fn history(&self) -> &History {
        &self.ground.history
    }

    /// Starts a node that is not there, on ports of its own, with the state folder that it had.
    pub async fn launch(&mut self, node: usize) {
        let listen = free_port();
        let mut words = self.before(node);
        words.push(self.ground.setup.binary.clone());
        let mut command = Command::new(words.first().cloned().unwrap_or_default());
        command.args(words.get(1..).unwrap_or_default());
        command.args(["serve", "--listen", &listen.to_string(), "--node-listen", &free_port().to_string()]);
        command.args(["--store", &self.store.url(), "--durability", self.terms.durability, "--config"]);
        command.arg(&self.config).args(self.terms.args);
        let home = self.ground.place(&format!("node-{node}"));
        std::fs::create_dir_all(&home).expect("a folder for its state");
        command.env(MARK, &self.ground.mark).env("XDG_STATE_HOME", home).env("LANDBRIDGE_KEY", KEY);
        command.stdin(Stdio::null());
        let gateway = Gateway::launch(command, tempfile::tempdir().expect("a folder")).await;
        self.balancer.moved(node, listen);
        if let Some(place) = self.nodes.get_mut(node) {
            place.gateway = Some(gateway);
        }
    }

    /// What stands before the last node, so that its clock can be set.
    fn before(&self, node: usize) -> Vec<String> {
        let Some(library) = library().filter(|_| self.terms.clock && node + 1 == NODES) else { return Vec::new() };
        let file = self.ground.place("offset");
        let words = ["FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1"];
        let mut before = vec!["env".to_owned(), format!("LD_PRELOAD={}", library.display())];
        before.push(format!("FAKETIME_TIMESTAMP_FILE={}", file.display()));
        before.extend(words.map(str::to_owned));
        before
    }

    /// Sets the clock of the last node, where that can be done.
    pub fn set_clock(&self, seconds: i64) {
        std::fs::write(self.ground.place("offset"), format!("{seconds:+}")).expect("written");
    }

    /// The process of a node.
    pub fn pid(&self, node: usize) -> Option<u32> {
        self.nodes.get(node)?.gateway.as_ref().map(Gateway::pid)
    }

    /// What a node has started.
    pub fn below(&self, node: usize) -> Vec<procs::Process> {
        self.pid(node).map(procs::descendants).unwrap_or_default()
    }

    /// Kills a node; what it had started has to go by itself.
    pub async fn kill(&mut self, node: usize, below: &[procs::Process]) {
        let Some(mut gateway) = self.nodes.get_mut(node).and_then(|node| node.gateway.take()) else { return };
        gateway.child().kill().await.expect("it was there");
        self.ended(node, &gateway);
        let start = Instant::now();
        let left = gone(ORPHANS_MAX, || below.iter().filter(|process| procs::is_alive(process.pid)).cloned().collect());
        for process in left.await {
            let what = format!("{} of node {node}, which was killed: {}", process.state, process.command);
            self.history().write(&Record::Left { pid: process.pid, what });
        }
        let (count, took) = (below.len(), start.elapsed().as_millis());
        self.history().note(format!("node {node}: its {count} processes were gone {took} ms after it was killed"));
    }

    /// Tells a node to end and waits for it.
    pub async fn stop(&mut self, node: usize) {
        let Some(mut gateway) = self.nodes.get_mut(node).and_then(|node| node.gateway.take()) else { return };
        let start = Instant::now();
        signal(gateway.pid(), Signal::TERM);
        let ended = tokio::time::timeout(STOP_MAX, gateway.child().wait()).await;
        if !matches!(ended, Ok(Ok(status)) if status.success()) {
            self.history().count(EXITS, 1);
            let said = gateway.said();
            let tail = said.lines().rev().take(5).collect::<Vec<_>>().join(" / ");
            self.history().note(format!("node {node} ended with {ended:?}: {tail}"));
        }
        self.ended(node, &gateway);
        self.history().note(format!("node {node}: ended in order within {} ms", start.elapsed().as_millis()));
    }

    fn ended(&mut self, node: usize, gateway: &Gateway) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.said += &gateway.said();
        }
    }

    /// What `landbridge nodes --json` says.
    pub async fn list(&self) -> Value {
        let mut command = Command::new(&self.ground.setup.binary);
        command.args(["nodes", "--json", "--store", &self.store.url()]).env("LANDBRIDGE_KEY", KEY);
        command.env("XDG_STATE_HOME", self.ground.place("nowhere")).kill_on_drop(true);
        let output = tokio::time::timeout(Duration::from_secs(20), command.output()).await;
        let output = output.expect("nodes ends").expect("nodes runs");
        serde_json::from_slice(&output.stdout).unwrap_or_else(
            |_| json!({ "status": output.status.to_string(), "stderr": String::from_utf8_lossy(&output.stderr) }),
        )
    }

    /// Ends all nodes in order and writes down what is left, what was dealt and what the servers did; the last line.
    pub async fn close(mut self) -> PathBuf {
        let history = self.history().clone();
        history.count(EXITS, 0);
        history.bound_count(EXITS, 0, 0);
        let running: Vec<u32> = (0..NODES).filter_map(|node| self.pid(node)).collect();
        let below: Vec<procs::Process> = running.iter().flat_map(|pid| procs::descendants(*pid)).collect();
        for node in 0..NODES {
            self.stop(node).await;
        }
        let left = gone(GONE_MAX, || {
            let mut left = marked(&self.ground.mark);
            left.extend(below.iter().filter(|process| procs::is_alive(process.pid)).cloned());
            left
        });
        for process in left.await {
            let what = format!("{} {}, child of {}", process.state, process.command, process.parent);
            history.write(&Record::Left { pid: process.pid, what });
        }
        self.tell_dealt();
        self.keep_said();
        self.ground.ledger.copy_to(&history);
        history.write(&Record::Done);
        history.path().to_owned()
    }

    fn tell_dealt(&self) {
        let (history, dealt) = (self.history(), self.balancer.dealt());
        let share = dealt.elsewhere * 100 / dealt.of_sessions.max(1);
        history.note(format!(
            "dealt {:?}, skipped {:?}, for nobody {}; {} of {} requests of sessions ({share} %) did not land where the \
             session was opened",
            dealt.requests, dealt.skipped, dealt.nowhere, dealt.elsewhere, dealt.of_sessions
        ));
        let name = "per cent of requests that did not land where the session was opened";
        history.count(name, i64::try_from(share).unwrap_or(0));
        // Of few requests nothing follows.
        if 200 <= dealt.of_sessions {
            history.bound_count(name, 60, 100);
        }
    }

    /// What the nodes said, beside the history; panics count.
    fn keep_said(&self) {
        let mut all = String::new();
        for (number, node) in self.nodes.iter().enumerate() {
            all += &format!("--- node {number}\n{}\n", node.said);
        }
        let history = self.history();
        history.count("panics", i64::try_from(all.matches("panicked").count()).unwrap_or(0));
        history.bound_count("panics", 0, 0);
        let file = history.path().with_extension("log");
        if let Err(error) = std::fs::write(&file, all) {
            eprintln!("{}: {error}", file.display());
        }
    }
}

fn free_port() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("an address")
}
