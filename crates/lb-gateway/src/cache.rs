//! What is kept of a server that need not be asked every time: what it says of itself, and its four lists.
//!
//! Belongs to one defined server and is shared by all connections to it. Kept apart for clients that a server may tell
//! apart: by revision and by what they declare, and by principal where each logs in by itself. Answering from it is the affair of [`kept`], and that it stays right
//! that of [`fresh`]; this only holds it.

mod fresh;
mod kept;
mod listen;
mod read;
mod snapshot;
pub mod view;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};
use std::time::Duration;

use lb_backend::{Connection, Server};
use lb_exchange::{Caller, FeedItem, Note, Principal, ServerAuth, Shelf, Tasks};
use lb_wire::revision::Revision;
use lb_wire::{Raw, Text};
use parking_lot::Mutex;

use crate::listen::Ear;
use crate::live::{Known, Listing};
use listen::Listens;
pub use read::meta;
pub use snapshot::Snapshot;

/// What is kept of one server.
pub struct Cache {
    shelf: Option<Arc<dyn Shelf>>,
    key: String,
    tasks: Tasks,
    slots: Mutex<Vec<Arc<Slot>>>,
    /// Held while the shelf is written to, so that an older state never comes after a newer one.
    saving: Arc<Mutex<()>>,
    listens: Arc<Listens>,
    /// Whether each principal logs in by itself, and may be told something else.
    apart: bool,
}

/// Kinds of clients for which something is kept; beyond, the one that was used least recently goes.
const SLOTS_MAX: usize = 8;

/// Clients that a server tells the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// The revision they speak.
    pub revision: Revision,
    /// What they declare.
    pub capabilities: Raw,
    /// Whether it is ourselves, on behalf of sessions with a surface of ours.
    pub ours: bool,
    /// For whom; `None` where everybody is told the same.
    pub principal: Option<Principal>,
}

impl Class {
    /// The class of a client, whoever is behind it.
    fn of(caller: &Caller) -> Self {
        let capabilities = caller.capabilities.0.detached();
        Self { revision: caller.revision, capabilities, ours: false, principal: None }
    }

    /// Ourselves, whoever is behind it.
    fn ours() -> Self {
        Self { revision: Revision::LATEST_LEGACY, capabilities: Raw::empty_object(), ours: true, principal: None }
    }

    /// Whether what this one is told is a good guess for that one.
    fn resembles(&self, other: &Self) -> bool {
        let same_era = self.revision.era() == other.revision.era();
        let same_eyes = self.ours == other.ours && self.principal == other.principal;
        same_era && same_eyes && self.capabilities == other.capabilities
    }
}

impl Cache {
    /// What is kept of this server, with what is on the shelf; `None` for a server of which nothing is to be kept.
    ///
    /// Reads the shelf, so that it may block.
    pub fn of(server: &Server, shelf: Option<&Arc<dyn Shelf>>, tasks: &Tasks) -> Option<Arc<Self>> {
        if !server.spec().cached {
            return None;
        }
        let key = format!("lists-{}", server.fingerprint());
        let bytes = shelf.and_then(|shelf| shelf.load(&key));
        let apart = matches!(server.spec().auth, ServerAuth::User(_));
        let mut kept = bytes.and_then(snapshot::read_all).unwrap_or_default();
        kept.retain(|(class, _)| class.principal.is_some() == apart);
        // A process less at the first call: whoever knows in which era it was told need not try the other.
        // Ourselves we connect in the era of whichever session comes: that says nothing about the other one.
        let of_clients = kept.iter().filter(|(class, _)| !class.ours);
        for (class, _) in of_clients.filter(|(class, snapshot)| class.revision.era() != snapshot.era()) {
            server.lacks(class.revision.era());
        }
        let slots = kept.into_iter().take(SLOTS_MAX).map(|(class, snapshot)| Slot::new(class, Some(snapshot)));
        let slots = Mutex::new(slots.collect());
        let (shelf, tasks, saving, listens) = (shelf.cloned(), tasks.clone(), Arc::default(), Arc::default());
        Some(Arc::new(Self { shelf, key, tasks, slots, saving, listens, apart }))
    }

    /// The class of a client.
    pub fn class_of(&self, caller: &Caller) -> Class {
        Class { principal: self.apart.then(|| caller.principal.clone()), ..Class::of(caller) }
    }

    /// The class of ourselves on behalf of somebody.
    fn ours(&self, who: &Principal) -> Class {
        Class { principal: self.apart.then(|| who.clone()), ..Class::ours() }
    }

    /// What is kept for clients of this class.
    pub fn slot(&self, class: &Class) -> Arc<Slot> {
        let mut slots = self.slots.lock();
        if let Some(at) = slots.iter().position(|slot| slot.class == *class) {
            let slot = slots.remove(at);
            slots.push(slot.clone());
            return slot;
        }
        let guess = slots.iter().rev().find(|slot| slot.class.resembles(class)).and_then(|slot| slot.snapshot());
        let slot = Slot::new(class.clone(), guess);
        slots.push(slot.clone());
        if SLOTS_MAX < slots.len() {
            slots.remove(0);
        }
        slot
    }

    /// The server is not served any more: whoever listens is told that it is over, and may listen to its successor.
    pub fn end_listens(&self) {
        self.listens.end();
    }

    /// Puts what is kept on the shelf, in the background.
    pub fn save(&self) {
        let Some(shelf) = self.shelf.clone() else { return };
        // The one used last comes first.
        let slots: Vec<_> = self.slots.lock().iter().rev().cloned().collect();
        let (key, saving) = (self.key.clone(), self.saving.clone());
        self.tasks.spawn(async move {
            let work = move || {
                let _in_turn = saving.lock();
                let kept = slots.iter().filter_map(|slot| Some((&slot.class, slot.snapshot()?)));
                let kept: Vec<_> = kept.filter(|(_, snapshot)| snapshot.is_whole()).collect();
                if !kept.is_empty() {
                    shelf.save(&key, &snapshot::write_all(&kept));
                }
            };
            if tokio::task::spawn_blocking(work).await.is_err() {
                tracing::debug!("lists were not saved: the program ends");
            }
        });
    }

    /// What sessions with a surface of ours know of the server, and whose they are.
    pub fn known(&self) -> Vec<(Option<Principal>, Known)> {
        let slots = self.slots.lock();
        let whole = |slot: &Arc<Slot>| {
            let snapshot = slot.snapshot().filter(Snapshot::is_whole)?;
            let mut known = Known::default();
            for which in Listing::ALL {
                let rows = snapshot.list(which).and_then(|list| list.member(which.member()));
                known.set(which, rows.map(|rows| crate::live::objects(&rows)).unwrap_or_default());
            }
            Some((slot.class.principal.clone(), known))
        };
        slots.iter().filter(|slot| slot.class.ours).filter_map(whole).collect()
    }

    /// Keeps what such a session was told.
    pub fn keep_known(&self, who: &Principal, connection: &Connection, known: &Known) {
        let slot = self.slot(&self.ours(who));
        slot.introduced(connection);
        for which in Listing::ALL {
            slot.put(which, snapshot::list_of(which, known.rows(which)));
        }
        slot.checked();
        self.save();
    }
}

/// What is kept for one class of clients.
pub struct Slot {
    class: Class,
    snapshot: Mutex<Option<Snapshot>>,
    /// Who is told when a list is another.
    ears: Mutex<Vec<Weak<Ear>>>,
}

impl Slot {
    fn new(class: Class, snapshot: Option<Snapshot>) -> Arc<Self> {
        Arc::new(Self { class, snapshot: Mutex::new(snapshot), ears: Mutex::default() })
    }

    /// What is kept now. Cheap: it shares its bytes.
    pub fn snapshot(&self) -> Option<Snapshot> {
        self.snapshot.lock().clone()
    }

    /// Who hears when a list is another, from now on.
    pub fn tell(&self, ear: &Arc<Ear>) {
        let mut ears = self.ears.lock();
        ears.retain(|ear| ear.strong_count() != 0);
        ears.push(Arc::downgrade(ear));
    }

    /// The server has introduced itself.
    pub fn introduced(&self, connection: &Connection) {
        let mut snapshot = self.snapshot.lock();
        match &mut *snapshot {
            Some(known) => known.introduced(connection.era(), connection.welcome()),
            None => *snapshot = Some(Snapshot::new(connection.era(), connection.welcome())),
        }
    }

    /// A list was read.
    pub fn put(&self, which: Listing, list: Raw) {
        let told = {
            let mut snapshot = self.snapshot.lock();
            let Some(snapshot) = &mut *snapshot else { return };
            snapshot.put(which, list) && snapshot.declares(which.capability(), Some("listChanged"))
        };
        if told {
            self.tell_of(which);
        }
    }

    /// A list could not be read: what was kept stays, and if there is nothing, it is empty until it can be.
    pub fn failed(&self, which: Listing) {
        if let Some(snapshot) = &mut *self.snapshot.lock() {
            snapshot.failed(which);
        }
    }

    /// All of it was seen to be as the server says.
    pub fn checked(&self) {
        if let Some(snapshot) = &mut *self.snapshot.lock() {
            snapshot.checked();
        }
    }

    /// For how long nobody has looked whether it is still so.
    pub fn age(&self) -> Duration {
        self.snapshot.lock().as_ref().map_or(Duration::MAX, Snapshot::age)
    }

    fn tell_of(&self, which: Listing) {
        let ears: Vec<_> = self.ears.lock().iter().filter_map(Weak::upgrade).collect();
        for ear in ears {
            let note = Note::new(Text::from_static(which.changed()), None);
            // Only asks can be refused by a feed.
            drop(ear.feed().push(FeedItem::Note(note)));
        }
    }
}
