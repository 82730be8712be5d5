//! What one link does with what is kept of its server: answers from it, and sees to it that it is right.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lb_backend::Connection;
use lb_exchange::{Call, Caller, End, Exchange, Outcome};
use lb_wire::Raw;
use lb_wire::revision::Era;
use parking_lot::Mutex;

use super::{Cache, Class, Slot, Snapshot, read};
use crate::convert;
use crate::link::Link;
use crate::live::Listing;

/// Changes within this time are looked at once.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// How long a list of a running server counts that does not tell of changes.
const UNANNOUNCED: Duration = Duration::from_secs(60);

/// What is kept, as one link uses it.
pub struct Kept {
    cache: Arc<Cache>,
    /// What is kept for the client that the link was made for.
    slot: Arc<Slot>,
    /// How often each list had changed on this connection when it was read, in the order of [`Listing::ALL`]; `None`
    /// for one that could not be read when it was last tried.
    read: Mutex<[Option<u64>; 4]>,
    /// Held while a list is read: whoever wants it meanwhile waits for that.
    reading: [tokio::sync::Mutex<()>; 4],
    /// Changes are about to be looked at.
    due: AtomicBool,
    /// Everything is about to be asked for, because it is old.
    renewing: AtomicBool,
    /// Whether everything was asked for on this connection.
    checked: AtomicBool,
}

impl Kept {
    /// For a link that is made for this client.
    pub fn new(cache: Arc<Cache>, caller: &Caller) -> Self {
        let slot = cache.slot(&Class::of(caller));
        let read = Mutex::new([Some(0); 4]);
        let (reading, due, renewing, checked) = Default::default();
        Self { cache, slot, read, reading, due, renewing, checked }
    }

    /// What is kept for the client that the link was made for.
    pub fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }

    /// There is a new connection, which has read nothing.
    pub fn connected(&self, connection: &Connection) {
        *self.read.lock() = [Some(0); 4];
        self.checked.store(false, Ordering::Relaxed);
        self.slot.introduced(connection);
    }

    /// Whether a list must be read: the server has said that it changed since, or it could not be read.
    fn is_dirty(&self, connection: &Connection, which: Listing) -> bool {
        let read = self.read.lock().get(which as usize).copied().flatten();
        read != Some(connection.list_generation(which.method()))
    }

    /// Reads a list, unless it is as it was; `anew` even then. False when it could not be read, and is to be asked for
    /// again.
    async fn read(&self, connection: &Arc<Connection>, link: &Link, which: Listing, anew: bool) -> bool {
        let Some(reading) = self.reading.get(which as usize) else { return false };
        let _one_reader = reading.lock().await;
        let known = self.slot.snapshot().is_some_and(|snapshot| snapshot.list(which).is_some());
        if !anew && known && !self.is_dirty(connection, which) {
            return true;
        }
        // Before the server is asked: what it says meanwhile may or may not be in its answer.
        let generation = connection.list_generation(which.method());
        let within = link.spec().list_timeout;
        let list = match tokio::time::timeout(within, read::read(connection, which, link.caller())).await {
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

impl Link {
    /// The result of `initialize` from what is kept, if there is something.
    pub(crate) fn greeting(self: &Arc<Self>, caller: &Caller) -> Option<Raw> {
        let kept = self.kept.as_ref()?;
        let snapshot = kept.slot.snapshot()?;
        self.renew_if_old(kept, None);
        Some(convert::welcome(snapshot.era(), snapshot.welcome(), caller.revision))
    }

    /// The answer to a request from what is kept; `None` when the server is to be asked.
    pub(crate) fn answer(self: &Arc<Self>, call: &Call) -> Option<Exchange> {
        let kept = self.kept.as_ref()?;
        let method = call.message.method();
        let which = Listing::ALL.into_iter().find(|which| which.method() == method);
        if which.is_none() && method != "server/discover" {
            return None;
        }
        let current = self.current();
        // A modern server says itself for how long a list counts, and the connection knows.
        let is_modern = current.as_ref().is_some_and(|connection| connection.era() == Era::Modern);
        // Who wants a page of its own choice has it from the server.
        if is_modern || call.message.member_bytes("cursor").is_some() {
            return None;
        }
        let slot = self.slot_of(kept, &call.caller);
        let Some(which) = which else {
            let snapshot = slot.snapshot().filter(|_| current.is_none())?;
            self.renew_if_old(kept, None);
            return Some(Exchange::ready(introduction(&snapshot)));
        };
        let is_ours = Arc::ptr_eq(&slot, &kept.slot);
        let is_right = current.as_ref().is_none_or(|connection| is_ours && !kept.is_dirty(connection, which));
        let snapshot = slot.snapshot();
        let is_right = is_right && !snapshot.as_ref().is_some_and(|snapshot| snapshot.lacks(which));
        match snapshot.and_then(|snapshot| listed(&snapshot, which)) {
            Some(end) if is_right => {
                self.renew_if_old(kept, current.as_deref().map(|connection| (connection, which)));
                Some(Exchange::ready(end))
            }
            _ if !is_ours || call.caller.era() == Era::Modern => None,
            _ => {
                let link = self.clone();
                Some(Exchange::deferred(async move { link.ask_for(which).await }))
            }
        }
    }

    /// What is kept for clients like this one: mostly the one that the link was made for.
    fn slot_of(&self, kept: &Kept, caller: &Arc<Caller>) -> Arc<Slot> {
        let same = Arc::ptr_eq(caller, self.caller())
            || (caller.revision == self.caller().revision && caller.capabilities == self.caller().capabilities);
        if same { kept.slot.clone() } else { kept.cache.slot(&Class::of(caller)) }
    }

    /// Reads a list and gives it.
    async fn ask_for(self: Arc<Self>, which: Listing) -> Exchange {
        let Some(kept) = &self.kept else { return Exchange::ready(End::ours(Outcome::Cancelled)) };
        let connected = self.connection().await;
        if let Ok(connection) = &connected
            && kept.read(connection, &self, which, false).await
        {
            kept.cache.save();
        }
        match (kept.slot.snapshot().and_then(|snapshot| listed(&snapshot, which)), connected) {
            (Some(end), _) => Exchange::ready(end),
            (None, Err(error)) => Exchange::ready(End::ours(Outcome::Error(error.to_body(self.name())))),
            // Gone while it was asked.
            (None, Ok(connection)) => Exchange::ready(End::ours(Outcome::Error(connection.closed().await))),
        }
    }

    /// Everything is read anew, in the background.
    pub(crate) fn refresh(self: &Arc<Self>, connection: &Arc<Connection>) {
        let Some(kept) = &self.kept else { return };
        kept.checked.store(true, Ordering::Relaxed);
        let (link, connection) = (self.clone(), connection.clone());
        self.tasks().spawn(async move {
            let Some(kept) = &link.kept else { return };
            let all = Listing::ALL.map(|which| kept.read(&connection, &link, which, true));
            let read = tokio::select! {
                read = futures_util::future::join_all(all) => read,
                () = link.tasks().stopping() => return,
            };
            kept.renewing.store(false, Ordering::Relaxed);
            // What could not be compared stays as old as it is.
            if read.iter().all(|is_read| *is_read) {
                kept.slot.checked();
            }
            if read.contains(&true) {
                kept.cache.save();
            }
        });
    }

    /// The client is ready: what it was told of the server is compared with what the server says.
    pub(crate) fn refresh_once(self: &Arc<Self>, connection: &Arc<Connection>) {
        if self.kept.as_ref().is_some_and(|kept| !kept.checked.load(Ordering::Relaxed)) {
            self.refresh(connection);
        }
    }

    /// The server says that a list changed. Whoever is told hears of it when the new one is there, if it is another.
    pub(crate) fn changed(self: &Arc<Self>) {
        let Some(kept) = &self.kept else { return };
        if kept.due.swap(true, Ordering::AcqRel) {
            return;
        }
        let link = self.clone();
        self.tasks().spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(DEBOUNCE) => {}
                () = link.tasks().stopping() => return,
            }
            let Some(kept) = &link.kept else { return };
            kept.due.store(false, Ordering::Release);
            let Some(connection) = link.current() else { return };
            let dirty = Listing::ALL.into_iter().filter(|which| kept.is_dirty(&connection, *which));
            let reads = dirty.map(|which| kept.read(&connection, &link, which, false)).collect::<Vec<_>>();
            if futures_util::future::join_all(reads).await.contains(&true) {
                kept.cache.save();
            }
        });
    }

    /// Asks the server for everything, in the background, connecting if it must.
    pub(crate) fn renew(self: &Arc<Self>) {
        if let Some(connection) = self.current() {
            return self.refresh(&connection);
        }
        let link = self.clone();
        self.tasks().spawn(async move {
            let connected = tokio::select! {
                connected = link.connection() => connected,
                () = link.tasks().stopping() => return,
            };
            // Otherwise they are read as soon as the server may be asked.
            if let (Err(error), Some(kept)) = (connected, &link.kept) {
                kept.renewing.store(false, Ordering::Relaxed);
                tracing::warn!(server = link.name(), %error, "lists are not renewed");
            }
        });
    }

    fn renew_if_old(self: &Arc<Self>, kept: &Kept, running: Option<(&Connection, Listing)>) {
        let age = kept.slot.age();
        let is_silent = |(connection, which): (&Connection, Listing)| {
            connection.declares(which.capability(), None)
                && !connection.declares(which.capability(), Some("listChanged"))
        };
        let is_old = self.spec().max_age <= age || (UNANNOUNCED <= age && running.is_some_and(is_silent));
        if is_old && !kept.renewing.swap(true, Ordering::AcqRel) {
            self.renew();
        }
    }
}

/// A list as an end; `None` when it was never read.
fn listed(snapshot: &Snapshot, which: Listing) -> Option<End> {
    Some(End::from_server(Outcome::Result(snapshot.list(which)?.clone()), snapshot.era()))
}

/// The answer to `server/discover`.
fn introduction(snapshot: &Snapshot) -> End {
    match snapshot.era() {
        Era::Modern => End::from_server(Outcome::Result(snapshot.welcome().clone()), Era::Modern),
        Era::Legacy => End::ours(Outcome::Result(convert::discovered(snapshot.welcome()))),
    }
}
