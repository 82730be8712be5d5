//! The life of one server as one session sees it: connecting, connected, lost, tried again, given up.
//!
//! Decides and never acts: every method says what has to be told and done. Attempts are numbered, and what an older
//! attempt reports is stale.

#[cfg(test)]
mod tests;

use std::time::Duration;

use lb_exchange::Restart;
use lb_wire::Raw;

use crate::happening::{Happening, Reconnected};
use crate::logs::shortened;
use crate::moment::Moment;

/// How a server is treated.
#[derive(Clone, Debug)]
pub struct Treatment {
    /// Reached over HTTP: tried again for as long as it takes. A process is tried as often as its restarts allow.
    pub http: bool,
    /// For processes: what a crash leads to.
    pub restart: Restart,
    /// How long a server over HTTP may be out of reach before its tasks and requests are given up.
    pub grace: Duration,
}

impl Treatment {
    /// Longest wait between two attempts over HTTP.
    const HTTP_DELAY_MAX: Duration = Duration::from_secs(180);
    /// How long a connection over HTTP has to hold before attempts are counted anew.
    const HTTP_STABLE: Duration = Duration::from_secs(30);

    /// The wait before attempt number `attempt`, counted from 1; `jitter` is between 0.9 and 1.1.
    pub fn delay(&self, attempt: u32, jitter: f64) -> Duration {
        let plain = if self.http {
            let doubled =
                1_u64.checked_shl(attempt.saturating_sub(1)).filter(|_| attempt < 32).unwrap_or(u64::MAX >> 1);
            Duration::from_secs(doubled).min(Self::HTTP_DELAY_MAX)
        } else {
            self.restart.delay(attempt)
        };
        plain.mul_f64(jitter)
    }

    fn is_capped(&self, attempt: u32) -> bool {
        let max = if self.http { Self::HTTP_DELAY_MAX } else { self.restart.delay_max };
        max <= self.delay(attempt, 1.0)
    }

    fn stable(&self) -> Duration {
        if self.http { Self::HTTP_STABLE } else { self.restart.healthy_after }
    }

    fn gives_up(&self, attempt: u32) -> bool {
        !self.http && (!self.restart.enabled || self.restart.attempts_max < attempt)
    }
}

/// What a client is told of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the states explain themselves")]
pub enum Status {
    NotConnected,
    Connecting,
    Connected,
    Reconnecting,
    Error,
    Disconnected,
}

impl Status {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotConnected => "not_connected",
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Reconnecting => "reconnecting",
            Self::Error => "error",
            Self::Disconnected => "disconnected",
        }
    }
}

/// What a change leads to, in this order.
#[derive(Debug)]
pub enum Told {
    /// An event.
    Event(Happening),
    /// Tasks of this server fail.
    FailTasks,
    /// Requests of this server can no longer be answered.
    RejectRequests,
}

/// What helps after an attempt that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Time: it is tried again.
    Time,
    /// Somebody who mends it: it is tried again when it is used.
    Mending,
    /// Somebody who knows already, as whoever has to log in there, or adds it. Nothing is told.
    Known,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<Box<str>>,
}

/// What a server listed when it was connected.
#[derive(Clone, Debug)]
pub struct Listed {
    /// What it can do.
    pub capabilities: Raw,
    /// Tools.
    pub tools: usize,
    /// Resources.
    pub resources: usize,
    /// Prompts.
    pub prompts: usize,
}

/// What was given up with a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Tasks that failed.
    pub tasks: usize,
    /// Elicitations that were rejected.
    pub elicitations: usize,
    /// Sampling requests that were rejected.
    pub sampling: usize,
}

/// A report of an attempt that is no longer the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stale;

/// The state.
#[derive(Debug)]
pub struct Backend {
    treatment: Treatment,
    status: Status,
    /// The attempt whose reports count.
    generation: u64,
    /// Attempts of the trouble at hand.
    attempt: u32,
    retry_at: Option<Duration>,
    /// When the next attempt was due before somebody wanted one at once.
    scheduled: Option<Duration>,
    /// Out of reach, but not given up yet.
    grace_until: Option<Duration>,
    connected: Option<Moment>,
    last_error: Option<Box<str>>,
    /// Whether it was connected before, so that coming back is news of another kind.
    returns: bool,
    losses: Losses,
    health_failures: u32,
    degraded: bool,
    told_capped: Option<Duration>,
    /// What was told of it last, if it was given up and has not worked since: the same again is no news.
    told_error: Option<Box<str>>,
    /// Whether it was ended for being idle: its return is no news.
    resting: bool,
}

/// Health checks in a row that must fail before it is told.
const DEGRADED_AT: u32 = 3;
/// Attempts that are each told.
const TOLD_ATTEMPTS: u32 = 5;
/// Bytes of what went wrong that an event carries.
const TOLD_ERROR_BYTES_MAX: usize = 1000;
/// How often attempts are told once the waits no longer grow.
const TOLD_EVERY: Duration = Duration::from_secs(30 * 60);

impl Backend {
    /// Not connected.
    pub fn new(treatment: Treatment) -> Self {
        Self {
            treatment,
            status: Status::NotConnected,
            generation: 0,
            attempt: 0,
            retry_at: None,
            scheduled: None,
            grace_until: None,
            connected: None,
            last_error: None,
            returns: false,
            losses: Losses::default(),
            health_failures: 0,
            degraded: false,
            told_capped: None,
            told_error: None,
            resting: false,
        }
    }

    /// What a client is told of it.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The attempt whose reports count.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The number of the attempt that is being made or waited for, while it is out of reach.
    pub fn attempt(&self) -> Option<u32> {
        (self.status == Status::Reconnecting).then_some(self.attempt)
    }

    /// When the next attempt is due.
    pub fn retry_at(&self) -> Option<Duration> {
        self.retry_at
    }

    /// Until when it may come back as if nothing had been.
    pub fn grace_until(&self) -> Option<Duration> {
        self.grace_until
    }

    /// Since when it is connected.
    pub fn connected_at(&self) -> Option<Moment> {
        self.connected
    }

    /// What went wrong last.
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// Health checks that failed in a row, and whether that is too many; while connected.
    pub fn health(&self) -> Option<(u32, bool)> {
        (self.status == Status::Connected).then_some((self.health_failures, self.degraded))
    }

    /// An attempt begins. Gives its number; that of the connection, when there is one.
    pub fn start(&mut self, now: Moment) -> u64 {
        if self.status == Status::Connected {
            return self.generation;
        }
        self.generation += 1;
        // Somebody is in a hurry: if that fails, the schedule stays what it was.
        self.scheduled = self.retry_at.take().filter(|at| now.up < *at);
        if self.status != Status::Reconnecting {
            self.status = Status::Connecting;
        }
        self.generation
    }

    /// The attempt has succeeded: a new connection, with a server that knows nothing of the one before.
    ///
    /// # Errors
    /// Another attempt has begun since, or it was sent away: the connection is to be closed.
    pub fn connected(
        &mut self,
        generation: u64,
        listed: &Listed,
        forced: bool,
        now: Moment,
    ) -> Result<Vec<Told>, Stale> {
        if generation != self.generation || !matches!(self.status, Status::Connecting | Status::Reconnecting) {
            return Err(Stale);
        }
        let mut told = self.give_up_grace();
        let event = if self.returns {
            let losses = std::mem::take(&mut self.losses);
            let attempts = if forced { 0 } else { self.attempt };
            reconnected(listed, losses, attempts, false, forced)
        } else {
            Happening::ServerConnected(Box::new(listed.clone()))
        };
        if !std::mem::take(&mut self.resting) || forced {
            told.push(Told::Event(event));
        }
        self.returns = true;
        self.settle(now);
        Ok(told)
    }

    /// The server still knows us: it was only out of reach.
    ///
    /// # Errors
    /// That is no longer the question.
    pub fn resumed(&mut self, generation: u64, listed: &Listed, now: Moment) -> Result<Vec<Told>, Stale> {
        if generation != self.generation || self.grace_until.is_none() {
            return Err(Stale);
        }
        let event = reconnected(listed, Losses::default(), self.attempt, true, false);
        let since = self.connected;
        self.settle(now);
        self.connected = since.or(Some(now));
        Ok(vec![Told::Event(event)])
    }

    fn settle(&mut self, now: Moment) {
        self.status = Status::Connected;
        self.connected = Some(now);
        (self.retry_at, self.scheduled, self.grace_until) = (None, None, None);
        (self.last_error, self.told_error, self.told_capped) = (None, None, None);
        (self.health_failures, self.degraded) = (0, false);
    }

    /// An attempt has failed.
    ///
    /// # Errors
    /// Another attempt has begun since.
    pub fn failed(
        &mut self,
        generation: u64,
        error: &str,
        remedy: Remedy,
        now: Moment,
        jitter: f64,
    ) -> Result<Vec<Told>, Stale> {
        if generation != self.generation || !matches!(self.status, Status::Connecting | Status::Reconnecting) {
            return Err(Stale);
        }
        self.last_error = Some(error.into());
        if remedy != Remedy::Time {
            let mut told = self.give_up_grace();
            let attempts = self.attempt + 1;
            self.status = Status::Error;
            if remedy == Remedy::Mending {
                told.extend(self.given_up(attempts));
            }
            return Ok(told);
        }
        if let Some(at) = self.scheduled.take() {
            self.status = Status::Reconnecting;
            self.retry_at = Some(at.max(now.up));
            return Ok(Vec::new());
        }
        Ok(self.schedule(now, jitter))
    }

    /// The connection is gone for good: a process that ended, or a server that no longer knows us.
    ///
    /// # Errors
    /// It is not the current connection.
    pub fn lost(
        &mut self,
        generation: u64,
        why: &str,
        exit: Option<&Exit>,
        now: Moment,
        jitter: f64,
    ) -> Result<Vec<Told>, Stale> {
        let live = self.status == Status::Connected || self.grace_until.is_some();
        if generation != self.generation || !live {
            return Err(Stale);
        }
        let mut told = Vec::new();
        if let Some(exit) = exit {
            let (exit_code, signal) = (exit.code, exit.signal.clone());
            told.push(Told::Event(Happening::ServerProcessCrashed { exit_code, signal }));
        }
        self.last_error = Some(why.into());
        if self.grace_until.is_none() {
            self.trouble(now);
        }
        self.grace_until = Some(now.up);
        told.extend(self.give_up_grace());
        told.extend(self.schedule(now, jitter));
        Ok(told)
    }

    /// A server over HTTP is out of reach. Nothing is given up until the grace is over.
    ///
    /// # Errors
    /// It is not the current connection.
    pub fn suspect(&mut self, generation: u64, why: &str, now: Moment, jitter: f64) -> Result<Vec<Told>, Stale> {
        if generation != self.generation || self.status != Status::Connected {
            return Err(Stale);
        }
        self.last_error = Some(why.into());
        self.trouble(now);
        self.grace_until = Some(now.up + self.treatment.grace);
        let mut told = if self.treatment.grace.is_zero() { self.give_up_grace() } else { Vec::new() };
        told.extend(self.schedule(now, jitter));
        Ok(told)
    }

    /// A probe within the grace has failed.
    pub fn still_out_of_reach(&mut self, why: &str, now: Moment, jitter: f64) -> Vec<Told> {
        if self.grace_until.is_none() {
            return Vec::new();
        }
        self.last_error = Some(why.into());
        let mut told =
            if self.grace_until.is_some_and(|until| until <= now.up) { self.give_up_grace() } else { vec![] };
        told.extend(self.schedule(now, jitter));
        told
    }

    /// The grace may be over.
    pub fn tick(&mut self, now: Moment) -> Vec<Told> {
        if self.grace_until.is_some_and(|until| until <= now.up) { self.give_up_grace() } else { Vec::new() }
    }

    /// Somebody sends it away. Whatever is under way is stale from now on.
    pub fn stop(&mut self, reason: Option<&str>) -> Vec<Told> {
        let was_up = self.status == Status::Connected || self.grace_until.is_some();
        self.generation += 1;
        self.status = Status::Disconnected;
        (self.retry_at, self.scheduled, self.grace_until, self.connected) = (None, None, None, None);
        (self.attempt, self.health_failures, self.degraded) = (0, 0, false);
        if !was_up {
            return Vec::new();
        }
        let event = Happening::ServerDisconnected { intentional: true, reason: reason.map(Into::into) };
        vec![Told::FailTasks, Told::RejectRequests, Told::Event(event)]
    }

    /// It was ended because it was idle, which is nobody's loss.
    pub fn retired(&mut self, generation: u64) {
        if generation == self.generation && self.status == Status::Connected {
            self.generation += 1;
            self.status = Status::NotConnected;
            self.connected = None;
            self.resting = true;
        }
    }

    /// What was given up with the connection, for when it is back.
    pub fn note_losses(&mut self, losses: Losses) {
        self.losses.tasks += losses.tasks;
        self.losses.elicitations += losses.elicitations;
        self.losses.sampling += losses.sampling;
    }

    /// A health check has failed.
    pub fn unhealthy(&mut self, generation: u64, error: &str) -> Option<Told> {
        if generation != self.generation || self.status != Status::Connected {
            return None;
        }
        self.health_failures += 1;
        if self.degraded || self.health_failures < DEGRADED_AT {
            return None;
        }
        self.degraded = true;
        let (failures, last_error) = (self.health_failures, error.into());
        Some(Told::Event(Happening::ServerHealthDegraded { failures, last_error }))
    }

    /// A health check or a call was answered.
    pub fn healthy(&mut self, generation: u64) -> Option<Told> {
        if generation != self.generation || self.status != Status::Connected {
            return None;
        }
        self.health_failures = 0;
        std::mem::take(&mut self.degraded).then_some(Told::Event(Happening::ServerHealthRestored))
    }

    /// A trouble begins: attempts are counted anew if the connection had held.
    fn trouble(&mut self, now: Moment) {
        let held = self.connected.is_some_and(|since| self.treatment.stable() <= now.up.saturating_sub(since.up));
        if held {
            self.attempt = 0;
        }
    }

    /// What depends on the connection is given up, once.
    fn give_up_grace(&mut self) -> Vec<Told> {
        if self.grace_until.take().is_none() {
            return Vec::new();
        }
        self.connected = None;
        let reason = self.last_error.clone();
        let event = Happening::ServerDisconnected { intentional: false, reason };
        vec![Told::FailTasks, Told::RejectRequests, Told::Event(event)]
    }

    /// The next attempt, or none.
    fn schedule(&mut self, now: Moment, jitter: f64) -> Vec<Told> {
        self.attempt += 1;
        if self.treatment.gives_up(self.attempt) {
            self.status = Status::Error;
            self.retry_at = None;
            return self.given_up(self.attempt - 1).into_iter().collect();
        }
        self.status = Status::Reconnecting;
        let delay = self.treatment.delay(self.attempt, jitter);
        self.retry_at = Some(now.up + delay);
        if !self.is_told(now) {
            return Vec::new();
        }
        let error = self.told_of();
        vec![Told::Event(Happening::ServerReconnecting { attempt: self.attempt, next_retry: delay, error })]
    }

    /// It is not tried again by itself, which is told once for each reason.
    fn given_up(&mut self, attempts: u32) -> Option<Told> {
        let error = self.told_of();
        if self.told_error.as_deref() == Some(&*error) {
            return None;
        }
        self.told_error = Some(error.clone());
        Some(Told::Event(Happening::ServerRestartFailed { error, attempts }))
    }

    /// What an event says of what went wrong, which may have the last lines of a process in it.
    fn told_of(&self) -> Box<str> {
        shortened(self.last_error.as_deref().unwrap_or_default(), TOLD_ERROR_BYTES_MAX).into()
    }

    /// The first attempts, the first whose wait no longer grows, and then now and then.
    fn is_told(&mut self, now: Moment) -> bool {
        if self.treatment.is_capped(self.attempt) {
            let due = self.told_capped.is_none_or(|last| TOLD_EVERY <= now.up.saturating_sub(last));
            if due {
                self.told_capped = Some(now.up);
            }
            return due || self.attempt <= TOLD_ATTEMPTS;
        }
        self.attempt <= TOLD_ATTEMPTS
    }
}

/// That a server is back, with what went with its old connection.
pub(crate) fn reconnected(listed: &Listed, losses: Losses, attempts: u32, blip: bool, forced: bool) -> Happening {
    Happening::ServerReconnected(Box::new(Reconnected {
        attempts,
        blip,
        forced,
        capabilities: listed.capabilities.clone(),
        tools: listed.tools,
        resources: listed.resources,
        prompts: listed.prompts,
        tasks_failed: losses.tasks,
        elicitations_lost: losses.elicitations,
        sampling_lost: losses.sampling,
    }))
}
