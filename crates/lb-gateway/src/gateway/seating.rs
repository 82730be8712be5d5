//! Legacy clients that introduce themselves: a session, and the way from it to its server.
use std::time::Duration;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lb_backend::{ConnectError, Dismissal, Wish};
use lb_exchange::{
    Caller, Cancel, Desk, ErrorBody, Feed, Hello, Isolation, Mount, Principal, Refusal, Seat as _, SessionId, Welcome,
};
use lb_session::streams::SharedStreams;
use lb_telemetry::Outcome;
use lb_wire::Raw;
use lb_wire::revision::code;
use lb_wire::splice::Splice;
use parking_lot::Mutex;

use super::{Shared, unknown_server};
use crate::census::Usage;
use crate::convert;
use crate::keep::{Head, Owner, Source, Writing};
use crate::link::Link;
use crate::listen::Ear;
use crate::live::Live;
use crate::reception;
use crate::registry::Entry;
use crate::seat::{LegacySeat, Way};
use crate::share::Share;
use crate::surface::Surface;
use crate::telemetry::Watcher;

/// How long a new session waits for the store. A client that is sent away soon comes back soon.
pub(super) const WRITTEN_MAX: Duration = Duration::from_millis(500);

/// What a client is told whose session cannot be kept.
const NO_ANSWER: &str = "the store does not answer, try again later";

/// A session, and what its client is told.
struct Seated {
    seat: Arc<LegacySeat>,
    result: Raw,
    /// Its only server, if it has one.
    entry: Option<Arc<Entry>>,
}

/// What a seat is made of.
pub(super) struct Seating<'a> {
    pub(super) id: SessionId,
    pub(super) mount: Mount,
    pub(super) caller: Arc<Caller>,
    pub(super) way: Way,
    pub(super) ear: Arc<Ear>,
    pub(super) watcher: &'a Arc<Watcher>,
    pub(super) streams: SharedStreams,
    pub(super) kept: Option<Arc<Writing>>,
}

impl Shared {
    pub(super) async fn seat(self: &Arc<Self>, hello: Hello) -> Result<Welcome, Refusal> {
        let watcher = match self.surface(&hello.mount) {
            Some(_) => Some(self.totals.own.clone()),
            None => self.entry(&hello.mount, &hello.caller.principal).map(|entry| entry.watcher.clone()),
        };
        let watch = watcher.map(|watcher| watcher.received(&hello.message, None));
        let seated = self.seated(hello).await;
        if let Some(watch) = watch {
            let (outcome, code) = match &seated {
                Ok(_) => (Outcome::Ok, None),
                Err(refusal) if refusal.busy => (Outcome::Refused, Some(refusal.error.code)),
                Err(refusal) => (Outcome::Error, Some(refusal.error.code)),
            };
            watch.end(outcome, code);
        }
        seated
    }

    async fn seated(self: &Arc<Self>, hello: Hello) -> Result<Welcome, Refusal> {
        if !self.has_room() || !self.have_room_together() {
            self.totals.sessions_refused.inc();
            return Err(busy("no room for another session, try again later"));
        }
        if let Some(max) = self.share_is_full(&hello.caller.principal) {
            self.totals.sessions_refused.inc();
            return Err(busy(&format!("{max} sessions of yours are open: end one, or try again later")));
        }
        // Before anything is made of it: what cannot be kept is not begun.
        let sessions = self.sessions.read().len();
        if self.keeper.as_ref().is_some_and(|keeper| !keeper.has_room(sessions)) {
            self.totals.sessions_refused.inc();
            return Err(busy(NO_ANSWER));
        }
        let head = self.keeper.as_ref().map(|_| self.head(&hello, None).kept());
        let Seated { seat, result, entry } = self.welcome(hello, head.as_ref()).await?;
        self.keep(&seat).await?;
        self.publish(&seat);
        if let Some(entry) = entry {
            let no_server = |error: ConnectError| Refusal { error: error.to_body(entry.name().as_str()), busy: false };
            self.still_served(&entry, &seat).map_err(no_server)?;
        }
        if let Some(live) = seat.live() {
            live.connect_all();
        }
        Ok(Welcome { seat, result })
    }

    /// Whether a new session is within what all nodes may have together. One that comes back to another node is let in
    /// without this: what the nodes know of one another is some seconds old, and it was counted when it began.
    fn have_room_together(&self) -> bool {
        let elsewhere = self.keeper.as_ref().map_or(0, |keeper| keeper.nodes().sessions_elsewhere());
        let elsewhere = usize::try_from(elsewhere).unwrap_or(usize::MAX);
        let here = self.sessions.read().len().saturating_add(self.count_resting());
        here.saturating_add(elsewhere) < self.setup.limits.sessions_max
    }

    /// How many sessions a principal may have, if it has them.
    fn share_is_full(&self, who: &Principal) -> Option<usize> {
        let max = self.setup.limits.principal_sessions_max?;
        let own = |seat: &&Arc<LegacySeat>| seat.caller.principal == *who && !seat.is_default();
        let here = self.sessions.read().values().filter(own).count();
        (max <= here + self.resting.count_of(who, self.now())).then_some(max)
    }

    /// Whether another session may be here.
    pub(super) fn has_room(&self) -> bool {
        !self.draining.load(Ordering::Relaxed) && self.sessions.read().len() < self.setup.limits.sessions_max
    }

    /// Has a session that nobody can name yet written from here on. Where others read it, its client is told of it only
    /// when it is written.
    async fn keep(self: &Arc<Self>, seat: &Arc<LegacySeat>) -> Result<(), Refusal> {
        let (Some(keeper), Some(kept)) = (&self.keeper, &seat.kept) else { return Ok(()) };
        kept.set_verified(keeper.generation());
        kept.begins(self.now());
        keeper.begin(kept);
        if !keeper.is_shared() && !keeper.is_full() {
            return Ok(());
        }
        let unseen = Unseen { gateway: self, seat: Some(seat) };
        let written = tokio::time::timeout(WRITTEN_MAX, keeper.write_now(kept)).await;
        if !written.unwrap_or(false) {
            self.totals.sessions_refused.inc();
            let full = keeper.is_full();
            return Err(busy(if full { "the store is full, try again later" } else { NO_ANSWER }));
        }
        unseen.seen();
        Ok(())
    }

    /// What a session begins with now.
    pub(super) fn head(&self, hello: &Hello, handle: Option<&SessionId>) -> Head {
        Head { hello: hello.clone(), began: self.clock.now().unix, handle: handle.cloned() }
    }

    /// What is written of a new session, where sessions are kept.
    fn writing(&self, id: &SessionId, head: Option<&Raw>, source: Source) -> Option<Arc<Writing>> {
        let (keeper, head) = (self.keeper.as_ref()?, head?);
        let writing = Writing::new(id, head.clone(), Owner::first(keeper.me()), source);
        let told = writing.inspect_err(|error| tracing::error!(%error, "a session cannot be kept"));
        told.ok().map(Arc::new)
    }

    async fn welcome(self: &Arc<Self>, hello: Hello, head: Option<&Raw>) -> Result<Seated, Refusal> {
        if let Some(surface) = self.surface(&hello.mount).cloned() {
            return Ok(self.seat_on(surface, hello, head));
        }
        let entry = self.entry(&hello.mount, &hello.caller.principal);
        let entry = entry.ok_or_else(|| Refusal { error: unknown_server(), busy: false })?;
        let (way, ear) = self.way(&entry, &hello);
        let link = match &way {
            Way::Own(link) => link,
            Way::Shared(joined) => joined.link(),
            Way::Surface(..) => return Err(Refusal { error: unknown_server(), busy: false }),
        };
        let no_server = |error: ConnectError| Refusal { error: error.to_body(entry.name().as_str()), busy: false };
        let result = match link.greeting(&hello.caller) {
            Some(kept) => kept,
            None => {
                let connection = link.connection().await.map_err(no_server)?;
                convert::welcome(connection.era(), connection.welcome(), hello.caller.revision)
            }
        };
        let (id, caller) = (SessionId::random(), Arc::new(hello.caller));
        let kept = self.writing(&id, head, way.source());
        let (mount, watcher, streams) = (hello.mount, &entry.watcher, self.stored.session());
        let seat = self.make_seat(Seating { id, mount, caller, way, ear, watcher, streams, kept });
        Ok(Seated { seat, result, entry: Some(entry) })
    }

    /// Ends a session whose server was removed or redefined since it was looked up: whoever saw to that has not seen this
    /// session.
    pub(super) fn still_served(&self, entry: &Arc<Entry>, seat: &LegacySeat) -> Result<(), ConnectError> {
        if self.registry.holds(entry) {
            return Ok(());
        }
        seat.end(Cancel::SessionEnd);
        let successor = self.registry.find_folded(entry.name());
        Err(ConnectError::Dismissed(successor.map_or(Dismissal::Removed, |_| Dismissal::Changed)))
    }

    /// A client of a surface of ours is seated at once; its servers are connected meanwhile.
    fn seat_on(self: &Arc<Self>, surface: Arc<dyn Surface>, hello: Hello, head: Option<&Raw>) -> Seated {
        let (id, caller) = (SessionId::random(), Arc::new(hello.caller));
        let live = Live::new(self, caller.clone(), id.clone(), None);
        tracing::info!(session = live.hash(), "session_created");
        let result = reception::greeting(&surface.introduction(), caller.revision);
        let (ear, way) = (Arc::new(Ear::new(Feed::default())), Way::Surface(live, surface));
        let kept = self.writing(&id, head, way.source());
        let (mount, watcher, streams) = (hello.mount, &self.totals.own, self.stored.session());
        let seat = self.make_seat(Seating { id, mount, caller, way, ear, watcher, streams, kept });
        Seated { seat, result, entry: None }
    }

    /// A seat that nobody can name yet.
    pub(super) fn make_seat(self: &Arc<Self>, seating: Seating<'_>) -> Arc<LegacySeat> {
        let Seating { id, mount, caller, way, ear, watcher, streams, kept } = seating;
        let desk = Desk::default();
        if let (Some(keeper), Some(kept)) = (&self.keeper, &kept) {
            // Every ask that was sent is an event of a stream.
            desk.asked_before(streams.events_ever());
            kept.keep_streams(keeper, &streams);
        }
        Arc::new(LegacySeat {
            id,
            mount,
            desk,
            streams,
            ear,
            way,
            gateway: Arc::downgrade(self),
            watcher: watcher.clone(),
            touched: AtomicU64::new(self.now()),
            usage: Usage::new(self.clock.now()),
            busy: AtomicU64::new(0),
            leaving: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            family: Mutex::new(caller.family.clone()),
            caller,
            kept,
        })
    }

    /// From here on its client can name it.
    pub(super) fn publish(&self, seat: &Arc<LegacySeat>) {
        self.resting.remove(&seat.id);
        self.sessions.write().insert(seat.id.as_str().into(), seat.clone());
        self.tell_how_many();
    }

    /// Has the other nodes told how many sessions there are here.
    pub(super) fn tell_how_many(&self) {
        if let Some(keeper) = &self.keeper {
            keeper.nodes().count(self.sessions.read().len() as u64);
        }
    }

    pub(super) fn way(self: &Arc<Self>, entry: &Arc<Entry>, hello: &Hello) -> (Way, Arc<Ear>) {
        if entry.server.spec().isolation != Isolation::Shared {
            let feed = Feed::default();
            let link = Link::new(entry.server.clone(), self.wish(hello, feed.clone(), true), entry.cache.as_ref());
            let ear = Ear::of(feed, &link);
            return (Way::Own(link), ear);
        }
        let key = (hello.caller.principal.clone(), hello.caller.capabilities.0.as_bytes().to_vec());
        let member = self.next_number();
        // Under one lock: who comes at the same time must see that somebody has joined.
        let mut all = entry.shared.lock();
        let shares = all.entry(key).or_default();
        if shares.len() < entry.spec().pool && shares.iter().all(|share| share.members() != 0) {
            shares.push(self.share(entry, hello));
        }
        let fewest = shares.iter().min_by_key(|share| share.members()).cloned();
        let share = fewest.unwrap_or_else(|| self.share(entry, hello));
        let ear = Ear::of(Feed::default(), share.link());
        (Way::Shared(share.join(member, &ear)), ear)
    }

    fn share(self: &Arc<Self>, entry: &Arc<Entry>, hello: &Hello) -> Arc<Share> {
        let feed = Feed::default();
        // What the connection asks out of the blue is offered to the sessions, and refused if none can hear it.
        feed.listen();
        let link = Link::new(entry.server.clone(), self.wish(hello, feed, false), entry.cache.as_ref());
        let share = Share::new(link, entry);
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

/// A session that is written and that no client was told of: dropped, it is gone.
struct Unseen<'a> {
    gateway: &'a Shared,
    seat: Option<&'a Arc<LegacySeat>>,
}

impl Unseen<'_> {
    fn seen(mut self) {
        self.seat = None;
    }
}

impl Drop for Unseen<'_> {
    fn drop(&mut self) {
        if let Some(seat) = self.seat.take() {
            seat.end(Cancel::SessionEnd);
            let seat = seat.clone();
            self.gateway.tasks.spawn(async move { seat.close().await });
        }
    }
}

fn busy(why: &str) -> Refusal {
    Refusal { error: ErrorBody::new(code::INTERNAL_ERROR, why, None), busy: true }
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
