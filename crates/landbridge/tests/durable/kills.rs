//! Processes that are killed at random moments, and one client that goes on through all of them.
//!
//! Twelve kills, or two hundred with `LANDBRIDGE_LONG=1`. The seed is printed, and taken from `LANDBRIDGE_SEED`.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use lb_peers::raw::http::Headers;
use lb_peers::tools::{Reply, Settings, ToolClient};
use lb_soak::random::{Random, seed};
use serde_json::{Value, json};

use crate::world::{End, Keep, LOSS_MAX, World, exchange, headers_of, one};

/// How much a kill may take that nothing waits for: many times what is promised, because the disk is everybody's.
const LAST_MOMENT: Duration = Duration::from_millis(300);

/// What the gateway has said is done, and when.
struct Acknowledged {
    /// `timers` by their id, `tasks` by theirs, and `bursts` by their first number.
    what: What,
    at: Instant,
}

enum What {
    Burst { from: u64, count: u64 },
    Timer(Value),
    Task(Value),
}

/// A client that does one thing after another and writes down what it gets.
struct Walker {
    address: SocketAddr,
    headers: Headers,
    random: Random,
    requests: u64,
    /// Events up to which it has read, the newest last.
    cursors: Vec<Value>,
    /// How often the newest of them was gone with a process, and an older one was used.
    forgotten: usize,
    /// Notifications that are missing.
    missing: usize,
    /// Steps that were acknowledged, and looked for afterwards.
    checked: usize,
    /// Every event it has read, in order.
    history: Vec<Value>,
    acknowledged: Vec<Acknowledged>,
    /// The number of the next notification.
    number: u64,
}

impl Walker {
    async fn new(world: &World, random: Random) -> Self {
        let mut desk = world.desk().await;
        let cursor = desk.drain().await;
        assert!(cursor.is_string(), "{cursor}");
        let session = desk.client.session_id().expect("a session");
        let headers = headers_of(&session);
        let (history, acknowledged) = (Vec::new(), Vec::new());
        let address = world.address();
        let cursors = vec![cursor];
        Self {
            address,
            headers,
            random,
            requests: 10,
            cursors,
            forgotten: 0,
            missing: 0,
            checked: 0,
            history,
            acknowledged,
            number: 0,
        }
    }

    /// One result, or `None` for a connection that broke. Anything else is a failure: an error would say that something
    /// is gone, silence that somebody was forgotten.
    async fn call(&mut self, tool: &str, arguments: Value) -> Option<Reply> {
        self.requests += 1;
        let id = self.requests;
        let params = json!({ "name": tool, "arguments": arguments });
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        let reply = exchange(self.address, &self.headers, id, &body).await;
        let reply = reply.unwrap_or_else(|error| {
            assert_ne!(error.kind(), ErrorKind::TimedOut, "{tool} got neither an answer nor a broken connection");
            None
        })?;
        assert_eq!(reply.status, 200, "{tool}: {reply}");
        if tool != "await_activity" {
            // Events that a reply shows by the way are read again behind the cursor, but what tells of a gap is none.
            self.history.extend(reply.events_of("events_dropped"));
        }
        Some(reply)
    }

    /// Reads what comes after the last event that was read; `None` for a broken connection, else how much it was.
    async fn read(&mut self) -> Option<usize> {
        let arguments = json!({ "timeout_ms": 100, "last_event_id": self.cursors.last() });
        let reply = self.call("await_activity", arguments).await?;
        assert!(!reply.is_error() && reply.rpc_error().is_none(), "{:?} was given out: {reply}", self.cursors.last());
        Some(self.note(&reply))
    }

    /// Writes down the events of a reply, and how far they go; gives how many there are.
    fn note(&mut self, reply: &Reply) -> usize {
        let events = reply.json()["events"].as_array().cloned().unwrap_or_default();
        // What tells of a gap stands before events that are older than it.
        let others = events.iter().filter(|event| event["type"] != "events_dropped");
        self.cursors.extend(others.filter(|event| event["id"].is_string()).map(|event| event["id"].clone()));
        let count = events.len();
        self.history.extend(events);
        count
    }

    /// One step of the script; `None` for a broken connection.
    async fn step(&mut self) -> Option<()> {
        let execute =
            |tool: &str, args: Value| json!({ "server": "one", "tool": tool, "args": args, "timeout_ms": 100 });
        let what = match self.random.below(8) {
            0..=3 => {
                let (from, count) = (self.number, 1 + self.random.below(8));
                self.number += count;
                let mut arguments = execute("burst", json!({ "from": from, "count": count }));
                arguments["timeout_ms"] = json!(30_000);
                let reply = self.call("execute_tool", arguments).await?;
                (!reply.is_error() && reply.rpc_error().is_none()).then_some(What::Burst { from, count })
            }
            4 => {
                let ms = 1 + self.random.below(50);
                let reply = self.call("set_timer", json!({ "duration_ms": ms, "message": "tea" })).await?;
                Some(What::Timer(reply.json()["timerId"].clone()))
            }
            5 => {
                let ms = 110 + self.random.below(100);
                let reply = self.call("execute_tool", execute("slow", json!({ "ms": ms }))).await?;
                let task = reply.objects().find_map(|(_, body)| body["task"].get("taskId").cloned());
                task.map(What::Task)
            }
            6 => self.read().await.map(|_| None)?,
            _ => self.call("list_servers", json!({})).await.map(|_| None)?,
        };
        self.acknowledged.extend(what.map(|what| Acknowledged { what, at: Instant::now() }));
        Some(())
    }

    /// One step after another until the connection breaks.
    async fn walk(&mut self) -> Instant {
        let start = Instant::now();
        while self.step().await.is_some() {
            assert!(start.elapsed() < Duration::from_secs(30), "the process was not killed");
        }
        Instant::now()
    }

    /// Goes back to an event that the next process knows: what was told at the last moment can be gone.
    async fn go_back(&mut self) {
        let newest = self.cursors.len();
        while let Some(cursor) = self.cursors.last() {
            let arguments = json!({ "timeout_ms": 100, "last_event_id": cursor });
            let reply = self.call("await_activity", arguments).await.expect("nobody kills it");
            if !reply.is_error() {
                self.forgotten += usize::from(self.cursors.len() < newest);
                self.note(&reply);
                return;
            }
            assert_eq!(reply.code(), "INVALID_ARGUMENT", "{reply}");
            self.cursors.pop();
        }
        panic!("an event of long ago is known");
    }

    /// Everything that is there to be read, in a process that lives. A gap is told with the event that follows it, so
    /// that one is made.
    async fn read_all(&mut self) {
        let start = Instant::now();
        let expired = self.places("timer_expired").len();
        self.call("set_timer", json!({ "duration_ms": 1, "message": "last" })).await.expect("nobody kills it");
        while self.places("timer_expired").len() == expired {
            self.read().await.expect("nobody kills it");
            assert!(start.elapsed() < Duration::from_secs(30), "no timer fires");
        }
        while self.read().await.expect("nobody kills it") != 0 {
            assert!(start.elapsed() < Duration::from_secs(30), "there is no end");
        }
    }

    /// The places of events of a type in the history.
    fn places(&self, kind: &str) -> Vec<usize> {
        let events = self.history.iter().enumerate();
        events.filter(|(_, event)| event["type"] == kind).map(|(at, _)| at).collect()
    }

    fn gaps(&self) -> Vec<usize> {
        let mut gaps = self.places("events_dropped");
        gaps.retain(|at| self.history[*at]["data"]["cause"] == "node_lost");
        gaps
    }

    /// What holds whatever may be lost: ids only grow, so that none comes twice, and numbers too.
    fn check_order(&self) {
        let in_order = self.history.iter().filter(|event| event["type"] != "events_dropped");
        let ids: Vec<_> = in_order.filter_map(|event| event["id"].as_str()).collect();
        let falls = ids.windows(2).find(|pair| pair[1] <= pair[0]);
        assert!(falls.is_none(), "twice, or in another order: {falls:?}");
        let numbers: Vec<_> = self.numbers().into_iter().map(|(_, number)| number).collect();
        let falls = numbers.windows(2).find(|pair| pair[1] <= pair[0]);
        assert!(falls.is_none(), "twice, or in another order: {falls:?}");
        let mut ends: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for event in &self.history {
            let kind = event["type"].as_str().unwrap_or_default();
            for key in ["taskId", "timerId"] {
                if let Some(id) = event["data"][key].as_str() {
                    ends.entry(id.to_owned()).or_default().push(if kind == "task_created" { kind } else { "end" });
                }
            }
        }
        for (id, told) in ends {
            let once = |kind: &str| told.iter().filter(|other| **other == kind).count() <= 1;
            assert!(once("task_created") && once("end"), "{id} is told twice: {told:?}");
        }
    }

    fn numbers(&self) -> Vec<(usize, u64)> {
        let of = |at: usize| self.history[at]["data"]["params"]["n"].as_u64().map(|number| (at, number));
        self.places("notification").into_iter().filter_map(of).collect()
    }

    /// A notification that is missing was between two that are there, and so is a gap that is told.
    fn lies_in_a_gap(&self, number: u64) -> bool {
        let numbers = self.numbers();
        let id_at = |found: Option<&(usize, u64)>| found.and_then(|(at, _)| self.history[*at]["id"].as_str());
        let before = id_at(numbers.iter().rev().find(|(_, other)| *other < number));
        let after = id_at(numbers.iter().find(|(_, other)| number < *other));
        self.gaps().iter().any(|at| {
            let gap = &self.history[*at]["data"];
            let (first, last) = (gap["firstLostId"].as_str(), gap["lastLostId"].as_str());
            last.is_some() && before < last && (after.is_none() || first < after)
        })
    }

    /// What was acknowledged is there: all of it, or all but that of the last moment, which is told as a gap.
    async fn check_acknowledged(&mut self, strict: bool, killed: Instant) {
        let told: Vec<_> = self.numbers().into_iter().map(|(_, number)| number).collect();
        self.checked += self.acknowledged.len();
        for Acknowledged { what, at } in std::mem::take(&mut self.acknowledged) {
            let age = killed.saturating_duration_since(at);
            let may_miss = !strict && age < LAST_MOMENT;
            match what {
                What::Burst { from, count } => {
                    for number in (from..from + count).filter(|number| told.binary_search(number).is_err()) {
                        assert!(may_miss, "notification {number} is missing, {age:?} after it was acknowledged");
                        assert!(self.lies_in_a_gap(number), "notification {number} is missing, and no gap is told");
                        self.missing += 1;
                    }
                }
                What::Timer(id) => {
                    let reply = self.call("get_timer", json!({ "timer_id": id })).await.expect("nobody kills it");
                    assert!(!reply.is_error() || may_miss, "timer {id}, {age:?} after it was acknowledged: {reply}");
                }
                What::Task(id) => {
                    let reply = self.call("get_task", json!({ "task_id": id })).await.expect("nobody kills it");
                    assert!(!reply.is_error() || may_miss, "task {id}, {age:?} after it was acknowledged: {reply}");
                    assert!(reply.is_error() || reply.json()["status"] != "working", "nobody works on it: {reply}");
                }
            }
        }
    }
}

async fn kills(durability: &str) {
    let kills = if crate::client::long() { 200 } else { 12 };
    let chosen = std::env::var("LANDBRIDGE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = chosen.unwrap_or_else(seed);
    eprintln!("LANDBRIDGE_SEED={seed}");
    let mut random = Random::new(seed);
    let mut world = World::start(Keep::Disk, one(), &["--durability", durability]).await;
    let mut walker = Walker::new(&world, random.fork()).await;
    // Its first change is long on the disk when the first kill comes.
    tokio::time::sleep(LOSS_MAX).await;
    for round in 1..=kills {
        let moment = Duration::from_micros(random.below(600_000));
        let (killed, ()) = tokio::join!(walker.walk(), async {
            tokio::time::sleep(moment).await;
            world.end_now(End::Kill).await;
        });
        world.begin().await;
        assert!(world.state().join("state.redb").exists(), "round {round}");
        if durability != "event" {
            walker.go_back().await;
        }
        walker.read_all().await;
        assert!(!world.said().contains("kept in memory"), "round {round}: the state is opened: {}", world.said());
        assert_eq!(walker.gaps().len(), round, "round {round}, {moment:?}: one gap for each: {:?}", walker.gaps());
        walker.check_order();
        walker.check_acknowledged(durability == "event", killed).await;
    }
    let client = ToolClient::at(world.address(), Settings::default()).await;
    assert_eq!(client.call("list_servers", json!({})).await.status, 200, "it still serves others");
    eprintln!("the last gap: {}", walker.gaps().last().map_or(&Value::Null, |at| &walker.history[*at]));
    let (told, numbers) = (walker.history.len(), walker.numbers().len());
    let Walker { checked, missing, forgotten, .. } = walker;
    eprintln!("{kills} kills, {told} events with {numbers} notifications, {checked} steps acknowledged");
    eprintln!("{missing} notifications acknowledged and missing, {forgotten} cursors forgotten");
}

#[tokio::test]
async fn whenever_the_process_is_killed_only_the_last_moment_is_lost_and_that_is_told() {
    kills("batch").await;
}

#[tokio::test]
async fn whenever_the_process_is_killed_nothing_that_was_acknowledged_is_lost() {
    kills("event").await;
}
