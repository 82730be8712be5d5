//! A legacy client's session on one server.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use lb_exchange::{BoxFuture, Call, Caller, Cancel, Desk, Exchange, Mount, Seat, ServerName, SessionId, Streams};
use lb_session::streams::SharedStreams;
use lb_wire::{Message, Raw};
use parking_lot::Mutex;

use crate::census::Usage;
use crate::convert;
use crate::gateway::Shared;
use crate::keep::{Source, Writing};
use crate::link::{self, Link};
use crate::listen::Ear;
use crate::live::Live;
use crate::login;
use crate::pins::Passing;
use crate::reception;
use crate::registry::Entry;
use crate::share::Joined;
use crate::surface::{Surface, Via};
use crate::telemetry::Watcher;

/// One session.
pub struct LegacySeat {
    pub(crate) id: SessionId,
    pub(crate) mount: Mount,
    pub(crate) caller: Arc<Caller>,
    /// The login that was last used on it, if there was one.
    pub(crate) family: Mutex<Option<Arc<str>>>,
    pub(crate) desk: Desk,
    pub(crate) streams: SharedStreams,
    pub(crate) ear: Arc<Ear>,
    pub(crate) way: Way,
    pub(crate) gateway: Weak<Shared>,
    /// Counts its requests.
    pub(crate) watcher: Arc<Watcher>,
    /// When a client last used it, in seconds since the gateway started.
    pub(crate) touched: AtomicU64,
    pub(crate) usage: Usage,
    /// When something was last seen to go on in it.
    pub(crate) busy: AtomicU64,
    /// Whether it takes no more requests.
    pub(crate) leaving: AtomicBool,
    pub(crate) ended: AtomicBool,
    /// What is written of it, where it is kept.
    pub(crate) kept: Option<Arc<Writing>>,
}

/// How a session reaches its server.
pub enum Way {
    /// By a connection of its own.
    Own(Arc<Link>),
    /// By one that it shares.
    Shared(Joined),
    /// It has a surface of ours, and any number of servers behind it.
    Surface(Arc<Live>, Arc<dyn Surface>),
}

impl Way {
    /// Where the changes of a session come from that goes this way.
    pub(crate) fn source(&self) -> Source {
        match self {
            Self::Own(link) => {
                let link = Arc::downgrade(link);
                Source { told: Some(Box::new(move || link.upgrade()?.told())), ..Source::default() }
            }
            Self::Shared(joined) => Source { told: Some(Box::new(joined.told())), ..Source::default() },
            Self::Surface(live, _) => Source { cell: Some(Arc::downgrade(live.cell())), ..Source::default() },
        }
    }

    /// The client has told its server all this in the process before this one.
    pub(crate) fn was_told(&self, told: Option<&Raw>) {
        match self {
            Self::Own(link) => link.was_told(told),
            Self::Shared(joined) => told.into_iter().for_each(|told| joined.was_told(told)),
            Self::Surface(..) => {}
        }
    }
}

impl LegacySeat {
    /// The server that it leads to, if there is one and no surface of ours.
    pub(crate) fn only_server(&self) -> Option<ServerName> {
        self.link().map(|link| link.spec().name.clone())
    }

    /// Whether the session may be ended for want of use.
    pub fn is_idle(&self) -> bool {
        let live_is_idle = self.live().is_none_or(|live| live.is_idle());
        !self.ear.is_open() && self.desk.running() == 0 && live_is_idle
    }

    /// Whether it can be written out and let go of: nothing is under way, and nothing is there that only this process has.
    pub(crate) fn can_rest(&self) -> bool {
        let rests = match &self.way {
            Way::Own(link) => link.can_rest(),
            Way::Shared(joined) => joined.link().can_rest(),
            Way::Surface(live, _) => live.can_rest(),
        };
        rests && self.is_idle() && self.kept.is_some()
    }

    /// When its client last used it, in seconds since the gateway started. One that holds the seat itself, as on stdio,
    /// is seen by the requests it makes.
    pub(crate) fn last_used(&self) -> u64 {
        let touched = self.touched.load(Ordering::Relaxed);
        self.live().map_or(touched, |live| touched.max(live.last_used().as_secs()))
    }

    /// It is used by this login. True when that is another one than before, which is to be written.
    pub(crate) fn note_family(&self, family: &Arc<str>) -> bool {
        let mut known = self.family.lock();
        if known.as_ref() == Some(family) {
            return false;
        }
        if let Some(kept) = &self.kept {
            kept.set_family(family.clone());
        }
        *known = Some(family.clone());
        true
    }

    /// Its session, if it has a surface of ours.
    pub fn live(&self) -> Option<&Arc<Live>> {
        match &self.way {
            Way::Surface(live, _) => Some(live),
            Way::Own(_) | Way::Shared(..) => None,
        }
    }

    /// Whether it is the session of modern clients that name none: no client can name it by its id.
    pub(crate) fn is_default(&self) -> bool {
        self.live().is_some_and(|live| live.is_default())
    }

    /// Whether it is on this server alone.
    pub fn is_on(&self, entry: &Entry) -> bool {
        self.link().is_some_and(|link| link.is_to(&entry.server))
    }

    /// Takes no more requests from now on.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    /// Whether a call of its client runs.
    pub(crate) fn is_working(&self) -> bool {
        self.desk.running() != 0
    }

    /// Ends the session's connection.
    pub async fn close(&self) {
        match &self.way {
            Way::Own(link) => link.close().await,
            Way::Shared(joined) => joined.leave().await,
            Way::Surface(live, _) => live.close().await,
        }
    }

    /// Its only server, and whether it is connected.
    pub(crate) fn server_standing(&self) -> Option<(String, &'static str)> {
        let link = self.link()?;
        Some((link.name().to_owned(), if link.current().is_some() { "connected" } else { "disconnected" }))
    }

    pub(crate) fn link(&self) -> Option<&Arc<Link>> {
        match &self.way {
            Way::Own(link) => Some(link),
            Way::Shared(joined) => Some(joined.link()),
            Way::Surface(..) => None,
        }
    }
}

impl LegacySeat {
    /// Where nothing may be lost that was answered, a call ends when what it changed is written. A store that does not
    /// answer holds nobody up for long.
    pub(crate) fn written_first(&self, exchange: Exchange) -> Exchange {
        let keeper = self.gateway.upgrade().and_then(|gateway| gateway.keeper().cloned());
        match (keeper.filter(|keeper| keeper.writes_first()), self.kept.clone(), self.live()) {
            (Some(keeper), Some(kept), Some(_)) => exchange.ending_with(move || {
                Box::pin(async move {
                    if !keeper.write_now(&kept).await {
                        tracing::warn!("what a call changed is not written, and its answer is sent all the same");
                    }
                })
            }),
            _ => exchange,
        }
    }
}

impl Seat for LegacySeat {
    fn id(&self) -> &SessionId {
        &self.id
    }

    fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    fn desk(&self) -> &Desk {
        &self.desk
    }

    fn streams(&self) -> &dyn Streams {
        &self.streams
    }

    fn open(self: Arc<Self>, call: Call) -> Exchange {
        let (call, watch) = match &self.way {
            Way::Own(_) | Way::Shared(..) => self.watcher.passing(call),
            Way::Surface(..) => {
                let watch = self.watcher.received(&call.message, call.trace.as_deref());
                (call, watch)
            }
        };
        let tells = self.kept.is_some() && link::tells(&call.message);
        let passing = |link: &Link| match self.gateway.upgrade() {
            Some(gateway) => gateway.passing(link.spec(), &call),
            None => Passing::Free,
        };
        let exchange = match &self.way {
            Way::Own(link) => passing(link).open(|| {
                link.remember(&call);
                login::legacy(&link.spec().auth, call, |call| link.open(call, convert::from_legacy))
            }),
            Way::Shared(joined) => passing(joined.link()).open(|| {
                login::legacy(&joined.link().spec().auth, call, |call| joined.open(call, convert::from_legacy))
            }),
            Way::Surface(live, surface) => reception::open(surface, call, Via::Seated(live.clone())),
        };
        if tells
            && let Some(gateway) = self.gateway.upgrade()
            && let Some(keeper) = gateway.keeper()
        {
            keeper.mark(&self.id);
        }
        self.written_first(exchange).watched(watch)
    }

    fn keeps_calls(&self) -> bool {
        self.live().is_some()
    }

    fn notified(&self, message: Message) {
        // A shared server was told once that we are ready; what one of several clients says of itself is not passed on.
        if let Way::Own(link) = &self.way {
            link.notified(&message);
        }
    }

    fn listen(&self) -> Exchange {
        if let Some(link) = self.link() {
            link.watch();
        }
        self.ear.listen()
    }

    fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed) || self.ended.load(Ordering::Relaxed)
    }

    fn end(&self, why: Cancel) {
        if !self.stop(&why) {
            return;
        }
        if let Some(live) = self.live() {
            tracing::info!(session = live.hash(), "session_destroyed");
        }
        if let Some(gateway) = self.gateway.upgrade() {
            gateway.forget(self);
        }
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        let keeper = self.gateway.upgrade().and_then(|gateway| gateway.keeper().cloned());
        match (keeper, &self.kept) {
            (Some(keeper), Some(kept)) => Box::pin(async move { keeper.erased(kept).await }),
            _ => Box::pin(std::future::ready(())),
        }
    }
}

impl LegacySeat {
    /// Ends what goes on here, and nothing of what is kept. False when that was done before.
    pub(crate) fn stop(&self, why: &Cancel) -> bool {
        if self.ended.swap(true, Ordering::AcqRel) {
            return false;
        }
        // First: whoever waits in a tool is told why, before its call is cancelled.
        if let Some(live) = self.live() {
            live.end();
        }
        self.desk.clear(why);
        self.ear.close();
        self.streams.close();
        true
    }
}
