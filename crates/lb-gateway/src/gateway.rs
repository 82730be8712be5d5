//! The registries, and the port that fronts call.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use lb_backend::{ConnectError, Environment, Server, Wish};
use lb_exchange::{
    BoxFuture, Call, Cancel, Desk, End, ErrorBody, Exchange, Feed, Hello, Isolation, Middle, Mount, Principal, Refusal,
    Seat, ServerName, ServerSpec, SessionId, Tasks, Welcome,
};
use lb_session::streams::{Limits as StreamLimits, Store, system_clock};
use lb_wire::Raw;
use lb_wire::revision::code;
use lb_wire::splice::Splice;
use parking_lot::{Mutex, RwLock};

use crate::convert;
use crate::link::Link;
use crate::listen::Ear;
use crate::seat::{LegacySeat, Way};
use crate::share::Share;

/// How much one gateway takes on.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Sessions at once; more are refused with 503.
    pub sessions_max: usize,
    /// A session that nobody uses for this long is ended.
    pub idle_after: Duration,
    /// How often idle sessions are looked for.
    pub sweep_every: Duration,
    /// What the streams of the sessions keep.
    pub streams: StreamLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions_max: 10_000,
            idle_after: Duration::from_secs(30 * 60),
            sweep_every: Duration::from_secs(60),
            streams: StreamLimits::default(),
        }
    }
}

/// The gateway. Cheap to clone.
#[derive(Clone)]
pub struct Gateway(Arc<Shared>);

/// What all parts of a gateway share.
pub struct Shared {
    servers: Vec<Arc<Entry>>,
    sessions: RwLock<HashMap<Box<str>, Arc<LegacySeat>>>,
    /// What the streams of all sessions keep.
    stored: Store,
    tasks: Tasks,
    limits: Limits,
    started: Instant,
    members: AtomicU64,
    draining: AtomicBool,
}

/// Sessions share a connection when principal and declared capabilities are the same.
type ShareKey = (Principal, Vec<u8>);

/// One configured server and the connections that sessions share.
struct Entry {
    server: Arc<Server>,
    /// Connections of modern clients, by principal.
    modern: Mutex<HashMap<Principal, Arc<Link>>>,
    /// Connections that legacy sessions share: of one principal, with the same capabilities.
    shared: Mutex<HashMap<ShareKey, Arc<Share>>>,
}

impl Gateway {
    /// A gateway in front of these servers.
    ///
    /// # Errors
    /// A server that can never be reached, with its name.
    pub fn new(
        specs: Vec<ServerSpec>,
        environment: &Environment,
        limits: Limits,
    ) -> Result<Self, (ServerName, ConnectError)> {
        let servers = specs
            .into_iter()
            .filter(|spec| !spec.disabled)
            .map(|spec| {
                let name = spec.name.clone();
                let server = Server::new(Arc::new(spec), environment.clone()).map_err(|error| (name, error))?;
                Ok(Arc::new(Entry { server, modern: Mutex::default(), shared: Mutex::default() }))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let shared = Shared {
            servers,
            sessions: RwLock::default(),
            stored: Store::new(limits.streams, system_clock),
            tasks: environment.tasks.clone(),
            limits,
            started: Instant::now(),
            members: AtomicU64::new(0),
            draining: AtomicBool::new(false),
        };
        let gateway = Self(Arc::new(shared));
        gateway.0.tasks.spawn(sweep(Arc::downgrade(&gateway.0)));
        Ok(gateway)
    }

    /// How many legacy sessions there are.
    pub fn sessions(&self) -> usize {
        self.0.sessions.read().len()
    }

    /// Ends all sessions and closes all connections.
    pub async fn close(&self) {
        self.0.draining.store(true, Ordering::Relaxed);
        let seats: Vec<_> = self.0.sessions.read().values().cloned().collect();
        for seat in &seats {
            seat.end(Cancel::SessionEnd);
        }
        let mut closing: Vec<BoxFuture<'static, ()>> = Vec::new();
        for seat in seats {
            closing.push(Box::pin(async move { seat.close().await }));
        }
        for entry in &self.0.servers {
            for link in entry.links() {
                closing.push(Box::pin(async move { link.close().await }));
            }
        }
        futures_util::future::join_all(closing).await;
    }
}

impl Entry {
    fn name(&self) -> &ServerName {
        &self.server.spec().name
    }

    fn links(&self) -> Vec<Arc<Link>> {
        let modern = self.modern.lock().values().cloned().collect::<Vec<_>>();
        let shared = self.shared.lock().values().map(|share| share.link().clone()).collect::<Vec<_>>();
        modern.into_iter().chain(shared).collect()
    }
}

impl Shared {
    fn entry(&self, mount: &Mount) -> Option<&Arc<Entry>> {
        match mount {
            Mount::Server(name) => self.servers.iter().find(|entry| entry.name() == name),
            // The only server is the default, as long as no surface spans several.
            Mount::Default => match self.servers.as_slice() {
                [only] => Some(only),
                _ => None,
            },
        }
    }

    /// Removes a session and closes its connection in the background.
    pub fn forget(&self, id: &SessionId) {
        let seat = self.sessions.write().remove(id.as_str());
        if let Some(seat) = seat {
            self.tasks.spawn(async move { seat.close().await });
        }
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_secs()
    }

    async fn seat(self: &Arc<Self>, hello: Hello) -> Result<Welcome, Refusal> {
        if self.draining.load(Ordering::Relaxed) || self.limits.sessions_max <= self.sessions.read().len() {
            let error = ErrorBody::new(code::INTERNAL_ERROR, "no room for another session, try again later", None);
            return Err(Refusal { error, busy: true });
        }
        let entry = self.entry(&hello.mount).cloned();
        let entry = entry.ok_or_else(|| Refusal { error: unknown_server(), busy: false })?;
        let (way, ear) = self.way(&entry, &hello);
        let link = match &way {
            Way::Own(link) => link,
            Way::Shared(share, _) => share.link(),
        };
        let connection = link.connection().await;
        let connection =
            connection.map_err(|error| Refusal { error: error.to_body(entry.name().as_str()), busy: false })?;
        let seat = Arc::new(LegacySeat {
            id: SessionId::random(),
            mount: hello.mount,
            desk: Desk::default(),
            streams: self.stored.session(),
            ear,
            way,
            gateway: Arc::downgrade(self),
            touched: AtomicU64::new(self.now()),
            ended: AtomicBool::new(false),
            caller: Arc::new(hello.caller),
        });
        let result = convert::welcome(&connection, seat.caller.revision);
        self.sessions.write().insert(seat.id.as_str().into(), seat.clone());
        Ok(Welcome { seat, result })
    }

    fn way(self: &Arc<Self>, entry: &Arc<Entry>, hello: &Hello) -> (Way, Arc<Ear>) {
        if entry.server.spec().isolation != Isolation::Shared {
            let feed = Feed::default();
            let link = Link::new(entry.server.clone(), self.wish(hello, feed.clone(), true));
            return (Way::Own(link), Arc::new(Ear::new(feed)));
        }
        let key = (hello.caller.principal.clone(), hello.caller.capabilities.0.as_bytes().to_vec());
        let share = entry.shared.lock().entry(key).or_insert_with(|| self.share(entry, hello)).clone();
        let member = self.members.fetch_add(1, Ordering::Relaxed);
        let ear = Arc::new(Ear::new(Feed::default()));
        share.join(member, &ear);
        (Way::Shared(share, member), ear)
    }

    fn share(self: &Arc<Self>, entry: &Arc<Entry>, hello: &Hello) -> Arc<Share> {
        let feed = Feed::default();
        // What the connection asks out of the blue is offered to the sessions, and refused if none can hear it.
        feed.listen();
        let share = Share::new(Link::new(entry.server.clone(), self.wish(hello, feed, false)));
        let tasks = self.tasks.clone();
        let distributing = share.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = distributing.distribute_forever() => {}
                () = tasks.stopping() => {}
            }
        });
        share
    }

    fn wish(&self, hello: &Hello, feed: Feed, client_says_initialized: bool) -> Wish {
        let caller = Arc::new(hello.caller.clone());
        Wish { hello: Some(settled(hello)), caller, feed, tasks: self.tasks.clone(), client_says_initialized }
    }
}

/// The client's own introduction, with the revision that the front settled on.
fn settled(hello: &Hello) -> Raw {
    let params = hello.message.body().unwrap_or_else(Raw::empty_object);
    let version = Raw::string(hello.caller.revision.as_str());
    match hello.message.member_span_in_body("protocolVersion") {
        Some(at) => Splice::new(params).replace(at, &version).apply(),
        None => Splice::new(params).insert(0, hello.message.body_is_empty(), "protocolVersion", &version).apply(),
    }
}

impl Middle for Gateway {
    fn open(&self, call: Call) -> Exchange {
        let Some(entry) = self.0.entry(&call.mount) else {
            return Exchange::ready(End::ours(lb_exchange::Outcome::Error(unknown_server())));
        };
        let known = entry.modern.lock().get(&call.caller.principal).cloned();
        let link = known.unwrap_or_else(|| {
            let feed = Feed::default();
            let caller = call.caller.clone();
            let tasks = self.0.tasks.clone();
            let wish = Wish { caller, hello: None, feed, tasks, client_says_initialized: false };
            let mut links = entry.modern.lock();
            links.entry(call.caller.principal.clone()).or_insert_with(|| Link::new(entry.server.clone(), wish)).clone()
        });
        link.open(call, convert::from_modern)
    }

    fn begin(&self, hello: Hello) -> BoxFuture<'_, Result<Welcome, Refusal>> {
        Box::pin(self.0.seat(hello))
    }

    fn seat(&self, id: &str, mount: &Mount, who: &Principal) -> Option<Arc<dyn Seat>> {
        let seat = self.0.sessions.read().get(id).cloned()?;
        let same = seat.mount == *mount && seat.caller.principal == *who && !seat.ended.load(Ordering::Relaxed);
        if !same {
            return None;
        }
        seat.touched.store(self.0.now(), Ordering::Relaxed);
        Some(seat)
    }

    fn adopt(&self, pump: BoxFuture<'static, ()>) {
        let tasks = self.0.tasks.clone();
        self.0.tasks.spawn(async move {
            tokio::select! {
                () = pump => {}
                () = tasks.stopping() => {}
            }
        });
    }

    fn servers(&self) -> Vec<String> {
        self.0.servers.iter().map(|entry| entry.name().to_string()).collect()
    }

    fn has(&self, mount: &Mount) -> bool {
        self.0.entry(mount).is_some()
    }
}

fn unknown_server() -> ErrorBody {
    ErrorBody::new(code::INVALID_PARAMS, "no such server", None)
}

/// Ends sessions that nobody uses, and forgets what their streams need not keep.
async fn sweep(gateway: Weak<Shared>) {
    loop {
        let Some((tasks, every)) = gateway.upgrade().map(|shared| (shared.tasks.clone(), shared.limits.sweep_every))
        else {
            return;
        };
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = tasks.stopping() => return,
        }
        let Some(shared) = gateway.upgrade() else { return };
        let now = shared.now();
        let seats: Vec<_> = shared.sessions.read().values().cloned().collect();
        for seat in seats {
            let unused = now.saturating_sub(seat.touched.load(Ordering::Relaxed));
            seat.streams.tick();
            if shared.limits.idle_after.as_secs() <= unused && seat.is_idle() {
                seat.end(Cancel::SessionEnd);
            }
        }
        let messages = shared.stored.take_dropped();
        if messages != 0 {
            tracing::warn!(messages, bytes = shared.stored.bytes(), "dropped stored messages for want of room");
        }
    }
}
