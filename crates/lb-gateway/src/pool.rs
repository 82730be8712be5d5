//! The connections of one principal's modern clients to one server: a single one to a modern server, for any number of
//! calls; to a legacy server several, with one call each, so that what it says belongs to that call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use lb_backend::{Server, Wish, is_eligible, overloaded};
use lb_exchange::{Call, Driver, End, Exchange, Feed, Isolation, Outcome, Step, Target, Tasks};
use lb_wire::revision::Era;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::cache::Cache;
use crate::convert;
use crate::gateway::Clients;
use crate::link::Link;

/// Connections to a legacy server that is not shared.
const LINKS_MAX: usize = 8;
/// Calls that wait for one of them, first come first served, until their deadline; further ones are refused. A few for each
/// connection would be as quick as where many calls share one, and a client could not ask for thirty things at once.
const WAITING_MAX: usize = 256;

/// The connections of one principal's modern clients to one server.
pub struct Pool {
    /// Carries what is kept, and all calls of a modern server.
    first: Arc<Link>,
    /// Whether each carries a call, where they carry one at a time; the first one first.
    links: Mutex<Vec<(Arc<Link>, bool)>>,
    /// Who may have one, first come first served; `None` where the first one carries everything.
    turns: Option<Arc<Semaphore>>,
    waiting: AtomicUsize,
}

impl Pool {
    /// Not connected, for clients like the one of this call.
    pub fn new(
        server: &Arc<Server>,
        call: &Call,
        tasks: &Tasks,
        cache: Option<&Arc<Cache>>,
        clients: Clients,
    ) -> Arc<Self> {
        let (caller, feed, tasks) = (call.caller.clone(), Feed::default(), tasks.clone());
        let wish = Wish { caller, hello: None, feed, tasks, client_says_initialized: false };
        let first = Link::new(server.clone(), wish, cache);
        let spec = server.spec();
        let turns = match (clients, &spec.target, spec.isolation) {
            // Whoever has us alone has the server as it would be without us, with all that it remembers.
            (Clients::One, ..) | (Clients::Many, Target::Embedded(_), _) => None,
            (Clients::Many, _, Isolation::Shared) => Some(spec.pool),
            (Clients::Many, _, Isolation::Session) => Some(LINKS_MAX),
        };
        let turns = turns.map(|turns| Arc::new(Semaphore::new(turns)));
        let links = Mutex::new(vec![(first.clone(), false)]);
        Arc::new(Self { first, links, turns, waiting: AtomicUsize::new(0) })
    }

    /// All of them.
    pub fn links(&self) -> Vec<Arc<Link>> {
        self.links.lock().iter().map(|(link, _)| link.clone()).collect()
    }

    /// Opens a request.
    pub fn open(self: &Arc<Self>, call: Call) -> Exchange {
        // What the server can say nothing about on the side need not have a connection to itself: discovery and lists
        // never wait for a call.
        let Some(turns) = self.turns.as_ref().filter(|_| is_eligible(&call)) else {
            return self.first.open(call, convert::from_modern);
        };
        let exchange = match self.first.current().map(|connection| connection.era()) {
            Some(Era::Modern) => return self.first.open_live(call, convert::from_modern),
            Some(Era::Legacy) => self.open_in_turn(turns, call),
            None => {
                let (pool, turns) = (self.clone(), turns.clone());
                Exchange::deferred(async move { pool.open_once_known(&turns, call).await })
            }
        };
        exchange.with_server(Some(self.first.spec().clone()))
    }

    /// The era of the server is known only when it was asked.
    async fn open_once_known(self: &Arc<Self>, turns: &Arc<Semaphore>, call: Call) -> Exchange {
        match self.first.connection().await.map(|connection| connection.era()) {
            Ok(Era::Modern) => self.first.open_live(call, convert::from_modern),
            Ok(Era::Legacy) => self.open_in_turn(turns, call),
            Err(error) => Exchange::ready(End::ours(Outcome::Error(error.to_body(self.first.name())))),
        }
    }

    fn open_in_turn(self: &Arc<Self>, turns: &Arc<Semaphore>, call: Call) -> Exchange {
        if let Ok(permit) = turns.clone().try_acquire_owned() {
            return self.open_now(permit, call);
        }
        if WAITING_MAX <= self.waiting.fetch_add(1, Ordering::Relaxed) {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Exchange::ready(overloaded(self.first.name(), WAITING_MAX));
        }
        let (waits, turns) = (Waits(self.clone()), turns.clone());
        Exchange::deferred(async move {
            let permit = turns.acquire_owned().await;
            let pool = waits.0.clone();
            drop(waits);
            match permit {
                Ok(permit) => pool.open_now(permit, call),
                Err(_) => Exchange::ready(End::ours(Outcome::Cancelled)),
            }
        })
    }

    fn open_now(self: &Arc<Self>, permit: OwnedSemaphorePermit, call: Call) -> Exchange {
        let turn = Turn { link: self.take(), pool: self.clone(), _permit: permit };
        let inner = turn.link.open_live(call, convert::from_modern);
        let remote = inner.remote().clone();
        Exchange::new(InTurn { inner, turn: Some(turn) }, remote)
    }

    /// One that carries nothing: of those there are, the one that was made first, so that calls one after the other meet
    /// the same process.
    fn take(&self) -> Arc<Link> {
        let mut links = self.links.lock();
        if let Some((link, busy)) = links.iter_mut().find(|(_, busy)| !*busy) {
            *busy = true;
            return link.clone();
        }
        let link = self.first.another();
        links.push((link.clone(), true));
        link
    }
}

/// A place in the queue.
struct Waits(Arc<Pool>);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection for one call.
struct Turn {
    pool: Arc<Pool>,
    link: Arc<Link>,
    /// Given back after the link.
    _permit: OwnedSemaphorePermit,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut links = self.pool.links.lock();
        if let Some((_, busy)) = links.iter_mut().find(|(link, _)| Arc::ptr_eq(link, &self.link)) {
            *busy = false;
        }
    }
}

/// A call that has a connection to itself until its end.
struct InTurn {
    inner: Exchange,
    turn: Option<Turn>,
}

impl Driver for InTurn {
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        let step = self.inner.poll_step(cx);
        if let Poll::Ready(Step::End(_)) = &step {
            self.turn = None;
        }
        step
    }
}
