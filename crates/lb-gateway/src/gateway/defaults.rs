//! The session of modern clients that name none: one for each client of a principal, wherever its
//! requests land.
//!
//! It is a seat like any other, under a name that follows from those two, so that every node finds the same one. It is
//! there in memory as soon as a tool is called, and kept from the moment that something has to be remembered. Where nodes
//! share a store, a call that may have to remember something begins when the session is ours: nobody else can begin it
//! meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use lb_exchange::{Caller, Capabilities, Exchange, Feed, Hello, Mount, Place, Principal, SessionId, Unseated, Visitor};
use lb_session::Session;
use lb_store::{Batch, Error};
use lb_wire::revision::{Revision, method};
use lb_wire::{Id, Message, Raw, compose};

use super::seating::{Seating, WRITTEN_MAX};
use super::waking::{AGAIN, ATTEMPTS, Woken};
use super::{Gateway, Shared};
use crate::keep::{Claim, Found, Holder, Keeper, Keys, Owner, Writing, look};
use crate::listen::Ear;
use crate::live::{Live, hash};
use crate::seat::{LegacySeat, Way};
use crate::surface::Need;

/// How sure it is that a session begins which is not in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    Certainly,
    /// The store may have forgotten it: then this one gives way.
    Assumed,
}

impl Gateway {
    /// The session of a modern client that names one; `None` when it is unknown, another's, or over.
    pub fn session(&self, handle: &str, who: &Caller) -> Option<Arc<Live>> {
        let seat = self.0.default_seat(&id_of(&who.principal, who.client.as_deref()))?;
        let live = seat.live().filter(|live| live.handle() == handle && live.is_remembered()).cloned()?;
        self.0.use_seat(&seat, who.family.as_ref());
        Some(live)
    }

    /// The session of modern clients of a principal that name none. Remembers nothing until it has to.
    pub fn default_session(&self, who: &Arc<Caller>) -> Arc<Live> {
        let id = id_of(&who.principal, who.client.as_deref());
        let known = self.0.default_seat(&id).or_else(|| self.0.begin_default(&id, &who.visitor(), Begins::Certainly));
        match known.as_ref().and_then(|seat| Some((seat, seat.live()?))) {
            Some((seat, live)) => {
                self.0.use_seat(seat, who.family.as_ref());
                live.clone()
            }
            // Without a surface nobody asks for it.
            None => Live::new(&self.0, who.clone(), id, Some(SessionId::random())),
        }
    }
}

impl Shared {
    /// A client uses a session, by this login.
    pub(super) fn use_seat(&self, seat: &LegacySeat, family: Option<&Arc<str>>) {
        seat.touched.store(self.now(), Ordering::Relaxed);
        seat.usage.add();
        if let Some(live) = seat.live() {
            live.touch();
        }
        let renewed = family.is_some_and(|family| seat.note_family(family));
        if let (Some(kept), Some(keeper)) = (&seat.kept, &self.keeper)
            && (kept.touch(keeper, self.now()) || renewed)
        {
            keeper.mark(&seat.id);
        }
    }

    /// Whether what a modern call needs is known to be here, or cannot be anywhere.
    pub(super) fn is_unseated_here(&self, call: &Unseated<'_>) -> bool {
        let Some(keeper) = &self.keeper else { return true };
        self.need(call) == Need::Nothing || self.is_default_here(keeper, &id_of_visitor(call.who))
    }

    fn is_default_here(&self, keeper: &Keeper, id: &SessionId) -> bool {
        let sessions = self.sessions.read();
        let Some(seat) = sessions.get(id.as_str()) else { return false };
        // Under the lock: it is not put to rest before its client has used it.
        seat.touched.store(self.now(), Ordering::Relaxed);
        seat.kept.as_ref().is_none_or(|kept| match kept.is_owned() {
            true => keeper.is_verified(kept),
            // It may have begun elsewhere.
            false => !keeper.is_shared(),
        })
    }

    /// Finds out where the session is that a modern call needs. One that is nobody's is woken here; one that is not is
    /// begun here, and made ours if the call may have to remember something.
    ///
    /// Cancel safe: yes, the search goes on for others.
    pub(super) async fn locate_unseated(self: &Arc<Self>, call: Unseated<'_>) -> Place {
        let need = self.need(&call);
        let (Some(keeper), true) = (&self.keeper, need != Need::Nothing) else { return Place::Here };
        let id = id_of_visitor(call.who);
        for _ in 0..ATTEMPTS {
            if self.is_default_here(keeper, &id) {
                return Place::Here;
            }
            let (shared, searching) = (self.clone(), keeper.clone());
            let (named, who) = (id.clone(), call.who.clone());
            let search = async move { Some(shared.find_default(&searching, &named, &who, need).await) };
            let Some(flight) = self.fly(id.as_str(), search) else { break };
            match flight.await {
                // It was found for somebody who needs less.
                Some(Place::Here) if need == Need::Memory && !self.may_remember(keeper, &id) => {}
                Some(place) => return place,
                None => {}
            }
        }
        if self.is_default_here(keeper, &id) { Place::Here } else { Place::Away(AGAIN) }
    }

    /// Whether what is here of a session may be written: nobody else can have begun it.
    fn may_remember(&self, keeper: &Keeper, id: &SessionId) -> bool {
        let kept = self.default_seat(id).map(|seat| seat.kept.clone());
        kept.is_some_and(|kept| kept.is_none_or(|kept| kept.is_owned() || !keeper.is_shared()))
    }

    fn need(&self, call: &Unseated<'_>) -> Need {
        self.surface(call.mount).map_or(Need::Nothing, |surface| surface.need(call.tool))
    }

    async fn find_default(self: &Arc<Self>, keeper: &Arc<Keeper>, id: &SessionId, who: &Visitor, need: Need) -> Place {
        for _ in 0..ATTEMPTS {
            if let Some(kept) = self.default_seat(id).and_then(|seat| seat.kept.clone())
                && kept.is_owned()
            {
                if kept.verify(keeper).await {
                    return Place::Here;
                }
                self.lose(id);
            }
            match self.look_for_default(keeper, id, who, need).await {
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

    async fn look_for_default(
        self: &Arc<Self>,
        keeper: &Arc<Keeper>,
        id: &SessionId,
        who: &Visitor,
        need: Need,
    ) -> Result<Woken, Error> {
        if let Some(over) = keeper.writing_of(id).filter(|writing| writing.is_over()) {
            // Its name is free when nothing is left of it.
            keeper.erased(&over).await;
        }
        let keys = Keys::of(id.as_str())?;
        let Some(value) = keeper.store().get(&keys.owner).await? else {
            let begins = match keeper.nodes().may_be_dead().await {
                Ok(()) => Begins::Certainly,
                // A store that has just lost everything is told again by whoever has one; of a store that is new nobody
                // knows whether it has.
                Err(_) => keeper.nodes().may_be_nobodys().map(|()| Begins::Assumed)?,
            };
            return Ok(self.offer_default(keeper, id, who, (need, begins)).await);
        };
        let Some(owner) = Owner::read(&value) else {
            tracing::error!(session = hash(id.as_str()), key = %keys.owner, "store_record_unreadable");
            return Ok(Woken::Place(Place::Away(AGAIN)));
        };
        let may_miss = match &owner.holder {
            Holder::Gone => return Ok(self.offer_default(keeper, id, who, (need, Begins::Certainly)).await),
            Holder::Node(node) if node == keeper.me() => match keeper.take_claimed(id.as_str(), &owner) {
                Some(may_miss) => {
                    self.retire_default(id);
                    return self.wake(keeper, id, keys, (owner, may_miss)).await;
                }
                None => match keeper.writing_of(id) {
                    Some(writing) => {
                        // The store has done it without an answer.
                        keeper.write_now(&writing).await;
                        return Ok(Woken::Again);
                    }
                    None => true,
                },
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
        self.take_over_default(keeper, id, keys, (value, owner, may_miss)).await
    }

    /// Takes over what is nobody's. What cannot be read is over: nobody could ever begin another one otherwise.
    async fn take_over_default(
        self: &Arc<Self>,
        keeper: &Arc<Keeper>,
        id: &SessionId,
        keys: Keys,
        (value, owner, may_miss): (Bytes, Owner, bool),
    ) -> Result<Woken, Error> {
        if let Found::It(_) = look(keeper.store(), &keys).await? {
            self.retire_default(id);
            return self.take_over(keeper, id, keys, (value, owner, may_miss)).await;
        }
        tracing::error!(session = hash(id.as_str()), key = %keys.head, "store_record_unreadable");
        let batch = Batch::new().when(&keys.owner, Some(value)).set(&keys.owner, owner.gone().value(), keeper.ttl());
        let batch = batch.delete(&keys.head).delete(&keys.record).delete(&keys.events).delete(&keys.streams);
        // Whether it was done is seen when it is looked for again.
        keeper.store().apply(batch).await?;
        Ok(Woken::Again)
    }

    /// The session of a call when there is none: one that remembers nothing, and that is ours if it may have to.
    async fn offer_default(
        self: &Arc<Self>,
        keeper: &Arc<Keeper>,
        id: &SessionId,
        who: &Visitor,
        (need, begins): (Need, Begins),
    ) -> Woken {
        let seat = self.default_seat(id).or_else(|| self.begin_default(id, who, begins));
        let Some(kept) = seat.as_ref().and_then(|seat| seat.kept.clone()) else { return Woken::Place(Place::Here) };
        if need != Need::Memory || !keeper.is_shared() {
            return Woken::Place(Place::Here);
        }
        match tokio::time::timeout(WRITTEN_MAX, keeper.claim(&kept)).await {
            Ok(Claim::Ours) => Woken::Place(Place::Here),
            // By somebody who was faster.
            Ok(Claim::Lost) => Woken::Again,
            Ok(Claim::Unknown) | Err(_) => Woken::Place(Place::Away(AGAIN)),
        }
    }

    /// What is here of a session that is kept elsewhere goes: it remembers nothing.
    fn retire_default(self: &Arc<Self>, id: &SessionId) {
        let seat = self.sessions.write().remove(id.as_str());
        if let Some(seat) = seat {
            self.drop_seat(seat);
        }
    }

    fn default_seat(&self, id: &SessionId) -> Option<Arc<LegacySeat>> {
        self.sessions.read().get(id.as_str()).filter(|seat| !seat.ended.load(Ordering::Relaxed)).cloned()
    }

    /// A session that remembers nothing; or the one that somebody else has begun meanwhile.
    fn begin_default(self: &Arc<Self>, id: &SessionId, who: &Visitor, begins: Begins) -> Option<Arc<LegacySeat>> {
        let seat = self.make_default(id, who, begins)?;
        {
            let mut sessions = self.sessions.write();
            if let Some(known) = sessions.get(id.as_str()).filter(|known| !known.ended.load(Ordering::Relaxed)) {
                return Some(known.clone());
            }
            sessions.insert(id.as_str().into(), seat.clone());
        }
        self.tell_how_many();
        if let Some(live) = seat.live() {
            live.connect_all();
        }
        Some(seat)
    }

    fn make_default(self: &Arc<Self>, id: &SessionId, who: &Visitor, begins: Begins) -> Option<Arc<LegacySeat>> {
        let surface = self.setup.tools.clone()?;
        let hello = nobodys_hello(who)?;
        let (handle, caller) = (SessionId::random(), Arc::new(hello.caller.clone()));
        let live = Live::new(self, caller.clone(), id.clone(), Some(handle.clone()));
        let way = Way::Surface(live, surface);
        let kept = self.keeper.as_ref().and_then(|keeper| {
            let head = self.head(&hello, Some(&handle)).kept();
            let owner = match begins {
                Begins::Certainly => Owner::first(keeper.me()),
                Begins::Assumed => Owner::assumed(keeper.me()),
            };
            let writing = Writing::following(id, head, owner, way.source());
            let told = writing.inspect_err(|error| tracing::error!(%error, "a session cannot be kept"));
            told.ok().map(Arc::new)
        });
        let ear = Arc::new(Ear::new(Feed::default()));
        let (mount, watcher, streams) = (hello.mount, &self.totals.own, self.stored.session());
        Some(self.make_seat(Seating { id: id.clone(), mount, caller, way, ear, watcher, streams, kept }))
    }

    /// Something must be remembered of a session of modern clients that name none: it is written from here on.
    pub(crate) fn keep_default(&self, live: &Live) {
        let Some(keeper) = &self.keeper else { return };
        let Some(seat) = self.default_seat(live.id()) else { return };
        let is_it = seat.live().is_some_and(|known| std::ptr::eq(&raw const **known, live));
        let Some(kept) = seat.kept.as_ref().filter(|_| is_it) else { return };
        if !keeper.writes(kept) {
            kept.set_verified(keeper.generation());
            keeper.begin(kept);
        }
        live.cell().with(Session::keep);
    }

    /// Where nothing may be lost that was answered, a call in such a session ends when what it changed is written.
    pub(super) fn default_written_first(self: &Arc<Self>, who: &Caller, exchange: Exchange) -> Exchange {
        let Some(keeper) = self.keeper.clone().filter(|keeper| keeper.writes_first()) else { return exchange };
        let (shared, id) = (self.clone(), id_of(&who.principal, who.client.as_deref()));
        exchange.ending_with(move || {
            Box::pin(async move {
                let kept = shared.default_seat(&id).and_then(|seat| seat.kept.clone());
                let Some(kept) = kept.filter(|kept| keeper.writes(kept)) else { return };
                if !keeper.write_now(&kept).await {
                    tracing::warn!("what a call changed is not written, and its answer is sent all the same");
                }
            })
        })
    }
}

/// What the session of modern clients of a principal is called within. No client can name it so: what clients name has
/// another shape.
fn id_of(who: &Principal, client: Option<&str>) -> SessionId {
    let who = who.as_str();
    SessionId::from_client(&match client {
        None => format!("default:tools:{who}"),
        // Neither name can pass for a part of the other.
        Some(client) => format!("default:client:{}:{who}:{client}", who.len()),
    })
}

fn id_of_visitor(who: &Visitor) -> SessionId {
    id_of(&who.principal, who.client.as_deref())
}

/// How somebody would introduce himself of whom nothing is known: such a session is no single client's.
fn nobodys_hello(who: &Visitor) -> Option<Hello> {
    let caller = Caller {
        principal: who.principal.clone(),
        client: who.client.clone(),
        family: who.family.clone(),
        revision: Revision::LATEST_MODERN,
        capabilities: Capabilities(Raw::empty_object()),
        client_info: None,
    };
    let message = compose::request(&Id::number(0), method::INITIALIZE, None);
    let message = Message::scan(message.bytes().clone()).ok()?;
    Some(Hello { caller, mount: Mount::Tools, message })
}
