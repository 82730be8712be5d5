//! All nodes are replaced, and everybody comes back in the same moment: all are served soon, and the store is not asked
//! the same thing by all of them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::{Setup, Size};
use crate::cluster::client::{Client, Place, Surface, job};
use crate::cluster::nodes::{NODES, Nodes, Terms};
use crate::cluster::plan::{begin, over};
use crate::history::{How, Trouble};
use crate::world::Ground;

/// How long everybody together may take to be back.
const BACK_MAX: Duration = Duration::from_secs(30);
/// Sessions that are opened at the same time.
const AT_ONCE: usize = 50;
/// Commands of the store for one client that comes back: its session is found, taken, read and written a few times.
const COMMANDS_EACH: i64 = 60;
/// What is counted.
const BACK: &str = "clients that came back";
const SLOWEST: &str = "ms until the last of them was back";
const COMMANDS: &str = "commands of the store for each of them";

/// Runs it.
pub async fn run(setup: Setup, size: Size, seed: u64) -> PathBuf {
    let count = size.pick(300, 2_000);
    let mut nodes = Nodes::start(Ground::new(&setup, "R20", seed), Terms::default()).await;
    let history = nodes.history().clone();
    let mut clients = opened(&nodes, count).await;
    let mut slowest = 0;
    let turns = size.turns(1, 20);
    let mut herds = 0;
    for turn in turns {
        herds += 1;
        for node in 0..NODES {
            begin(&nodes, Trouble::NodeStopped, Some(node), &format!("node {node} is replaced"));
        }
        replace(&mut nodes, turn % 2 == 1).await;
        let before = commands(&mut nodes);
        let start = Instant::now();
        clients = come_back(clients).await;
        slowest = slowest.max(i64::try_from(start.elapsed().as_millis()).unwrap_or(i64::MAX));
        for node in 0..NODES {
            over(&nodes, Trouble::NodeStopped, Some(node));
        }
        history.count(COMMANDS, (commands(&mut nodes) - before) / count as i64);
        history.count(BACK, clients.iter().filter(|client| client.is_in()).count() as i64);
    }
    history.bound_count(BACK, herds * count as i64, herds * count as i64);
    history.bound_count(COMMANDS, 0, herds * COMMANDS_EACH);
    history.count(SLOWEST, slowest);
    history.bound_count(SLOWEST, 0, i64::try_from(BACK_MAX.as_millis()).unwrap_or(i64::MAX));
    drop(clients);
    nodes.close().await
}

/// Clients with sessions that all nodes have a part of.
async fn opened(nodes: &Nodes, count: usize) -> Vec<Client> {
    let (place, mut random) = (nodes.place(), nodes.ground.random.clone());
    let mut clients = Vec::new();
    while clients.len() < count {
        let mut tasks = JoinSet::new();
        for number in clients.len()..count.min(clients.len() + AT_ONCE) {
            tasks.spawn(enter(place.clone(), number, random.fork()));
        }
        clients.extend(tasks.join_all().await);
    }
    clients
}

async fn enter(place: Place, number: usize, random: crate::random::Random) -> Client {
    let mut client = Client::new(&place, Surface::Server("remote"), &format!("herd{number}-"), random);
    client.open().await;
    if client.is_in() {
        client.work(job(0, 0), false, None).await;
    }
    client
}

/// All end, killed or in order, and then all are there again.
async fn replace(nodes: &mut Nodes, killed: bool) {
    for node in 0..NODES {
        if killed {
            let below = nodes.below(node);
            nodes.kill(node, &below).await;
        } else {
            nodes.stop(node).await;
        }
    }
    for node in 0..NODES {
        nodes.launch(node).await;
    }
}

/// Everybody calls in the same moment, and again until there is a result.
async fn come_back(clients: Vec<Client>) -> Vec<Client> {
    let barrier = Arc::new(Barrier::new(clients.len()));
    let mut tasks = JoinSet::new();
    for mut client in clients {
        let barrier = barrier.clone();
        tasks.spawn(async move {
            barrier.wait().await;
            let start = Instant::now();
            while client.is_in() && client.work(job(0, 0), false, None).await != How::Result {
                if 2 * BACK_MAX < start.elapsed() {
                    break;
                }
            }
            client
        });
    }
    tasks.join_all().await
}

/// What the store has done so far.
fn commands(nodes: &mut Nodes) -> i64 {
    let stats = nodes.store().command(&["INFO", "stats"]);
    let found = stats.lines().find_map(|line| line.strip_prefix("total_commands_processed:")?.trim().parse().ok());
    found.unwrap_or(0)
}
