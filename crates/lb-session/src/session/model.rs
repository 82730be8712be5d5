//! Random lives of a session, held against a naive model of its tasks, requests and timers.
//!
//! After every step the events, the commands that servers got, the tables and the next deadline are exactly those of
//! the model. That says all at once that what ended stays ended, that each change is told once, that no server gets two
//! replies, that bounds and retention hold, that expiry is exact, and that a clock of the wall that jumps is of no
//! matter.

use std::time::Duration;

use lb_exchange::Answer;
use lb_wire::Raw;
use proptest::prelude::*;

use self::naive::{Model, ModelAsk, ModelTask, ModelTimer, refusal, word};
use super::kit::{MINUTE, SECOND, Wire, ask, events, task};
use crate::happening::Cause;
use crate::limits::Limits;
use crate::moment::Moment;
use crate::pending::{Pending, PendingKind};
use crate::session::Session;
use crate::tasks::Task;
use crate::ulid::Ulid;

mod naive;

const SERVERS: [&str; 2] = ["one", "two"];

#[derive(Clone, Debug)]
enum Step {
    Promote {
        server: usize,
        ttl: Option<u64>,
    },
    Progress(usize),
    Complete(usize),
    Fail(usize),
    Cancel(usize),
    FailServer(usize),
    Ask {
        server: usize,
        sampling: bool,
    },
    Answer(usize),
    AnswerAsOtherKind(usize),
    Refuse(usize),
    Withdraw(usize),
    Reject {
        server: Option<usize>,
        reply: bool,
    },
    SetTimer {
        seconds: u64,
        interval: bool,
    },
    DeleteTimer(usize),
    /// Time passes and nobody ticks.
    Sleep(u64),
    /// Late or early, once.
    Tick,
    /// Time passes, with a tick whenever one is due.
    Run(u64),
    JumpWallClock(i64),
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    let one = 0_usize..8;
    prop_oneof![
        6 => (0_usize..2, proptest::option::of(1_u64..3_000)).prop_map(|(server, ttl)| Step::Promote { server, ttl }),
        1 => one.clone().prop_map(Step::Progress),
        2 => one.clone().prop_map(Step::Complete),
        2 => one.clone().prop_map(Step::Fail),
        2 => one.clone().prop_map(Step::Cancel),
        1 => (0_usize..2).prop_map(Step::FailServer),
        6 => (0_usize..2, any::<bool>()).prop_map(|(server, sampling)| Step::Ask { server, sampling }),
        3 => one.clone().prop_map(Step::Answer),
        1 => one.clone().prop_map(Step::AnswerAsOtherKind),
        2 => one.clone().prop_map(Step::Refuse),
        2 => one.clone().prop_map(Step::Withdraw),
        1 => (proptest::option::of(0_usize..2), any::<bool>()).prop_map(|(server, reply)| Step::Reject { server, reply }),
        3 => (1_u64..900, any::<bool>()).prop_map(|(seconds, interval)| Step::SetTimer { seconds, interval }),
        1 => one.prop_map(Step::DeleteTimer),
        4 => (0_u64..900).prop_map(Step::Sleep),
        3 => Just(Step::Tick),
        5 => (0_u64..1_200).prop_map(Step::Run),
        1 => (-1_000_000_i64..1_000_000).prop_map(Step::JumpWallClock),
    ]
}

fn limits() -> Limits {
    Limits {
        tasks_max: 4,
        tasks_ended_max: 3,
        pending_max: 3,
        timers_max: 2,
        // The log has tests of its own; here it neither forgets nor has deadlines.
        event_age_max: Duration::from_secs(1 << 40),
        ..Limits::default()
    }
}

struct Life {
    session: Session,
    model: Model,
    wire: Wire,
    now: Moment,
}

impl Life {
    fn new() -> Self {
        let now = super::kit::at(Duration::from_secs(10_000_000));
        Self { session: Session::new(limits()), model: Model::default(), wire: Wire::default(), now }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Promote { server, ttl } => self.promote(SERVERS[*server], ttl.map(Duration::from_secs)),
            Step::Progress(n) => {
                if let Some(id) = pick(&self.model.task_ids, *n) {
                    self.session.task_progressed(id, Some("on it"), self.now);
                }
            }
            Step::Complete(n) | Step::Fail(n) | Step::Cancel(n) => {
                if let Some(id) = pick(&self.model.task_ids, *n) {
                    self.end_task(step, id);
                }
            }
            Step::FailServer(server) => self.fail_server(SERVERS[*server]),
            Step::Ask { server, sampling } => self.ask(SERVERS[*server], *sampling),
            Step::Answer(n) | Step::AnswerAsOtherKind(n) | Step::Refuse(n) | Step::Withdraw(n) => {
                if let Some((id, kind)) = pick(&self.model.ask_ids, *n) {
                    self.end_ask(step, id, kind);
                }
            }
            Step::Reject { server, reply } => self.reject(server.map(|n| SERVERS[n]), *reply),
            Step::SetTimer { seconds, interval } => self.set_timer(Duration::from_secs(*seconds), *interval),
            Step::DeleteTimer(n) => {
                if let Some(id) = pick(&self.model.timer_ids, *n) {
                    self.delete_timer(id);
                }
            }
            Step::Sleep(seconds) => self.now = self.now.plus(Duration::from_secs(*seconds)),
            Step::Tick => self.tick(),
            Step::Run(seconds) => self.run(Duration::from_secs(*seconds)),
            Step::JumpWallClock(seconds) => {
                let jump = Duration::from_secs(seconds.unsigned_abs());
                self.now.unix = if *seconds < 0 { self.now.unix - jump } else { self.now.unix + jump };
            }
            Step::Close => self.close(),
        }
        self.check();
    }

    fn promote(&mut self, server: &'static str, ttl: Option<Duration>) {
        let room = !self.model.closed && self.model.tasks.iter().filter(|task| task.status == "working").count() < 4;
        let name = format!("task-{}", self.model.task_ids.len());
        let made = self.session.promote(task(server, ttl, self.wire.remote(&name)), self.now);
        assert_eq!(made.is_ok(), room);
        let Ok(id) = made else { return };
        let (created, ttl) = (self.now.up, ttl.unwrap_or(10 * MINUTE).min(30 * MINUTE));
        let due = created + ttl;
        self.model.told.push(format!("task_created {id}"));
        self.model.task_ids.push(id);
        self.model.tasks.push(ModelTask { id, server, created, ttl, due, status: "working", ended: None });
    }

    fn end_task(&mut self, step: &Step, id: Ulid) {
        let now = self.now;
        match step {
            Step::Complete(_) => {
                let won = self.session.task_completed(id, Raw::from_static(r#"{"content":[]}"#), now);
                assert_eq!(won, self.model.end_task(id, "completed", now.up));
            }
            Step::Fail(_) => {
                let won = self.session.task_failed(id, "broke", None, now);
                assert_eq!(won, self.model.end_task(id, "failed", now.up));
            }
            _ => {
                let won = self.session.cancel_task(id, now).is_ok();
                assert_eq!(won, self.model.end_task(id, "cancelled", now.up));
                if won {
                    self.model.sent.push(format!("task {id} Said(None)"));
                }
            }
        }
    }

    fn fail_server(&mut self, server: &'static str) {
        let ids: Vec<Ulid> = self.working_of(server);
        assert_eq!(self.session.fail_tasks_of(server, "gone", None, self.now), ids.len());
        for id in ids {
            self.model.end_task(id, "failed", self.now.up);
            self.model.sent.push(format!("task {id} Gone"));
        }
    }

    fn working_of(&self, server: &str) -> Vec<Ulid> {
        let tasks = self.model.tasks.iter().filter(|task| task.server == server && task.status == "working");
        tasks.map(|task| task.id).collect()
    }

    fn ask(&mut self, server: &'static str, sampling: bool) {
        let kind = if sampling { PendingKind::Sampling } else { PendingKind::Elicitation };
        let room = !self.model.closed && self.model.asks.iter().filter(|ask| ask.server == server).count() < 3;
        let made = self.session.request(ask(server, kind, self.wire.remote(word(kind))), self.now);
        assert_eq!(made.is_ok(), room);
        let Ok(id) = made else { return };
        self.model.told.push(format!("{}_request {id}", word(kind)));
        self.model.ask_ids.push((id, kind));
        self.model.asks.push(ModelAsk { id, server, kind, created: self.now.up });
    }

    fn end_ask(&mut self, step: &Step, id: Ulid, kind: PendingKind) {
        let (now, answer) = (self.now, Answer::Result(Raw::from_static(r#"{"yes":1}"#)));
        let server = self.model.asks.iter().find(|ask| ask.id == id).map(|ask| ask.server);
        match step {
            Step::Answer(_) => {
                let won = self.session.answer_request(id, kind, answer, now);
                assert_eq!(won.ok().as_deref(), server);
                self.model.end_ask(id, None, Some(r#"result k {"yes":1}"#), now.up);
            }
            Step::AnswerAsOtherKind(_) => {
                let other = match kind {
                    PendingKind::Elicitation => PendingKind::Sampling,
                    PendingKind::Sampling => PendingKind::Elicitation,
                };
                assert!(self.session.answer_request(id, other, answer, now).is_err());
            }
            Step::Refuse(_) => {
                let won = self.session.cancel_request(id, kind, "no", now);
                assert_eq!(won.ok().as_deref(), server);
                self.model.end_ask(id, Some(Cause::Cancelled), Some(refusal(kind, "no")), now.up);
            }
            _ => {
                let won = self.session.withdraw_request(id, now);
                assert_eq!(won, self.model.end_ask(id, Some(Cause::ServerCancelled), None, now.up));
            }
        }
    }

    fn reject(&mut self, server: Option<&'static str>, reply: bool) {
        let (now, cause) = (self.now, Cause::ServerRemoved);
        let asks = self.model.asks.iter().filter(|ask| server.is_none_or(|server| server == ask.server));
        let gone: Vec<(Ulid, PendingKind)> = asks.map(|ask| (ask.id, ask.kind)).collect();
        let counts = self.session.reject_requests_of(server, cause, reply, now);
        let sampling = gone.iter().filter(|(_, kind)| *kind == PendingKind::Sampling).count();
        assert_eq!(counts, (gone.len() - sampling, sampling));
        for (id, kind) in gone {
            self.model.end_ask(id, Some(cause), reply.then(|| refusal(kind, "removed")), now.up);
        }
    }

    fn set_timer(&mut self, duration: Duration, interval: bool) {
        let room = !self.model.closed && self.model.timers.iter().filter(|timer| timer.status == "active").count() < 2;
        let made = self.session.set_timer(duration, "tea", interval, self.now);
        assert_eq!(made.is_ok(), room);
        let Ok(id) = made else { return };
        let (due, status) = (self.now.up + duration.max(SECOND), "active");
        self.model.timer_ids.push(id);
        self.model.timers.push(ModelTimer { id, duration, interval, due, fired: 0, status, ended: None });
    }

    fn delete_timer(&mut self, id: Ulid) {
        let found = self.session.delete_timer(id, self.now).is_ok();
        let timer = self.model.timers.iter_mut().find(|timer| timer.id == id);
        assert_eq!(found, timer.is_some());
        if let Some(timer) = timer.filter(|timer| timer.status == "active") {
            self.model.ends += 1;
            (timer.status, timer.ended) = ("deleted", Some((self.model.ends, self.now.up)));
            self.model.bound_timers();
        }
    }

    fn tick(&mut self) {
        self.session.tick(self.now);
        self.model.tick(self.now.up);
    }

    /// What is due late is due now; from then on nothing is late.
    fn run(&mut self, time: Duration) {
        self.tick();
        self.check();
        let end = self.now.plus(time);
        while let Some(due) = self.session.next_deadline().filter(|due| *due <= end.up) {
            assert!(self.now.up < due, "a tick leaves nothing due");
            self.now = self.now.plus(due - self.now.up);
            self.tick();
            self.check();
        }
        self.now = end;
    }

    fn close(&mut self) {
        let now = self.now;
        self.session.close(now);
        if self.model.closed {
            return;
        }
        for (id, kind) in self.model.asks.iter().map(|ask| (ask.id, ask.kind)).collect::<Vec<_>>() {
            self.model.end_ask(id, None, Some(refusal(kind, "shutdown")), now.up);
        }
        self.model.closed = true;
        for id in SERVERS.iter().flat_map(|server| self.working_of(server)).collect::<std::collections::BTreeSet<_>>() {
            self.model.end_task(id, "cancelled", now.up);
            self.model.sent.push(format!("task {id} SessionEnd"));
        }
        for timer in self.model.timers.iter_mut().filter(|timer| timer.status == "active") {
            self.model.ends += 1;
            (timer.status, timer.ended) = ("deleted", Some((self.model.ends, now.up)));
        }
        self.model.bound_timers();
        self.model.told.clear();
    }

    fn check(&mut self) {
        let told: Vec<String> = events(&mut self.session)
            .into_iter()
            .map(|(kind, _, data)| {
                let id = ["taskId", "requestId", "timerId"].iter().find_map(|name| data[name].as_str());
                let more =
                    data["cause"].as_str().map(str::to_owned).or_else(|| Some(data["fireCount"].as_u64()?.to_string()));
                [Some(kind.to_owned()), id.map(str::to_owned), more].into_iter().flatten().collect::<Vec<_>>().join(" ")
            })
            .collect();
        assert_eq!(told, std::mem::take(&mut self.model.told), "events");
        let task_ids = &self.model.task_ids;
        let sent: Vec<String> = self
            .wire
            .run(&mut self.session)
            .into_iter()
            .map(|line| match line.strip_prefix("task-").and_then(|rest| rest.split_once(" cancel ")) {
                Some((n, why)) => format!("task {} {why}", task_ids[n.parse::<usize>().expect("a number")]),
                None => line,
            })
            .collect();
        assert_eq!(sent, std::mem::take(&mut self.model.sent), "commands");
        self.check_tables();
    }

    fn check_tables(&self) {
        let (session, model) = (&self.session, &self.model);
        let tasks: Vec<_> = session.tasks().map(|task| (task.id(), task.status().as_str())).collect();
        assert_eq!(tasks, model.tasks.iter().rev().map(|task| (task.id, task.status)).collect::<Vec<_>>(), "tasks");
        let mut asks: Vec<Ulid> = [PendingKind::Elicitation, PendingKind::Sampling]
            .into_iter()
            .flat_map(|kind| session.pending(kind).map(Pending::id))
            .collect();
        asks.sort_unstable();
        assert_eq!(asks, model.asks.iter().map(|ask| ask.id).collect::<Vec<_>>(), "requests");
        let timers: Vec<_> =
            session.timers(true).map(|timer| (timer.id(), timer.status().as_str(), timer.fired())).collect();
        let wanted = model.timers.iter().map(|timer| (timer.id, timer.status, timer.fired));
        assert_eq!(timers, wanted.collect::<Vec<_>>(), "timers");
        for server in SERVERS {
            assert_eq!(session.working_of(server).map(Task::id).collect::<Vec<_>>(), self.working_of(server));
        }
        if let Some(due) = model.next_deadline() {
            assert_eq!(session.next_deadline(), Some(due), "deadline");
        }
        assert_eq!(session.is_closed(), model.closed);
    }
}

fn pick<T: Copy>(all: &[T], n: usize) -> Option<T> {
    // Mostly recent ones, for those of long ago are gone.
    all.iter().rev().nth(n).or(all.last()).copied()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_life_of_a_session_is_that_of_the_model(
        steps in proptest::collection::vec(step(), 1..120),
        after in proptest::collection::vec(step(), 0..10),
    ) {
        let mut life = Life::new();
        steps.iter().for_each(|step| life.step(step));
        life.step(&Step::Close);
        after.iter().for_each(|step| life.step(step));
        life.step(&Step::Close);
    }

    #[test]
    fn everything_ends_when_nobody_does_anything(steps in proptest::collection::vec(step(), 1..60)) {
        let mut life = Life::new();
        steps.iter().for_each(|step| life.step(step));
        for id in life.model.timer_ids.clone() {
            life.step(&Step::DeleteTimer(life.model.timer_ids.iter().rev().position(|other| *other == id).unwrap_or(0)));
        }
        life.step(&Step::Run(3 * 3_600));
        prop_assert_eq!(life.session.tasks().count() + life.session.pending_count() + life.session.timers(true).count(), 0);
        prop_assert!(!life.session.is_busy());
    }
}
