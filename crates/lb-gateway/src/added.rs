//! Servers that clients have added: kept beyond this process, and known on every node that shares the store.
//!
//! The registry is what counts here, and the store what counts elsewhere. Whoever changes the registry marks the name;
//! one task writes what the registry then says, and takes up what others have written.

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
}

impl AddedServers {
    pub(crate) fn new(store: Arc<dyn Store>, is_shared: bool) -> Arc<Self> {
        let (marked, seen) = Default::default();
        Arc::new(Self { store, is_shared, marked, bell: Notify::new(), seen })
    }

    /// The registry may say something else of this server than before.
    pub(crate) fn mark(&self, name: &ServerName) {
        self.marked.lock().insert(name.folded());
        self.bell.notify_one();
    }

    /// Writes and reads until the gateway is gone.
    pub(crate) async fn run(self: Arc<Self>, gateway: Weak<Shared>) {
        let mut changes = None;
        let mut look_at = Instant::now();
        loop {
            if self.is_shared && changes.is_none() {
                changes = self.listen().await;
                // What changed before it was listened to is not told.
                look_at = Instant::now();
            }
            let heard = async {
                match &mut changes {
                    Some(changes) => changes.next().await.is_some(),
                    None => std::future::pending().await,
                }
            };
            let (looks, lost) = tokio::select! {
                () = self.bell.notified() => (false, false),
                () = tokio::time::sleep_until(look_at) => (true, false),
                heard = heard => (true, !heard),
            };
            if lost {
                changes = None;
            }
            let Some(gateway) = gateway.upgrade() else { return };
            let done = async {
                self.write(&gateway).await?;
                if looks { self.read(&gateway).await } else { Ok(()) }
            };
            match done.await {
                Ok(()) if looks => look_at = Instant::now() + if self.is_shared { LOOK_EVERY } else { TTL / 30 },
                Ok(()) => {}
                Err(error) => {
                    tracing::debug!(%error, "added servers are kept later");
                    look_at = Instant::now() + RETRY;
                }
            }
        }
    }

    async fn listen(&self) -> Option<lb_store::Subscription> {
        let channel = Key::parse(CHANNEL).ok()?;
        match self.store.subscribe(&channel).await {
            Ok(changes) => Some(changes),
            Err(error) => {
                tracing::debug!(%error, "changes of added servers are not heard of");
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
            if let Err(error) = self.put(&name, wanted.clone()).await {
                self.marked.lock().insert(name);
                return Err(error);
            }
            match wanted {
                Some(value) => drop(self.seen.lock().insert(name, value)),
                None => drop(self.seen.lock().remove(&name)),
            }
            wrote = true;
        }
        if wrote && self.is_shared {
            self.store.publish(&Key::parse(CHANNEL)?, Bytes::from_static(b"changed")).await?;
        }
        Ok(())
    }

    async fn put(&self, name: &str, wanted: Option<Bytes>) -> Result<(), Error> {
        let key = Key::parse(&format!("{PREFIX}{name}"))?;
        match wanted {
            Some(value) => self.store.set(&key, value, TTL).await,
            None => self.store.delete(&key).await.map(drop),
        }
    }

    /// Takes up what others have written.
    pub(crate) async fn read(&self, gateway: &Arc<Shared>) -> Result<(), Error> {
        let keys: Vec<Key> = self.store.scan(PREFIX).try_collect().await?;
        let mut found = BTreeMap::new();
        for key in keys {
            let Some(name) = key.as_str().strip_prefix(PREFIX).map(str::to_owned) else { continue };
            found.extend(self.store.get(&key).await?.map(|value| (name, value)));
        }
        let before = std::mem::replace(&mut *self.seen.lock(), found.clone());
        let marked = self.marked.lock().clone();
        for (name, value) in found.iter().filter(|(name, value)| before.get(*name) != Some(value)) {
            // What is to be written here comes last.
            if !marked.contains(name) {
                self.take_up(gateway, name, value).await;
            }
        }
        for name in before.keys().filter(|name| !found.contains_key(*name) && !marked.contains(*name)) {
            if let Ok(name) = ServerName::parse(name) {
                gateway.drop_server(&name, |scope| *scope != Scope::All).await;
            }
        }
        Ok(())
    }

    async fn take_up(&self, gateway: &Arc<Shared>, name: &str, value: &Bytes) {
        let Some(added) = Added::read(value.clone()).filter(|added| added.spec.name.folded() == name) else {
            return tracing::error!(server = name, "store_record_unreadable");
        };
        let policy = gateway.policy();
        if matches!(added.spec.target, Target::Child { .. }) && (policy.from_afar || !policy.allow_spawn) {
            return tracing::warn!(
                server = name,
                "an added server is not served: programs may not be started for clients"
            );
        }
        match gateway.registry().folded(name) {
            // The config file names one like it.
            Some(entry) if entry.scope == Scope::All => {}
            Some(entry) if Added::of(&entry).as_ref() == Some(&added) => {}
            _ => drop(gateway.define(added.spec, Scope::Principal(added.owner), added.by).await),
        }
    }
}

impl std::fmt::Debug for AddedServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AddedServers").field("is_shared", &self.is_shared).finish_non_exhaustive()
    }
}
