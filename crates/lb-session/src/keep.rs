//! What of a session outlives the process: what to write after each change, and a session made of what was written.
//!
//! A session that is kept notes what has changed; whoever writes takes the notes as one [`Delta`] and writes it as a
//! whole, in order. What a running process alone can know (calls under way, requests of servers, leases) is not kept: it
//! comes back as failed, expired or waiting, and the client is told.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use lb_wire::{Raw, Text};
use serde::{Deserialize, Deserializer, Serialize};

use crate::events::LogRecord;
use crate::happening::{Cause, Happening};
use crate::limits::Limits;
use crate::moment::Moment;
use crate::pending::PendingKind;
use crate::servers::ServerRecord;
use crate::session::Session;
use crate::tasks::{KeptTask, Task};
use crate::timers::TimerRecord;
use crate::ulid::Ulid;

/// The shape of what is written. Another number is not read.
const VERSION: u32 = 1;

/// The largest number that is read: beyond all that is ever counted here, and far from where sums end.
const NUMBER_MAX: u64 = 1 << 53;

/// What has to be written after a change, all of it or nothing, and in the order in which deltas were taken.
#[derive(Debug)]
pub struct Delta {
    /// What is small, whole: it replaces the last one.
    pub record: Raw,
    /// New events by their place in the log, in order.
    pub events: Vec<(u64, Raw)>,
    /// Events before this place are not wanted any more.
    pub events_from: u64,
    /// Tasks that are new or have ended, whole.
    pub tasks: Vec<(Ulid, KeptTask)>,
    /// Tasks that are forgotten.
    pub tasks_gone: Vec<Ulid>,
}

/// What was written, read back.
#[derive(Debug)]
pub struct Kept {
    /// The last record.
    pub record: Raw,
    /// The events that are still there, by place, in order.
    pub events: Vec<(u64, Raw)>,
    /// Those of the tasks named by [`Kept::tasks_of`] that are still there.
    pub tasks: Vec<Raw>,
}

/// Something that was written has not the shape that we write.
#[derive(Debug, thiserror::Error)]
#[error("what was kept of a session cannot be read: {0}")]
pub struct Unreadable(#[from] serde_json::Error);

impl Unreadable {
    /// Reading it did not come to an end.
    pub fn because(why: &dyn std::fmt::Display) -> Self {
        Self(serde::de::Error::custom(why))
    }
}

/// How a session comes back.
#[derive(Clone, Copy, Debug)]
pub struct Return<'a> {
    /// Why what was under way is lost, in words.
    pub why: &'a str,
    /// Whether changes may have been lost: the process before had no time to write its last ones.
    pub may_miss: bool,
    /// How often it has changed hands, this time included.
    pub epoch: u64,
}

/// What changed since it was last written.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    changed: bool,
    /// Whether the owner has heard that there is something to write.
    told: bool,
    tasks: BTreeSet<Ulid>,
    tasks_gone: Vec<Ulid>,
}

#[derive(Serialize, Deserialize)]
struct Record {
    version: u32,
    #[serde(deserialize_with = "number")]
    touched: u64,
    events: LogRecord,
    tasks: Vec<Ulid>,
    timers: Vec<TimerRecord>,
    requests: Vec<RequestRecord>,
    #[serde(default)]
    servers: Vec<ServerRecord>,
}

/// A request of a server, as far as is needed to say that it is lost.
#[derive(Serialize, Deserialize)]
struct RequestRecord {
    id: Ulid,
    server: String,
    elicitation: bool,
}

impl Kept {
    /// The tasks that a record speaks of, to be read from where they were written.
    ///
    /// # Errors
    /// The record is none of ours.
    pub fn tasks_of(record: &Raw) -> Result<Vec<Ulid>, Unreadable> {
        Ok(record.read::<Record>()?.tasks)
    }
}

impl Session {
    /// From here on, changes are noted for [`Session::take_delta`], and the first delta holds everything.
    pub fn keep(&mut self) {
        let tasks = self.tasks().map(Task::id).collect();
        self.journal = Some(Journal { changed: true, told: false, tasks, tasks_gone: Vec::new() });
        self.events.keep_from(0);
    }

    /// Whether changes are noted.
    pub fn is_kept(&self) -> bool {
        self.journal.is_some()
    }

    /// What has changed since the last time; `None` when nothing has, or when nobody keeps this session. That it has
    /// ended is nothing to remember: what was written is to come back, or is removed by whoever keeps it.
    pub fn take_delta(&mut self) -> Option<Delta> {
        let changed = self.is_unkept() && !self.is_closed();
        let journal = self.journal.as_mut()?;
        journal.told = false;
        if !changed {
            return None;
        }
        let journal = std::mem::take(journal);
        self.journal = Some(Journal::default());
        let tasks = journal.tasks.iter().filter_map(|id| self.task(*id)).map(|task| (task.id(), task.kept())).collect();
        let (events, events_from) = self.events.take_unkept();
        Some(Delta { record: Raw::value(&self.record()), events, events_from, tasks, tasks_gone: journal.tasks_gone })
    }

    /// A session as it was written. Calls that ran have failed, requests of servers have expired, timers that are
    /// overdue fire at the next tick, once. It is kept as before.
    ///
    /// # Errors
    /// What was written is none of ours; nothing is made of a part of it.
    pub fn restore(limits: Limits, kept: &Kept, how: Return<'_>, now: Moment) -> Result<Self, Unreadable> {
        let record: Record = kept.record.read()?;
        if record.version != VERSION {
            let text = format!("version {} instead of {VERSION}", record.version);
            return Err(Unreadable(serde::de::Error::custom(text)));
        }
        let mut session = Self::new(limits);
        session.events.restore(&record.events, &kept.events, (how.may_miss, how.epoch), now)?;
        session.touch(now.shifted(Duration::from_millis(record.touched)));
        session.restore_servers(record.servers);
        for timer in &record.timers {
            session.restore_timer(timer, now);
        }
        session.journal = Some(Journal { changed: true, ..Journal::default() });
        for task in &kept.tasks {
            session.restore_task(task, how.why, now)?;
        }
        session.forget_missing_tasks(&record.tasks);
        for request in record.requests {
            let (id, reason) = (request.id, Box::from(how.why));
            session.note_loss(&request.server, |losses| match request.elicitation {
                true => losses.elicitations += 1,
                false => losses.sampling += 1,
            });
            let what = if request.elicitation {
                Happening::ElicitationExpired { request: id, reason, cause: Cause::NodeLost }
            } else {
                Happening::SamplingExpired { request: id, reason, cause: Cause::NodeLost }
            };
            session.tell(&Text::from(&*request.server), &what, now);
        }
        // What was due meanwhile is not for the first who looks to see.
        session.tick(now);
        Ok(session)
    }

    /// Whether there is something to write.
    pub(crate) fn is_unkept(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.changed || self.events.is_unkept())
    }

    /// Whether there is something to write that the owner has not heard of; it has from here on.
    pub(crate) fn tell_unkept(&mut self) -> bool {
        let unkept = self.is_unkept();
        self.journal.as_mut().is_some_and(|journal| unkept && !std::mem::replace(&mut journal.told, true))
    }

    /// Notes that something small has changed.
    pub(crate) fn note(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.changed = true;
        }
    }

    /// Notes that a task is new or has ended.
    pub(crate) fn note_task(&mut self, id: Ulid) {
        if let Some(journal) = &mut self.journal {
            journal.changed = true;
            journal.tasks.insert(id);
        }
    }

    /// Notes that a task is forgotten.
    pub(crate) fn note_task_gone(&mut self, id: Ulid) {
        if let Some(journal) = &mut self.journal {
            journal.changed = true;
            journal.tasks.remove(&id);
            journal.tasks_gone.push(id);
        }
    }

    fn record(&self) -> Record {
        let requests = [PendingKind::Elicitation, PendingKind::Sampling].into_iter().flat_map(|kind| {
            self.pending(kind).map(move |request| RequestRecord {
                id: request.id(),
                server: request.server().to_string(),
                elicitation: kind == PendingKind::Elicitation,
            })
        });
        Record {
            version: VERSION,
            touched: millis(self.last_activity().unix),
            events: self.events.record(),
            tasks: self.tasks().map(Task::id).collect(),
            timers: self.timers(true).map(TimerRecord::of).collect(),
            requests: requests.collect(),
            servers: self.servers_record(),
        }
    }

    /// Tasks whose own record is gone are forgotten there, too.
    fn forget_missing_tasks(&mut self, named: &[Ulid]) {
        for id in named {
            if self.task(*id).is_none() {
                self.note_task_gone(*id);
            }
        }
    }
}

/// Reads a number. One that nobody of ours wrote is no reason to count past the end of numbers.
pub(crate) fn number<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let number = u64::deserialize(from)?;
    if NUMBER_MAX < number {
        return Err(serde::de::Error::custom("a number that is too large"));
    }
    Ok(number)
}

/// Milliseconds, as they are written.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
