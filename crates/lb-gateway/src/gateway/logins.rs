//! Logins that are over: sessions end with them, and so does what modern clients have open without one.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use lb_exchange::{Cancel, Exchange, Families, Seat as _, ServerName};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{Gateway, Shared};
use crate::live::hash;
use crate::seat::LegacySeat;

/// How often it is asked which logins are over.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long one answer may take; it is asked again.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Logins that are asked for at once.
const AT_ONCE: usize = 16;

/// A login, and the server that it is used for where that is the only one: what the rules take from somebody ends, too.
type Use = (Arc<str>, Option<ServerName>);

/// What is open in no session, by login: it is over when the token is cancelled, which lives while something is open.
#[derive(Default)]
pub(super) struct OpenCalls(Mutex<HashMap<Use, Weak<CancellationToken>>>);

impl OpenCalls {
    /// The token of a login.
    fn of(&self, login: Use) -> Arc<CancellationToken> {
        let mut open = self.0.lock();
        let known = open.get(&login).and_then(Weak::upgrade).filter(|token| !token.is_cancelled());
        known.unwrap_or_else(|| {
            let token = Arc::new(CancellationToken::new());
            open.insert(login, Arc::downgrade(&token));
            token
        })
    }

    /// All logins with something open. The others are forgotten.
    fn open(&self) -> Vec<(Use, Arc<CancellationToken>)> {
        let mut open = self.0.lock();
        open.retain(|_, token| token.strong_count() != 0);
        open.iter().filter_map(|(login, token)| Some((login.clone(), token.upgrade()?))).collect()
    }
}

/// What ends with a login.
#[derive(Default)]
struct Held {
    seats: Vec<Arc<LegacySeat>>,
    unseated: Option<Arc<CancellationToken>>,
}

impl Gateway {
    /// Clients log in: what they may use is known with their first request, and sessions end soon after their login does.
    /// To be said before the first client comes.
    pub fn watch_logins(&self, families: Arc<dyn Families>) {
        if self.0.families.set(families).is_err() {
            tracing::error!("logins are watched already");
            return;
        }
        // Side by side: what takes long in one does not hold the other up.
        self.0.tasks.spawn(repeat(Arc::downgrade(&self.0), Round::End));
        self.0.tasks.spawn(repeat(Arc::downgrade(&self.0), Round::Tend));
    }
}

impl Shared {
    /// Whether clients log in.
    pub(crate) fn has_login(&self) -> bool {
        self.families.get().is_some()
    }

    /// Whether a login is known to be over, or not to be good for this server any more.
    pub(super) async fn is_over(&self, family: Option<&str>, server: Option<&str>) -> bool {
        let (Some(families), Some(family)) = (self.families.get(), family) else { return false };
        let lives = tokio::time::timeout(ANSWER_MAX, families.lives(family, server)).await;
        lives.is_ok_and(|lives| lives == Some(false))
    }

    /// A request of a modern client, which ends with the login that it came with.
    pub(super) fn while_logged_in(
        &self,
        family: Option<&Arc<str>>,
        server: Option<&ServerName>,
        exchange: Exchange,
    ) -> Exchange {
        let Some(family) = family.filter(|_| self.has_login()) else { return exchange };
        let login = self.unseated.of((family.clone(), server.cloned()));
        exchange.until(async move { login.cancelled().await })
    }

    /// Sees to it that logins that were ended stay so. What cannot be done now is done in the next round.
    async fn tend_logins(&self) {
        if let Some(families) = self.families.get() {
            tokio::time::timeout(ANSWER_MAX, families.tend()).await.ok();
        }
    }

    /// Ends the sessions whose login is over, and what is open without one.
    pub(crate) async fn end_with_logins(&self) {
        let mut by_login: HashMap<Use, Held> = HashMap::new();
        for seat in self.sessions.read().values() {
            let family = seat.family.lock().clone();
            if let Some(family) = family {
                by_login.entry((family, seat.only_server())).or_default().seats.push(seat.clone());
            }
        }
        for (login, token) in self.unseated.open() {
            by_login.entry(login).or_default().unseated = Some(token);
        }
        let asked = by_login.into_iter().map(|((family, server), held)| async move {
            if !self.is_over(Some(&family), server.as_ref().map(ServerName::as_str)).await {
                return;
            }
            if let Some(token) = held.unseated {
                tracing::info!(target: "audit", outcome = "requests_ended_with_login");
                token.cancel();
            }
            for seat in held.seats {
                // Another login may have gone on with it meanwhile.
                if seat.family.lock().as_ref() == Some(&family) {
                    let (who, client) = (seat.caller.principal.as_str(), seat.caller.client.as_deref());
                    let session = hash(seat.id.as_str());
                    tracing::info!(target: "audit", event = "session_ended", who, client, session, outcome = "login_over");
                    seat.end(Cancel::SessionEnd);
                }
            }
        });
        stream::iter(asked).buffer_unordered(AT_ONCE).collect::<()>().await;
    }
}

/// What is done again and again.
#[derive(Clone, Copy)]
enum Round {
    /// What ends with logins is ended.
    End,
    /// What was ended is kept so.
    Tend,
}

async fn repeat(gateway: Weak<Shared>, round: Round) {
    loop {
        let Some(tasks) = gateway.upgrade().map(|shared| shared.tasks.clone()) else { return };
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = tasks.stopping() => return,
        }
        let Some(shared) = gateway.upgrade() else { return };
        let work = async {
            match round {
                Round::End => shared.end_with_logins().await,
                Round::Tend => shared.tend_logins().await,
            }
        };
        tokio::select! {
            () = work => {}
            () = tasks.stopping() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use lb_backend::{Children, Environment};
    use lb_exchange::{BoxFuture, Tasks};

    use super::*;
    use crate::gateway::Setup;

    /// A store that brought back so much that it takes for ever to end it again.
    #[derive(Default)]
    struct Busy {
        looks: AtomicUsize,
        tended: AtomicUsize,
    }

    impl Families for Busy {
        fn lives<'a>(&'a self, _: &'a str, _: Option<&'a str>) -> BoxFuture<'a, Option<bool>> {
            self.looks.fetch_add(1, Ordering::SeqCst);
            Box::pin(std::future::ready(Some(true)))
        }

        fn tend(&self) -> BoxFuture<'_, ()> {
            self.tended.fetch_add(1, Ordering::SeqCst);
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn logins_are_looked_at_however_long_it_takes_to_end_some_again() {
        let environment = Environment {
            supervisor: "no-children-here".into(),
            embedded: Arc::default(),
            tasks: Tasks::default(),
            children: Children::new(0),
            logins: None,
            names: lb_backend::Names::default(),
        };
        let gateway = Gateway::new(Vec::new(), &environment, Setup::default()).expect("a gateway");
        let busy = Arc::new(Busy::default());
        gateway.watch_logins(busy.clone());
        let _open = gateway.0.unseated.of(("family".into(), None));
        tokio::time::sleep(Duration::from_secs(41)).await;
        // Every two seconds: what is over ends within five, a look of two seconds and an answer of two included.
        assert_eq!(busy.looks.load(Ordering::SeqCst), 20);
        assert_eq!(busy.tended.load(Ordering::SeqCst), 10, "and the other goes on as well");
    }
}
