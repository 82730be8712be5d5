//! Servers that clients have added: kept beyond this process, and known on every node that shares the store.
//!
//! The registry is what counts here, and the store what counts elsewhere. Whoever changes the registry marks the name;
//! one task writes what the registry then says, and takes up what others have written. A removal is written, too: what is
//! merely absent was lost by the store, and is written again by whoever still has it.

mod record;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use lb_exchange::{ServerName, Target};
use lb_store::{Error, Key, Store};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use self::record::Added;
use crate::gateway::Shared;
use crate::registry::Scope;

/// How long a server is kept that nobody adds again and that no process which starts finds.
const TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How often that time begins again for what is there.
const EXTEND_EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// Stands for a server that was removed, as long as another node may have missed it.
const GONE: Bytes = Bytes::from_static(b"gone");
const GONE_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// How often the store is looked at where nobody said that it has changed.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// The wait before a store that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// What keys begin with; all of them lie together.
const PREFIX: &str = "server:{added}:";
/// Where changes are told.
const CHANNEL: &str = "servers";

/// What is kept, and what is still to be written.
pub(crate) struct AddedServers {
    store: Arc<dyn Store>,
    /// Whether other processes write to it.
    is_shared: bool,
    marked: Mutex<BTreeSet<String>>,
    bell: Notify,
    /// What the store held when it was last looked at or written to, by folded name.
    seen: Mutex<BTreeMap<String, Bytes>>,
    /// When what is there was last given its whole time.
    extended: Mutex<Option<Instant>>,
    /// Held while it is read, so that nothing is taken up twice.
    reading: tokio::sync::Mutex<()>,
}

impl AddedServers {
    pub(crate) fn new(store: Arc<dyn Store>, is_shared: bool) -> Arc<Self> {
        let (marked, seen, extended, reading) = Default::default();
        Arc::new(Self { store, is_shared, marked, bell: Notify::new(), seen, extended, reading })
    }

    /// The registry may say something else of this server than before.
    pub(crate) fn mark(&self, name: &ServerName) {
        self.marked.lock().insert(name.folded());
        self.bell.notify_one();
    }

    /// Reads and writes until the gateway is gone.
    pub(crate) async fn run(self: Arc<Self>, gateway: Weak<Shared>) {
        let mut changes = None;
        let mut look_at = Instant::now();
        let mut deaf = false;
        loop {
            if self.is_shared && changes.is_none() && look_at <= Instant::now() {
                changes = self.listen(&mut deaf).await;
            }
            let heard = async {
                match &mut changes {
                    Some(changes) => changes.next().await.is_some(),
                    None => std::future::pending().await,
                }
            };
            let (looks, lost) = tokio::select! {
                biased;
                () = tokio::time::sleep_until(look_at) => (true, false),
                heard = heard => (true, !heard),
                () = self.bell.notified() => (false, false),
            };
            if lost {
                changes = None;
            }
            let Some(gateway) = gateway.upgrade() else { return };
            let done = async {
                if looks {
                    self.read(&gateway).await?;
                }
                self.write(&gateway).await
            };
            look_at = match done.await {
                // What changed before it is listened to again is not told.
                Ok(()) if lost => Instant::now(),
                Ok(()) if looks => Instant::now() + if self.is_shared { LOOK_EVERY } else { EXTEND_EVERY },
                Ok(()) => look_at,
                Err(error) => {
                    tracing::debug!(%error, "added servers are kept later");
                    Instant::now() + RETRY
                }
            }
        }
    }

    /// Listens to changes; that it cannot be done is said once.
    async fn listen(&self, deaf: &mut bool) -> Option<lb_store::Subscription> {
        let channel = Key::parse(CHANNEL).ok()?;
        match self.store.subscribe(&channel).await {
            Ok(changes) => {
                *deaf = false;
                Some(changes)
            }
            Err(error) => {
                if !std::mem::replace(deaf, true) {
                    let every = LOOK_EVERY.as_secs();
                    tracing::warn!(%error, every, "added_servers_unheard: the store is looked at instead");
                }
                None
            }
        }
    }

    /// Writes what the registry says of the marked names.
    async fn write(&self, gateway: &Shared) -> Result<(), Error> {
        let mut wrote = false;
        loop {
            // Taken before the registry is read: who changes it later marks it again.
            let Some(name) = self.marked.lock().pop_first() else { break };
            let entry = gateway.registry().folded(&name);
            let wanted = entry.and_then(|entry| Added::of(&entry)).and_then(|added| added.written());
            // What was taken up from the store is not written back: it may have changed there again.
            if self.seen.lock().get(&name).filter(|seen| **seen != GONE) == wanted.as_ref() {
                continue;
            }
            let (value, ttl) = wanted.map_or((GONE, GONE_TTL), |value| (value, TTL));
            if let Err(error) = self.put(&name, value.clone(), ttl).await {
                self.marked.lock().insert(name);
                return Err(error);
            }
            self.seen.lock().insert(name, value);
            wrote = true;
        }
        if wrote && self.is_shared {
            self.store.publish(&Key::parse(CHANNEL)?, Bytes::from_static(b"changed")).await?;
        }
        Ok(())
    }

    async fn put(&self, name: &str, value: Bytes, ttl: Duration) -> Result<(), Error> {
        self.store.set(&Key::parse(&format!("{PREFIX}{name}"))?, value, ttl).await
    }

    /// Takes up what others have written, and marks what the store has lost.
    pub(crate) async fn read(&self, gateway: &Arc<Shared>) -> Result<(), Error> {
        let _one_at_a_time = self.reading.lock().await;
        let found = self.found().await?;
        let before = std::mem::replace(&mut *self.seen.lock(), found.clone());
        let marked = self.marked.lock().clone();
        // What is to be written here comes last.
        for (name, value) in found.iter().filter(|(name, _)| !marked.contains(*name)) {
            match before.get(name) {
                Some(known) if known == value => {}
                _ if *value != GONE => self.take_up(gateway, name, value).await,
                _ => {
                    if let Ok(name) = ServerName::parse(name) {
                        gateway.drop_server(&name, |scope| *scope != Scope::All).await;
                    }
                }
            }
        }
        let lost = before.into_iter().filter(|(name, value)| *value != GONE && !found.contains_key(name));
        self.marked.lock().extend(lost.map(|(name, _)| name));
        Ok(())
    }

    /// What the store holds, by folded name. Now and then its time begins again.
    async fn found(&self) -> Result<BTreeMap<String, Bytes>, Error> {
        let extends = self.extended.lock().is_none_or(|last| EXTEND_EVERY <= last.elapsed());
        let keys: Vec<Key> = self.store.scan(PREFIX).try_collect().await?;
        let mut found = BTreeMap::new();
        for key in keys {
            let Some(name) = key.as_str().strip_prefix(PREFIX).map(str::to_owned) else { continue };
            let Some(value) = self.store.get(&key).await? else { continue };
            if extends && value != GONE {
                self.store.expire(&key, TTL).await?;
            }
            found.insert(name, value);
        }
        if extends {
            *self.extended.lock() = Some(Instant::now());
        }
        Ok(found)
    }

    async fn take_up(&self, gateway: &Arc<Shared>, name: &str, value: &Bytes) {
        let Some(added) = Added::read(value.clone()).filter(|added| added.spec.name.folded() == name) else {
            return tracing::error!(server = name, "store_record_unreadable");
        };
        let policy = gateway.policy();
        if matches!(added.spec.target, Target::Child { .. }) && policy.may_start(&added.spec.target).is_err() {
            return tracing::warn!(
                server = name,
                "an added server is not served: programs may not be started for clients"
            );
        }
        match gateway.registry().folded(name) {
            // The config file names one like it.
            Some(entry) if entry.scope == Scope::All => {}
            Some(entry) if Added::of(&entry).as_ref() == Some(&added) => {}
            _ => drop(gateway.define(added.spec, added.scope, added.by).await),
        }
    }
}

impl std::fmt::Debug for AddedServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AddedServers").field("is_shared", &self.is_shared).finish_non_exhaustive()
    }
}
