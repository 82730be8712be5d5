//! The clock of one call: no step for too long, too long in all, stopped while the client thinks.

use std::time::Duration;

use lb_wire::revision::method::{self, MethodFacts};
use tokio::time::Instant;

use crate::settings::Settings;

/// When a call has taken too long. Time is an argument.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Watch {
    /// It may go on for ever.
    Off,
    /// It runs.
    Running { quiet: Duration, total: Duration, quiet_at: Instant, total_at: Instant },
    /// An ask is open; the call's own time stands still.
    Stopped { quiet: Duration, total: Duration, since: Instant, total_at: Instant },
}

impl Watch {
    /// The watch for a method: tools may take their time, listens for ever, everything else is quick. `quiet_max` is
    /// what the server is configured to.
    pub(crate) fn start(
        facts: Option<&MethodFacts>,
        settings: &Settings,
        quiet_max: Option<Duration>,
        now: Instant,
    ) -> Self {
        let (quiet, total) = match facts.map(|facts| facts.name) {
            Some(method::SUBSCRIPTIONS_LISTEN) => return Self::Off,
            Some(method::TOOLS_CALL | method::TASKS_RESULT) | None => (settings.quiet_max, settings.call_max),
            Some(_) => (settings.lookup_max, settings.lookup_max),
        };
        let quiet = quiet_max.unwrap_or(quiet);
        Self::Running { quiet, total, quiet_at: now + quiet, total_at: now + total }
    }

    /// The watch for what has limits of its own; only the longest of all holds.
    pub(crate) fn patient(now: Instant) -> Self {
        let day = Duration::from_secs(24 * 60 * 60);
        Self::Running { quiet: day, total: day, quiet_at: now + day, total_at: now + day }
    }

    /// Something came.
    pub(crate) fn step(&mut self, now: Instant) {
        if let Self::Running { quiet, quiet_at, .. } = self {
            *quiet_at = now + *quiet;
        }
    }

    /// An ask is open.
    pub(crate) fn stop(&mut self, now: Instant) {
        if let Self::Running { quiet, total, total_at, .. } = *self {
            *self = Self::Stopped { quiet, total, since: now, total_at };
        }
    }

    /// No ask is open any more.
    pub(crate) fn go_on(&mut self, now: Instant) {
        if let Self::Stopped { quiet, total, since, total_at } = *self {
            *self = Self::Running { quiet, total, quiet_at: now + quiet, total_at: total_at + (now - since) };
        }
    }

    /// When it runs out.
    pub(crate) fn due(&self) -> Option<Instant> {
        match *self {
            Self::Off | Self::Stopped { .. } => None,
            Self::Running { quiet_at, total_at, .. } => Some(quiet_at.min(total_at)),
        }
    }

    /// The time that runs out first.
    pub(crate) fn limit(&self) -> Duration {
        match *self {
            Self::Off => Duration::MAX,
            Self::Running { quiet, quiet_at, total_at, .. } if quiet_at <= total_at => quiet,
            Self::Running { total, .. } | Self::Stopped { total, .. } => total,
        }
    }

    /// Whether it has run out.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.due().is_some_and(|due| due <= now)
    }
}
