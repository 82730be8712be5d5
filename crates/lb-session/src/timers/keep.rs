//! Timers that outlive the process, by the time of day at which they are due.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Timer, TimerStatus};
use crate::keep::{millis, number};
use crate::moment::Moment;
use crate::session::Session;
use crate::ulid::Ulid;

/// A timer as it is written. One that no longer runs is due when it would have been.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TimerRecord {
    id: Ulid,
    message: String,
    #[serde(deserialize_with = "number")]
    duration: u64,
    interval: bool,
    #[serde(deserialize_with = "number")]
    fired: u64,
    #[serde(deserialize_with = "number")]
    created: u64,
    #[serde(deserialize_with = "number")]
    due: u64,
    status: Status,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Active,
    Expired,
    Deleted,
}

impl TimerRecord {
    pub(crate) fn of(timer: &Timer) -> Self {
        Self {
            id: timer.id,
            message: timer.message.to_string(),
            duration: millis(timer.duration),
            interval: timer.interval,
            fired: timer.fired,
            created: millis(timer.created.unix),
            due: millis(timer.created.unix + timer.due.saturating_sub(timer.created.up)),
            status: match timer.status {
                TimerStatus::Active => Status::Active,
                TimerStatus::Expired => Status::Expired,
                TimerStatus::Deleted => Status::Deleted,
            },
        }
    }
}

impl Session {
    /// Takes in a timer as it was written; one that is overdue fires with the next tick.
    pub(crate) fn restore_timer(&mut self, record: &TimerRecord, now: Moment) {
        let moment = |unix: u64| now.shifted(Duration::from_millis(unix));
        let (id, due) = (record.id, moment(record.due).up);
        let status = match record.status {
            Status::Active => TimerStatus::Active,
            Status::Expired => TimerStatus::Expired,
            Status::Deleted => TimerStatus::Deleted,
        };
        match status {
            TimerStatus::Active => drop(self.timers.active.insert((due, id))),
            TimerStatus::Expired => self.timer_stopped(id, if due <= now.up { moment(record.due) } else { now }),
            // When exactly that was is not worth a word of its own.
            TimerStatus::Deleted => self.timer_stopped(id, now),
        }
        // As when it was set: one that repeats without a pause would never let go of whoever looks what is due.
        let least = if record.interval { self.limits.timer_interval_min } else { Duration::ZERO };
        let timer = Timer {
            id,
            message: record.message.as_str().into(),
            duration: Duration::from_millis(record.duration).max(least),
            interval: record.interval,
            fired: record.fired,
            created: moment(record.created),
            due,
            status,
        };
        self.timers.all.insert(id, timer);
        self.timers.inactive.make_contiguous().sort_unstable();
    }
}
