//! A server that is removed or redefined: what sessions have with it ends, after the calls that run on it.

use std::sync::Arc;
use std::time::Duration;

use lb_backend::Dismissal;
use lb_exchange::{BoxFuture, Cancel, Seat as _, Tasks};
use tokio::time::Instant;

use crate::gateway::Shared;
use crate::link::Link;
use crate::live::REMOVED;
use crate::registry::Entry;
use crate::seat::{LegacySeat, Way};

/// How long the connections of a server that is removed may take to end.
const DISMISS_MAX: Duration = Duration::from_secs(5);
/// How long calls of a server that is removed may go on.
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// How often it is seen whether they have ended: too rare to have every call tell of its end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl Shared {
    /// Ends what every session has with a server, all at once; one session may have seen to that already. What clients
    /// have called on the server alone goes on for a while, in the background.
    pub(crate) async fn dismiss(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        reason: &str,
        except: Option<u64>,
        successor: Option<&Arc<Entry>>,
    ) {
        let mut going: Vec<BoxFuture<'_, ()>> = Vec::new();
        for live in self.lives() {
            if let Some(backend) = live.take_backend(entry) {
                if let Some(successor) = successor {
                    live.succeed(self, successor, &backend);
                }
                going.push(Box::pin(async move { backend.dismiss(reason, except).await }));
            }
        }
        entry.backends.lock().clear();
        if let Some(cache) = &entry.cache {
            cache.end_listens();
        }
        let why = if reason == REMOVED { Dismissal::Removed } else { Dismissal::Changed };
        let mut drain = Drain { server: entry.clone(), why, seats: self.seats_on(entry), links: entry.links() };
        for seat in &drain.seats {
            seat.leave();
        }
        for link in drain.let_go() {
            going.push(Box::pin(async move { link.dismiss(why).await }));
        }
        if !drain.is_over() {
            self.tasks().spawn(drain.run(self.tasks().clone()));
        }
        let all = futures_util::future::join_all(going);
        if tokio::time::timeout(DISMISS_MAX, all).await.is_err() {
            tracing::warn!(server = %entry.name(), "connections of a server were slow to end");
        }
    }
}

/// What calls of clients still run on, of a server that is not served any more.
struct Drain {
    server: Arc<Entry>,
    why: Dismissal,
    seats: Vec<Arc<LegacySeat>>,
    links: Vec<Arc<Link>>,
}

impl Drain {
    /// Ends the sessions on which nothing runs, and gives the links on which nothing runs: they must be ended.
    fn let_go(&mut self) -> Vec<Arc<Link>> {
        for seat in self.seats.extract_if(.., |seat| !seat.is_working()) {
            // First: a request that comes just now is told why.
            if let Way::Own(link) = &seat.way {
                link.condemn(self.why);
            }
            seat.end(Cancel::SessionEnd);
        }
        self.links.extract_if(.., |link| !link.is_working()).collect()
    }

    fn is_over(&self) -> bool {
        self.seats.is_empty() && self.links.is_empty()
    }

    /// Waits for the calls, and cuts off those that take too long: each of them is told.
    async fn run(mut self, tasks: Tasks) {
        let until = Instant::now() + DRAIN_MAX;
        while !self.is_over() && Instant::now() < until {
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = tasks.stopping() => return self.stop().await,
            }
            let why = self.why;
            for link in self.let_go() {
                tasks.spawn(async move { link.dismiss(why).await });
            }
        }
        if !self.is_over() {
            tracing::warn!(server = %self.server.name(), "calls were cut off: {}", self.why);
        }
        let error = self.why.cut_off(self.server.name().as_str());
        for seat in self.seats {
            seat.end(Cancel::CutOff(error.clone()));
        }
        futures_util::future::join_all(self.links.iter().map(|link| link.dismiss(self.why))).await;
    }

    /// We stop before they have had their time.
    async fn stop(self) {
        for seat in self.seats {
            seat.end(Cancel::SessionEnd);
        }
        futures_util::future::join_all(self.links.iter().map(|link| link.close())).await;
    }
}
