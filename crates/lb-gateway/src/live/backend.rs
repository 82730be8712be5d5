//! One server as a session sees it, or as all sessions see it that share it.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lb_backend::Connection;
use lb_exchange::{BoxFuture, ErrorBody, LoginNeeded, Tasks};
use lb_session::backend::{Backend as Machine, Status, Treatment};
use lb_session::{Cause, Moment, Prints, Ulid};
use lb_wire::{Raw, Text};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::facts::Facts;
use super::input::Ourselves;
use super::lists::{self, Known, Listing};
use super::view::{ServerView, Unavailable};
use super::{Live, keeper};
use crate::clock::{Clock, sleep_until};
use crate::gateway::Shared;
use crate::pins::Pins;
use crate::registry::Entry;

/// One server, for one session or for all that share it.
pub struct Backend {
    pub(super) entry: Arc<Entry>,
    pub(super) name: Text,
    pub(super) ourselves: Ourselves,
    pub(super) state: Mutex<State>,
    /// The sessions it is for.
    pub(super) members: Mutex<BTreeMap<u64, Weak<Live>>>,
    /// Rung for the keeper.
    pub(super) orders: Notify,
    /// Counts changes of the state, for those who wait for one.
    pub(super) changes: watch::Sender<u64>,
    pub(super) told: Mutex<Remembered>,
    /// Up to which version of the subscriptions a modern server has confirmed that it will tell.
    pub(super) heard: watch::Sender<u64>,
    /// Held while what the connection said is taken in, so that it stays in order.
    pub(super) taking: Mutex<Asked>,
    /// The first line on its stdout that was no message, since it was started last.
    pub(super) stray: Mutex<Option<Text>>,
    pub(super) tasks: Tasks,
    pub(super) clock: Clock,
    pub(super) health_every: Duration,
    pins: Arc<Pins>,
}

/// What was asked outside of any call: by connection and key, and to whom it was given.
type Asked = BTreeMap<(u64, Text), (Weak<Live>, Ulid)>;

/// Where it stands.
pub(super) struct State {
    pub(super) machine: Machine,
    pub(super) connection: Option<Arc<Connection>>,
    pub(super) facts: Option<Facts>,
    /// Fingerprints of what it listed last.
    pub(super) prints: Option<Prints>,
    /// Attempts that have ended, and how the last one did.
    pub(super) attempts: u64,
    pub(super) last: Option<Unavailable>,
    pub(super) keeper: bool,
    pub(super) order: Order,
    /// Tried before anybody sees it: a failure is told to whoever tries, and to nobody else.
    pub(super) trial: bool,
    /// Gone for good.
    pub(super) stopped: Option<Box<str>>,
    /// The login without which it cannot be connected.
    pub(super) login: Option<LoginNeeded>,
    /// It is connected although nobody is logged in there any more.
    pub(super) needs_no_login: bool,
}

/// What the keeper shall do next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    /// Connect now, if it is not connected.
    pub(super) connect: bool,
    /// Close what there is, and connect.
    pub(super) reconnect: bool,
    /// Somebody could not reach it.
    pub(super) suspect: Option<Box<str>>,
    /// What is listened for is another.
    pub(super) relisten: bool,
}

/// What a server was told and must be told again after a restart.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    pub(super) subscriptions: Vec<String>,
    /// Counts changes of the subscriptions.
    pub(super) version: u64,
    pub(super) log_level: Option<String>,
}

/// Why a backend goes whose server was removed.
pub(crate) const REMOVED: &str = "Server removed";
/// Why a backend goes whose server is defined anew.
pub(crate) const REDEFINED: &str = "Server configuration changed";

/// Characters shown of a line that is no message.
const STRAY_CHARS_MAX: usize = 100;

/// How long a call of a tool waits for a server that is just being started: as long as that may take.
pub(super) const START_MAX: Duration = Duration::from_secs(95);

/// How long a call waits for a connection that is being made.
pub(super) const JOIN_MAX: Duration = Duration::from_secs(10);

impl Backend {
    /// Not connected, and for nobody yet.
    pub(crate) fn new(gateway: &Arc<Shared>, entry: &Arc<Entry>, ourselves: Ourselves) -> Arc<Self> {
        let spec = entry.spec();
        let policy = gateway.policy();
        let treatment = Treatment { http: entry.is_http(), restart: spec.restart.clone(), grace: policy.resume_grace };
        let state = State {
            machine: Machine::new(treatment),
            connection: None,
            facts: None,
            prints: None,
            attempts: 0,
            last: None,
            keeper: false,
            order: Order::default(),
            trial: false,
            stopped: None,
            login: None,
            needs_no_login: false,
        };
        Arc::new(Self {
            entry: entry.clone(),
            name: Text::from(spec.name.as_str()),
            ourselves,
            state: Mutex::new(state),
            members: Mutex::default(),
            orders: Notify::new(),
            changes: watch::Sender::new(0),
            told: Mutex::default(),
            heard: watch::Sender::new(0),
            taking: Mutex::default(),
            stray: Mutex::default(),
            tasks: gateway.tasks().child(),
            clock: gateway.clock(),
            health_every: policy.health_every,
            pins: gateway.pins().clone(),
        })
    }

    /// The name of the server.
    pub fn name(&self) -> &Text {
        &self.name
    }

    /// Its definition.
    pub(crate) fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    pub(super) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// A session uses it.
    pub(super) fn join(&self, number: u64, live: Weak<Live>) {
        self.members.lock().insert(number, live);
    }

    /// How many sessions use it.
    pub(super) fn sessions(&self) -> usize {
        self.members.lock().len()
    }

    /// A session is done with it; the last one ends it, and waits for that.
    pub(super) async fn leave(self: &Arc<Self>, number: u64) {
        let last = {
            let mut shared = self.entry.backends.lock();
            let mut members = self.members.lock();
            members.remove(&number);
            if members.is_empty() {
                shared.retain(|_, known| {
                    known.retain(|backend| !Arc::ptr_eq(backend, self));
                    !known.is_empty()
                });
            }
            members.is_empty()
        };
        if last {
            self.stop("Session ended").await;
        }
    }

    /// It goes, for every session but one: that one has it replaced already.
    pub(crate) async fn dismiss(self: &Arc<Self>, reason: &str, except: Option<u64>) {
        if let Some(except) = except {
            self.members.lock().remove(&except);
        }
        self.stop(reason).await;
    }

    /// A backend that takes the place of one whose server is defined anew: sent away, with what that one was told.
    pub(crate) fn succeed(&self, other: &Self) {
        let (subscriptions, log_level) = {
            let told = other.told.lock();
            (told.subscriptions.clone(), told.log_level.clone())
        };
        let version = u64::from(!subscriptions.is_empty());
        *self.told.lock() = Remembered { subscriptions, version, log_level };
        // It was never up, so that there is nothing to tell.
        drop(self.state.lock().machine.stop(None));
    }

    /// Whether a session can do without it until its client comes back: it is not connected, or to a server that has no
    /// session with us and nothing to tell. What such a server lists is compared when it is met again.
    pub(super) fn can_rest(&self) -> bool {
        let connection = {
            let state = self.state.lock();
            let is_wanted = state.order.connect || state.order.reconnect;
            match (&state.connection, state.machine.status()) {
                _ if state.stopped.is_some() => return true,
                (None, Status::Connecting) => return false,
                (None, _) => return !is_wanted,
                (Some(connection), Status::Connected) if !is_wanted => connection.clone(),
                (Some(_), _) => return false,
            }
        };
        connection.is_expendable() && !self.is_needed()
    }

    /// A session hears nothing of it any more, and will leave it. What it listed, if it is connected.
    pub(super) fn turn_from(&self, number: u64) -> Option<Prints> {
        self.members.lock().remove(&number);
        let state = self.state.lock();
        state.prints.filter(|_| state.connection.is_some() && state.machine.status() == Status::Connected)
    }

    /// It listed this when its only session went to rest.
    pub(super) fn had_listed(&self, prints: Prints) {
        let alone = self.sessions() <= 1;
        let mut state = self.state.lock();
        if state.machine.status() == Status::NotConnected && alone {
            state.prints.get_or_insert(prints);
        }
    }

    /// What it lists now, and how it says that this is not what it was.
    pub(super) fn changed_since(&self, prints: Prints) -> Vec<&'static str> {
        self.state.lock().prints.map(|now| lists::changes(prints, now)).unwrap_or_default()
    }

    /// Whether it is gone for good.
    pub(super) fn is_stopped(&self) -> bool {
        self.state.lock().stopped.is_some()
    }

    /// Nothing of it is told until it works.
    pub(super) fn try_out(&self) {
        self.state.lock().trial = true;
    }

    /// It is kept: from now on what becomes of it is told.
    pub(super) fn tried(&self) {
        self.state.lock().trial = false;
    }

    /// Ends it for good, and waits until its connection is closed.
    pub(super) async fn stop(self: &Arc<Self>, reason: &str) {
        let (told, connection) = {
            let mut state = self.state.lock();
            if state.stopped.is_some() {
                return;
            }
            state.stopped = Some(reason.into());
            (state.machine.stop(Some(reason)), state.connection.take())
        };
        let cause = if reason == REMOVED { Cause::ServerRemoved } else { Cause::ServerDisconnected };
        self.tell_all(told, reason, cause);
        self.orders.notify_one();
        self.changed();
        if let Some(connection) = connection {
            connection.close().await;
        }
    }

    /// How it stands.
    pub fn view(&self) -> ServerView {
        let now = self.now();
        let left_alone = self.entry.server.left_alone_for().unwrap_or_default();
        let stray = self.stray.lock().clone();
        let state = self.state.lock();
        let machine = &state.machine;
        let health = machine.health();
        // Known at once, while it is still waited for in vain.
        let stray = stray.filter(|_| machine.status() == Status::Connecting).map(|line| {
            let line: String = line.chars().take(STRAY_CHARS_MAX).collect();
            format!("it wrote on stdout, which is no message of MCP: {line:?}; an answer is still waited for")
        });
        let wait = || machine.retry_at().map_or(Duration::ZERO, |at| now.until(at)).max(left_alone);
        ServerView {
            status: machine.status(),
            connected_at: machine.connected_at().filter(|_| health.is_some()).map(|at| at.unix),
            last_error: stray.or_else(|| machine.last_error().map(str::to_owned)),
            attempt: machine.attempt(),
            next_retry: machine.attempt().map(|_| wait()),
            healthy: health.map(|(_, degraded)| !degraded),
            health_failures: health.map(|(failures, _)| failures),
            pid: state.connection.as_ref().filter(|_| health.is_some()).and_then(|connection| connection.pid()),
            login: state.login.clone().filter(|_| machine.status() == Status::Error),
            ..ServerView::unconnected(&self.entry)
        }
    }

    /// What it said of itself, while it is connected.
    pub fn facts(&self) -> Option<Facts> {
        let state = self.state.lock();
        state.facts.clone().filter(|_| state.machine.status() == Status::Connected)
    }

    /// Whether something needs it between two calls: a subscription, or a question that waits for its answer.
    pub(super) fn is_needed(&self) -> bool {
        let asks = |live: &Arc<Live>| live.cell().with(|session| session.pending_of(&self.name).next().is_some());
        !self.told.lock().subscriptions.is_empty() || self.lives().iter().any(asks)
    }

    /// What it listed last.
    pub fn known(&self) -> Option<Arc<Known>> {
        self.entry.known.lock().of(self.ourselves.principal())
    }

    /// Sees to it that it is connected, without waiting.
    pub(crate) fn want(self: &Arc<Self>) {
        self.order(|order| order.connect = true);
    }

    /// Tells the keeper something, and starts one if there is none.
    pub(super) fn order(self: &Arc<Self>, change: impl FnOnce(&mut Order)) {
        let start = {
            let mut state = self.state.lock();
            if state.stopped.is_some() {
                return;
            }
            change(&mut state.order);
            !std::mem::replace(&mut state.keeper, true)
        };
        if start {
            let backend = self.clone();
            self.tasks.spawn(keeper::keep(backend));
        } else {
            self.orders.notify_one();
        }
    }

    /// The state has changed: whoever waits for that looks again.
    pub(super) fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Waits until it is connected: joins the attempt under way, or starts one.
    pub fn ready(self: &Arc<Self>, within: Duration) -> BoxFuture<'static, Result<Facts, Unavailable>> {
        let backend = self.clone();
        Box::pin(async move { backend.connected(within).await.map(|(_, facts)| facts) })
    }

    /// Whether it is not tried again by itself although it may be, and waits for no login.
    pub(super) fn is_given_up(&self) -> bool {
        let state = self.state.lock();
        let may_start = self.entry.is_http() || self.entry.spec().restart.enabled;
        may_start && state.machine.status() == Status::Error && state.login.is_none()
    }

    /// Whether it is being connected for the first time, or after it was given up.
    pub fn is_connecting(&self) -> bool {
        self.state.lock().machine.status() == Status::Connecting
    }

    /// The connection now, if there is one.
    pub(super) fn current(&self) -> Option<(Arc<Connection>, Facts)> {
        let state = self.state.lock();
        if state.machine.status() != Status::Connected {
            return None;
        }
        let connection = state.connection.clone().filter(|connection| !connection.is_lost())?;
        Some((connection, state.facts.clone()?))
    }

    /// The connection, made if there is none.
    pub(super) async fn connected(self: &Arc<Self>, within: Duration) -> Result<(Arc<Connection>, Facts), Unavailable> {
        if let Some(current) = self.current() {
            return Ok(current);
        }
        let mut changes = self.changes.subscribe();
        let target = self.state.lock().attempts + 1;
        self.want();
        self.wait(&mut changes, target, within).await
    }

    async fn wait(
        &self,
        changes: &mut watch::Receiver<u64>,
        target: u64,
        within: Duration,
    ) -> Result<(Arc<Connection>, Facts), Unavailable> {
        let until = Instant::now() + within;
        loop {
            if let Some(current) = self.current() {
                return Ok(current);
            }
            {
                let state = self.state.lock();
                if let Some(last) = state.last.clone().filter(|_| target <= state.attempts) {
                    return Err(last);
                }
                if state.stopped.is_some() {
                    drop(state);
                    return Err(self.unavailable(None));
                }
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return Err(self.unavailable(None)) },
                () = sleep_until(Some(until)) => return Err(self.unavailable(Some(within))),
            }
        }
    }

    /// Why it cannot be used now.
    pub(super) fn unavailable(&self, waited: Option<Duration>) -> Unavailable {
        let view = self.view();
        if let Some(reason) = &self.state.lock().stopped {
            let message = format!("server '{}' is gone: {reason}", self.name);
            let (code, status) = ("TOOL_ERR_SERVER_DISCONNECTED", Status::Disconnected);
            return Unavailable {
                code,
                message,
                status,
                attempt: None,
                next_retry: None,
                last_error: None,
                login: None,
            };
        }
        let waited = waited.map(|time| format!(" within {} s", time.as_secs_f64())).unwrap_or_default();
        let why = view.last_error.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        let next = match view.next_retry {
            Some(wait) => format!(
                "; attempt {} is due in {} ms, or call reconnect_server to try now",
                view.attempt.unwrap_or(1),
                wait.as_millis()
            ),
            None if view.status == Status::Connecting => {
                "; it is still being connected: call again, or wait for it with await_activity".to_owned()
            }
            None => "; call reconnect_server to try again".to_owned(),
        };
        Unavailable {
            code: "TOOL_ERR_SERVER_DISCONNECTED",
            message: format!(
                "server '{}' is {} and did not answer{waited}{why}{next}",
                self.name,
                view.status.as_str()
            ),
            status: view.status,
            attempt: view.attempt,
            next_retry: view.next_retry,
            last_error: view.last_error,
            login: None,
        }
    }

    /// Closes the connection, whatever its state, and makes it anew; a second caller joins the first.
    pub(super) async fn reconnect(self: &Arc<Self>, within: Duration) -> Result<(), Unavailable> {
        let mut changes = self.changes.subscribe();
        let target = self.state.lock().attempts + 1;
        self.order(|order| order.reconnect = true);
        let until = Instant::now() + within;
        loop {
            {
                let state = self.state.lock();
                if state.stopped.is_some() {
                    drop(state);
                    return Err(self.unavailable(None));
                }
                if target <= state.attempts && !state.order.reconnect {
                    return match (&state.last, state.machine.status()) {
                        (_, Status::Connected) | (None, _) => Ok(()),
                        (Some(last), _) => Err(last.clone()),
                    };
                }
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return Err(self.unavailable(None)) },
                () = sleep_until(Some(until)) => return Err(self.unavailable(Some(within))),
            }
        }
    }

    /// All rows of one of its lists.
    pub fn list(
        self: &Arc<Self>,
        which: Listing,
        within: Duration,
    ) -> BoxFuture<'static, Result<Vec<Raw>, Unavailable>> {
        let backend = self.clone();
        Box::pin(async move {
            // A process that was not needed so far is not started to be asked what is known of it.
            if backend.state.lock().machine.status() == Status::NotConnected
                && !backend.entry.is_http()
                && let Some(known) = backend.known()
            {
                return Ok(known.rows(which).to_vec());
            }
            let until = Instant::now() + within;
            let (connection, _) = backend.connected(within).await?;
            let read = lists::read(&connection, &backend.ourselves, which);
            match tokio::time::timeout_at(until, read).await {
                Ok(Ok(rows)) => Ok(backend.shown(&connection, which, rows)),
                Ok(Err(error)) => Err(backend.refused(&error)),
                Err(_) => Err(Unavailable { code: "TOOL_ERR_TIMEOUT", ..backend.unavailable(Some(within)) }),
            }
        })
    }

    /// The rows that clients may see; what has changed since it was first seen is told.
    pub(super) fn shown(&self, connection: &Connection, which: Listing, rows: Vec<Raw>) -> Vec<Raw> {
        if which != Listing::Tools || !self.pins.are_on() {
            return rows;
        }
        let seen = self.pins.look(self.entry.spec(), self.ourselves.principal(), connection.revision().as_str(), &rows);
        let gateway = self.lives().first().and_then(|live| live.gateway.upgrade());
        if let Some(gateway) = gateway {
            gateway.tell_changed(self.entry.spec(), self.ourselves.principal(), &seen.news);
        }
        seen.shown(rows)
    }

    /// Whether a tool is not what it was when it was first seen.
    pub fn has_changed(&self, tool: &str) -> bool {
        self.pins.has_changed(self.entry.spec(), self.ourselves.principal(), tool)
    }

    /// Why a tool may not be called, if it may not.
    pub fn refuses(&self, tool: &str) -> Option<String> {
        self.pins.refuses(self.entry.spec(), self.ourselves.principal(), tool)
    }

    fn refused(&self, error: &ErrorBody) -> Unavailable {
        let said = error.raw.member("message").and_then(|text| text.to_text().map(|text| text.into_owned()));
        let message = format!("server '{}' said: {}", self.name, said.unwrap_or_default());
        let login = error.login.clone();
        Unavailable { code: super::error_code(error), message, login, ..self.unavailable(None) }
    }
}
