//! A session that is in use: its state, its backends, and the client it belongs to.

mod apply;
mod asking;
mod backend;
mod commands;
mod conversation;
mod facts;
mod input;
mod keeper;
mod lists;
mod login;
pub(crate) mod packages;
mod servers;
mod tell;
mod tending;
mod view;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use lb_exchange::{Aim, Caller, Rights, SessionId, Tasks, Verdict};
use lb_session::{Cell, Limits, Moment, Session};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

pub use self::backend::Backend;
pub(crate) use self::backend::{REDEFINED, REMOVED};
pub use self::commands::Commands;
pub use self::facts::{Facts, error_code};
pub(crate) use self::lists::objects;
pub use self::lists::{Known, Listing};
pub use self::servers::{AddError, Added, NoServer};
pub use self::view::{CallError, ReconnectError, RemoveError, ServerView, Unavailable};
use crate::census::Usage;
use crate::clock::Clock;
use crate::gateway::Shared;
use crate::pins::Pin;
use crate::tracker::Tracker;

/// How surfaces of our own behave.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Whether a client may define servers that are started as processes.
    pub allow_spawn: bool,
    /// Whether clients are not on this machine: what they add must be reachable by everybody, and is never a program.
    pub from_afar: bool,
    /// Whether packages that a client wants fetched and started must be named with their version.
    pub pinned_packages: bool,
    /// Programs that may be added from elsewhere all the same.
    pub commands: Commands,
    /// What happens to tools that are not what they were.
    pub pin: Pin,
    /// How often a server may ask for something in a session within a minute; `None` for any number.
    pub asks_per_minute: Option<usize>,
    /// Who answers what servers ask.
    pub ask: AskMode,
    /// After what time a call becomes a task whose caller named no time; `None` for not before its limit.
    pub patience: Option<Duration>,
    /// How long an ask may stay unanswered before its call becomes a task.
    pub input_grace: Duration,
    /// Whether empty lists are told by a sentence.
    pub legacy_empty_text: bool,
    /// How long a server over HTTP may be out of reach before its tasks and requests are given up.
    pub resume_grace: Duration,
    /// How often a connected server is asked whether it is well.
    pub health_every: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            allow_spawn: false,
            from_afar: false,
            pinned_packages: false,
            commands: Commands::default(),
            pin: Pin::Off,
            asks_per_minute: None,
            ask: AskMode::ClientFirst,
            patience: Some(Duration::from_secs(45)),
            input_grace: Duration::from_millis(250),
            legacy_empty_text: false,
            resume_grace: Duration::from_secs(15),
            health_every: Duration::from_secs(120),
        }
    }
}

/// Who answers what servers ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskMode {
    /// The client if it can, else its model.
    ClientFirst,
    /// The model.
    Model,
    /// Nobody: servers are refused.
    Never,
}

/// One session.
pub struct Live {
    number: u64,
    id: SessionId,
    /// How a modern client names it, if it is the session of those that name none: its id is no secret then.
    handle: Option<SessionId>,
    hash: String,
    caller: Arc<Caller>,
    remembered: AtomicBool,
    cell: Arc<Cell>,
    gateway: Weak<Shared>,
    me: Weak<Self>,
    tasks: Tasks,
    clock: Clock,
    backends: Mutex<HashMap<Box<str>, Arc<Backend>>>,
    ended: AtomicBool,
    calls: AtomicU64,
    /// Lost events that have been counted.
    lost: AtomicU64,
    usage: Usage,
    /// What its client may use, as of its last request; `None` before the first, and where nobody logs in.
    rights: Mutex<Option<Allowed>>,
    /// Whether clients log in.
    login: bool,
    /// When servers have asked for something.
    asks: Mutex<asking::Asks>,
}

/// What a client may use: everything without rights.
type Allowed = Option<Arc<dyn Rights>>;

impl Live {
    /// A new session, which the schedule knows from the start. With a handle, it is that of modern clients that name none.
    pub(crate) fn new(
        gateway: &Arc<Shared>,
        caller: Arc<Caller>,
        id: SessionId,
        handle: Option<SessionId>,
    ) -> Arc<Self> {
        let mut session = Session::new(Limits::default());
        session.touch(gateway.clock().now());
        if gateway.keeper().is_some() && handle.is_none() {
            session.keep();
        }
        Self::of(session, gateway, caller, id, handle)
    }

    /// A session with this state.
    pub(crate) fn of(
        session: Session,
        gateway: &Arc<Shared>,
        caller: Arc<Caller>,
        id: SessionId,
        handle: Option<SessionId>,
    ) -> Arc<Self> {
        let number = gateway.next_number();
        let hash = hash(handle.as_ref().unwrap_or(&id).as_str());
        // What is kept of such a session is there because something had to be remembered.
        let remembered = AtomicBool::new(handle.is_none() || session.is_kept());
        let tasks = gateway.tasks().child();
        let (clock, schedule) = (gateway.clock(), gateway.schedule().clone());
        let live = Arc::new_cyclic(|live: &Weak<Self>| {
            let due = live.clone();
            let (keeper, kept) = (gateway.keeper().cloned(), id.clone());
            let unkept = move || {
                if let Some(keeper) = &keeper {
                    keeper.mark(&kept);
                }
            };
            Self {
                number,
                id,
                handle,
                hash,
                caller,
                remembered,
                cell: Cell::keeping(session, move |at| schedule.set(number, &due, at), unkept),
                gateway: Arc::downgrade(gateway),
                me: live.clone(),
                tasks,
                clock,
                backends: Mutex::default(),
                ended: AtomicBool::new(false),
                calls: AtomicU64::new(0),
                lost: AtomicU64::new(0),
                usage: Usage::new(clock.now()),
                rights: Mutex::default(),
                login: gateway.has_login(),
                asks: Mutex::default(),
            }
        });
        // Only now can it be found by whoever is told that it is due.
        live.cell.begin();
        if gateway.is_leaving() {
            live.leave();
        }
        live
    }

    fn itself(&self) -> Weak<Self> {
        self.me.clone()
    }

    /// What it remembers.
    pub fn cell(&self) -> &Arc<Cell> {
        &self.cell
    }

    /// This moment.
    pub fn now(&self) -> Moment {
        self.clock.now()
    }

    /// How a modern client names it: a bearer secret.
    pub fn handle(&self) -> &str {
        self.handle.as_ref().unwrap_or(&self.id).as_str()
    }

    /// What it is called within.
    pub(crate) fn id(&self) -> &SessionId {
        &self.id
    }

    /// How people see it: 12 hex of the hash of its id, or of its handle if it has one.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The client.
    pub fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// Whether it is the session of modern clients that name none.
    pub fn is_default(&self) -> bool {
        self.handle.is_some()
    }

    /// Something must be remembered: events are kept from now on, and the client is told how to name the session.
    pub fn remember(&self) {
        if !self.remembered.swap(true, Ordering::AcqRel)
            && let Some(gateway) = self.gateway.upgrade()
        {
            gateway.keep_default(self);
        }
    }

    /// Whether anything has to be remembered.
    pub fn is_remembered(&self) -> bool {
        self.remembered.load(Ordering::Acquire)
    }

    /// Its number, within this process.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Owner of what goes on without a client; stopped with the session.
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// What was called, for people.
    pub fn tracker(&self) -> Tracker {
        self.gateway.upgrade().map_or_else(|| Tracker::new(false), |gateway| gateway.tracker().clone())
    }

    /// How surfaces behave here.
    pub fn policy(&self) -> Policy {
        self.gateway.upgrade().map_or_else(Policy::default, |gateway| gateway.policy().clone())
    }

    /// A client uses it.
    pub fn touch(&self) {
        let now = self.now();
        self.usage.add();
        self.cell.with(|session| session.touch(now));
    }

    /// Since when, and how often it was used.
    pub(crate) fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Whether it has ended.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Whether nothing is under way: no call, no task, and no request of a server.
    pub(crate) fn is_idle(&self) -> bool {
        self.calls.load(Ordering::Acquire) == 0 && !self.cell.with(|session| session.is_busy())
    }

    /// Whether it has nothing that only this process has: no server that would lose something, and no timer that runs.
    pub(crate) fn can_rest(&self) -> bool {
        self.backends.lock().values().all(|backend| backend.can_rest())
            && self.cell.with(|session| session.timers(false).next().is_none())
    }

    /// It is about to be written out for the last time: it hears nothing of its servers from here on, and knows what they
    /// listed.
    pub(crate) fn turn_away(&self) {
        let backends = self.backends.lock();
        let left =
            backends.values().filter_map(|backend| Some((backend.name().clone(), backend.turn_from(self.number)?)));
        let left: Vec<_> = left.collect();
        drop(backends);
        self.cell.with(|session| session.leave_servers(&left));
    }

    /// It goes on after all.
    pub(crate) fn turn_back(&self) {
        self.backends.lock().values().for_each(|backend| backend.join(self.number, self.itself()));
        self.cell.with(Session::stay_with_servers);
    }

    /// When a client last used it, on the clock of the gateway.
    pub(crate) fn last_used(&self) -> Duration {
        self.cell.with(|session| session.last_activity().up)
    }

    /// Since when no client has used it.
    pub(crate) fn unused_for(&self) -> Duration {
        self.now().up.saturating_sub(self.last_used())
    }

    /// How many events were lost since this was last asked.
    pub(crate) fn take_lost(&self) -> u64 {
        let ever = self.cell.with(|session| session.events.dropped_ever());
        ever.saturating_sub(self.lost.fetch_max(ever, Ordering::Relaxed))
    }

    /// The process ends: nobody is to wait for what happens here.
    pub(crate) fn leave(&self) {
        self.cell.with(Session::leave);
    }

    /// What its client may use from this request on. Servers are connected to when it is known that they may be.
    pub fn allow(&self, rights: Option<&Arc<dyn Rights>>) {
        if !self.login && rights.is_none() {
            return;
        }
        let before = self.rights.lock().replace(rights.cloned());
        if before.is_none() && self.login {
            self.connect_all();
        }
    }

    /// Whether its client may know of a server.
    pub(crate) fn may_see(&self, server: &str) -> bool {
        match &*self.rights.lock() {
            None => !self.login,
            Some(None) => true,
            Some(Some(rights)) => rights.decide("tools/list", Aim::Server { server, tool: None }) != Verdict::Deny,
        }
    }

    /// Counts a call for as long as the guard lives.
    pub fn calling(self: &Arc<Self>) -> Calling {
        self.calls.fetch_add(1, Ordering::AcqRel);
        Calling(self.clone())
    }

    /// Ends it: waiters are woken, servers get their answers, tasks are cancelled. [`Live::close`] does the rest.
    pub(crate) fn end(&self) -> bool {
        if self.ended.swap(true, Ordering::AcqRel) {
            return false;
        }
        let now = self.now();
        self.cell.with(|session| session.close(now));
        if let Some(gateway) = self.gateway.upgrade() {
            gateway.totals().events_lost(self);
            gateway.tracker().clear_session(&self.hash);
        }
        true
    }

    /// Ends its connections; what takes longer than 5 s goes on in the background.
    pub(crate) async fn close(&self) {
        let backends: Vec<_> = self.backends.lock().drain().map(|(_, backend)| backend).collect();
        let leaving = backends.iter().map(|backend| backend.leave(self.number));
        let all = futures_util::future::join_all(leaving);
        if tokio::time::timeout(CLOSE_MAX, all).await.is_err() {
            tracing::warn!(session = self.hash, "servers of a session were slow to end");
        }
        self.tasks.stop();
        if let Some(gateway) = self.gateway.upgrade() {
            gateway.tracker().clear_session(&self.hash);
        }
    }
}

/// How long the servers of one session may take to end.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// A call that keeps its session from being taken for idle.
pub struct Calling(Arc<Live>);

impl Drop for Calling {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

/// How people see a secret id.
pub fn hash(id: &str) -> String {
    Sha256::digest(id.as_bytes()).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}
