//! What goes wrong, and when it is over.

use std::time::Duration;

use lb_peers::valkey::Keeping;

use super::nodes::{NODES, Nodes};
use crate::history::{Record, Trouble};
use crate::random::Random;

/// The lease of a node that died, with room: by then another one has its sessions.
const LEASE: Duration = Duration::from_secs(12);
/// How long a node or a store that is back may take until everything goes on as before.
const BACK: Duration = Duration::from_secs(3);
/// How long a run is calm after each strike.
const CALM: Duration = Duration::from_secs(1);

/// Something that is done to the nodes or their store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    /// A node is killed and started again after a while; the next strike comes so many seconds after it.
    Kill(u64),
    /// A node after the other is told to end, and started again.
    Roll,
    /// The store is ended and comes back after two seconds with what it had.
    StoreRestart,
    /// The store is killed and comes back with nothing.
    StoreEmpty,
    /// The store hangs for so many seconds.
    StorePause(u64),
    /// The clock of the last node is wrong by so many seconds, for a while.
    Clock(i64),
}

impl Strike {
    /// Does it, and comes back when it is over.
    pub async fn run(self, nodes: &mut Nodes, random: &mut Random) {
        let node = usize::try_from(random.below(NODES as u64)).unwrap_or(0);
        match self {
            Self::Kill(seconds) => kill(nodes, node, random, Duration::from_secs(seconds)).await,
            Self::Roll => {
                for node in 0..NODES {
                    stop(nodes, node).await;
                }
            }
            Self::StoreRestart => {
                begin(nodes, Trouble::StoreAway, None, "the store ends and comes back with what it had");
                drop(nodes.store().command(&["SAVE"]));
                nodes.store().kill9();
                tokio::time::sleep(Duration::from_secs(2)).await;
                nodes.store().start_again();
                tokio::time::sleep(BACK).await;
                over(nodes, Trouble::StoreAway, None);
            }
            Self::StoreEmpty => {
                begin(nodes, Trouble::StoreEmptied, None, "the store is killed and comes back with nothing");
                nodes.store().restart(Keeping::Nothing);
                tokio::time::sleep(2 * BACK).await;
                over(nodes, Trouble::StoreEmptied, None);
            }
            Self::StorePause(seconds) => {
                begin(nodes, Trouble::StoreAway, None, &format!("the store hangs for {seconds} s"));
                nodes.store().pause();
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                nodes.store().resume();
                tokio::time::sleep(BACK).await;
                over(nodes, Trouble::StoreAway, None);
            }
            Self::Clock(seconds) => {
                nodes.history().fault(format!("the clock of node {} goes {seconds:+} s wrong", NODES - 1));
                nodes.set_clock(seconds);
                tokio::time::sleep(2 * BACK).await;
                nodes.history().fault("the clock is right again");
                nodes.set_clock(0);
            }
        }
        tokio::time::sleep(CALM).await;
    }
}

/// Killed; back somewhere within the lease, so that its sessions are asked for before and after that.
async fn kill(nodes: &mut Nodes, node: usize, random: &mut Random, time: Duration) {
    let away = Duration::from_millis(random.below(4_000));
    // Looking takes a while, and the moment of the kill is known exactly.
    let below = nodes.below(node);
    nodes.look(node).await;
    begin(nodes, Trouble::NodeKilled, Some(node), &format!("node {node} is killed, for {away:?}"));
    let start = tokio::time::Instant::now();
    nodes.calm_at = (start + LEASE).into_std();
    // Known beforehand, and so written down: the next strike may come before.
    let at_ms = nodes.history().now_ms() + u64::try_from(LEASE.as_millis()).unwrap_or(0);
    nodes.history().write(&Record::Trouble { at_ms, what: Trouble::NodeKilled, node: Some(node), over: true });
    nodes.kill(node, &below).await;
    tokio::time::sleep_until(start + away).await;
    nodes.launch(node).await;
    tokio::time::sleep_until(start + time).await;
}

async fn stop(nodes: &mut Nodes, node: usize) {
    nodes.look(node).await;
    begin(nodes, Trouble::NodeStopped, Some(node), &format!("node {node} is told to end, and started again"));
    nodes.stop(node).await;
    nodes.launch(node).await;
    tokio::time::sleep(CALM).await;
    over(nodes, Trouble::NodeStopped, Some(node));
}

/// Writes down that trouble begins.
pub fn begin(nodes: &Nodes, what: Trouble, node: Option<usize>, words: &str) {
    let history = nodes.history();
    history.fault(words);
    history.write(&Record::Trouble { at_ms: history.now_ms(), what, node, over: false });
}

/// Writes down that it is over.
pub fn over(nodes: &Nodes, what: Trouble, node: Option<usize>) {
    let history = nodes.history();
    history.write(&Record::Trouble { at_ms: history.now_ms(), what, node, over: true });
}

/// Endless strikes: all of these in an order of their own, again and again.
pub fn shuffled(strikes: &[Strike], random: &mut Random) -> Vec<Strike> {
    let (mut left, mut order) = (strikes.to_vec(), Vec::new());
    while !left.is_empty() {
        let place = usize::try_from(random.below(left.len() as u64)).unwrap_or(0);
        order.push(left.swap_remove(place));
    }
    order
}
