//! Connecting to one server again and again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lb_exchange::Restart;
use parking_lot::Mutex;

use super::{Connection, Link, Server, Wish, passing, report};
use crate::error::ConnectError;
use crate::restart::Life;

/// Connects to one server again and again, and remembers its crashes.
pub struct Connector {
    server: Arc<Server>,
    life: Mutex<Life>,
    /// How it ended last, and its stderr.
    last_words: Mutex<(String, String)>,
}

impl Connector {
    /// For one session, or for all that share.
    pub fn new(server: Arc<Server>) -> Self {
        Self { server, life: Mutex::new(Life::Stopped), last_words: Mutex::default() }
    }

    /// The server.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Connects, after the wait that earlier crashes call for.
    ///
    /// Cancel safe: yes, a child that was being started is ended.
    ///
    /// # Errors
    /// The server cannot be reached, or is given up.
    pub async fn connect(&self, wish: &Wish) -> Result<Arc<Connection>, ConnectError> {
        let life = *self.life.lock();
        if let Life::GaveUp { crashes, until } = life
            && until.is_none_or(|until| Instant::now() < until)
        {
            let (last, stderr) = self.last_words.lock().clone();
            let again = until.map(|until| until.saturating_duration_since(Instant::now()));
            return Err(ConnectError::GaveUp { crashes, again, last, stderr });
        }
        // Before the wait, which would be in vain.
        self.server.gate.check()?;
        if let Life::Backoff { until, .. } = life {
            tokio::time::sleep_until(until.into()).await;
        }
        if self.server.environment.tasks.is_stopping() {
            return Err(ConnectError::Stopping);
        }
        *self.life.lock() = life.started(Instant::now());
        let result = self.server.connect(wish).await;
        if let Err(error) = &result {
            self.failed(life, error);
        }
        result
    }

    /// Connects at once, whatever crashes there were, and starts a program that ends before it answers some more times.
    /// For those whose only way to a server is this one call.
    ///
    /// Cancel safe: yes, a child that was being started is ended.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub async fn connect_stubbornly(&self, wish: &Wish) -> Result<Arc<Connection>, ConnectError> {
        let permit = self.server.pass_stubbornly().await?;
        let result = self.start_stubbornly(wish).await;
        passing::counted(permit, &result);
        result
    }

    async fn start_stubbornly(&self, wish: &Wish) -> Result<Arc<Connection>, ConnectError> {
        let mut waits = SPAWN_WAITS.iter();
        let started = Instant::now();
        loop {
            if self.server.environment.tasks.is_stopping() {
                return Err(ConnectError::Stopping);
            }
            let error = match self.server.connect_in_either(wish).await {
                Err(error @ (ConnectError::Exited { .. } | ConnectError::Spawn(_) | ConnectError::NoProgram(_))) => {
                    error
                }
                other => return other,
            };
            tracing::warn!("{}", report::failed(self.server.spec.name.as_str(), &error));
            let Some(wait) = waits.next() else { return Err(spawn_failed(error)) };
            // A program that takes its time to fail is not started again and again while somebody waits.
            if self.server.spec.init_timeout <= started.elapsed() {
                return Err(error);
            }
            tokio::time::sleep(*wait).await;
        }
    }

    /// An attempt to connect has failed.
    fn failed(&self, before: Life, error: &ConnectError) {
        let called = self.server.spec.name.as_str();
        let (words, what) = match (error, before) {
            (ConnectError::Exited { exit, stderr, stdout }, _) => {
                let what = report::ended(exit, stderr);
                let what = if stdout.is_empty() { what } else { format!("{what}; {stdout}") };
                ((exit.clone(), stderr.clone()), what)
            }
            (ConnectError::Spawn(why), _) => ((why.clone(), String::new()), format!("cannot start: {why}")),
            // Who waits for the login is told; the link is not for the log.
            (ConnectError::Stopping | ConnectError::LeftAlone { .. } | ConnectError::LoginNeeded(_), _) => {
                return *self.life.lock() = before;
            }
            // No attempt at all.
            (ConnectError::TooManyChildren(_), _) => {
                *self.life.lock() = before;
                return tracing::warn!("{}", report::failed(called, error));
            }
            // No crash either: once the program is there, the next call starts it.
            (ConnectError::NoProgram(why), _) => {
                *self.life.lock() = before;
                let known = self.last_words.lock().0 == *why;
                *self.last_words.lock() = (why.clone(), String::new());
                return if known {
                    tracing::debug!("{}", report::failed(called, error));
                } else {
                    tracing::warn!("{}; tried again when it is used", report::failed(called, error));
                };
            }
            // The one attempt of a server that was given up.
            (error, Life::GaveUp { .. }) => ((error.to_string(), String::new()), format!("failed: {error}")),
            _ => return tracing::warn!("{}", report::failed(called, error)),
        };
        self.crashed(Instant::now(), words, &what);
    }

    /// A connection that this made has died by itself.
    ///
    /// Cancel safe: yes, nothing is counted then.
    pub async fn lost(&self, connection: &Connection) {
        if connection.usage.retired.load(Ordering::SeqCst) {
            *self.life.lock() = Life::Stopped;
        } else if let Link::Pipe(started) = &connection.link {
            let words = started.last_words().await;
            let what = report::ended(&words.0, &words.1);
            self.crashed(started.pipe().ended().unwrap_or_else(Instant::now), words, &what);
        }
    }

    /// What a loss leads to. A server that is far away is nobody's process: its streams may be cut as others see fit, and
    /// it is tried again for as long as it takes.
    fn restart(&self) -> Restart {
        match self.server.endpoint {
            Some(_) => Restart {
                attempts_max: u32::MAX,
                delay_max: REMOTE_DELAY_MAX,
                healthy_after: REMOTE_STABLE,
                ..Restart::default()
            },
            None => self.server.spec.restart.clone(),
        }
    }

    fn crashed(&self, at: Instant, words: (String, String), what: &str) {
        *self.last_words.lock() = words;
        let life = {
            let mut life = self.life.lock();
            *life = life.crashed(&self.restart(), at, jitter());
            *life
        };
        tracing::warn!("{}", report::crashed(self.server.spec.name.as_str(), what, life, Instant::now()));
    }
}

/// Between 0.9 and 1.1, so that many do not come at once.
pub(crate) fn jitter() -> f64 {
    0.9 + 0.2 * f64::from(rand_unit())
}

/// Longest wait before a stream of a server that is far away is opened again.
const REMOTE_DELAY_MAX: Duration = Duration::from_secs(10);
/// How long a stream of a server that is far away has to hold before losses are counted anew.
const REMOTE_STABLE: Duration = Duration::from_secs(10);

/// Waits between the starts of a program for one call.
const SPAWN_WAITS: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

fn spawn_failed(error: ConnectError) -> ConnectError {
    let (last, stderr) = match error {
        ConnectError::Exited { exit, stderr, stdout } if stdout.is_empty() => (exit, stderr),
        ConnectError::Exited { exit, stderr, stdout } => (format!("{exit}; {stdout}"), stderr),
        other => (other.to_string(), String::new()),
    };
    let attempts = u32::try_from(SPAWN_WAITS.len() + 1).unwrap_or(u32::MAX);
    ConnectError::SpawnFailed { attempts, last, stderr }
}

/// A number in 0..1; no secret hangs on it.
fn rand_unit() -> f32 {
    let nanos =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.subsec_nanos());
    (nanos % 1000) as f32 / 1000.0
}
