//! What is kept of a server, and for how long: `cached`, `idle_timeout`, `max_age`, `pool`.

use std::time::Duration;

use lb_exchange::{Isolation, ServerSpec, Target};

use super::Entry;
use crate::fields::{self, Read, Reported};

/// How long a server and what it says are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keeping {
    pub cached: bool,
    pub idle_timeout: Option<Duration>,
    pub max_age: Duration,
    pub pool: usize,
}

/// Longest `idle_timeout`: a week.
const IDLE_SECONDS_MAX: u32 = 7 * 24 * 60 * 60;
/// Longest `max_age`: a year.
const AGE_SECONDS_MAX: u32 = 365 * 24 * 60 * 60;
/// [`ServerSpec::POOL_MAX`], as the reader of numbers wants it.
#[expect(clippy::cast_possible_truncation, reason = "a small constant")]
const POOL_MAX: u32 = ServerSpec::POOL_MAX as u32;

impl Entry<'_, '_> {
    /// `isolation` and `target` where they could be read: what does not fit them is a problem too.
    pub(super) fn keeping(&mut self, isolation: Option<Isolation>, target: Option<&Target>) -> Read<Keeping> {
        let cached = self.flag("cached");
        let idle = self.seconds("idle_timeout", [0, IDLE_SECONDS_MAX]);
        let max_age = self.seconds("max_age", [1, AGE_SECONDS_MAX]);
        let pool = self.whole("pool", [1, POOL_MAX]);
        let (cached, idle, max_age, pool) = (cached?.unwrap_or(false), idle?, max_age?, pool?);
        self.fits(cached, isolation, target, pool)?;
        // Zero is how a file says never.
        let idle_timeout = idle.filter(|idle| !idle.is_zero());
        let pool = pool.and_then(|pool| usize::try_from(pool).ok()).unwrap_or(1);
        Ok(Keeping { cached, idle_timeout, max_age: max_age.unwrap_or(ServerSpec::MAX_AGE), pool })
    }

    fn fits(
        &mut self,
        cached: bool,
        isolation: Option<Isolation>,
        target: Option<&Target>,
        pool: Option<u32>,
    ) -> Read<()> {
        if let (Some(member), false) = (self.find("max_age"), cached) {
            let path = self.path.key("max_age");
            self.report.warn(member.at, &path, "has no effect without \"cached\": true");
        }
        if let (Some(member), Some(Target::Http { .. })) = (self.find("idle_timeout"), target) {
            let path = self.path.key("idle_timeout");
            self.report.warn(member.at, &path, "has no effect on a server with a url: it has no process to end");
        }
        let several = pool.is_some_and(|pool| 1 < pool);
        if let (true, Some(Isolation::Session), Some(member)) = (several, isolation, self.find("pool")) {
            let path = self.path.key("pool");
            let problem = self.report.error(member.at, &path, "is for sessions that share processes");
            problem.hint("add \"isolation\": \"shared\", or leave it out: every session has a process of its own");
            return Err(Reported);
        }
        Ok(())
    }

    fn seconds(&mut self, key: &str, bounds: [u32; 2]) -> Read<Option<Duration>> {
        Ok(self.whole(key, bounds)?.map(|seconds| Duration::from_secs(u64::from(seconds))))
    }

    fn whole(&mut self, key: &str, bounds: [u32; 2]) -> Read<Option<u32>> {
        let path = self.path.key(key);
        self.find(key).map(|member| fields::integer(self.report, &member.node, &path, bounds)).transpose()
    }
}
