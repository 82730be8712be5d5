//! What is kept as one link uses it: for each kind of client that it serves, and what of it was seen on its connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lb_backend::Connection;
use lb_exchange::Caller;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::{Cache, SLOTS_MAX, Slot, read};
use crate::link::Link;
use crate::live::Listing;

/// What is kept, as one link uses it.
pub struct Kept {
    pub(super) cache: Arc<Cache>,
    /// For the client that the link was made for.
    main: Arc<View>,
    /// For others that were seen, the latest last; beyond a bound the one that was seen least recently goes.
    others: Mutex<Vec<Arc<View>>>,
    /// Changes are about to be looked at.
    pub(super) due: AtomicBool,
    /// One of the others is compared at a time: whoever declares something new with every call starts no more than that.
    pub(super) comparing: Arc<Semaphore>,
}

impl Kept {
    /// For a link that is made for this client.
    pub fn new(cache: Arc<Cache>, caller: &Arc<Caller>) -> Self {
        let main = View::new(cache.slot(&cache.class_of(caller)), caller);
        let (others, due) = Default::default();
        Self { cache, main, others, due, comparing: Arc::new(Semaphore::new(1)) }
    }

    /// For the client that the link was made for.
    pub fn main(&self) -> &Arc<View> {
        &self.main
    }

    /// For clients like this one: mostly the one that the link was made for.
    pub(super) fn view(&self, caller: &Arc<Caller>, running: Option<&Connection>) -> Arc<View> {
        if self.main.is_for(caller) {
            return self.main.clone();
        }
        let mut others = self.others.lock();
        if let Some(at) = others.iter().position(|view| view.is_for(caller)) {
            let view = others.remove(at);
            others.push(view.clone());
            return view;
        }
        let view = View::new(self.cache.slot(&self.cache.class_of(caller)), caller);
        if let Some(connection) = running {
            view.connected(connection);
        }
        others.push(view.clone());
        if SLOTS_MAX <= others.len() {
            others.remove(0);
        }
        view
    }

    /// All of them.
    pub(super) fn views(&self) -> Vec<Arc<View>> {
        let others = self.others.lock();
        std::iter::once(&self.main).chain(others.iter()).cloned().collect()
    }

    /// A change may not have been heard: everything is to be asked for again.
    pub fn missed_something(&self) {
        for view in self.views() {
            view.checked.store(false, Ordering::Relaxed);
        }
    }

    /// There is a new connection, which has read nothing.
    pub fn connected(&self, connection: &Connection) {
        for view in self.views() {
            view.connected(connection);
        }
    }
}

/// What is kept for one kind of client, and how far it was compared with what the connection of a link says.
pub struct View {
    slot: Arc<Slot>,
    /// On whose behalf lists are read.
    caller: Arc<Caller>,
    /// How often each list had changed on this connection when it was read, in the order of [`Listing::ALL`]; `None`
    /// for one that could not be read when it was last tried.
    read: Mutex<[Option<u64>; 4]>,
    /// Held while a list is read: whoever wants it meanwhile waits for that.
    reading: [tokio::sync::Mutex<()>; 4],
    /// Everything is being asked for, or about to be because it is old.
    pub(super) renewing: AtomicBool,
    /// Whether everything was asked for on this connection.
    pub(super) checked: AtomicBool,
}

impl View {
    fn new(slot: Arc<Slot>, caller: &Arc<Caller>) -> Arc<Self> {
        let read = Mutex::new([Some(0); 4]);
        let (reading, renewing, checked) = Default::default();
        Arc::new(Self { slot, caller: caller.clone(), read, reading, renewing, checked })
    }

    /// What is kept.
    pub fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }

    fn is_for(&self, caller: &Arc<Caller>) -> bool {
        let same = |own: &Caller| own.revision == caller.revision && own.capabilities == caller.capabilities;
        Arc::ptr_eq(caller, &self.caller) || same(&self.caller)
    }

    fn connected(&self, connection: &Connection) {
        *self.read.lock() = [Some(0); 4];
        self.checked.store(false, Ordering::Relaxed);
        self.renewing.store(false, Ordering::Relaxed);
        self.slot.introduced(connection);
    }

    /// Whether a list must be read: the server has said that it changed since, or it could not be read.
    pub(super) fn is_dirty(&self, connection: &Connection, which: Listing) -> bool {
        let read = self.read.lock().get(which as usize).copied().flatten();
        read != Some(connection.list_generation(which.method()))
    }

    /// Reads a list, unless it is as it was; `anew` even then. False when it could not be read, and is to be asked for
    /// again.
    pub(super) async fn read(&self, connection: &Arc<Connection>, link: &Link, which: Listing, anew: bool) -> bool {
        let Some(reading) = self.reading.get(which as usize) else { return false };
        let _one_reader = reading.lock().await;
        let known = self.slot.snapshot();
        if known.is_none() {
            self.slot.introduced(connection);
        }
        let known = known.is_some_and(|snapshot| snapshot.list(which).is_some());
        if !anew && known && !self.is_dirty(connection, which) {
            return true;
        }
        // Before the server is asked: what it says meanwhile may or may not be in its answer.
        let generation = connection.list_generation(which.method());
        let within = link.spec().list_timeout;
        let list = match tokio::time::timeout(within, read::read(connection, which, &self.caller)).await {
            Ok(list) => list,
            Err(_) => Err(format!("no answer within {} s", within.as_secs_f64())),
        };
        if connection.is_lost() && list.is_err() {
            return false;
        }
        if let Some(read) = self.read.lock().get_mut(which as usize) {
            *read = list.is_ok().then_some(generation);
        }
        match list {
            Ok(list) => {
                self.slot.put(which, list);
                true
            }
            Err(why) => {
                tracing::warn!(server = link.name(), "{}: {why}", which.method());
                self.slot.failed(which);
                false
            }
        }
    }
}
