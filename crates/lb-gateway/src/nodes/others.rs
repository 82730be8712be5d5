//! What the other nodes have.
//!
//! A scan looks at every key of a store, sessions and all, which is too much for every few seconds: the nodes keep a
//! list of their ids under one key. Whoever misses itself there adds itself, and whoever finds a dead one removes it.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use lb_store::{Batch, Error, Key};

use super::{Membership, NodeInfo, RENEW_EVERY, key_of};

/// How long the list is kept after all nodes are gone.
const KEPT: Duration = Duration::from_secs(600);

/// What stands in the place of a node that is known to be dead, and for how long.
pub(super) const GONE: &str = "gone";
const GONE_KEPT: Duration = Duration::from_secs(60);

/// Nodes that are read at once.
const AT_ONCE: usize = 16;

/// Nodes that the list names at most.
const NAMED_MAX: usize = 1_024;

impl Membership {
    /// How many sessions the other live nodes have, as they said a few seconds ago at most. What was known last counts
    /// on while the store is away.
    pub fn sessions_elsewhere(&self) -> u64 {
        self.elsewhere.load(Ordering::Relaxed)
    }

    /// Looks what the others have; a failure is told and made up for the next time.
    pub(super) async fn look_around(&self) {
        let looked = tokio::time::timeout(RENEW_EVERY, self.read_others()).await;
        if let Err(error) = looked.unwrap_or(Err(Error::Timeout(RENEW_EVERY))) {
            tracing::debug!(%error, "the other nodes could not be counted");
        }
    }

    async fn read_others(&self) -> Result<(), Error> {
        let list = Key::parse("nodes")?;
        let kept = self.store.get(&list).await?;
        let named = ids(kept.as_ref());
        let others: Vec<_> = named.iter().filter(|id| **id != self.me.id).map(|id| self.card_of(id.clone())).collect();
        let cards: Vec<_> = stream::iter(others).buffer_unordered(AT_ONCE).try_collect().await?;
        let live = cards.into_iter().flatten();
        let (sessions, mut present) = live.fold((0_u64, BTreeSet::new()), |(sessions, mut ids), info| {
            ids.insert(info.id);
            (sessions.saturating_add(info.sessions), ids)
        });
        self.elsewhere.store(sessions, Ordering::Relaxed);
        present.insert(self.me.id.clone());
        if named == present {
            return self.store.expire(&list, KEPT).await.map(drop);
        }
        let text = present.iter().take(NAMED_MAX).map(AsRef::as_ref).collect::<Vec<&str>>().join(" ");
        // Another one may have changed it meanwhile: what is then missing is added the next time.
        self.store.compare_and_set(&list, kept, text, KEPT).await.map(drop)
    }

    async fn card_of(&self, id: Box<str>) -> Result<Option<NodeInfo>, Error> {
        let key = key_of(&id)?;
        let Some(kept) = self.store.get(&key).await? else { return Ok(None) };
        let Some(info) = NodeInfo::read(kept.clone()) else { return Ok(None) };
        let here = self.about.host.as_ref().filter(|host| info.place.as_ref() == Some(&host.place));
        if !here.is_some_and(|host| (host.is_gone)(&id)) {
            return Ok(Some(info));
        }
        tracing::warn!(node = %id, "node_gone");
        let batch = Batch::new().when(&key, Some(kept)).set(&key, GONE, GONE_KEPT);
        // Refused, it has been told already.
        self.store.apply(batch).await?;
        Ok(None)
    }
}

fn ids(kept: Option<&Bytes>) -> BTreeSet<Box<str>> {
    let text = kept.and_then(|kept| std::str::from_utf8(kept).ok()).unwrap_or_default();
    text.split(' ').filter(|id| !id.is_empty() && key_of(id).is_ok()).take(NAMED_MAX).map(Into::into).collect()
}
