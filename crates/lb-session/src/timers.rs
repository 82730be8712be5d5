//! Timers that the client sets for itself: each fires as an event, once or again and again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use lb_wire::compose::Object;
use lb_wire::{Raw, Text};

use crate::happening::Happening;
use crate::moment::{Moment, rfc3339};
use crate::session::Session;
use crate::ulid::Ulid;

mod keep;
#[cfg(test)]
mod tests;

pub(crate) use keep::TimerRecord;

/// Longest message of a timer, in characters.
const MESSAGE_CHARS_MAX: usize = 500;
/// The server that events of timers speak of: us.
pub const OURSELVES: &str = "landbridge";

/// Why a timer is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimerError {
    /// As many run as may.
    #[error("more than {0} timers would be active")]
    TooMany(usize),
    /// It would take too long, or no time at all.
    #[error("the duration of a timer is 1 to {} ms", .max.as_millis())]
    Duration {
        /// The longest there is.
        max: Duration,
    },
    /// Its message says nothing or too much.
    #[error("the message of a timer has 1 to {MESSAGE_CHARS_MAX} characters")]
    Message,
    /// The session has ended.
    #[error("the session has ended")]
    Closed,
}

/// There is no such timer, or none any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Timer '{0}' not found")]
pub struct TimerNotFound(pub Ulid);

/// What became of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words explain themselves")]
pub enum TimerStatus {
    Active,
    Expired,
    Deleted,
}

impl TimerStatus {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expired => "expired",
            Self::Deleted => "deleted",
        }
    }
}

/// A timer.
#[derive(Debug)]
pub struct Timer {
    id: Ulid,
    message: Box<str>,
    duration: Duration,
    interval: bool,
    fired: u64,
    created: Moment,
    /// When it fires next, or would have.
    due: Duration,
    status: TimerStatus,
}

impl Timer {
    /// Its name.
    pub fn id(&self) -> Ulid {
        self.id
    }

    /// What became of it.
    pub fn status(&self) -> TimerStatus {
        self.status
    }

    /// How often it fired.
    pub fn fired(&self) -> u64 {
        self.fired
    }

    /// When it fires next, or would have, on the clock of [`Moment::up`].
    pub fn due(&self) -> Duration {
        self.due
    }

    /// As a row of a list.
    pub fn row(&self) -> Raw {
        let row = Object::new()
            .text("id", &self.id.to_string())
            .text("message", &self.message)
            .number("durationMs", self.millis())
            .text("status", self.status.as_str())
            .flag("interval", self.interval)
            .number("fireCount", self.fired);
        self.times(row).finish()
    }

    /// As it is confirmed when it is set.
    pub fn receipt(&self) -> Raw {
        let receipt = Object::new()
            .text("timerId", &self.id.to_string())
            .text("message", &self.message)
            .number("durationMs", self.millis())
            .flag("interval", self.interval);
        self.times(receipt).finish()
    }

    fn times(&self, object: Object) -> Object {
        let expires = self.created.unix + self.due.saturating_sub(self.created.up);
        object.text("createdAt", &rfc3339(self.created.unix)).text("expiresAt", &rfc3339(expires))
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX)
    }

    /// Counts one fire, however many were missed, and sets the next time on the schedule.
    fn fire(&mut self, now: Moment) {
        self.fired += 1;
        if !self.interval {
            self.status = TimerStatus::Expired;
            return;
        }
        let late = now.up.saturating_sub(self.due);
        let missed = late.as_nanos() / self.duration.as_nanos().max(1);
        let steps = u32::try_from(missed + 1).unwrap_or(u32::MAX);
        self.due = self.due.saturating_add(self.duration.saturating_mul(steps));
    }
}

/// The timers of one session. Ids are minted in order, so that the order of ids is that of setting.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    all: BTreeMap<Ulid, Timer>,
    active: BTreeSet<(Duration, Ulid)>,
    /// Those that fired or were deleted, by when they are forgotten.
    inactive: VecDeque<(Duration, Ulid)>,
}

impl Session {
    /// Sets a timer. One that repeats more often than is allowed repeats as often as is allowed.
    ///
    /// # Errors
    /// The duration or the message is out of bounds, too many run, or the session has ended.
    pub fn set_timer(
        &mut self,
        duration: Duration,
        message: &str,
        interval: bool,
        now: Moment,
    ) -> Result<Ulid, TimerError> {
        let max = self.limits.timer_max;
        if self.is_closed() {
            return Err(TimerError::Closed);
        }
        if duration.is_zero() || max < duration {
            return Err(TimerError::Duration { max });
        }
        if !(1..=MESSAGE_CHARS_MAX).contains(&message.chars().count()) {
            return Err(TimerError::Message);
        }
        if self.limits.timers_max <= self.timers.active.len() {
            return Err(TimerError::TooMany(self.limits.timers_max));
        }
        let duration = if interval { duration.max(self.limits.timer_interval_min) } else { duration };
        let id = Ulid::mint(now);
        let (due, status) = (now.up + duration, TimerStatus::Active);
        let timer = Timer { id, message: message.into(), duration, interval, fired: 0, created: now, due, status };
        self.timers.active.insert((due, id));
        self.timers.all.insert(id, timer);
        self.note();
        Ok(id)
    }

    /// A timer, while it is remembered.
    pub fn timer(&self, id: Ulid) -> Option<&Timer> {
        self.timers.all.get(&id)
    }

    /// The timers, oldest first; those that no longer run only if so wished.
    pub fn timers(&self, include_inactive: bool) -> impl Iterator<Item = &Timer> {
        self.timers.all.values().filter(move |timer| include_inactive || timer.status == TimerStatus::Active)
    }

    /// Stops a timer and returns its row; of one that no longer runs, the row as it is.
    ///
    /// # Errors
    /// There is no such timer, or none any more.
    pub fn delete_timer(&mut self, id: Ulid, now: Moment) -> Result<Raw, TimerNotFound> {
        let timer = self.timers.all.get_mut(&id).ok_or(TimerNotFound(id))?;
        if timer.status != TimerStatus::Active {
            return Ok(timer.row());
        }
        timer.status = TimerStatus::Deleted;
        let (row, due) = (timer.row(), timer.due);
        self.timers.active.remove(&(due, id));
        self.timer_stopped(id, now);
        Ok(row)
    }

    pub(crate) fn timers_deadline(&self) -> Option<Duration> {
        let fire = self.timers.active.first().map(|(at, _)| *at);
        let forget = self.timers.inactive.front().map(|(at, _)| *at);
        fire.into_iter().chain(forget).min()
    }

    pub(crate) fn tick_timers(&mut self, now: Moment) {
        while let Some((due, id)) = self.timers.active.first().copied() {
            if now.up < due {
                break;
            }
            self.timers.active.remove(&(due, id));
            self.fire_timer(id, now);
        }
        while self.timers.inactive.front().is_some_and(|(at, _)| *at <= now.up) {
            self.forget_oldest_timer();
        }
    }

    pub(crate) fn stop_timers(&mut self, now: Moment) {
        while let Some((_, id)) = self.timers.active.pop_first() {
            if let Some(timer) = self.timers.all.get_mut(&id) {
                timer.status = TimerStatus::Deleted;
            }
            self.timer_stopped(id, now);
        }
    }

    fn fire_timer(&mut self, id: Ulid, now: Moment) {
        self.note();
        let Some(timer) = self.timers.all.get_mut(&id) else { return };
        timer.fire(now);
        let (message, fired, interval) = (timer.message.clone(), timer.fired, timer.interval);
        match timer.status {
            TimerStatus::Active => {
                self.timers.active.insert((timer.due, id));
            }
            TimerStatus::Expired | TimerStatus::Deleted => self.timer_stopped(id, now),
        }
        let what = Happening::TimerExpired { timer: id, message, fired, interval };
        self.tell(&Text::from_static(OURSELVES), &what, now);
    }

    fn timer_stopped(&mut self, id: Ulid, now: Moment) {
        self.note();
        self.timers.inactive.push_back((now.up + self.limits.timer_kept_for, id));
        // Setting and deleting again and again must not fill the memory either.
        while 2 * self.limits.timers_max < self.timers.inactive.len() {
            self.forget_oldest_timer();
        }
    }

    fn forget_oldest_timer(&mut self) {
        if let Some((_, id)) = self.timers.inactive.pop_front() {
            self.timers.all.remove(&id);
            self.note();
        }
    }
}
