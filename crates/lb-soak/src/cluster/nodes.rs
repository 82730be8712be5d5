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
use super::look::{self, Sent};
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

/// How long a client waits that was sent away or broken off.
const PAUSE: Duration = Duration::from_millis(300);

/// What is counted.
pub const EXITS: &str = "nodes that did not end in order";
const UNSEEN: &str = "looks at a node that it did not answer";
const UNKEPT: &str = "nodes that could not open what was kept";
const CALM_SHARE: &str = "per cent of requests of sessions that were forwarded while all was well";
const SHARE: &str = "per cent of requests of sessions that were forwarded in all";
/// Two of three nodes are not the one that has a session.
const SHARE_MIN: i64 = 60;

/// Where sessions are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// By three nodes on a server.
    Server,
    /// By one node in a file.
    File,
}

/// How the nodes are started.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Where sessions are kept.
    pub keep: Keep,
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
        Self { keep: Keep::Server, durability: "batch", args: &[], store: &[], clock: false }
    }
}

/// The nodes, their store and their servers.
pub struct Nodes {
    /// What they stand on.
    pub ground: Ground,
    /// In front of them.
    pub balancer: Arc<Balancer>,
    /// When all that was done to them is over.
    pub calm_at: Instant,
    terms: Terms,
    config: PathBuf,
    store: Option<Valkey>,
    nodes: Vec<Node>,
    /// What was sent on by processes that are gone.
    sent: Sent,
    _remote: HttpPeer,
}

/// One of them.
#[derive(Default)]
struct Node {
    gateway: Option<Gateway>,
    /// Where clients would find it.
    address: Option<SocketAddr>,
    /// Requests of sessions that were dealt to the processes before this one.
    dealt_before: u64,
    /// What earlier processes said.
    said: String,
}

impl Nodes {
    /// Starts the store, the servers `child` and `remote`, and the nodes in front of them.
    pub async fn start(ground: Ground, terms: Terms) -> Self {
        let (store, count) = match terms.keep {
            Keep::Server => (Some(Valkey::start_with(Program::Valkey, terms.store)), NODES),
            Keep::File => (None, 1),
        };
        let remote = ground.remote(0, &[]).await;
        let servers = json!({ "child": ground.child(&json!({})), "remote": { "url": remote.url() } });
        let config = ground.place("mcp.json");
        std::fs::write(&config, json!({ "mcpServers": servers }).to_string()).expect("the config is written");
        std::fs::write(ground.place("offset"), "+0").expect("written");
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
        let balancer = Arc::new(Balancer::start(vec![nowhere; count]).await);
        let nodes = (0..count).map(|_| Node::default()).collect();
        let calm_at = Instant::now();
        let sent = Sent::default();
        let mut all = Self { ground, balancer, calm_at, terms, config, store, nodes, sent, _remote: remote };
        for node in 0..count {
            all.launch(node).await;
        }
        all
    }

    /// For clients.
    pub fn place(&self) -> Place {
        Place { balancer: self.balancer.clone(), history: self.ground.history.clone(), pause: PAUSE }
    }

    /// The store that the nodes share.
    ///
    /// # Panics
    /// Where there is none.
    pub fn store(&mut self) -> &mut Valkey {
        self.store.as_mut().expect("the nodes share a store")
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
        command.args(["serve", "--listen", &listen.to_string(), "--durability", self.terms.durability]);
        let home = self.ground.place(&format!("node-{node}"));
        std::fs::create_dir_all(&home).expect("a folder for its state");
        match &self.store {
            Some(store) => command.args(["--node-listen", &free_port().to_string(), "--store", &store.url()]),
            None => command.arg("--data").arg(home.join("data")),
        };
        command.arg("--config").arg(&self.config).args(self.terms.args);
        command.env(MARK, &self.ground.mark).env("XDG_STATE_HOME", &home).env("LANDBRIDGE_KEY", KEY);
        command.stdin(Stdio::null());
        let gateway = Gateway::launch(command, tempfile::tempdir().expect("a folder")).await;
        if self.store.is_none() && (gateway.said().contains("kept in memory") || !home_has_file(&home)) {
            self.history().count(UNKEPT, 1);
            self.history().note(format!("node {node} has nothing of before: {}", gateway.said()));
        }
        let dealt_before = self.dealt_to(node);
        self.balancer.moved(node, listen);
        if let Some(place) = self.nodes.get_mut(node) {
            (place.gateway, place.address, place.dealt_before) = (Some(gateway), Some(listen), dealt_before);
        }
    }

    fn dealt_to(&self, node: usize) -> u64 {
        self.balancer.dealt().of_sessions.get(node).copied().unwrap_or(0)
    }

    /// What was sent on so far by the process that a node is.
    async fn sent_by(&self, node: usize) -> Sent {
        let known = self.nodes.get(node).filter(|node| node.gateway.is_some());
        let Some((address, before)) = known.and_then(|node| Some((node.address?, node.dealt_before))) else {
            return Sent::default();
        };
        let Some(forwarded) = look::forwarded(address).await else {
            self.history().count(UNSEEN, 1);
            return Sent::default();
        };
        Sent { all: self.dealt_to(node) - before, forwarded }
    }

    /// Writes down how much was sent on while nothing was wrong yet.
    pub async fn tell_calm(&self) {
        let mut sent = self.sent;
        for node in 0..self.nodes.len() {
            sent = sent.plus(self.sent_by(node).await);
        }
        let history = self.history();
        history.note(format!(
            "while all was well, {} of {} requests of sessions were forwarded",
            sent.forwarded, sent.all
        ));
        history.count(CALM_SHARE, sent.percent());
        history.bound_count(CALM_SHARE, SHARE_MIN, 100);
    }

    /// Writes down what a node is about to lose: its sessions, and what it has counted.
    pub async fn look(&mut self, node: usize) {
        self.sent = self.sent.plus(self.sent_by(node).await);
        let Some(address) = self.nodes.get(node).and_then(|node| node.address) else { return };
        match look::sessions(address).await {
            Some(sessions) => self.history().write(&Record::Holds { at_ms: self.history().now_ms(), node, sessions }),
            None => self.history().count(UNSEEN, 1),
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
        let url = self.store.as_ref().map(Valkey::url).expect("the nodes share a store");
        command.args(["nodes", "--json", "--store", &url]).env("LANDBRIDGE_KEY", KEY);
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
        for name in [EXITS, UNSEEN, UNKEPT] {
            history.count(name, 0);
            history.bound_count(name, 0, 0);
        }
        let count = self.nodes.len();
        for node in 0..count {
            self.sent = self.sent.plus(self.sent_by(node).await);
        }
        let running: Vec<u32> = (0..count).filter_map(|node| self.pid(node)).collect();
        let below: Vec<procs::Process> = running.iter().flat_map(|pid| procs::descendants(*pid)).collect();
        for node in 0..count {
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
        let (history, dealt, sent) = (self.history(), self.balancer.dealt(), self.sent);
        history.note(format!(
            "dealt {:?}, skipped {:?}, for nobody {}; {} of {} requests of sessions were forwarded",
            dealt.requests, dealt.skipped, dealt.nowhere, sent.forwarded, sent.all
        ));
        history.count(SHARE, sent.percent());
        history.bound_count(SHARE, 0, 100);
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

fn home_has_file(home: &std::path::Path) -> bool {
    home.join("data").join("state.redb").exists()
}

fn free_port() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("an address")
}
