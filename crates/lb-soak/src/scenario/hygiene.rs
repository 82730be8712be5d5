//! Clients and servers die at random while all of them work; afterwards there is exactly what there should be.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lb_peers::procs;
use rustix::process::Signal;
use serde_json::json;
use tokio::task::JoinSet;

use super::{Setup, Size, Turns};
use crate::caller::{Caller, Door, WAYS, Way, end_session};
use crate::history::{History, Measure, Must, Quantity, Record};
use crate::jobs::{Job, Ledger};
use crate::random::Random;
use crate::world::{Ground, World, gone, marked, signal};

const CLIENTS: usize = 10;
/// What is counted.
const SERVERS_KILLED: &str = "kills of servers";
const CLIENTS_KILLED: &str = "ends of clients in a call";
/// Descriptors of connections that clients left a moment ago.
const FDS_SLACK: i64 = 6;

/// Runs it.
pub async fn run(setup: Setup, size: Size, seed: u64) -> PathBuf {
    let turns = size.turns(200, 5_000);
    let ground = Ground::new(&setup, "hygiene", seed);
    let servers = json!({ "it": ground.child(&json!({})) });
    let mut world = ground.build(servers, &[], &[]).await;
    // The process that all modern clients share is there from the first call on.
    let mut first = world.caller(Way::HttpModern, "it", "first").await;
    first.call(Job::QUICK).await;
    world.watch.phase("load");
    let (history, door) = (world.history().clone(), world.door());
    let working = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let way = WAYS.get(number % WAYS.len()).copied().unwrap_or(Way::HttpLegacy);
        let caller = world.caller(way, "it", &format!("c{number}")).await;
        let working = Working::new(&working);
        let life = Life { random: world.ground.random.fork(), left: Vec::new(), door: door.clone() };
        clients.spawn(life.lead(caller, turns, history.clone(), working));
    }
    let ledger = Ledger::follow(&world.ground.ledger);
    let mark = world.ground.mark.clone();
    let killed = kill_servers(&ledger, &mark, &history, &mut world.ground.random, &working).await;
    history.count(SERVERS_KILLED, killed);
    history.bound_count(SERVERS_KILLED, 5, i64::MAX);
    let (mut sessions, mut calls) = (Vec::new(), 0);
    while let Some(life) = clients.join_next().await {
        let (left, made) = life.expect("a client's story ends");
        sessions.extend(left);
        calls += made;
    }
    // One call in 25 ends so: half of them is far below chance.
    history.bound_count(CLIENTS_KILLED, calls / 50, i64::MAX);
    for session in sessions {
        end_session(&door, "it", &session).await;
    }
    settle(&mut world, first).await;
    world.close().await
}

/// Counted as long as it is there, whatever ends it.
struct Working(Arc<AtomicUsize>);

impl Working {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count.clone())
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sessions that a client has left behind; each keeps a process, and there is a bound to those.
const LEFT_MAX: usize = 8;

struct Life {
    random: Random,
    left: Vec<String>,
    door: Door,
}

impl Life {
    /// Calls, and dies now and then. Gives the sessions it left behind, and the number of calls.
    async fn lead(
        mut self,
        mut caller: Caller,
        turns: Turns,
        history: History,
        working: Working,
    ) -> (Vec<String>, i64) {
        let mut calls = 0;
        for _ in turns {
            calls += 1;
            let job = Job::QUICK.taking(self.random.below(4)).must(Must::End);
            let open = caller.send(job).await;
            if self.random.below(25) == 0 {
                history.fault(format!("kill client {}", caller.name));
                history.count(CLIENTS_KILLED, 1);
                if let Some(pid) = caller.pid().filter(|_| self.random.below(2) == 0) {
                    signal(pid, Signal::KILL);
                }
                self.left.extend(caller.vanish(&open).await.expect("the gateway lets a new client in"));
                if LEFT_MAX <= self.left.len() {
                    for session in std::mem::take(&mut self.left) {
                        end_session(&self.door, "it", &session).await;
                    }
                }
            } else {
                caller.finish(open).await;
                self.reopen_if_gone(&mut caller).await;
            }
        }
        drop(working);
        caller.end().await;
        (self.left, calls)
    }

    /// A gateway behind pipes that was killed does not come back by itself.
    async fn reopen_if_gone(&mut self, caller: &mut Caller) {
        if caller.pid().is_some_and(|pid| !procs::is_alive(pid)) {
            self.left.extend(caller.die().await.expect("the gateway lets a new client in"));
        }
    }
}

/// Kills until nobody works any more; gives how many it killed.
async fn kill_servers(
    ledger: &Ledger,
    mark: &str,
    history: &History,
    random: &mut Random,
    working: &AtomicUsize,
) -> i64 {
    let mut killed = 0;
    while 0 < working.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(20 + random.below(60))).await;
        // The number of a server that has ended may be that of anybody by now: only what carries the mark is ours.
        let workers = ledger.workers();
        let ours = marked(mark).into_iter().map(|process| process.pid);
        let alive: Vec<u32> = ours.filter(|pid| workers.contains(pid) && procs::is_alive(*pid)).collect();
        if let Some(pid) = random.pick(&alive) {
            history.fault(format!("kill server {pid}"));
            signal(*pid, Signal::KILL);
            killed += 1;
        }
    }
    killed
}

/// When all sessions are over there is the gateway and the process of the modern clients, and nothing else: neither by
/// descent nor by mark.
async fn settle(world: &mut World, mut first: Caller) {
    first.call(Job::QUICK).await;
    let expected = procs::descendants(world.pid).len().min(2);
    let (pid, mark) = (world.pid, world.ground.mark.clone());
    let surplus = || {
        let (below, marked) = (procs::descendants(pid), marked(&mark));
        let mut odd: Vec<procs::Process> = below.iter().filter(|process| process.state == 'Z').cloned().collect();
        odd.extend(
            marked.into_iter().filter(|process| process.pid != pid && !below.iter().any(|b| b.pid == process.pid)),
        );
        if expected < below.len() {
            odd.extend(below);
        }
        odd
    };
    for process in gone(Duration::from_secs(15), surplus).await {
        let what = format!("{} {} with no session open", process.state, process.command);
        world.history().write(&Record::Left { pid: process.pid, what });
    }
    world.watch.phase("settled");
    let grown = Measure::Growth { of: Quantity::Fds, from: "start".to_owned(), to: "settled".to_owned() };
    world.history().bound(grown, i64::MIN, FDS_SLACK);
}
