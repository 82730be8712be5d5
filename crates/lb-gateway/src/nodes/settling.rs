//! Whether a node whose key is not there is dead.
//!
//! While a store is away nobody can renew, and one that comes back empty knows nobody: for a while, keys of nodes that
//! live are missing. Whoever took over their sessions then would share them with their owners. So nobody counts as dead
//! until the store has answered, and kept what it was told, for as long as a lease.

use std::time::{Duration, SystemTime};

use lb_store::{Applied, Batch, Error, Key};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{LEASE, Membership};

/// There from the first node on, until the store loses everything.
const BORN: &str = "nodes:{all}:born";
/// There while it may be that nodes live whose keys are missing.
const SETTLING: &str = "nodes:{all}:settling";
/// How long nodes that live take at most to see that the store is another one, and to tell it what they have.
const TOLD_AGAIN: Duration = Duration::from_secs(3);
/// Longer than any store is used.
const FOR_EVER: Duration = Duration::from_secs(9 * 365 * 86_400);

/// A store that other nodes have used for long.
#[cfg(test)]
pub(crate) async fn settled(store: std::sync::Arc<dyn lb_store::Store>) -> std::sync::Arc<dyn lb_store::Store> {
    store.set(&Key::parse(BORN).expect("a key"), "1", FOR_EVER).await.expect("a store that answers");
    store
}

/// When the store last did not do what this node asked.
#[derive(Debug, Default)]
pub(super) struct Trouble(Mutex<Option<Instant>>);

impl Trouble {
    pub(super) fn note(&self) {
        *self.0.lock() = Some(Instant::now());
    }

    fn is_within(&self, time: Duration) -> bool {
        self.0.lock().is_some_and(|at| at.elapsed() < time)
    }
}

impl Membership {
    /// A node is about to be taken for dead, or a session for one that never was.
    ///
    /// # Errors
    /// That cannot be told yet.
    pub(crate) async fn may_be_dead(&self) -> Result<(), Error> {
        if self.lease.is_endless() {
            return Ok(());
        }
        self.look_at_store();
        let since = self.store.facts().away_since;
        // Others may not have renewed since.
        if since.is_some() || self.trouble.is_within(LEASE) || !self.is_settled().await? {
            let why = "it was away a moment ago, so that it is not known yet which nodes live".to_owned();
            return Err(Error::Away { since: since.unwrap_or_else(SystemTime::now), why });
        }
        Ok(())
    }

    /// A session that is nobody's is about to be taken.
    ///
    /// # Errors
    /// The store may have forgotten who took it, who will say so in a moment.
    pub(crate) fn may_be_nobodys(&self) -> Result<(), Error> {
        if self.lease.is_endless() {
            return Ok(());
        }
        self.look_at_store();
        if self.reborn.is_within(TOLD_AGAIN) {
            let why = "it may have lost what it was told last, and is told again".to_owned();
            return Err(Error::Away { since: SystemTime::now(), why });
        }
        Ok(())
    }

    /// Whether the store has kept what it was told for as long as a lease. One that knows nothing begins to count.
    async fn is_settled(&self) -> Result<bool, Error> {
        if self.settle(false).await? {
            // It knew something when we joined.
            self.forgotten();
            return Ok(false);
        }
        Ok(self.store.get(&Key::parse(SETTLING)?).await?.is_none())
    }

    /// Begins to count, if the store knows nothing or was away; whether it did.
    pub(super) async fn settle(&self, was_away: bool) -> Result<bool, Error> {
        let (born, settling) = (Key::parse(BORN)?, Key::parse(SETTLING)?);
        let batch = Batch::new().set(&born, "1", FOR_EVER).set(&settling, "1", LEASE);
        let batch = if was_away { batch } else { batch.when(&born, None) };
        Ok(matches!(self.store.apply(batch).await?, Applied::Done(_)))
    }
}
