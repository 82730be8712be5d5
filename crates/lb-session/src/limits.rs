//! How much one session keeps, and for how long.

use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// The bounds of one session's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Events kept.
    pub events_max: usize,
    /// How long an event is kept, delivered or not.
    pub event_age_max: Duration,
    /// Undelivered notifications kept per server.
    pub notifications_max: usize,
    /// Requests that may wait for events at once.
    pub waiters_max: usize,
    /// Events in one response that carries them along.
    pub context_items_max: usize,
    /// Bytes of events in one response that carries them along.
    pub context_bytes_max: usize,
    /// Pending requests listed in one response.
    pub context_pending_max: usize,
    /// Tasks that work at once.
    pub tasks_max: usize,
    /// Tasks kept after their end.
    pub tasks_ended_max: usize,
    /// Bytes of results and arguments kept of them; the newest stays.
    pub tasks_ended_bytes_max: usize,
    /// How long a task is kept after its end.
    pub task_kept_for: Duration,
    /// How long a task may work unless its caller says otherwise.
    pub task_ttl: Duration,
    /// How long a task may work at most.
    pub task_ttl_max: Duration,
    /// Bytes of a result that is kept.
    pub result_bytes_max: usize,
    /// Bytes of a result that an event carries.
    pub event_result_bytes_max: usize,
    /// Requests of one server that may wait for an answer.
    pub pending_max: usize,
    /// Bytes that all such requests may have together.
    pub pending_bytes_max: usize,
    /// How long such a request waits.
    pub pending_for: Duration,
    /// Log rows kept per server.
    pub logs_max: usize,
    /// Bytes of one line of output that is kept.
    pub log_line_bytes_max: usize,
    /// Timers that run at once.
    pub timers_max: usize,
    /// Longest timer.
    pub timer_max: Duration,
    /// Shortest timer that repeats.
    pub timer_interval_min: Duration,
    /// How long a timer is kept after it fired or was deleted.
    pub timer_kept_for: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            events_max: 1_000,
            event_age_max: 30 * MINUTE,
            notifications_max: 100,
            waiters_max: 16,
            context_items_max: 50,
            context_bytes_max: 32 << 10,
            context_pending_max: 20,
            tasks_max: 100,
            tasks_ended_max: 200,
            tasks_ended_bytes_max: 64 << 20,
            task_kept_for: 5 * MINUTE,
            task_ttl: 10 * MINUTE,
            task_ttl_max: 30 * MINUTE,
            result_bytes_max: 10 << 20,
            event_result_bytes_max: 16 << 10,
            pending_max: 100,
            pending_bytes_max: 32 << 20,
            pending_for: 10 * MINUTE,
            logs_max: 500,
            log_line_bytes_max: 16 << 10,
            timers_max: 100,
            timer_max: Duration::from_secs(24 * 60 * 60),
            timer_interval_min: Duration::from_secs(1),
            timer_kept_for: 5 * MINUTE,
        }
    }
}
