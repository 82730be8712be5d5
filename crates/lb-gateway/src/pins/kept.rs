//! What was seen first, beyond this process: one record for each server, or for each person there.
//!
//! What the store has counts: a node that saw something else first has seen a change.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use lb_store::{Applied, Batch, Error, Key, Store};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{ALL, PERSON, PERSONAL_MAX, Page, Pinned, Pins};

/// What keys begin with.
const PREFIX: &str = "pins:";
/// How long it is kept of a server that nobody lists.
const TTL: Duration = Duration::from_secs(180 * 24 * 60 * 60);
/// How often that time begins again, and what others wrote is taken up.
const LOOK_EVERY: Duration = Duration::from_secs(60 * 60);
/// The wait before a store that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// How often a record is tried to be changed that others change at the same time.
const TRIES_MAX: usize = 8;

/// A page, as it is written.
#[derive(Serialize, Deserialize)]
struct Written {
    definition: String,
    /// What each tool was, and what it is now if that is something else.
    tools: BTreeMap<String, (String, Option<String>)>,
}

impl Page {
    fn written(&self) -> Result<Bytes, Error> {
        let tools =
            self.tools.iter().map(|(place, pinned)| (place.clone(), (pinned.first.clone(), pinned.now.clone())));
        let written = Written { definition: self.definition.clone(), tools: tools.collect() };
        let bytes = serde_json::to_vec(&written).map_err(|_| Error::WrongShape("pins could not be written"))?;
        Ok(bytes.into())
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let Written { definition, tools } = serde_json::from_slice(bytes).ok()?;
        let tools = tools.into_iter().map(|(place, (first, now))| (place, Pinned { first, now })).collect();
        Some(Self { definition, tools, looked: 0 })
    }

    /// Takes up what was seen before anything here was.
    fn follow(&mut self, earlier: Self) {
        if earlier.definition != self.definition {
            return;
        }
        for (place, earlier) in earlier.tools {
            match self.tools.get_mut(&place) {
                None => drop(self.tools.insert(place, earlier)),
                Some(here) if here.first != earlier.first => {
                    let now = here.now.take().unwrap_or_else(|| here.first.clone());
                    *here = Pinned { now: Some(now).filter(|now| *now != earlier.first), first: earlier.first };
                }
                Some(_) => {}
            }
        }
    }
}

impl Pins {
    /// Takes up what is kept. Cancel safe: yes.
    pub(crate) async fn recall(&self) -> Result<(), Error> {
        let Some(store) = self.store.as_ref().filter(|_| self.are_on()) else { return Ok(()) };
        let keys: Vec<Key> = store.scan(PREFIX).try_collect().await?;
        for key in keys {
            let Some(server) = key.as_str().strip_prefix(PREFIX).map(str::to_owned) else { continue };
            let Some(page) = store.get(&key).await?.and_then(|bytes| Page::read(&bytes)) else { continue };
            if self.marked.lock().contains(&server) {
                // It is about to be joined with what is known here.
                continue;
            }
            let mut servers = self.servers.lock();
            let has_room = servers.len() < PERSONAL_MAX;
            match servers.get_mut(&server) {
                Some(known) => known.follow(page),
                None if has_room || !server.contains(PERSON) => drop(servers.insert(server, page)),
                // It is joined with what is listed for them next.
                None => {}
            }
        }
        Ok(())
    }

    /// Writes what is seen first until the gateway is gone.
    pub(crate) async fn run(this: Weak<Self>) {
        let (mut look_at, mut looked) = (Instant::now() + LOOK_EVERY, 0);
        loop {
            let Some(pins) = this.upgrade() else { return };
            let Some(store) = pins.store.clone() else { return };
            tokio::select! {
                () = pins.bell.notified() => {}
                () = tokio::time::sleep_until(look_at) => {
                    look_at = Instant::now() + LOOK_EVERY;
                    // What nobody lists any more is not kept for ever.
                    let since = std::mem::replace(&mut looked, pins.looks.load(Ordering::Relaxed));
                    let is_listed = |(place, page): (&String, &Page)| (since < page.looked).then(|| place.clone());
                    let listed: Vec<String> = pins.servers.lock().iter().filter_map(is_listed).collect();
                    pins.marked.lock().extend(listed);
                }
            }
            if let Err(error) = pins.write(&store).await {
                tracing::debug!(%error, "pins are written later");
                tokio::time::sleep(RETRY).await;
                pins.bell.notify_one();
            }
        }
    }

    pub(super) async fn write(&self, store: &Arc<dyn Store>) -> Result<(), Error> {
        loop {
            let Some(server) = self.marked.lock().pop_first() else { return Ok(()) };
            if let Err(error) = self.write_one(store, &server).await {
                self.marked.lock().insert(server);
                return Err(error);
            }
        }
    }

    async fn write_one(&self, store: &Arc<dyn Store>, server: &str) -> Result<(), Error> {
        if let Some(personal) = server.strip_suffix(ALL) {
            return self.forget_all(store, personal).await;
        }
        let key = Key::parse(&format!("{PREFIX}{server}"))?;
        for _ in 0..TRIES_MAX {
            let kept = store.get(&key).await?;
            let page = {
                let mut servers = self.servers.lock();
                let page = servers.get_mut(server);
                if let (Some(page), Some(earlier)) = (page, kept.as_deref().and_then(Page::read)) {
                    page.follow(earlier);
                }
                servers.get(server).cloned()
            };
            let batch = Batch::new().when(&key, kept);
            let batch = match page {
                Some(page) => batch.set(&key, page.written()?, TTL),
                None => batch.delete(&key),
            };
            if matches!(store.apply(batch).await?, Applied::Done(_)) {
                return Ok(());
            }
        }
        Err(Error::Timeout(Duration::ZERO))
    }

    /// Forgets what people saw at a server that was removed, also those who are not known here.
    async fn forget_all(&self, store: &Arc<dyn Store>, personal: &str) -> Result<(), Error> {
        let keys: Vec<Key> = store.scan(&format!("{PREFIX}{personal}")).try_collect().await?;
        for key in keys {
            let place = key.as_str().strip_prefix(PREFIX).unwrap_or_default();
            // Somebody may have seen the next one of that name by now.
            if !self.servers.lock().contains_key(place) {
                store.delete(&key).await?;
            }
        }
        Ok(())
    }
}
