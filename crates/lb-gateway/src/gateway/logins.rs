//! Sessions whose login is over: they end, with all that is open on them.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use lb_exchange::{Cancel, Families, Seat as _};

use super::{Gateway, Shared};
use crate::live::hash;
use crate::seat::LegacySeat;

/// How often it is asked which logins are over.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long one answer may take; it is asked again.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Logins that are asked for at once.
const AT_ONCE: usize = 16;

impl Gateway {
    /// Clients log in: what they may use is known with their first request, and sessions end soon after their login does.
    /// To be said before the first client comes.
    pub fn watch_logins(&self, families: Arc<dyn Families>) {
        if self.0.families.set(families).is_err() {
            tracing::error!("logins are watched already");
            return;
        }
        self.0.tasks.spawn(watch(Arc::downgrade(&self.0)));
    }
}

impl Shared {
    /// Whether clients log in.
    pub(crate) fn has_login(&self) -> bool {
        self.families.get().is_some()
    }

    /// Whether a login is known to be over.
    pub(super) async fn is_over(&self, family: Option<&str>) -> bool {
        let (Some(families), Some(family)) = (self.families.get(), family) else { return false };
        let lives = tokio::time::timeout(ANSWER_MAX, families.lives(family)).await;
        lives.is_ok_and(|lives| lives == Some(false))
    }

    /// Ends the sessions whose login is over.
    pub(crate) async fn end_with_logins(&self) {
        let mut by_login: HashMap<Arc<str>, Vec<Arc<LegacySeat>>> = HashMap::new();
        for seat in self.sessions.read().values() {
            let family = seat.family.lock().clone();
            if let Some(family) = family {
                by_login.entry(family).or_default().push(seat.clone());
            }
        }
        let asked = by_login.into_iter().map(|(family, seats)| async move {
            if !self.is_over(Some(&family)).await {
                return;
            }
            for seat in seats {
                // Another login may have gone on with it meanwhile.
                if seat.family.lock().as_ref() == Some(&family) {
                    let (who, client) = (seat.caller.principal.as_str(), seat.caller.client.as_deref());
                    let session = hash(seat.id.as_str());
                    tracing::info!(target: "audit", who, client, session, outcome = "session_ended_with_login");
                    seat.end(Cancel::SessionEnd);
                }
            }
        });
        stream::iter(asked).buffer_unordered(AT_ONCE).collect::<()>().await;
    }
}

async fn watch(gateway: Weak<Shared>) {
    loop {
        let Some(tasks) = gateway.upgrade().map(|shared| shared.tasks.clone()) else { return };
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = tasks.stopping() => return,
        }
        let Some(shared) = gateway.upgrade() else { return };
        tokio::select! {
            () = shared.end_with_logins() => {}
            () = tasks.stopping() => return,
        }
    }
}
