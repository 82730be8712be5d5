//! The connection to one server: made when it is needed, replaced when it is lost.
//!
//! While a server is away, whoever asks is told so at once; one of them at a time tries to reach it, after pauses that
//! grow to half a second. So nobody piles up behind a server that is not there, and it is found soon after its return.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, PushInfo, PushKind, RedisError, ScriptInvocation, Value};

use crate::Error;
use crate::valkey::{failure, field};

/// How many commands wait for the connection; whoever comes then waits for a place.
const WAITING_MAX: usize = 1_024;

/// How often a command that does no harm twice is tried.
const TRIES_MAX: u32 = 3;

/// The pause before a command is tried again.
const RETRY_AFTER: Duration = Duration::from_millis(30);

/// How long a server may be gone before callers are told.
const FRESH: Duration = Duration::from_millis(100);

/// A server, connected or not.
pub(super) struct Link {
    client: Client,
    password: Option<String>,
    timeout: Duration,
    state: Mutex<State>,
    /// Held by the one who connects.
    turn: tokio::sync::Mutex<()>,
    /// Counts, for all servers, that one is another than before or lives anew.
    lives: Arc<AtomicU64>,
}

#[derive(Default)]
struct State {
    connection: Option<Connection>,
    away: Option<Away>,
    last_error: Option<(SystemTime, String)>,
    /// Since when it takes no writes because it is not the one that should.
    refuses_since: Option<SystemTime>,
    made: u64,
    /// What tells one life of a server from another, as far as it says.
    life: Option<String>,
}

/// Since when it is away, and when it may be tried again.
#[derive(Clone)]
struct Away {
    since: SystemTime,
    tries: u32,
    next: Instant,
    why: String,
}

#[derive(Clone)]
struct Connection {
    number: u64,
    wire: MultiplexedConnection,
    /// Set as soon as the connection is seen to be closed, so that nothing is sent into it.
    closed: Arc<AtomicBool>,
}

/// Whether doing it twice does harm.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Twice {
    Harmless,
    Harmful,
}

/// What a server is asked.
pub(super) enum Ask<'a> {
    Command(Cmd),
    Script(&'a ScriptInvocation<'static>),
}

/// What came back: the server's answer, or that another server of the cluster should have been asked.
pub(super) enum Answer {
    Here(Value),
    Elsewhere,
}

impl Ask<'_> {
    async fn of(&self, wire: &mut MultiplexedConnection) -> Result<Value, RedisError> {
        match self {
            Self::Command(command) => command.query_async(wire).await,
            Self::Script(invocation) => invocation.invoke_async(wire).await,
        }
    }
}

impl Link {
    pub(super) fn new(client: Client, password: Option<String>, timeout: Duration, lives: Arc<AtomicU64>) -> Self {
        Self { client, password, timeout, state: Mutex::default(), turn: tokio::sync::Mutex::default(), lives }
    }

    /// Asks the server something, and is told by that instant.
    pub(super) async fn ask(&self, twice: Twice, ask: &Ask<'_>, by: Instant) -> Result<Answer, Error> {
        let mut used = None;
        let asked = tokio::time::timeout_at(by.into(), self.ask_until(twice, ask, &mut used)).await;
        asked.unwrap_or_else(|_| {
            let error = Error::Timeout(self.timeout);
            // It may be half open: the next one gets a new connection.
            if let Some(number) = used {
                self.lost(number, error.to_string());
            }
            Err(error)
        })
    }

    async fn ask_until(&self, twice: Twice, ask: &Ask<'_>, used: &mut Option<u64>) -> Result<Answer, Error> {
        let mut tries = 0;
        loop {
            let mut connection = match self.connection().await {
                Ok(connection) => connection,
                // Nothing was sent: a server that was gone for a moment need not be told of.
                Err(Error::Away { since, .. }) if is_fresh(since) && tries < TRIES_MAX => {
                    tries += 1;
                    tokio::time::sleep(jittered(RETRY_AFTER)).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            *used = Some(connection.number);
            let error = match ask.of(&mut connection.wire).await {
                Ok(answer) => {
                    // A replica hands messages on, too.
                    if matches!(ask, Ask::Script(_)) {
                        self.state.lock().refuses_since = None;
                    }
                    return Ok(Answer::Here(answer));
                }
                Err(error) if failure::is_elsewhere(&error) => {
                    self.refused(connection.number, &error);
                    return Ok(Answer::Elsewhere);
                }
                Err(error) => error,
            };
            let meant = self.read(&error);
            if failure::breaks_connection(&error) {
                self.lost(connection.number, meant.to_string());
            }
            tries += 1;
            if twice == Twice::Harmful || !matches!(meant, Error::Away { .. }) || tries == TRIES_MAX {
                self.state.lock().last_error = Some((SystemTime::now(), meant.to_string()));
                return Err(meant);
            }
            tokio::time::sleep(jittered(RETRY_AFTER)).await;
        }
    }

    /// The connection, or one that is made now.
    async fn connection(&self) -> Result<Connection, Error> {
        if let Some(connection) = self.present()? {
            return Ok(connection);
        }
        let known_to_be_away = self.state.lock().away.as_ref().is_some_and(|away| 0 < away.tries);
        let _turn = if known_to_be_away {
            match self.turn.try_lock() {
                Ok(turn) => turn,
                Err(_) => return Err(self.away()),
            }
        } else {
            self.turn.lock().await
        };
        // Another one may have made it, or have failed to, meanwhile.
        if let Some(connection) = self.present()? {
            return Ok(connection);
        }
        self.connect().await
    }

    /// The connection that is there; an error while it is too early to try again.
    fn present(&self) -> Result<Option<Connection>, Error> {
        let mut state = self.state.lock();
        if let Some(connection) = &state.connection {
            if !connection.closed.load(Ordering::Acquire) {
                return Ok(Some(connection.clone()));
            }
            state.connection = None;
            state.away.get_or_insert_with(|| Away::now("the server closed the connection".to_owned()));
        }
        match &state.away {
            Some(away) if Instant::now() < away.next => Err(away.error()),
            _ => Ok(None),
        }
    }

    async fn connect(&self) -> Result<Connection, Error> {
        let within = self.timeout / 2;
        let closed = Arc::new(AtomicBool::new(false));
        let told = closed.clone();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(within))
            .set_response_timeout(None)
            .set_pipeline_buffer_size(WAITING_MAX)
            .set_push_sender(move |push: PushInfo| -> Result<(), redis::aio::SendError> {
                if push.kind == PushKind::Disconnection {
                    told.store(true, Ordering::Release);
                }
                Ok(())
            });
        let connected = async {
            let mut wire = self.client.get_multiplexed_async_connection_with_config(&config).await?;
            let life = life(&mut wire).await?;
            Ok((wire, life))
        };
        let error = match tokio::time::timeout(within, connected).await {
            Ok(Ok((wire, life))) => {
                let mut state = self.state.lock();
                if state.made != 0 && (life.is_none() || state.life != life) {
                    self.lives.fetch_add(1, Ordering::AcqRel);
                }
                (state.made, state.life) = (state.made + 1, life);
                let connection = Connection { number: state.made, wire, closed };
                state.connection = Some(connection.clone());
                if let Some(away) = state.away.take() {
                    let seconds = away.since.elapsed().unwrap_or_default().as_secs_f64();
                    tracing::info!(seconds, tries = away.tries, "the store is back");
                }
                return Ok(connection);
            }
            Ok(Err(error)) => self.read(&error),
            Err(_) => Error::Away { since: self.since(), why: format!("no connection within {within:?}") },
        };
        Err(self.failed(error))
    }

    /// Remembers a failed attempt.
    fn failed(&self, error: Error) -> Error {
        let mut state = self.state.lock();
        state.last_error = Some((SystemTime::now(), error.to_string()));
        let away = state.away.get_or_insert_with(|| Away::now(String::new()));
        away.tries = away.tries.saturating_add(1);
        away.next = Instant::now() + jittered(Duration::from_millis(30 << away.tries.min(4)));
        away.why = match &error {
            Error::Away { why, .. } => why.clone(),
            other => other.to_string(),
        };
        error
    }

    /// Puts away a connection that is of no more use, if it is still the one that is used.
    fn lost(&self, number: u64, why: String) {
        let mut state = self.state.lock();
        if state.connection.as_ref().is_some_and(|connection| connection.number == number) {
            tracing::warn!(%why, "the connection to the store is lost");
            state.connection = None;
            state.last_error = Some((SystemTime::now(), why.clone()));
            state.away.get_or_insert_with(|| Away::now(why));
        }
    }

    /// Another server should have been asked. One that was replaced keeps its connections: the next one is made to
    /// wherever its name leads then.
    fn refused(&self, number: u64, error: &RedisError) {
        if error.code() == Some("MOVED") {
            return;
        }
        let why = self.read(error).to_string();
        let now = SystemTime::now();
        self.state.lock().refuses_since.get_or_insert(now);
        self.lost(number, why);
    }

    /// What is told to those whom no server wants to serve.
    pub(super) fn refuses(&self) -> Error {
        let state = self.state.lock();
        let why = "the server is a replica that takes no writes, and no other one was found".to_owned();
        Error::Away { since: state.refuses_since.unwrap_or_else(SystemTime::now), why }
    }

    fn read(&self, error: &RedisError) -> Error {
        failure::read(error, self.password.as_deref(), self.since())
    }

    fn since(&self) -> SystemTime {
        self.state.lock().away.as_ref().map_or_else(SystemTime::now, |away| away.since)
    }

    fn away(&self) -> Error {
        let state = self.state.lock();
        state.away.as_ref().map_or_else(|| Away::now("another one connects".to_owned()).error(), Away::error)
    }

    /// Since when it is away.
    pub(super) fn away_since(&self) -> Option<SystemTime> {
        // A connection that was closed meanwhile is noticed here, also when nobody has asked anything since.
        let is_there = matches!(self.present(), Ok(Some(_)));
        let state = self.state.lock();
        let away = state.away.as_ref().filter(|_| !is_there).map(|away| away.since);
        // One that takes no writes is as good as none.
        away.into_iter().chain(state.refuses_since).min()
    }

    /// What went wrong last.
    pub(super) fn last_error(&self) -> Option<(SystemTime, String)> {
        self.state.lock().last_error.clone()
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }
}

impl Away {
    fn now(why: String) -> Self {
        Self { since: SystemTime::now(), tries: 0, next: Instant::now(), why }
    }

    fn error(&self) -> Error {
        Error::Away { since: self.since, why: self.why.clone() }
    }
}

/// What a server calls its present life; `None` when it does not say.
async fn life(wire: &mut MultiplexedConnection) -> Result<Option<String>, RedisError> {
    let mut asks = redis::pipe();
    asks.cmd("INFO").arg("server").cmd("INFO").arg("replication");
    let told: Result<(String, String), RedisError> = asks.query_async(wire).await;
    let (server, replication) = match told {
        Ok(told) => told,
        Err(error) if failure::breaks_connection(&error) => return Err(error),
        // It is not for everybody to know.
        Err(_) => return Ok(None),
    };
    let life = [field(&server, "run_id"), field(&replication, "master_replid")];
    Ok(life.iter().all(Option::is_some).then(|| life.map(Option::unwrap_or_default).join(" ")))
}

fn is_fresh(since: SystemTime) -> bool {
    since.elapsed().is_ok_and(|gone| gone < FRESH)
}

/// Between a half and all of it, so that many do not come at the same moment.
pub(super) fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(rand::random_range(0.5..1.0))
}
