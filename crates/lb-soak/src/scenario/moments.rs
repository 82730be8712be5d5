//! One node that keeps its state in a file is killed at random moments, again and again: whoever was there goes on with the
//! next process, and the rules are those of several nodes.

use std::path::PathBuf;
use std::time::Duration;

use super::nodes::judge;
use super::{Setup, Size};
use crate::cluster::client::Place;
use crate::cluster::life::{Crowd, Kind};
use crate::cluster::nodes::{Keep, Nodes, Terms};
use crate::cluster::plan::{begin, over};
use crate::history::{Record, Trouble};
use crate::world::Ground;

/// Everybody is in by then, and that is long written down.
const WARM: Duration = Duration::from_secs(2);
/// Kills of one run.
const KILLS: u64 = 50;
/// Up to this long after a process listens it is killed.
const MOMENT_US: u64 = 500_000;
/// Up to this long between two requests of a client.
const PAUSE_MS: u64 = 20;
/// How long a client waits that was sent away or broken off.
const AWAY: Duration = Duration::from_millis(20);
/// Everybody: those whose session has to be there again.
const KINDS: [Kind; 8] = [
    Kind::Waits,
    Kind::ModernWaits,
    Kind::Waits,
    Kind::Streams("remote"),
    Kind::Calls("child"),
    Kind::Answers,
    Kind::Streams("child"),
    Kind::Waits,
];

/// Runs it, with so much written down before it is acknowledged.
pub async fn run(setup: Setup, size: Size, seed: u64, durability: &'static str) -> PathBuf {
    let ground = Ground::new(&setup, &format!("KILLS-{durability}"), seed);
    let terms = Terms { keep: Keep::File, durability, ..Terms::default() };
    let mut nodes = Nodes::start(ground, terms).await;
    let history = nodes.history().clone();
    if durability == "event" {
        history.write(&Record::Strict);
    }
    let mut random = nodes.ground.random.fork();
    let place = Place { pause: AWAY, ..nodes.place() };
    let crowd = Crowd::start(&place, &KINDS, KINDS.len(), PAUSE_MS, &mut random);
    tokio::time::sleep(WARM).await;
    let mut kills = 0;
    for _ in size.turns(KILLS, 100 * KILLS) {
        tokio::time::sleep(Duration::from_micros(random.below(MOMENT_US))).await;
        kills += 1;
        strike(&mut nodes).await;
    }
    crowd.stop().await;
    history.note(format!("{kills} kills at random moments, durability {durability}"));
    judge(&nodes, KINDS.len());
    nodes.close().await
}

async fn strike(nodes: &mut Nodes) {
    let below = nodes.below(0);
    nodes.look(0).await;
    begin(nodes, Trouble::NodeKilled, Some(0), "the process is killed, and started again");
    nodes.kill(0, &below).await;
    nodes.launch(0).await;
    over(nodes, Trouble::NodeKilled, Some(0));
}
