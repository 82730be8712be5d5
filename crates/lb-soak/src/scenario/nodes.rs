//! Three nodes on one store behind a balancer that sends every request somewhere else: clients see one gateway, whatever
//! happens to a node or to the store.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{Setup, Size};
use crate::cluster::client::CURSORS_UNKNOWN;
use crate::cluster::life::{Crowd, KINDS, Kind, OPENED, SENT_AWAY, SENT_AWAY_SLOWLY};
use crate::cluster::nodes::{NODES, Nodes, Terms};
use crate::cluster::plan::{Strike, shuffled};
use crate::cluster::wire::{ASKED, ASKED_TWICE, RESUMED, TWICE};
use crate::history::{How, Measure, Record};
use crate::scenario::library;
use crate::world::Ground;

/// Everybody is in and at work by then.
const WARM: Duration = Duration::from_secs(2);
/// Up to this long between two requests of a client.
const PAUSE_MS: u64 = 200;
/// Of two hours: with kills no more than one in 12 s, that is as many as anybody wants.
const FULL_S: u64 = 7_200;

/// Everybody.
const CLIENTS: usize = 100;
/// How long nothing is wrong, before anything is.
const CALM: Duration = Duration::from_secs(6);

/// Everything that can go wrong, with so much written down before it is acknowledged.
///
/// # Panics
/// Without the library that sets a clock wrong.
pub async fn all(setup: Setup, size: Size, seed: u64, durability: &'static str) -> PathBuf {
    assert!(library().is_some(), "libfaketime is not installed: run `cargo xtask peers`");
    let ground = Ground::new(&setup, &format!("THREE-NODES-{durability}"), seed);
    let strikes = [
        Strike::Kill(12),
        Strike::Kill(5),
        Strike::Kill(8),
        Strike::Roll,
        Strike::StoreRestart,
        Strike::StoreEmpty,
        Strike::StorePause(5),
        Strike::Clock(5),
        Strike::Clock(-5),
    ];
    let terms = Terms { durability, clock: true, ..Terms::default() };
    run(ground, terms, size, (CLIENTS, &KINDS), &strikes).await
}

/// Kills of nodes.
pub async fn kills(setup: Setup, size: Size, seed: u64) -> PathBuf {
    let ground = Ground::new(&setup, "R6", seed);
    let kinds = [Kind::Streams("child"), Kind::Waits, Kind::Streams("remote"), Kind::Answers, Kind::Modern("remote")];
    let strikes = [Strike::Kill(5), Strike::Kill(4)];
    run(ground, Terms::default(), size, (size.pick(12, 300), &kinds), &strikes).await
}

/// A store that is not there, or not itself.
pub async fn store(setup: Setup, size: Size, seed: u64) -> PathBuf {
    let ground = Ground::new(&setup, "R8", seed);
    let kinds = [Kind::Waits, Kind::Newcomer, Kind::Streams("child"), Kind::Modern("remote"), Kind::Calls("remote")];
    let strikes = [Strike::StoreRestart, Strike::StorePause(size.pick(2, 5)), Strike::StoreEmpty];
    run(ground, Terms::default(), size, (size.pick(10, 100), &kinds), &strikes).await
}

async fn run(
    ground: Ground,
    terms: Terms,
    size: Size,
    (count, kinds): (usize, &[Kind]),
    strikes: &[Strike],
) -> PathBuf {
    let mut nodes = Nodes::start(ground, terms).await;
    let history = nodes.history().clone();
    let mut random = nodes.ground.random.fork();
    history.note(format!("{count} clients, durability {}", terms.durability));
    // Another node may have to understand it.
    history.write(&Record::StreamsFirst);
    if terms.durability == "event" {
        history.write(&Record::Strict);
    }
    let listed = nodes.list().await;
    history.count("nodes that are listed", listed.as_array().map_or(-1, |nodes| nodes.len() as i64));
    history.bound_count("nodes that are listed", NODES as i64, NODES as i64);
    let crowd = Crowd::start(&nodes.place(), kinds, count, PAUSE_MS, &mut random);
    tokio::time::sleep(WARM).await;
    if CLIENTS <= count {
        tokio::time::sleep(CALM).await;
        nodes.tell_calm().await;
    }
    let (start, time) = (Instant::now(), size.time(1, FULL_S));
    let mut struck = 0;
    loop {
        for strike in shuffled(strikes, &mut random) {
            strike.run(&mut nodes, &mut random).await;
            struck += 1;
        }
        if time <= start.elapsed() {
            break;
        }
    }
    tokio::time::sleep_until(nodes.calm_at.into()).await;
    crowd.stop().await;
    judge(&nodes, count);
    if kinds == KINDS {
        judge_kinds(&nodes);
    }
    let newcomers = kinds.iter().cycle().take(count).filter(|kind| **kind == Kind::Newcomer).count() as i64;
    if 0 < newcomers {
        history.bound_count(SENT_AWAY, 1, i64::MAX);
        // Whoever is on the way when a store begins to hang waits until that is noticed; nobody after that.
        history.bound_count(SENT_AWAY_SLOWLY, 0, newcomers * struck);
    }
    nodes.close().await
}

/// What every run with these clients has to show.
pub(super) fn judge(nodes: &Nodes, clients: usize) {
    let history = nodes.history();
    for name in [TWICE, ASKED_TWICE] {
        history.count(name, 0);
        history.bound_count(name, 0, 0);
    }
    for name in [RESUMED, CURSORS_UNKNOWN, OPENED] {
        history.count(name, 0);
        history.bound_count(name, 0, i64::MAX);
    }
    // A run in which nobody gets anywhere shows nothing.
    let results = Measure::Calls { client: String::new(), how: How::Result };
    history.bound(results, 10 * clients as i64, i64::MAX);
}

/// So many of the clients whose names begin like this have had a result, each time; and servers have asked them.
fn judge_kinds(nodes: &Nodes) {
    let history = nodes.history();
    for client in ["waits", "streams", "answers", "calls", "modern-answers", "modern-waits", "listens"] {
        history.bound(Measure::Calls { client: client.to_owned(), how: How::Result }, 20, i64::MAX);
    }
    history.bound_count(ASKED, 100, i64::MAX);
}
