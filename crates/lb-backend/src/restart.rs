//! What a crash of a child leads to: how long to wait, and when to give up.

use std::time::{Duration, Instant};

use lb_exchange::Restart;

/// The life of one child, over restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Never started, or ended on purpose.
    Stopped,
    /// Runs, or is being started.
    Running {
        /// Crashes in a row before this start.
        crashes: u32,
        /// Since when.
        since: Instant,
    },
    /// Crashed; may be started again at this time.
    Backoff {
        /// Crashes in a row.
        crashes: u32,
        /// When.
        until: Instant,
    },
    /// Crashed too often.
    GaveUp {
        /// Crashes in a row.
        crashes: u32,
        /// When one more start is worth a try; `None` for never.
        until: Option<Instant>,
    },
}

/// Shortest time for which a server is left alone that was given up, however short its waits are.
const COOL_DOWN_MIN: Duration = Duration::from_secs(1);

impl Life {
    /// It is started now.
    #[must_use]
    pub fn started(self, now: Instant) -> Self {
        let crashes = match self {
            Self::Stopped => 0,
            Self::Running { crashes, .. } | Self::Backoff { crashes, .. } | Self::GaveUp { crashes, .. } => crashes,
        };
        Self::Running { crashes, since: now }
    }

    /// The only place that decides what a crash leads to. `jitter` is between 0.9 and 1.1.
    #[must_use]
    pub fn crashed(self, policy: &Restart, now: Instant, jitter: f64) -> Self {
        let crashes = match self {
            Self::Stopped | Self::GaveUp { .. } => return self,
            // A child that flaps just after the handshake must not reset the count.
            Self::Running { since, .. } if policy.healthy_after <= now.duration_since(since) => 1,
            Self::Running { crashes, .. } | Self::Backoff { crashes, .. } => crashes + 1,
        };
        if !policy.enabled {
            return Self::GaveUp { crashes, until: None };
        }
        if policy.attempts_max < crashes {
            return Self::GaveUp { crashes, until: Some(now + policy.delay_max.max(COOL_DOWN_MIN)) };
        }
        // The first restart is immediate for whoever calls next: a single crash is no pattern.
        let delay = if crashes == 1 { Duration::ZERO } else { policy.delay(crashes - 1).mul_f64(jitter) };
        Self::Backoff { crashes, until: now + delay }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Restart {
        Restart { attempts_max: 3, ..Restart::default() }
    }

    #[test]
    fn a_flapping_child_is_given_up_and_a_healthy_one_starts_anew() {
        let (policy, start) = (policy(), Instant::now());
        let mut life = Life::Stopped.started(start);
        for want_wait in [0, 1, 2] {
            life = life.crashed(&policy, start, 1.0);
            let Life::Backoff { until, .. } = life else { panic!("{life:?}") };
            assert_eq!(until - start, Duration::from_secs(want_wait));
            life = life.started(start);
        }
        let given_up = |crashes, at| Life::GaveUp { crashes, until: Some(at + policy.delay_max) };
        assert_eq!(life.crashed(&policy, start, 1.0), given_up(4, start));
        // One more attempt after a while, and no second one if that fails.
        let again = start + policy.delay_max;
        assert_eq!(given_up(4, start).started(again).crashed(&policy, again, 1.0), given_up(5, again));
        let later = start + policy.healthy_after;
        assert!(matches!(life.crashed(&policy, later, 1.0), Life::Backoff { crashes: 1, .. }));
    }

    #[test]
    fn without_restarts_the_first_crash_is_the_last() {
        let policy = Restart { enabled: false, ..policy() };
        let now = Instant::now();
        assert_eq!(Life::Stopped.started(now).crashed(&policy, now, 1.0), Life::GaveUp { crashes: 1, until: None });
    }
}
