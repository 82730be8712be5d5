//! The store takes no more: what is there stays and is used, what is new is told to come again, and nothing is thrown
//! out to make room.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use lb_peers::valkey::{Program, Valkey};
use tokio::process::Command;

use super::{Setup, Size};
use crate::cluster::life::{Crowd, Kind, SENT_AWAY};
use crate::cluster::nodes::{Nodes, Terms};
use crate::cluster::plan::{begin, over};
use crate::history::{How, Measure, Trouble};
use crate::world::{Ground, MARK};

/// What is counted.
const EVICTED: &str = "keys that were thrown out";
const SILENT: &str = "nodes that start on a store which throws keys out, and say nothing";
/// How long a node may take to say what it thinks of its store.
const START: Duration = Duration::from_secs(10);

/// Runs it.
pub async fn run(setup: Setup, size: Size, seed: u64) -> PathBuf {
    let ground = Ground::new(&setup, "R10", seed);
    asserted(&ground).await;
    let terms = Terms { store: &["--maxmemory", "100mb", "--maxmemory-policy", "noeviction"], ..Terms::default() };
    let mut nodes = Nodes::start(ground, terms).await;
    let history = nodes.history().clone();
    let mut random = nodes.ground.random.fork();
    let kinds = [Kind::Waits, Kind::Newcomer, Kind::Calls("child"), Kind::Modern("remote"), Kind::Streams("remote")];
    let crowd = Crowd::start(&nodes.place(), &kinds, size.pick(10, 50), 200, &mut random);
    tokio::time::sleep(Duration::from_secs(2)).await;
    for turn in size.turns(2, 50) {
        // Within the lease of a node, and beyond it.
        let time = Duration::from_secs(if turn % 2 == 0 { 3 } else { size.pick(5, 15) });
        begin(&nodes, Trouble::StoreFull, None, &format!("the store is full for {time:?}"));
        set_memory(&mut nodes, "1");
        tokio::time::sleep(time).await;
        set_memory(&mut nodes, "100mb");
        tokio::time::sleep(Duration::from_secs(2)).await;
        over(&nodes, Trouble::StoreFull, None);
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    crowd.stop().await;
    let stats = nodes.store().command(&["INFO", "stats"]);
    let evicted = stats.lines().find_map(|line| line.strip_prefix("evicted_keys:")?.trim().parse().ok());
    history.count(EVICTED, evicted.unwrap_or(-1));
    history.bound_count(EVICTED, 0, 0);
    history.bound_count(SENT_AWAY, 1, i64::MAX);
    history.bound(Measure::Calls { client: String::new(), how: How::Result }, 100, i64::MAX);
    nodes.close().await
}

fn set_memory(nodes: &mut Nodes, bytes: &str) {
    drop(nodes.store().command(&["CONFIG", "SET", "maxmemory", bytes]));
}

/// A node on a store that throws out what it has no room for ends, or says so.
async fn asserted(ground: &Ground) {
    let store = Valkey::start_with(Program::Valkey, &["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let mut command = Command::new(&ground.setup.binary);
    let home = ground.place("evicting");
    command.args(["serve", "--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0", "--store", &store.url()]);
    command.env(MARK, &ground.mark).env("XDG_STATE_HOME", home).env("LANDBRIDGE_KEY", "k".repeat(40));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().expect("it starts");
    let mut said = Vec::new();
    let mut lines = child.stderr.take().expect("stderr is piped");
    let told = |said: &[u8]| {
        let text = String::from_utf8_lossy(said).to_lowercase();
        text.contains("noeviction") || text.contains("maxmemory-policy")
    };
    let read = async {
        while !told(&said) && 0 < tokio::io::AsyncReadExt::read_buf(&mut lines, &mut said).await.unwrap_or(0) {}
    };
    drop(tokio::time::timeout(START, read).await);
    child.kill().await.expect("it was ours");
    ground.history.count(SILENT, i64::from(!told(&said)));
    ground.history.bound_count(SILENT, 0, 0);
    ground.history.note(format!("on a store that throws keys out: {}", String::from_utf8_lossy(&said).trim()));
}
