//! Where a session is that a client names: here, on another node, or asleep in the store, from where it is woken.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use lb_exchange::{BoxFuture, Cancel, Feed, Hello, Place, Seat as _, ServerName, SessionId};
use lb_session::streams::SharedStreams;
use lb_session::{Limits, Return, Session, Unreadable};
use lb_store::{Batch, Error};
use lb_wire::Raw;
use tokio::sync::oneshot;

use super::Shared;
use super::seating::Seating;
use crate::keep::{Asleep, Found, Head, Holder, Keeper, Keys, Owner, Writing, look, read};
use crate::listen::Ear;
use crate::live::{Live, hash};
use crate::registry::Entry;
use crate::seat::{LegacySeat, Way};

/// Sessions that are looked for at once; who asks for more tries again.
const WAKING_MAX: usize = 1_024;
/// After what time a client tries again when nobody can tell.
pub(super) const AGAIN: Duration = Duration::from_secs(1);
/// Attempts to take over a session that others take over as well.
pub(super) const ATTEMPTS: usize = 4;

/// Where a session is, for all who ask for it at the same time; `None` when that is to be asked again.
pub(super) type Flight = futures_util::future::Shared<BoxFuture<'static, Option<Place>>>;

/// What came of trying to take over a session.
pub(super) enum Woken {
    Place(Place),
    /// Another one was faster.
    Again,
}

impl Shared {
    /// Whether a session is known to be here, or cannot be anywhere.
    pub(super) fn is_here(&self, id: &str) -> bool {
        let Some(keeper) = &self.keeper else { return true };
        if !is_an_id(id) {
            return true;
        }
        let sessions = self.sessions.read();
        let Some(seat) = sessions.get(id) else { return false };
        // Under the lock: it is not put to rest before its client has used it.
        seat.touched.store(self.now(), std::sync::atomic::Ordering::Relaxed);
        seat.kept.as_ref().is_none_or(|kept| keeper.is_verified(kept))
    }

    /// Finds out where a session is, and wakes it here if it is nobody's. Whose it is and where it leads is looked at when
    /// it is used, as with any other.
    ///
    /// Cancel safe: yes, the search goes on for others.
    pub(super) async fn locate(self: &Arc<Self>, id: &str) -> Place {
        for _ in 0..ATTEMPTS {
            if self.is_here(id) {
                return Place::Here;
            }
            let Some(keeper) = &self.keeper else { return Place::Here };
            let shared = self.clone();
            let (keeper, named) = (keeper.clone(), SessionId::from_client(id));
            let search = async move { Some(shared.find(&keeper, &named).await) };
            match self.fly(id, search) {
                Some(flight) => match flight.await {
                    Some(place) => return place,
                    None => continue,
                },
                None => break,
            }
        }
        Place::Away(AGAIN)
    }

    /// Does something about a session of which only one thing may be done at a time; or gives what is being done. `None`
    /// when too much is.
    pub(super) fn fly(
        self: &Arc<Self>,
        id: &str,
        work: impl Future<Output = Option<Place>> + Send + 'static,
    ) -> Option<Flight> {
        let mut waking = self.waking.lock();
        if let Some(flight) = waking.get(id) {
            return Some(flight.clone());
        }
        if WAKING_MAX <= waking.len() {
            return None;
        }
        let (tell, told) = oneshot::channel();
        let flight: Flight = told.map(|told| told.unwrap_or(Some(Place::Away(AGAIN)))).boxed().shared();
        waking.insert(id.into(), flight.clone());
        drop(waking);
        let over = Landing { gateway: self.clone(), id: id.into() };
        self.tasks.spawn(async move {
            let place = work.await;
            drop(over);
            // Nobody may wait any more.
            drop(tell.send(place));
        });
        Some(flight)
    }

    async fn find(self: &Arc<Self>, keeper: &Arc<Keeper>, id: &SessionId) -> Place {
        for _ in 0..ATTEMPTS {
            let known = self.sessions.read().get(id.as_str()).cloned();
            if let Some(seat) = known {
                match &seat.kept {
                    Some(kept) if !kept.verify(keeper).await => self.lose(id),
                    Some(_) | None => return Place::Here,
                }
            }
            match self.look_for(keeper, id).await {
                Ok(Woken::Place(place)) => return place,
                Ok(Woken::Again) => {}
                Err(error) => {
                    tracing::debug!(session = hash(id.as_str()), %error, "a session cannot be looked for");
                    break;
                }
            }
        }
        Place::Away(AGAIN)
    }

    /// A session that is not here.
    async fn look_for(self: &Arc<Self>, keeper: &Arc<Keeper>, id: &SessionId) -> Result<Woken, Error> {
        let keys = Keys::of(id.as_str())?;
        let Some(value) = keeper.store().get(&keys.owner).await? else {
            // One that has lost everything is told again by those who have the sessions.
            keeper.nodes().may_be_dead().await?;
            return Ok(Woken::Place(Place::Here));
        };
        let Some(owner) = Owner::read(&value) else { return Ok(unreadable(id, &keys.owner)) };
        let may_miss = match &owner.holder {
            Holder::Gone => return Ok(Woken::Place(Place::Here)),
            Holder::Node(node) if node == keeper.me() => match keeper.take_claimed(id.as_str(), &owner) {
                Some(may_miss) => return self.wake(keeper, id, keys, (owner, may_miss)).await,
                // It has ended here, or never was told to anybody.
                None => return Ok(Woken::Place(Place::Here)),
            },
            Holder::Node(node) => match keeper.nodes().find(node).await? {
                Some(url) => return Ok(Woken::Place(Place::Node(url))),
                None => true,
            },
            Holder::Nobody => {
                keeper.nodes().may_be_nobodys()?;
                false
            }
        };
        self.take_over(keeper, id, keys, (value, owner, may_miss)).await
    }

    /// Takes over a session that is nobody's, and wakes it.
    pub(super) async fn take_over(
        self: &Arc<Self>,
        keeper: &Arc<Keeper>,
        id: &SessionId,
        keys: Keys,
        (value, owner, may_miss): (Bytes, Owner, bool),
    ) -> Result<Woken, Error> {
        if !self.has_room() {
            let stopping = self.draining.load(Ordering::Relaxed);
            return Ok(Woken::Place(if stopping { Place::Away(AGAIN) } else { Place::Full(AGAIN) }));
        }
        match look(keeper.store(), &keys).await? {
            Found::It(head) if self.leads_somewhere(&head.hello) => {}
            Found::It(_) | Found::Nothing => return Ok(Woken::Place(Place::Here)),
            // Left as it is: another version of us may read it.
            Found::Unreadable(key) => return Ok(unreadable(id, &key)),
        }
        let ours = Owner::of(owner.epoch + 1, keeper.me());
        let batch = Batch::new().when(&keys.owner, Some(value)).set(&keys.owner, ours.value(), keeper.ttl());
        match keeper.store().apply(batch).await {
            Ok(lb_store::Applied::Done(_)) => {}
            Ok(lb_store::Applied::Refused(_)) => return Ok(Woken::Again),
            Err(error) => {
                // It may have been done all the same.
                keeper.note_claimed(id.as_str(), ours, may_miss);
                return Err(error);
            }
        }
        self.wake(keeper, id, keys, (ours, may_miss)).await
    }

    /// Reads a session that is ours, and seats it.
    pub(super) async fn wake(
        self: &Arc<Self>,
        keeper: &Arc<Keeper>,
        id: &SessionId,
        keys: Keys,
        (owner, may_miss): (Owner, bool),
    ) -> Result<Woken, Error> {
        let generation = keeper.generation();
        let asleep = match read(keeper.store(), &keys).await {
            Ok(Found::It(asleep)) => asleep,
            Ok(Found::Nothing) => return Ok(Woken::Place(Place::Here)),
            Ok(Found::Unreadable(key)) => return Ok(unreadable(id, &key)),
            Err(error) => {
                keeper.note_claimed(id.as_str(), owner, may_miss);
                return Err(error);
            }
        };
        let Asleep { head, head_kept, kept, tasks, events, told, recorded, streams } = asleep;
        let streams = self.restore_streams(id, streams, may_miss).await;
        let session = match kept {
            Some(kept) => {
                let (now, how) = (self.clock.now(), Return { why: "Node lost", may_miss, epoch: owner.epoch });
                let restore = move || Session::restore(Limits::default(), &kept, how, now);
                let restored = tokio::task::spawn_blocking(restore).await;
                match restored.unwrap_or_else(|error| Err(Unreadable::because(&error))) {
                    Ok(session) => Some(session),
                    Err(error) => {
                        tracing::error!(session = hash(id.as_str()), %error, "store_record_unreadable");
                        return Ok(Woken::Place(Place::Here));
                    }
                }
            }
            None => None,
        };
        let there = (tasks, events, told.clone(), recorded);
        let make = |source| Writing::taken_over(id, keys, (head_kept, owner), source, there);
        let Some((seat, entry)) = self.seat_again(id, &head, (session, streams), |way| {
            way.was_told(told.as_ref());
            Arc::new(make(way.source()))
        }) else {
            return Ok(Woken::Place(Place::Here));
        };
        if let Some(kept) = &seat.kept {
            kept.set_verified(generation);
            kept.touch(keeper, self.now());
            keeper.begin(kept);
            if self.is_over(seat.caller.family.as_deref(), seat.only_server().as_ref().map(ServerName::as_str)).await {
                // Its login ended while it was asleep.
                seat.end(Cancel::SessionEnd);
                return Ok(Woken::Place(Place::Here));
            }
        }
        self.publish(&seat);
        tracing::info!(session = hash(id.as_str()), may_miss, "session_restored");
        if let Some(entry) = entry
            && self.still_served(&entry, &seat).is_err()
        {
            return Ok(Woken::Place(Place::Here));
        }
        if let Some(live) = seat.live() {
            live.connect_all();
        }
        Ok(Woken::Place(Place::Here))
    }

    /// The streams of a session as they were written. What cannot be read is left out, with all that goes with it.
    async fn restore_streams(&self, id: &SessionId, entries: Vec<(u64, Raw)>, may_miss: bool) -> SharedStreams {
        let streams = self.stored.session();
        let restored = streams.clone();
        let restore = move || restored.restore(&entries, may_miss);
        match tokio::task::spawn_blocking(restore).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(session = hash(id.as_str()), %error, "store_record_unreadable"),
            Err(error) => tracing::error!(session = hash(id.as_str()), %error, "streams cannot be restored"),
        }
        streams
    }

    /// Whether what a session was begun with is served here.
    fn leads_somewhere(&self, hello: &Hello) -> bool {
        self.surface(&hello.mount).is_some() || self.entry(&hello.mount, &hello.caller.principal).is_some()
    }

    fn seat_again(
        self: &Arc<Self>,
        id: &SessionId,
        head: &Head,
        (session, streams): (Option<Session>, SharedStreams),
        kept: impl FnOnce(&Way) -> Arc<Writing>,
    ) -> Option<(Arc<LegacySeat>, Option<Arc<Entry>>)> {
        let hello = &head.hello;
        let caller = Arc::new(hello.caller.clone());
        let (way, ear, entry) = if let Some(surface) = self.surface(&hello.mount).cloned() {
            let live = match session {
                Some(session) => Live::of(session, self, caller.clone(), id.clone(), head.handle.clone()),
                None => Live::new(self, caller.clone(), id.clone(), head.handle.clone()),
            };
            (Way::Surface(live, surface), Arc::new(Ear::new(Feed::default())), None)
        } else {
            let entry = self.entry(&hello.mount, &hello.caller.principal)?;
            let (way, ear) = self.way(&entry, hello);
            (way, ear, Some(entry))
        };
        let watcher = entry.as_ref().map_or(&self.totals.own, |entry| &entry.watcher);
        let (id, mount, kept) = (id.clone(), hello.mount.clone(), Some(kept(&way)));
        let seat = self.make_seat(Seating { id, mount, caller, way, ear, watcher, streams, kept });
        Some((seat, entry))
    }
}

/// What is done about a session is over, however it ends.
struct Landing {
    gateway: Arc<Shared>,
    id: Box<str>,
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.gateway.waking.lock().remove(&self.id);
    }
}

/// Whether this has the shape of an id of ours: nothing else is looked for.
fn is_an_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// An operator must look at it; its client begins anew.
fn unreadable(id: &SessionId, key: &lb_store::Key) -> Woken {
    tracing::error!(session = hash(id.as_str()), %key, "store_record_unreadable");
    Woken::Place(Place::Here)
}
