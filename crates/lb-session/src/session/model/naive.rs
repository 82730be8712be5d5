//! What a session is to do, written as plainly as can be: lists that are searched, and times that are added up.

use std::time::Duration;

use crate::happening::Cause;
use crate::pending::PendingKind;
use crate::session::kit::MINUTE;
use crate::ulid::Ulid;

pub(super) struct ModelTask {
    pub(super) id: Ulid,
    pub(super) server: &'static str,
    pub(super) created: Duration,
    pub(super) ttl: Duration,
    pub(super) due: Duration,
    pub(super) status: &'static str,
    pub(super) ended: Option<(u64, Duration)>,
}

pub(super) struct ModelAsk {
    pub(super) id: Ulid,
    pub(super) server: &'static str,
    pub(super) kind: PendingKind,
    pub(super) created: Duration,
}

pub(super) struct ModelTimer {
    pub(super) id: Ulid,
    pub(super) duration: Duration,
    pub(super) interval: bool,
    pub(super) due: Duration,
    pub(super) fired: u64,
    pub(super) status: &'static str,
    pub(super) ended: Option<(u64, Duration)>,
}

#[derive(Default)]
pub(super) struct Model {
    pub(super) tasks: Vec<ModelTask>,
    pub(super) asks: Vec<ModelAsk>,
    pub(super) timers: Vec<ModelTimer>,
    /// Everything that was ever named, so that what is gone is tried again.
    pub(super) task_ids: Vec<Ulid>,
    pub(super) ask_ids: Vec<(Ulid, PendingKind)>,
    pub(super) timer_ids: Vec<Ulid>,
    pub(super) told: Vec<String>,
    pub(super) sent: Vec<String>,
    pub(super) ends: u64,
    pub(super) closed: bool,
}

impl Model {
    pub(super) fn end_task(&mut self, id: Ulid, status: &'static str, now: Duration) -> bool {
        let Some(task) = self.tasks.iter_mut().find(|task| task.id == id && task.status == "working") else {
            return false;
        };
        self.ends += 1;
        (task.status, task.ended) = (status, Some((self.ends, now)));
        if !self.closed {
            self.told.push(format!("task_{status} {id}"));
        }
        let mut ended: Vec<u64> = self.tasks.iter().filter_map(|task| Some(task.ended?.0)).collect();
        ended.sort_unstable();
        if 3 < ended.len() {
            self.tasks.retain(|task| task.ended.map(|(order, _)| order) != ended.first().copied());
        }
        true
    }

    pub(super) fn end_ask(&mut self, id: Ulid, cause: Option<Cause>, reply: Option<&str>, now: Duration) -> bool {
        let Some(place) = self.asks.iter().position(|ask| ask.id == id) else { return false };
        let ask = self.asks.remove(place);
        for task in self.tasks.iter_mut().filter(|task| task.status == "working" && task.server == ask.server) {
            if task.created <= ask.created && task.created + task.ttl <= now {
                task.due = task.due.max((now + MINUTE).min(task.created + 30 * MINUTE));
            }
        }
        let kind = word(ask.kind);
        if let Some(reply) = reply {
            self.sent.push(format!("{kind} {reply}"));
        }
        if let Some(cause) = cause {
            self.told.push(format!("{kind}_expired {id} {}", cause.as_str()));
        }
        true
    }

    pub(super) fn due(&self, task: &ModelTask) -> Duration {
        let asked = self.asks.iter().any(|ask| ask.server == task.server && task.created <= ask.created);
        if asked { task.created + 30 * MINUTE } else { task.due }
    }

    pub(super) fn next_deadline(&self) -> Option<Duration> {
        if self.closed {
            return None;
        }
        let asks = self.asks.iter().map(|ask| ask.created + 10 * MINUTE);
        let tasks = self.tasks.iter().map(|task| match task.ended {
            Some((_, at)) => at + 5 * MINUTE,
            None => self.due(task),
        });
        let timers = self.timers.iter().map(|timer| match timer.ended {
            Some((_, at)) => at + 5 * MINUTE,
            None => timer.due,
        });
        asks.chain(tasks).chain(timers).min()
    }

    pub(super) fn tick(&mut self, now: Duration) {
        if self.closed {
            return;
        }
        let late: Vec<(Ulid, PendingKind)> =
            self.asks.iter().filter(|ask| ask.created + 10 * MINUTE <= now).map(|ask| (ask.id, ask.kind)).collect();
        for (id, kind) in late {
            self.end_ask(id, Some(Cause::Timeout), Some(refusal(kind, "timeout")), now);
        }
        let late: Vec<Ulid> = self
            .tasks
            .iter()
            .filter(|task| task.status == "working" && self.due(task) <= now)
            .map(|task| task.id)
            .collect();
        for id in late {
            self.end_task(id, "expired", now);
            self.sent.push(format!("task {id} Deadline"));
        }
        self.tasks.retain(|task| task.ended.is_none_or(|(_, at)| now < at + 5 * MINUTE));
        self.fire_timers(now);
        self.timers.retain(|timer| timer.ended.is_none_or(|(_, at)| now < at + 5 * MINUTE));
    }

    pub(super) fn fire_timers(&mut self, now: Duration) {
        let mut due: Vec<&mut ModelTimer> =
            self.timers.iter_mut().filter(|timer| timer.status == "active" && timer.due <= now).collect();
        due.sort_by_key(|timer| (timer.due, timer.id));
        for timer in due {
            timer.fired += 1;
            self.told.push(format!("timer_expired {} {}", timer.id, timer.fired));
            if timer.interval {
                while timer.due <= now {
                    timer.due += timer.duration;
                }
            } else {
                self.ends += 1;
                (timer.status, timer.ended) = ("expired", Some((self.ends, now)));
            }
        }
        self.bound_timers();
    }

    pub(super) fn bound_timers(&mut self) {
        loop {
            let mut ended: Vec<u64> = self.timers.iter().filter_map(|timer| Some(timer.ended?.0)).collect();
            if ended.len() <= 4 {
                return;
            }
            ended.sort_unstable();
            self.timers.retain(|timer| timer.ended.map(|(order, _)| order) != ended.first().copied());
        }
    }
}

pub(super) fn word(kind: PendingKind) -> &'static str {
    match kind {
        PendingKind::Elicitation => "elicitation",
        PendingKind::Sampling => "sampling",
    }
}

/// What a server reads when its request is not answered.
pub(super) fn refusal(kind: PendingKind, why: &str) -> &'static str {
    match (kind, why) {
        (PendingKind::Elicitation, _) => r#"result k {"action":"cancel"}"#,
        (_, "timeout") => r#"error k {"code":-32001,"message":"Sampling request timed out after 600000ms"}"#,
        (_, "removed") => r#"error k {"code":-1,"message":"Server removed"}"#,
        (_, "shutdown") => r#"error k {"code":-1,"message":"Session ended"}"#,
        _ => r#"error k {"code":-1,"message":"no"}"#,
    }
}
