//! When a server that cannot be reached is left alone, and who tries it again.
//!
//! Owns the decision only: time and chance are arguments, and nothing is sent. Who asks whom is in [`gate`].

pub mod gate;

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

/// Failures in a row after which a server is left alone.
pub const FAILURES_MAX: u32 = 5;
/// How long it is left alone at first.
pub const DELAY_FIRST: Duration = Duration::from_secs(1);
/// Longest time for which it is left alone; each failed probe doubles the time up to this.
pub const DELAY_MAX: Duration = Duration::from_secs(60);

/// The breaker of one server.
///
/// Closed, everything passes. After [`FAILURES_MAX`] failures in a row it is open: nothing passes until a time, and
/// then one attempt, the probe. A probe that is answered closes it, one that fails opens it for longer, and one that
/// nobody waits for any more makes way for another.
#[derive(Clone, Debug, Default)]
pub struct Breaker {
    state: State,
    /// Counts openings: what was let pass before one says nothing after it.
    epoch: u64,
    probes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed {
        /// In a row.
        failures: u32,
        /// Openings since the last answer.
        openings: u32,
        /// When the last failure was counted.
        failed_at: Option<Instant>,
    },
    Open {
        openings: u32,
        until: Instant,
    },
    Probing {
        openings: u32,
        probe: u64,
    },
}

impl Default for State {
    fn default() -> Self {
        Self::Closed { failures: 0, openings: 0, failed_at: None }
    }
}

/// An attempt that was let pass; what comes of it is reported with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    began: Instant,
    epoch: u64,
    probe: Option<u64>,
}

impl Pass {
    /// Whether it is the one attempt that decides.
    pub fn is_probe(self) -> bool {
        self.probe.is_some()
    }
}

/// How an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No connection: each counts.
    Unreached,
    /// A connection broke. All that were open on a server break when it dies, which is one failure and not many.
    Lost,
}

impl Breaker {
    /// Lets an attempt pass, or tells after what time it is worth another try.
    ///
    /// # Errors
    /// The server is left alone.
    pub fn admit(&mut self, now: Instant) -> Result<Pass, Duration> {
        match self.refuses(now) {
            Some(wait) => Err(wait),
            None => Ok(self.pass(now)),
        }
    }

    /// Lets an attempt pass that somebody insists on: the probe, if it is open. `None` while another probe decides.
    pub fn insist(&mut self, now: Instant) -> Option<Pass> {
        match self.state {
            State::Probing { .. } => None,
            State::Closed { .. } | State::Open { .. } => Some(self.pass(now)),
        }
    }

    fn pass(&mut self, now: Instant) -> Pass {
        let probe = match self.state {
            State::Closed { .. } | State::Probing { .. } => None,
            State::Open { openings, .. } => {
                self.probes += 1;
                self.state = State::Probing { openings, probe: self.probes };
                Some(self.probes)
            }
        };
        Pass { began: now, epoch: self.epoch, probe }
    }

    /// For how long an attempt would be refused; `None` when it would pass.
    pub fn refuses(&self, now: Instant) -> Option<Duration> {
        match self.state {
            State::Closed { .. } => None,
            State::Open { until, .. } => Some(until.saturating_duration_since(now)).filter(|wait| !wait.is_zero()),
            // It may end at any moment; asking again sooner would not help.
            State::Probing { .. } => Some(DELAY_FIRST),
        }
    }

    /// Whether the server is left alone, or tried by a probe.
    pub fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed { .. })
    }

    /// An attempt has a connection, and its answer may take long: others need not wait for that. A failure of any of
    /// them opens it again, for longer.
    pub fn reached(&mut self, pass: Pass) {
        if let Some(openings) = self.decided_by(pass) {
            self.state = State::Closed { failures: FAILURES_MAX - 1, openings, failed_at: None };
        }
    }

    /// An attempt was answered.
    pub fn answered(&mut self, pass: Pass) {
        let closed = matches!(self.state, State::Closed { .. });
        if closed || self.decided_by(pass).is_some() {
            self.state = State::default();
        }
    }

    /// An attempt has failed. `jitter` is between 0.9 and 1.1. Gives the time for which the server is left alone, if
    /// that begins now.
    pub fn failed(&mut self, pass: Pass, how: Failure, now: Instant, jitter: f64) -> Option<Duration> {
        let openings = match self.state {
            State::Closed { failures, openings, failed_at } => {
                let known = how == Failure::Lost && failed_at.is_some_and(|at| pass.began < at);
                if pass.epoch != self.epoch || known {
                    return None;
                }
                if failures + 1 < FAILURES_MAX {
                    self.state = State::Closed { failures: failures + 1, openings, failed_at: Some(now) };
                    return None;
                }
                openings
            }
            State::Open { .. } | State::Probing { .. } => self.decided_by(pass)?,
        };
        let delay = delay(openings).mul_f64(jitter);
        self.state = State::Open { openings: openings.saturating_add(1), until: now + delay };
        self.epoch += 1;
        Some(delay)
    }

    /// Nobody waits for an attempt any more, which says nothing about the server.
    pub fn released(&mut self, pass: Pass, now: Instant) {
        if let Some(openings) = self.decided_by(pass) {
            self.state = State::Open { openings, until: now };
        }
    }

    /// How often it was opened, if this attempt is the probe that decides.
    fn decided_by(&self, pass: Pass) -> Option<u32> {
        match self.state {
            State::Probing { openings, probe } if pass.probe == Some(probe) => Some(openings),
            State::Closed { .. } | State::Open { .. } | State::Probing { .. } => None,
        }
    }
}

/// How long a server is left alone that was opened this often before, without jitter.
fn delay(openings: u32) -> Duration {
    let factor = 2_u32.checked_pow(openings).unwrap_or(u32::MAX);
    DELAY_FIRST.saturating_mul(factor).min(DELAY_MAX)
}
