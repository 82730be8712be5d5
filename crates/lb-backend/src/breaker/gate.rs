//! The breaker where attempts pass: shared by all connections to one server.

use std::time::{Duration, Instant};

use lb_process::printable;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{Breaker, FAILURES_MAX, Failure, Pass};
use crate::error::ConnectError;

/// What is kept of an error.
const LAST_CHARS_MAX: usize = 300;

/// The breaker of one server, and what went wrong last.
pub struct Gate {
    /// What the server is called in the log.
    called: String,
    state: Mutex<State>,
    /// Rung when a probe has ended.
    decided: Notify,
}

#[derive(Default)]
struct State {
    breaker: Breaker,
    last: String,
}

impl Gate {
    /// Everything passes.
    pub fn new(called: String) -> Self {
        Self { called, state: Mutex::default(), decided: Notify::new() }
    }

    /// Lets an attempt pass.
    ///
    /// # Errors
    /// The server is left alone.
    pub fn admit(&self) -> Result<Permit<'_>, ConnectError> {
        let mut state = self.state.lock();
        match state.breaker.admit(now()) {
            Ok(pass) => Ok(Permit { gate: self, pass: Some(pass) }),
            Err(again) => Err(state.refusal(again)),
        }
    }

    /// Lets an attempt pass that somebody insists on, after a probe that is under way.
    ///
    /// Cancel safe: yes.
    pub async fn insist(&self) -> Permit<'_> {
        loop {
            let decided = self.decided.notified();
            if let Some(pass) = self.state.lock().breaker.insist(now()) {
                return Permit { gate: self, pass: Some(pass) };
            }
            decided.await;
        }
    }

    /// Refuses what [`Gate::admit`] would refuse, and lets nothing pass.
    ///
    /// # Errors
    /// The server is left alone.
    pub fn check(&self) -> Result<(), ConnectError> {
        let state = self.state.lock();
        match state.breaker.refuses(now()) {
            Some(again) => Err(state.refusal(again)),
            None => Ok(()),
        }
    }

    /// For how long attempts are refused; `None` when they are not.
    pub fn refuses(&self) -> Option<Duration> {
        self.state.lock().breaker.refuses(now())
    }

    /// Whether the server is left alone, or tried by a probe.
    pub fn is_open(&self) -> bool {
        self.state.lock().breaker.is_open()
    }
}

impl State {
    fn refusal(&self, again: Duration) -> ConnectError {
        ConnectError::LeftAlone { again, last: self.last.clone() }
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// An attempt that was let pass. Dropped without a report, it counts for nothing.
pub struct Permit<'a> {
    gate: &'a Gate,
    pass: Option<Pass>,
}

impl Permit<'_> {
    /// There is a connection; the answer may take its time.
    pub fn reached(&self) {
        if let Some(pass) = self.pass.filter(|pass| pass.is_probe()) {
            self.gate.state.lock().breaker.reached(pass);
            self.gate.decided.notify_waiters();
        }
    }

    /// The server has answered, whatever it said.
    pub fn answered(mut self) {
        let Some(pass) = self.pass.take() else { return };
        self.gate.state.lock().breaker.answered(pass);
        if pass.is_probe() {
            tracing::info!("{} answers again", self.gate.called);
            self.gate.decided.notify_waiters();
        }
    }

    /// The server could not be reached, or was lost.
    pub fn failed(mut self, how: Failure, why: &str) {
        let Some(pass) = self.pass.take() else { return };
        let left_alone = {
            let mut state = self.gate.state.lock();
            state.last = printable(why.as_bytes(), LAST_CHARS_MAX);
            state.breaker.failed(pass, how, now(), crate::connect::jitter())
        };
        if pass.is_probe() {
            self.gate.decided.notify_waiters();
        }
        let Some(delay) = left_alone else { return };
        let (called, seconds) = (&self.gate.called, delay.as_secs_f64());
        // Whoever tried says what failed and when it is tried again, which may be later than this.
        match pass.is_probe() {
            true => tracing::debug!("{called} still fails and is left alone for {seconds:.1} s"),
            false => tracing::warn!(
                "{called} failed {FAILURES_MAX} times in a row and is tried less often; last: {}",
                printable(why.as_bytes(), LAST_CHARS_MAX)
            ),
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.take().filter(|pass| pass.is_probe()) {
            self.gate.state.lock().breaker.released(pass, now());
            self.gate.decided.notify_waiters();
        }
    }
}
