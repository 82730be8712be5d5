//! Damaged requests and lines by the hundred thousand against running gateways: each is answered, the next good one
//! works, nothing hangs, and memory stays where it is.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lb_peers::harness::{HttpPeer, peer};
use lb_peers::raw::http::{Session, initialize_request};
use lb_peers::raw::{RawHttp, RawStdio};
use lb_testkit::generate::Rng;
use serde_json::json;
use tokio::process::Command;
use tokio::task::JoinSet;

use super::{Setup, Size, Turns};
use crate::history::{History, Measure, Quantity};
use crate::malformed::corpus::corpus;
use crate::malformed::judge::Kind;
use crate::malformed::line::{self, is_odd};
use crate::malformed::request::{self, Input};
use crate::watch;
use crate::world::{Ground, World};

const PATH: &str = "/mcp/server/it";
const CLIENTS: u64 = 4;
const DESKS: u64 = 2;
/// How long an answer may take before it never comes.
const PATIENCE: Duration = Duration::from_secs(20);
/// Inputs after which memory is where it stays.
const WARM: u64 = 2_000;
/// Sessions and processes are new after so many inputs, so that no count of theirs grows without end.
const DESK_LINES: u64 = 25_000;
/// Violations that are told.
const TOLD_MAX: usize = 10;
/// What is counted.
const WRONG: &str = "inputs that were not answered as they should be";
const SLOWEST: &str = "slowest answer in ms (1000 promised)";
const GROWN: &str = "KiB that a gateway behind pipes has grown by, at most";

/// What came of some inputs.
#[derive(Default)]
struct Tally {
    kinds: BTreeMap<Kind, u64>,
    wrong: Vec<String>,
    slowest: Duration,
    odd: u64,
    grown_kib: u64,
}

impl Tally {
    fn count(&mut self, outcome: Result<Kind, String>, since: Instant, shown: impl FnOnce() -> String) {
        self.slowest = self.slowest.max(since.elapsed());
        match outcome {
            Ok(kind) => *self.kinds.entry(kind).or_default() += 1,
            Err(problem) => self.wrong.push(format!("{problem}, after {}", shown())),
        }
    }

    fn add(&mut self, other: Self) {
        for (kind, count) in other.kinds {
            *self.kinds.entry(kind).or_default() += count;
        }
        self.wrong.extend(other.wrong);
        self.slowest = self.slowest.max(other.slowest);
        self.odd += other.odd;
        self.grown_kib = self.grown_kib.max(other.grown_kib);
    }

    fn inputs(&self) -> u64 {
        self.kinds.values().sum::<u64>() + self.wrong.len() as u64
    }
}

/// Runs it.
pub async fn run(setup: Setup, size: Size, seed: u64) -> PathBuf {
    let ground = Ground::new(&setup, "R17", seed);
    let fixture = HttpPeer::start(&peer(&setup.binary, "fixture"), &[]).await;
    let servers = json!({ "it": { "url": fixture.url() } });
    let mut world = ground.build(servers, &[], &[]).await;
    world.peers.push(fixture);
    let corpus = Arc::new(corpus());
    world.watch.phase("warming");
    // Every input has a random source of its own, which follows from the seed and its number.
    let warm = requests(&world, &corpus, seed, Size::Short.turns(WARM / CLIENTS, 0)).await;
    world.watch.phase("requests");
    let part = size.part(2);
    let mut http =
        requests(&world, &corpus, seed.wrapping_add(1 << 40), part.turns(60_000 / CLIENTS, 600_000 / CLIENTS)).await;
    http.add(warm);
    world.watch.phase("after");
    let stdio = lines(&world, &corpus, seed, part.turns(40_000 / DESKS, 400_000 / DESKS)).await;
    let history = world.history().clone();
    tell(&history, "requests", &http, 60_000);
    tell(&history, "lines", &stdio, 40_000);
    history.bound_count(WRONG, 0, 0);
    history.count(SLOWEST, i64::try_from(http.slowest.max(stdio.slowest).as_millis()).unwrap_or(i64::MAX));
    history.bound_count(SLOWEST, 0, 10_000);
    // A kibibyte of each input would be four times as much, and more.
    let grown = Measure::Growth { of: Quantity::RssKib, from: "warming".to_owned(), to: "after".to_owned() };
    history.bound(grown, i64::MIN, 15 << 10);
    history.count(GROWN, i64::try_from(stdio.grown_kib).unwrap_or(i64::MAX));
    history.bound_count(GROWN, i64::MIN, 10 << 10);
    world.close().await
}

fn tell(history: &History, what: &str, tally: &Tally, least: i64) {
    let Tally { kinds, odd, wrong, .. } = tally;
    history.note(format!("{} malformed {what}: {kinds:?}; {odd} that only the server cannot read", tally.inputs()));
    for problem in wrong.iter().take(TOLD_MAX) {
        history.note(format!("WRONG {problem}"));
    }
    let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let name = format!("malformed {what}");
    history.count(&name, count(tally.inputs()));
    history.bound_count(&name, least, i64::MAX);
    history.count(WRONG, wrong.len() as i64);
    // Input that is refused at its first byte tests little.
    let understood = tally.inputs() - kinds.get(&Kind::Refused).copied().unwrap_or(0);
    let name = format!("malformed {what} that came through to the protocol");
    history.count(&name, count(understood));
    history.bound_count(&name, count(tally.inputs() / 10), i64::MAX);
}

async fn requests(world: &World, corpus: &Arc<Vec<Vec<u8>>>, seed: u64, turns: Turns) -> Tally {
    let (mut clients, mut all) = (JoinSet::new(), Tally::default());
    for number in 0..CLIENTS {
        clients.spawn(send_requests(world.gateway.address, corpus.clone(), seed, number, turns));
    }
    for tally in clients.join_all().await {
        all.add(tally);
    }
    all
}

/// One after the other, each with a good request behind it.
async fn send_requests(address: SocketAddr, corpus: Arc<Vec<Vec<u8>>>, seed: u64, number: u64, turns: Turns) -> Tally {
    let (mut tally, host) = (Tally::default(), address.to_string());
    let mut wire = connect(address).await;
    let version = if number.is_multiple_of(2) { "2025-11-25" } else { "2025-03-26" };
    let session = wire.initialize(PATH, version).await.expect("a session");
    for turn in turns {
        let n = turn * CLIENTS + number;
        let input = Input::new(&mut Rng::new(seed.wrapping_add(n)), PATH, &session, &corpus);
        let (bytes, since) = (input.wire(&host), Instant::now());
        let shown = || format!("input {n}: b\"{}\"", bytes.escape_ascii());
        let outcome = match request::exchange(&mut wire, &input, &bytes).await {
            Ok((kind, _, closes)) => {
                if closes {
                    wire = connect(address).await;
                }
                ping(&mut wire, &session).await.map(|()| kind)
            }
            Err(problem) => Err(problem),
        };
        if outcome.is_err() {
            wire = connect(address).await;
        }
        tally.count(outcome, since, shown);
    }
    tally
}

async fn connect(address: SocketAddr) -> RawHttp {
    let mut wire = RawHttp::connect(address).await.expect("the gateway listens");
    wire.patience = PATIENCE;
    wire
}

async fn ping(wire: &mut RawHttp, session: &Session) -> Result<(), String> {
    let ping = br#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
    let answer = wire.post(PATH, &session.headers(), ping).await;
    match answer.map(|answer| answer.text()) {
        Ok(text) if text == r#"{"jsonrpc":"2.0","id":7,"result":{}}"# => Ok(()),
        other => Err(format!("a good request got {other:?}")),
    }
}

async fn lines(world: &World, corpus: &Arc<Vec<Vec<u8>>>, seed: u64, turns: Turns) -> Tally {
    let (mut desks, mut all) = (JoinSet::new(), Tally::default());
    let program = world.door().program;
    for number in 0..DESKS {
        desks.spawn(send_lines(program.clone(), corpus.clone(), seed, number, turns));
    }
    for tally in desks.join_all().await {
        all.add(tally);
    }
    all
}

/// One after the other, each with a good one behind it, to one gateway after the other.
async fn send_lines(
    program: (String, PathBuf, String),
    corpus: Arc<Vec<Vec<u8>>>,
    seed: u64,
    number: u64,
    turns: Turns,
) -> Tally {
    let version = if number.is_multiple_of(2) { "2025-11-25" } else { "2025-03-26" };
    let (mut tally, mut desk, mut warm_kib) = (Tally::default(), open(&program, version).await, 0);
    for turn in turns {
        let n = turn * DESKS + number;
        let line = line::line(&mut Rng::new(seed.wrapping_add(n)), &corpus);
        tally.odd += u64::from(is_odd(&line));
        let since = Instant::now();
        let outcome = line::exchange(&mut desk, n, &line).await;
        let over = outcome.is_err() || turn % DESK_LINES == DESK_LINES - 1;
        tally.count(outcome, since, || format!("line {n}: b\"{}\"", line.escape_ascii()));
        let kib = || desk.pid().and_then(watch::rss_kib).unwrap_or(0);
        if turn % DESK_LINES == WARM {
            warm_kib = kib();
        } else if 0 < warm_kib {
            tally.grown_kib = tally.grown_kib.max(kib().saturating_sub(warm_kib));
        }
        if over {
            close(&mut tally, desk).await;
            (desk, warm_kib) = (open(&program, version).await, 0);
        }
    }
    close(&mut tally, desk).await;
    tally
}

async fn open(program: &(String, PathBuf, String), version: &str) -> RawStdio {
    let mut command = Command::new(&program.0);
    command.args(["stdio", "--surface", "server", "--config"]).arg(&program.1).env(crate::world::MARK, &program.2);
    let mut desk = RawStdio::spawn(command).expect("the gateway starts");
    desk.patience = PATIENCE;
    let hello = desk.ask(&initialize_request("\"hello\"", version)).await.expect("an answer");
    assert!(hello.contains("\"result\""), "{hello}");
    desk.send(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await.expect("it reads");
    desk
}

/// It ends when its input does, in order and without having panicked.
async fn close(tally: &mut Tally, mut desk: RawStdio) {
    desk.close_stdin();
    while let Ok(Some(_)) = desk.line().await {}
    let status = desk.wait().await;
    let mut said = String::new();
    while let Ok(Some(line)) = desk.stderr_line().await {
        said += &line;
    }
    if !status.as_ref().is_ok_and(std::process::ExitStatus::success) || said.contains("panicked") {
        tally.wrong.push(format!("a gateway behind pipes ended with {status:?}: {said}"));
    }
}
