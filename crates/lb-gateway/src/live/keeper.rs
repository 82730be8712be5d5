//! The task of a backend: connects, takes in what comes unasked, notices a loss, and tries again.
//!
//! It exists only while there is something to wait for. What it decides is decided by the state machine; this carries
//! it out.

use std::sync::Arc;
use std::time::Duration;

use lb_backend::{ConnectError, Connection, Wish};
use lb_exchange::{Feed, Note, Outcome};
use lb_session::backend::{Listed, Remedy, Status};
use lb_session::{Cause, Prints};
use lb_wire::revision::{Era, code};
use lb_wire::{Raw, Text, compose};

use super::apply::News;
use super::backend::Backend;
use super::facts::Facts;
use super::lists::{self, Known, Listing};
use super::tell::{tell, uri_params};
use super::tending::Tending;
use super::view::Unavailable;

/// How long a server may take to say what it lists, and to hear what it was told before, after it was connected.
const PREPARE_MAX: Duration = Duration::from_secs(30);
/// How long a server may take to answer a health check or a probe.
const PING_MAX: Duration = Duration::from_secs(10);
/// Attempts over HTTP of many sessions are spread over this time.
const SPREAD: Duration = Duration::from_millis(500);

/// What calls and tasks are told when the connection is lost.
pub(super) const LOST: &str = "Server disconnected";

/// Keeps a backend for as long as there is something to wait for.
pub(super) async fn keep(backend: Arc<Backend>) {
    let tasks = backend.tasks.clone();
    tokio::select! {
        () = tasks.stopping() => {}
        () = keep_on(&backend) => {}
    }
}

async fn keep_on(backend: &Arc<Backend>) {
    loop {
        match backend.next() {
            Next::Rest => return,
            Next::Restart(connection) => {
                if let Some(connection) = connection {
                    connection.close().await;
                }
                let generation = backend.state.lock().machine.start(backend.now());
                attempt(backend, generation, true).await;
            }
            Next::Connect(generation) => attempt(backend, generation, false).await,
            Next::Tend(generation, connection) => Tending::new(backend, generation, connection).run().await,
            Next::Probe(generation, connection) => probe(backend, generation, &connection).await,
            Next::Wait(until) => {
                let until = backend.clock.at(until);
                tokio::select! {
                    () = tokio::time::sleep_until(until) => backend.grace_may_be_over(),
                    () = backend.orders.notified() => {}
                }
            }
        }
    }
}

enum Next {
    /// There is nothing to wait for.
    Rest,
    Connect(u64),
    /// Close this, and connect.
    Restart(Option<Arc<Connection>>),
    Tend(u64, Arc<Connection>),
    /// See whether this is still good.
    Probe(u64, Arc<Connection>),
    Wait(Duration),
}

impl Backend {
    fn next(self: &Arc<Self>) -> Next {
        let now = self.now();
        let mut state = self.state.lock();
        if state.stopped.is_some() {
            state.keeper = false;
            return Next::Rest;
        }
        if state.order.reconnect {
            let told = state.machine.stop(None);
            let connection = state.connection.take();
            state.order.connect = false;
            drop(state);
            self.tell_all(told, LOST, Cause::ServerDisconnected);
            return Next::Restart(connection);
        }
        let wanted = std::mem::take(&mut state.order.connect);
        match (state.machine.status(), state.connection.clone()) {
            (Status::Connected, Some(connection)) => Next::Tend(state.machine.generation(), connection),
            (Status::Reconnecting, connection) => {
                // While the server is left alone an attempt would be refused; only a caller needs to hear that.
                let left_alone_until = now.up + self.entry.server.left_alone_for().unwrap_or_default();
                let at = state.machine.retry_at().unwrap_or(now.up).max(left_alone_until);
                let due = at <= now.up;
                match connection.filter(|_| state.machine.grace_until().is_some()) {
                    Some(connection) if wanted || due => Next::Probe(state.machine.generation(), connection),
                    Some(_) => Next::Wait(state.machine.grace_until().map_or(at, |until| until.min(at))),
                    None if wanted || due => Next::Connect(state.machine.start(now)),
                    None => Next::Wait(at + self.spread()),
                }
            }
            _ if wanted => Next::Connect(state.machine.start(now)),
            _ => {
                state.keeper = false;
                Next::Rest
            }
        }
    }

    /// So that many sessions do not come at once.
    fn spread(&self) -> Duration {
        if self.entry.is_http() { SPREAD.mul_f64(unit()) } else { Duration::ZERO }
    }

    fn grace_may_be_over(self: &Arc<Self>) {
        let now = self.now();
        let (told, connection) = {
            let mut state = self.state.lock();
            let told = state.machine.tick(now);
            let connection = if told.is_empty() { None } else { state.connection.take() };
            (told, connection)
        };
        drop(connection);
        self.tell_all(told, LOST, Cause::ServerDisconnected);
        self.changed();
    }

    /// Asks the server whether it is there.
    pub(super) async fn ping(&self, connection: &Connection) -> Result<(), String> {
        let outcome = match connection.era() {
            Era::Legacy => tokio::time::timeout(PING_MAX, connection.request("ping", None)).await,
            Era::Modern => {
                let meta = self.ourselves.meta(Era::Modern, None, None).unwrap_or_else(Raw::empty_object);
                let params = compose::object(&[("_meta", &meta)]);
                tokio::time::timeout(PING_MAX, connection.request("server/discover", Some(&params))).await
            }
        };
        match outcome {
            Ok(Outcome::Result(_)) => Ok(()),
            // It cannot be asked, and yet it answers.
            Ok(Outcome::Error(error)) if error.code == code::METHOD_NOT_FOUND => Ok(()),
            Ok(Outcome::Error(error)) => Err(said(&error.raw)),
            Ok(Outcome::Cancelled) => Err("cancelled".to_owned()),
            Err(_) => Err(format!("no answer within {} s", PING_MAX.as_secs())),
        }
    }
}

/// A number in 0..1; no secret hangs on it.
fn unit() -> f64 {
    let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
    f64::from(nanos % 10_007) / 10_007.0
}

/// Between 0.9 and 1.1.
pub(super) fn jitter() -> f64 {
    0.9 + 0.2 * unit()
}

fn said(error: &Raw) -> String {
    let text = error.member("message").and_then(|text| text.to_text().map(|text| text.into_owned()));
    text.unwrap_or_default().chars().take(SAID_CHARS_MAX).collect()
}

/// What is kept of what a server says went wrong.
const SAID_CHARS_MAX: usize = 500;

/// One attempt to connect, to its end.
async fn attempt(backend: &Arc<Backend>, generation: u64, forced: bool) {
    let feed = Feed::of_session();
    feed.listen();
    *backend.stray.lock() = None;
    backend.changed();
    let connecting = async {
        let permit = match backend.entry.is_http() {
            true => Some(backend.entry.attempts.acquire().await.map_err(|_| ConnectError::Stopping)?),
            false => None,
        };
        let wish = Wish {
            caller: backend.ourselves.speaking(backend.ourselves.era),
            hello: Some(backend.ourselves.hello()),
            feed: feed.clone(),
            tasks: backend.tasks.clone(),
            client_says_initialized: false,
        };
        let server = &backend.entry.server;
        let connection = if forced { server.connect_anyway(&wish).await? } else { server.connect(&wish).await? };
        connection.expect_tasks();
        drop(permit);
        let known = prepare(backend, &connection).await;
        Ok((connection, known))
    };
    let outcome = tokio::select! {
        outcome = connecting => outcome,
        () = stopped(backend) => return,
        () = hear(backend, &feed, generation) => return,
    };
    // What it wrote last counts, whether it works or not.
    drop(backend.take_in(&feed, generation));
    match outcome {
        Ok((connection, known)) => succeeded(backend, generation, forced, connection, known).await,
        Err(error) => failed(backend, generation, &error),
    }
}

/// Takes in what a server writes while it is being connected, as it comes; never ends by itself.
async fn hear(backend: &Backend, feed: &Feed, generation: u64) {
    loop {
        feed.ready().await;
        drop(backend.take_in(feed, generation));
    }
}

async fn stopped(backend: &Backend) {
    let mut changes = backend.changes.subscribe();
    while backend.state.lock().stopped.is_none() {
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Tells a new connection what the one before was told, and reads its lists.
async fn prepare(backend: &Arc<Backend>, connection: &Arc<Connection>) -> Prepared {
    let mut prepared = Prepared { known: Known::default(), whole: false };
    if tokio::time::timeout(PREPARE_MAX, prepare_all(backend, connection, &mut prepared)).await.is_err() {
        tracing::warn!(server = &*backend.name, "server is slow to say what it lists");
    }
    prepared
}

/// What a server listed.
struct Prepared {
    known: Known,
    /// Whether every list could be read.
    whole: bool,
}

async fn prepare_all(backend: &Arc<Backend>, connection: &Arc<Connection>, prepared: &mut Prepared) {
    read_lists(backend, connection, prepared).await;
    let (subscriptions, log_level) = {
        let told = backend.told.lock();
        (told.subscriptions.clone(), told.log_level.clone())
    };
    if connection.era() == Era::Legacy {
        if let Some(level) = log_level {
            let params = compose::object(&[("level", &Raw::string(&level))]);
            drop(tell(connection, "logging/setLevel", &params).await);
        }
        for uri in &subscriptions {
            drop(tell(connection, "resources/subscribe", &uri_params(uri)).await);
        }
    }
}

async fn read_lists(backend: &Arc<Backend>, connection: &Arc<Connection>, prepared: &mut Prepared) {
    let read = Listing::ALL.map(|which| lists::read(connection, &backend.ourselves, which));
    let read = futures_util::future::join_all(read).await;
    prepared.whole = true;
    for (which, rows) in Listing::ALL.into_iter().zip(read) {
        match rows {
            Ok(rows) => prepared.known.set(which, backend.shown(connection, which, rows)),
            Err(error) => {
                prepared.whole = false;
                let why = if error.login.is_some() { "a login is needed".to_owned() } else { said(&error.raw) };
                tracing::warn!(server = &*backend.name, "{}: {why}", which.method());
            }
        }
    }
}

async fn succeeded(
    backend: &Arc<Backend>,
    generation: u64,
    forced: bool,
    connection: Arc<Connection>,
    Prepared { known, whole }: Prepared,
) {
    let now = backend.now();
    let facts = Facts::of(&connection, known.count(Listing::Tools));
    let listed = listed(&facts, &known);
    let prints = known.prints();
    if whole {
        if let Some(cache) = &backend.entry.cache {
            cache.keep_known(backend.ourselves.principal(), &connection, &known);
        }
        backend.entry.known.lock().put(backend.ourselves.principal(), known);
    }
    let accepted = {
        let mut state = backend.state.lock();
        let accepted = state.machine.connected(generation, &listed, forced, now);
        if accepted.is_ok() {
            state.connection = Some(connection.clone());
            state.facts = Some(facts);
            state.attempts += 1;
            (state.last, state.trial, state.order.reconnect) = (None, false, false);
            (state.login, state.needs_no_login) = (None, false);
        }
        accepted.map(|told| (told, state.prints.replace(prints)))
    };
    match accepted {
        Ok((told, before)) => {
            tracing::info!(server = &*backend.name, "server_connected");
            differences(backend, before, prints);
            backend.tell_all(told, LOST, Cause::ServerDisconnected);
            connection.watch();
            backend.changed();
        }
        Err(_) => connection.close().await,
    }
}

impl Backend {
    /// What it listed, while it is connected.
    pub(super) fn listed(&self) -> Option<Listed> {
        Some(listed(&self.facts()?, &self.known().unwrap_or_default()))
    }
}

fn listed(facts: &Facts, known: &Known) -> Listed {
    Listed {
        capabilities: facts.flags(),
        tools: known.count(Listing::Tools),
        resources: known.count(Listing::Resources) + known.count(Listing::Templates),
        prompts: known.count(Listing::Prompts),
    }
}

/// Tells of lists that are not what they were before the connection was lost.
fn differences(backend: &Backend, before: Option<Prints>, now: Prints) {
    for changed in before.map(|before| lists::changes(before, now)).into_iter().flatten() {
        backend.noted(&Note::new(Text::from_static(changed), None));
    }
}

fn failed(backend: &Arc<Backend>, generation: u64, error: &ConnectError) {
    let now = backend.now();
    let message = error.message(&format!("server '{}'", backend.name));
    let login = match error {
        ConnectError::LoginNeeded(needed) => Some(needed.clone()),
        _ => None,
    };
    let (told, trial, is_new, is_first) = {
        let mut state = backend.state.lock();
        let remedy = match error {
            _ if state.trial => Remedy::Known,
            ConnectError::LoginNeeded(_) => Remedy::Known,
            error if error.is_lasting() => Remedy::Mending,
            _ => Remedy::Time,
        };
        let is_first = state.attempts == 0;
        let told = state.machine.failed(generation, &error.to_string(), remedy, now, jitter());
        state.order.reconnect = false;
        let before = std::mem::replace(&mut state.login, login.clone());
        (told.unwrap_or_default(), state.trial, login.is_some() && before != login, is_first)
    };
    match error {
        // That it is left alone was said when that began.
        ConnectError::LeftAlone { .. } => {}
        // The link is for whoever logs in.
        ConnectError::LoginNeeded(_) if is_new => tracing::info!(server = &*backend.name, "server_login_needed"),
        ConnectError::LoginNeeded(_) => {}
        _ if trial => {}
        _ => say_failed(backend, error, &message, is_first),
    }
    if let Some(login) = login.clone().filter(|_| is_new) {
        backend.connect_after(login);
    }
    backend.tell_all(told, LOST, Cause::ServerDisconnected);
    let view = backend.view();
    let code = match error {
        ConnectError::Timeout(_) | ConnectError::Silent { .. } => "TOOL_ERR_TIMEOUT",
        ConnectError::TooManyChildren(_) => "LIMIT_EXCEEDED",
        ConnectError::LoginNeeded(_) => "LOGIN_NEEDED",
        ConnectError::LoginFailed(_) => "LOGIN_FAILED",
        _ => "TOOL_ERR_SERVER_DISCONNECTED",
    };
    let (status, attempt, next_retry) = (view.status, view.attempt, view.next_retry);
    let last_error = view.last_error;
    let login = login.map(Box::new);
    {
        let mut state = backend.state.lock();
        state.attempts += 1;
        state.last = Some(Unavailable { code, message, status, attempt, next_retry, last_error, login });
    }
    backend.changed();
}

/// One line for each attempt, with the time of the next one. What was said of a server that waits to be mended is not
/// said again by whoever uses it meanwhile.
fn say_failed(backend: &Arc<Backend>, error: &ConnectError, message: &str, is_first: bool) {
    let known = error.is_lasting()
        && backend
            .state
            .lock()
            .last
            .as_ref()
            .is_some_and(|last| last.status == Status::Error && last.message == message);
    let next = match backend.view().next_retry {
        Some(wait) => format!("tried again in {:.1} s", wait.as_secs_f64()),
        None => "tried again when it is used".to_owned(),
    };
    let server = &*backend.name;
    match (known, is_first) {
        (true, _) => tracing::debug!(server, error = message, next, "server_connect_failed"),
        (false, true) => tracing::warn!(server, error = message, next, "server_connect_failed"),
        (false, false) => tracing::warn!(server, error = message, next, "server_reconnect_failed"),
    }
}

/// Sees whether a server that was out of reach is back and still knows us.
async fn probe(backend: &Arc<Backend>, generation: u64, connection: &Arc<Connection>) {
    let answer = tokio::select! {
        answer = backend.ping(connection) => answer,
        () = stopped(backend) => return,
    };
    let renewed = backend.take_in(connection.feed(), generation).iter().any(|news| matches!(news, News::Renewed));
    let now = backend.now();
    match answer {
        Ok(()) if renewed => renew(backend, generation, connection).await,
        Ok(()) => {
            let told = {
                let mut state = backend.state.lock();
                let listed = state.facts.as_ref().map(|facts| {
                    let known = backend.known().unwrap_or_default();
                    listed(facts, &known)
                });
                listed.and_then(|listed| state.machine.resumed(generation, &listed, now).ok())
            };
            backend.tell_all(told.unwrap_or_default(), LOST, Cause::ServerDisconnected);
            backend.state.lock().attempts += 1;
        }
        Err(why) => {
            let (told, connection) = {
                let mut state = backend.state.lock();
                let told = if connection.is_lost() {
                    state.machine.lost(generation, &why, None, now, jitter()).unwrap_or_default()
                } else {
                    state.machine.still_out_of_reach(&why, now, jitter())
                };
                let over = state.machine.grace_until().is_none();
                (told, if over { state.connection.take() } else { None })
            };
            drop(connection);
            backend.tell_all(told, LOST, Cause::ServerDisconnected);
            let unavailable = backend.unavailable(None);
            let mut state = backend.state.lock();
            state.attempts += 1;
            state.last = Some(unavailable);
        }
    }
    backend.changed();
}

/// The server forgot us, and was introduced anew on the same connection: a restart.
pub(super) async fn renew(backend: &Arc<Backend>, generation: u64, connection: &Arc<Connection>) {
    let now = backend.now();
    let told = backend.state.lock().machine.lost(generation, "the server restarted", None, now, jitter());
    backend.tell_all(told.unwrap_or_default(), LOST, Cause::ServerDisconnected);
    let wait = {
        let state = backend.state.lock();
        // One restart is none to wait for; a server that forgets us again and again is.
        state.machine.retry_at().filter(|_| state.machine.attempt().is_some_and(|attempt| 1 < attempt))
    };
    if let Some(until) = wait {
        tokio::select! {
            () = tokio::time::sleep_until(backend.clock.at(until)) => {}
            () = stopped(backend) => return,
        }
    }
    let generation = {
        let mut state = backend.state.lock();
        state.connection = None;
        state.machine.start(backend.now())
    };
    let known = prepare(backend, connection).await;
    // What it forgot meanwhile is known by now.
    drop(backend.take_in(connection.feed(), generation));
    succeeded(backend, generation, false, connection.clone(), known).await;
}
