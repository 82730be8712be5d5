//! Servers that clients have added: kept beyond this process, and known on every node that shares the store.
//!
//! The registry is what counts here, and the store what counts elsewhere. Whoever changes the registry marks the name;
//! one task writes what the registry then says, and takes up what others have written. A removal is written, too: what is
//! merely absent was lost by the store, and is written again by whoever still has it. Whatever is written takes the place
//! of what was known, and a name belongs to whoever had it first.

mod claim;
mod record;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
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
/// How often something is written when others write the same.
const TRIES_MAX: usize = 16;
/// What keys begin with; all of them lie together.
const PREFIX: &str = "server:{added}:";
/// Where changes are told.
const CHANNEL: &str = "servers";

/// What became of something that was written.
enum Put {
    Done,
    /// Somebody else has the name, and this is theirs.
    Taken(Bytes),
}

/// What is kept, and what is still to be written.
pub(crate) struct AddedServers {
    store: Arc<dyn Store>,
    /// Whether other processes write to it.
    is_shared: bool,
    marked: Mutex<BTreeSet<String>>,
    /// Names that are being taken: nothing is taken up or written for them meanwhile.
    claimed: Mutex<BTreeSet<String>>,
    /// Whether something was not taken up because of that.
    is_behind: AtomicBool,
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
        let (marked, claimed, is_behind, seen, extended, reading) = Default::default();
        Arc::new(Self { store, is_shared, marked, claimed, is_behind, bell: Notify::new(), seen, extended, reading })
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
            let is_behind = self.is_behind.swap(false, Ordering::Relaxed);
            let done = async {
                if is_behind {
                    self.write(&gateway).await?;
                }
                if looks || is_behind {
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
    async fn write(&self, gateway: &Arc<Shared>) -> Result<(), Error> {
        let mut wrote = false;
        // Taken before the registry is read: who changes it later marks it again.
        while let Some(name) = self.next_marked() {
            let entry = gateway.registry().folded(&name);
            let wanted = entry.and_then(|entry| Added::of(&entry)).and_then(|added| added.written());
            // What was taken up from the store is not written back: it may have changed there again.
            if self.seen.lock().get(&name).filter(|seen| **seen != GONE) == wanted.as_ref() {
                continue;
            }
            match self.put(&name, wanted.unwrap_or(GONE)).await {
                Ok(Put::Done) => wrote = true,
                Ok(Put::Taken(theirs)) => {
                    tracing::warn!(server = name, "server_name_taken: what another node has defined counts");
                    self.take_up(gateway, &name, &theirs).await;
                }
                Err(error) => {
                    self.marked.lock().insert(name);
                    return Err(error);
                }
            }
        }
        if wrote { self.tell().await } else { Ok(()) }
    }

    /// A name to be written; one that is being taken comes later.
    fn next_marked(&self) -> Option<String> {
        let claimed = self.claimed.lock();
        let mut marked = self.marked.lock();
        let name = marked.iter().find(|name| !claimed.contains(*name)).cloned()?;
        marked.take(&name)
    }

    async fn tell(&self) -> Result<(), Error> {
        match self.is_shared {
            true => self.store.publish(&Key::parse(CHANNEL)?, Bytes::from_static(b"changed")).await,
            false => Ok(()),
        }
    }

    /// Puts a value in the place of what is known of a name. What somebody else has put there meanwhile stays, unless it
    /// is of the same owner.
    async fn put(&self, name: &str, value: Bytes) -> Result<Put, Error> {
        let key = Key::parse(&format!("{PREFIX}{name}"))?;
        let ttl = if value == GONE { GONE_TTL } else { TTL };
        let mut known = self.seen.lock().get(name).cloned();
        for _ in 0..TRIES_MAX {
            if self.store.compare_and_set(&key, known.clone(), value.clone(), ttl).await? {
                self.seen.lock().insert(name.to_owned(), value);
                return Ok(Put::Done);
            }
            known = self.store.get(&key).await?;
            // Not seen by that: what is seen is taken up.
            if let Some(theirs) = known.as_ref().filter(|theirs| !has_same_owner(theirs, &value)) {
                return Ok(Put::Taken(theirs.clone()));
            }
        }
        Err(Error::Timeout(Duration::ZERO))
    }

    /// Takes up what others have written, and marks what the store has lost.
    pub(crate) async fn read(&self, gateway: &Arc<Shared>) -> Result<(), Error> {
        let _one_at_a_time = self.reading.lock().await;
        let found = self.found().await?;
        // In this order: what is claimed no longer is marked by then.
        let mut marked = self.claimed.lock().clone();
        marked.extend(self.marked.lock().iter().cloned());
        let before = {
            let mut seen = self.seen.lock();
            let mut now = found.clone();
            // What is to be written here takes the place of what it was made for, and not of what came since.
            now.retain(|name, _| !marked.contains(name));
            now.extend(
                seen.iter().filter(|(name, _)| marked.contains(*name)).map(|(name, it)| (name.clone(), it.clone())),
            );
            std::mem::replace(&mut *seen, now)
        };
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

/// Whether one who wrote this may replace that. A removal is of what was known, and what cannot be read is nobody's.
fn has_same_owner(theirs: &Bytes, ours: &Bytes) -> bool {
    if *theirs == GONE {
        return true;
    }
    match (Added::read(theirs.clone()), Added::read(ours.clone())) {
        (Some(theirs), Some(ours)) => theirs.scope == ours.scope && theirs.spec.name == ours.spec.name,
        (Some(_), None) => false,
        (None, _) => true,
    }
}

impl std::fmt::Debug for AddedServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AddedServers").field("is_shared", &self.is_shared).finish_non_exhaustive()
    }
}
