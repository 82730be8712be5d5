//! The gateway: its registries, and how it is made and closed.

mod at_rest;
mod defaults;
mod logins;
mod middle;
mod resting;
mod seating;
mod sweep;
mod waking;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lb_backend::{ConnectError, Environment};
use lb_exchange::{BoxFuture, ErrorBody, Families, Mount, Principal, ServerName, ServerSpec, Shelf, Tasks};
use lb_session::streams::{Limits as StreamLimits, Store, system_clock};
use lb_session::{Happening, Moment};
use lb_telemetry::Tracer;
use lb_wire::Text;
use lb_wire::revision::code;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use self::at_rest::Resting;
use self::logins::OpenCalls;
use self::resting::{cut_off, store_unheard};
use self::waking::Flight;
use crate::added::AddedServers;
use crate::clock::{Clock, Schedule};
use crate::keep::{Keeper, Keeping};
use crate::live::{Live, Policy};
use crate::pins::Pins;
use crate::registry::{Entry, Registry, Scope};
use crate::seat::LegacySeat;
use crate::surface::Surface;
use crate::telemetry::Totals;
use crate::tracker::Tracker;

/// How long the start waits for the servers that clients have added.
const RECALL_MAX: Duration = Duration::from_secs(1);

/// How much one gateway takes on.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Sessions at once; more are refused with 503.
    pub sessions_max: usize,
    /// Those of one principal, on each node; `None` where there is one principal.
    pub principal_sessions_max: Option<usize>,
    /// A session that nobody uses for this long is ended.
    pub idle_after: Duration,
    /// A session that nobody uses for this long is written out and let go of, where sessions are kept.
    pub rest_after: Duration,
    /// A session that no client has used for this long is ended, whatever goes on in it.
    pub unused_max: Duration,
    /// How often idle sessions are looked for.
    pub sweep_every: Duration,
    /// What the streams of the sessions keep.
    pub streams: StreamLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions_max: 10_000,
            principal_sessions_max: None,
            idle_after: Duration::from_secs(30 * 60),
            rest_after: Duration::from_secs(60),
            unused_max: Duration::from_secs(24 * 60 * 60),
            sweep_every: Duration::from_secs(60),
            streams: StreamLimits::default(),
        }
    }
}

/// How many clients there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clients {
    /// Any number.
    #[default]
    Many,
    /// A single one, as on stdio.
    One,
}

/// What a gateway is made of, beside its servers.
#[derive(Clone, Default)]
pub struct Setup {
    /// How much it takes on.
    pub limits: Limits,
    /// Whom it is for.
    pub clients: Clients,
    /// How surfaces of our own behave.
    pub policy: Policy,
    /// The surface of tools, where there is one.
    pub tools: Option<Arc<dyn Surface>>,
    /// Whether the default path leads to the only server instead of that surface.
    pub only_server: bool,
    /// Whether the tracker keeps arguments.
    pub record_args: bool,
    /// Makes spans of what is called, where they are exported.
    pub tracer: Option<Arc<Tracer>>,
    /// Where lists of cached servers are kept beyond this process.
    pub shelf: Option<Arc<dyn Shelf>>,
    /// Where sessions are kept beyond this process.
    pub keeping: Option<Keeping>,
}

/// The gateway. Cheap to clone.
#[derive(Clone)]
pub struct Gateway(Arc<Shared>);

/// What all parts of a gateway share.
pub struct Shared {
    registry: Registry,
    environment: Environment,
    sessions: RwLock<HashMap<Box<str>, Arc<LegacySeat>>>,
    /// What the streams of all sessions keep.
    stored: Store,
    tasks: Tasks,
    setup: Setup,
    clock: Clock,
    schedule: Arc<Schedule>,
    tracker: Tracker,
    totals: Totals,
    numbers: AtomicU64,
    draining: AtomicBool,
    /// The process ends: nobody is to wait for what happens in a session.
    leaving: AtomicBool,
    /// It is to be looked for sessions that nobody uses.
    rest_now: Arc<Notify>,
    keeper: Option<Arc<Keeper>>,
    /// Servers that clients have added, where those are kept.
    added: Option<Arc<AddedServers>>,
    /// Sessions that are being looked for, or written out: all who ask for one wait for the same.
    waking: Mutex<HashMap<Box<str>, Flight>>,
    /// Tells which logins are over, where clients log in.
    families: OnceLock<Arc<dyn Families>>,
    /// What modern clients have open, which is in no session.
    unseated: OpenCalls,
    /// Sessions that were here and rest.
    resting: Resting,
    /// What tools were when they were first seen.
    pins: Arc<Pins>,
}

impl Gateway {
    /// A gateway in front of these servers. What is kept of them is on disk, and read where nothing else has to wait.
    ///
    /// Cancel safe: yes.
    ///
    /// # Errors
    /// A server that can never be reached, with its name.
    pub async fn start(
        specs: Vec<ServerSpec>,
        environment: Environment,
        setup: Setup,
    ) -> Result<Self, (ServerName, ConnectError)> {
        let gateway = match specs.iter().find(|spec| spec.cached).map(|spec| spec.name.clone()) {
            None => Self::new(specs, &environment, setup)?,
            Some(cached) => {
                let made = tokio::task::spawn_blocking(move || Self::new(specs, &environment, setup)).await;
                made.unwrap_or(Err((cached, ConnectError::Stopping)))?
            }
        };
        gateway.recall_servers().await;
        gateway.recall_pins().await;
        Ok(gateway)
    }

    /// Takes up the servers that clients have added before, so that the first session that comes back finds them as they
    /// were. A store that does not answer in time tells them later.
    async fn recall_servers(&self) {
        let Some(added) = &self.0.added else { return };
        match tokio::time::timeout(RECALL_MAX, added.read(&self.0)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "added servers are read later"),
            Err(_) => tracing::debug!("added servers are read later"),
        }
    }

    /// Takes up what tools were first. A store that does not answer in time is asked again before anything is written.
    async fn recall_pins(&self) {
        match tokio::time::timeout(RECALL_MAX, self.0.pins.recall()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "pins are read later"),
            Err(_) => tracing::debug!("pins are read later"),
        }
    }

    /// The same where it may block.
    ///
    /// # Errors
    /// A server that can never be reached, with its name.
    pub fn new(
        specs: Vec<ServerSpec>,
        environment: &Environment,
        setup: Setup,
    ) -> Result<Self, (ServerName, ConnectError)> {
        let clock = Clock::start();
        let registry = Registry::default();
        for spec in specs.into_iter().filter(|spec| !spec.disabled) {
            let name = spec.name.clone();
            let entry = Entry::new(
                spec,
                environment,
                setup.shelf.as_ref(),
                Scope::All,
                clock.now(),
                None,
                setup.tracer.clone(),
            );
            let put = entry.map(|entry| registry.put(entry)).map_err(|error| (name.clone(), error))?;
            if put.is_err() {
                return Err((name, ConnectError::Handshake("too many servers are defined".to_owned())));
            }
        }
        let shared = Shared {
            registry,
            environment: environment.clone(),
            sessions: RwLock::default(),
            stored: Store::new(setup.limits.streams, system_clock),
            tasks: environment.tasks.clone(),
            tracker: Tracker::new(setup.record_args),
            totals: Totals::new(setup.tracer.clone()),
            added: setup.keeping.as_ref().map(|keeping| AddedServers::new(keeping.store.clone(), keeping.shared)),
            keeper: setup.keeping.clone().map(Keeper::new),
            waking: Mutex::default(),
            families: OnceLock::new(),
            unseated: OpenCalls::default(),
            resting: Resting::default(),
            pins: Pins::new(setup.policy.pin, setup.keeping.as_ref().map(|keeping| keeping.store.clone())),
            setup,
            clock,
            schedule: Schedule::new(clock),
            numbers: AtomicU64::new(0),
            draining: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            rest_now: Arc::default(),
        };
        let gateway = Self(Arc::new(shared));
        gateway.0.tasks.spawn(sweep::sweep(Arc::downgrade(&gateway.0)));
        let (schedule, tasks) = (gateway.0.schedule.clone(), gateway.0.tasks.clone());
        gateway.0.tasks.spawn(schedule.run(tasks));
        if let Some(keeper) = gateway.0.keeper.clone() {
            gateway.0.start_keeping(keeper);
        }
        Ok(gateway)
    }

    /// How many sessions there are in memory.
    pub fn sessions(&self) -> usize {
        self.0.sessions.read().len()
    }

    /// How many sessions rest that were here: they are in the store and nowhere else.
    pub fn sessions_resting(&self) -> usize {
        self.0.count_resting()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    /// All sessions: those of legacy clients, and those of modern clients that name none.
    pub(crate) fn everybody(&self) -> Vec<Arc<LegacySeat>> {
        self.0.sessions.read().values().cloned().collect()
    }

    /// What time it is here.
    pub fn clock(&self) -> impl Fn() -> Moment + Send + Sync + 'static {
        let clock = self.0.clock;
        move || clock.now()
    }

    /// What was called, for people.
    pub fn tracker(&self) -> &Tracker {
        &self.0.tracker
    }

    /// Asks every server of which lists are kept for them anew, in the background.
    pub fn refresh_lists(&self) {
        let seats: Vec<_> = self.0.sessions.read().values().cloned().collect();
        for entry in self.0.registry.all().iter().filter(|entry| entry.cache.is_some()) {
            let own = seats.iter().filter(|seat| seat.is_on(entry)).filter_map(|seat| seat.link().cloned());
            let mut links: Vec<_> = own.chain(entry.links()).collect();
            links.sort_by_key(|link| Arc::as_ptr(link).addr());
            links.dedup_by(|one, other| Arc::ptr_eq(one, other));
            links.iter().for_each(|link| link.renew());
        }
    }

    /// The process is about to end: who waits for something to happen in a session is told so, now and from here on.
    /// Calls that do something go on.
    ///
    /// Where other nodes can go on with them, sessions that nobody uses at the moment are let go of at once.
    pub fn leave(&self) {
        self.0.leaving.store(true, Ordering::Release);
        if let Some(keeper) = &self.0.keeper {
            keeper.nodes().set_draining(true);
            self.0.rest_now.notify_one();
        }
        for live in self.0.lives() {
            live.leave();
        }
    }

    /// Ends all sessions and closes all connections.
    pub async fn close(&self) {
        self.0.draining.store(true, Ordering::Relaxed);
        self.leave();
        let seats: Vec<_> = self.0.sessions.read().values().cloned().collect();
        // First: the end of the process is not the end of its sessions.
        if let Some(keeper) = &self.0.keeper {
            cut_off(&seats).await;
            seats.iter().for_each(|seat| store_unheard(seat));
            keeper.finish().await;
        }
        for seat in &seats {
            self.0.stop_seat(seat);
        }
        let mut closing: Vec<BoxFuture<'static, ()>> = Vec::new();
        for seat in seats {
            closing.push(Box::pin(async move { seat.close().await }));
        }
        for entry in self.0.registry.all() {
            for link in entry.links() {
                closing.push(Box::pin(async move { link.close().await }));
            }
        }
        futures_util::future::join_all(closing).await;
    }
}

impl Shared {
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Whether the process is about to end.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    pub(crate) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    pub(crate) fn schedule(&self) -> &Arc<Schedule> {
        &self.schedule
    }

    pub(crate) fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    /// Makes spans, where they are exported.
    pub(crate) fn tracer(&self) -> Option<Arc<Tracer>> {
        self.setup.tracer.clone()
    }

    /// What is counted beside requests.
    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }

    /// How many sessions see a surface of ours, and how many a server.
    pub(crate) fn count_sessions(&self) -> (usize, usize) {
        let seats = self.sessions.read();
        let on_tools = seats.values().filter(|seat| seat.live().is_some()).count();
        let on_servers = seats.len() - on_tools;
        drop(seats);
        (on_tools, on_servers)
    }

    /// How many sessions rest that were here.
    pub(crate) fn count_resting(&self) -> usize {
        self.resting.count(self.now())
    }

    pub(crate) fn shelf(&self) -> Option<&Arc<dyn Shelf>> {
        self.setup.shelf.as_ref()
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.setup.policy
    }

    /// Writes sessions down, where they are kept.
    pub(crate) fn keeper(&self) -> Option<&Arc<Keeper>> {
        self.keeper.as_ref()
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The surface that a path leads to, if it is one of ours.
    fn surface(&self, mount: &Mount) -> Option<&Arc<dyn Surface>> {
        match mount {
            Mount::Tools => self.setup.tools.as_ref(),
            Mount::Default => self.setup.tools.as_ref().filter(|_| !self.setup.only_server),
            Mount::Server(_) => None,
        }
    }

    fn entry(&self, mount: &Mount, who: &Principal) -> Option<Arc<Entry>> {
        match mount {
            Mount::Server(name) => self.registry.find(name.as_str(), who),
            // The only server is the default, where no surface spans several.
            Mount::Default => self.registry.only(who),
            Mount::Tools => None,
        }
    }

    /// All sessions on this server alone.
    pub(crate) fn seats_on(&self, entry: &Entry) -> Vec<Arc<LegacySeat>> {
        self.sessions.read().values().filter(|seat| seat.is_on(entry)).cloned().collect()
    }

    /// All sessions with a surface of ours.
    pub(crate) fn lives(&self) -> Vec<Arc<Live>> {
        self.sessions.read().values().filter_map(|seat| seat.live().cloned()).collect()
    }

    /// Tells every session that sees a server, but one.
    pub(crate) fn broadcast(&self, entry: &Entry, event: &Happening, except: Option<u64>) {
        self.broadcast_to(entry, event, |live| Some(live.number()) != except);
    }

    /// Tells every session that sees a server and is meant.
    pub(crate) fn broadcast_to(&self, entry: &Entry, event: &Happening, is_meant: impl Fn(&Live) -> bool) {
        let (name, now) = (Text::from(entry.name().as_str()), self.clock.now());
        for live in self.lives() {
            let sees = match &entry.scope {
                Scope::All | Scope::Operator => true,
                Scope::Principal(owner) => live.belongs_to(owner),
            };
            if sees && live.may_see(entry.name().as_str()) && live.is_remembered() && is_meant(&live) {
                live.cell().with(|session| session.tell(&name, event, now));
            }
        }
    }

    /// What tools were when they were first seen.
    pub(crate) fn pins(&self) -> &Arc<Pins> {
        &self.pins
    }

    /// Forgets what sessions keep of a server, and what its tools were.
    pub(crate) fn forget_server(&self, entry: &Entry) {
        self.pins.forget(entry.name());
        for live in self.lives() {
            live.cell().with(|session| session.forget_server(entry.name().as_str()));
        }
    }

    /// Removes a session and closes its connection in the background.
    pub(crate) fn forget(&self, seat: &LegacySeat) {
        let id = &seat.id;
        let seat = {
            let mut sessions = self.sessions.write();
            // Another one may have its name by now.
            if sessions.get(id.as_str()).is_some_and(|known| !std::ptr::eq(&raw const **known, seat)) {
                return;
            }
            sessions.remove(id.as_str())
        };
        if let Some(keeper) = &self.keeper {
            keeper.forget(id);
        }
        self.tell_how_many();
        if let Some(seat) = seat {
            self.tasks.spawn(async move { seat.close().await });
        }
    }

    /// Writes what changes, and drops what belongs to somebody else.
    fn start_keeping(self: &Arc<Self>, keeper: Arc<Keeper>) {
        let shared = Arc::downgrade(self);
        keeper.tell_lost(move |id| {
            if let Some(shared) = shared.upgrade() {
                shared.lose(id);
            }
        });
        let tasks = self.tasks.clone();
        self.tasks.spawn(resting::rest(Arc::downgrade(self)));
        if let Some(added) = self.added.clone() {
            let (run, stopping) = (added.run(Arc::downgrade(self)), tasks.clone());
            self.tasks.spawn(async move {
                tokio::select! {
                    () = run => {}
                    () = stopping.stopping() => {}
                }
            });
        }
        let (run, stopping) = (Pins::run(Arc::downgrade(&self.pins)), tasks.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                () = run => {}
                () = stopping.stopping() => {}
            }
        });
        self.tasks.spawn(async move {
            tokio::select! {
                () = keeper.run() => {}
                () = tasks.stopping() => {}
            }
        });
    }

    pub(crate) fn added_servers(&self) -> Option<&Arc<AddedServers>> {
        self.added.as_ref()
    }

    /// A server was defined, defined anew or removed.
    pub(crate) fn note_server(&self, name: &ServerName) {
        if let Some(added) = &self.added {
            added.mark(name);
        }
    }

    fn now(&self) -> u64 {
        self.clock.now().up.as_secs()
    }
}

fn unknown_server() -> ErrorBody {
    ErrorBody::new(code::INVALID_PARAMS, "no such server", None)
}
