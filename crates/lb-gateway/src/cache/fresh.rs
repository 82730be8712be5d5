//! How what is kept stays right: compared with what the server says, when it says so, when it starts, and with age.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lb_backend::Connection;
use lb_wire::revision::Era;

use super::view::View;
use crate::link::Link;
use crate::live::Listing;

/// Changes within this time are looked at once.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// How long a list of a running legacy server counts that does not tell of changes.
const UNANNOUNCED: Duration = Duration::from_secs(60);
/// How long one of a modern server counts at least, whatever that says: its process need not be asked more often.
const ASKED_EVERY: Duration = Duration::from_secs(1);

impl Link {
    /// Everything is read anew, in the background.
    fn refresh(self: &Arc<Self>, view: &Arc<View>, connection: &Arc<Connection>) {
        view.checked.store(true, Ordering::Relaxed);
        view.renewing.store(true, Ordering::Relaxed);
        let (link, view, connection) = (self.clone(), view.clone(), connection.clone());
        self.tasks().spawn(async move { link.compare(&view, &connection).await });
    }

    /// Reads everything anew.
    async fn compare(self: &Arc<Self>, view: &View, connection: &Arc<Connection>) {
        let Some(kept) = &self.kept else { return };
        let all = Listing::ALL.map(|which| view.read(connection, self, which, true));
        let read = tokio::select! {
            read = futures_util::future::join_all(all) => read,
            () = self.tasks().stopping() => return,
        };
        view.renewing.store(false, Ordering::Relaxed);
        // What could not be compared stays as old as it is.
        if read.iter().all(|is_read| *is_read) {
            view.slot().checked();
        }
        if read.contains(&true) {
            kept.cache.save();
        }
    }

    /// The client is ready: what it was told of the server is compared with what the server says.
    pub(crate) fn refresh_once(self: &Arc<Self>, connection: &Arc<Connection>) {
        let Some(kept) = &self.kept else { return };
        // Several may find at once that the server can be asked.
        if !kept.main().checked.swap(true, Ordering::AcqRel) {
            self.refresh(kept.main(), connection);
        }
    }

    /// The same for other kinds of clients than the one that the link was made for: one at a time, the next one when it
    /// is asked for again.
    pub(super) fn compare_once(self: &Arc<Self>, view: &Arc<View>, connection: &Arc<Connection>) {
        let Some(kept) = &self.kept else { return };
        if view.checked.load(Ordering::Relaxed) {
            return;
        }
        let Ok(alone) = kept.comparing.clone().try_acquire_owned() else { return };
        view.checked.store(true, Ordering::Relaxed);
        view.renewing.store(true, Ordering::Relaxed);
        let (link, view, connection) = (self.clone(), view.clone(), connection.clone());
        self.tasks().spawn(async move {
            link.compare(&view, &connection).await;
            drop(alone);
        });
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
            let views = kept.views();
            let reads = views.iter().flat_map(|view| {
                let dirty = Listing::ALL.into_iter().filter(|which| view.is_dirty(&connection, *which));
                dirty.map(|which| view.read(&connection, &link, which, false)).collect::<Vec<_>>()
            });
            if futures_util::future::join_all(reads).await.contains(&true) {
                kept.cache.save();
            }
        });
    }

    /// Asks the server for everything, in the background, connecting if it must.
    pub(crate) fn renew(self: &Arc<Self>) {
        let Some(kept) = &self.kept else { return };
        if let Some(connection) = self.current() {
            return kept.views().iter().for_each(|view| self.refresh(view, &connection));
        }
        let link = self.clone();
        self.tasks().spawn(async move {
            let connected = tokio::select! {
                connected = link.connection() => connected,
                () = link.tasks().stopping() => return,
            };
            // Otherwise they are read as soon as the server may be asked.
            if let (Err(error), Some(kept)) = (connected, &link.kept) {
                kept.views().iter().for_each(|view| view.renewing.store(false, Ordering::Relaxed));
                tracing::warn!(server = link.name(), %error, "lists are not renewed");
            }
        });
    }

    /// What is old is told, and asked for in the background.
    pub(super) fn renew_if_old(self: &Arc<Self>, view: &Arc<View>, running: Option<(&Connection, Listing)>) {
        let age = view.slot().age();
        let counts_for = running.and_then(|(connection, which)| counts_for(view, connection, which));
        let is_old = self.spec().max_age <= age || counts_for.is_some_and(|time| time <= age);
        if !is_old || view.renewing.swap(true, Ordering::AcqRel) {
            return;
        }
        match self.current() {
            Some(connection) => self.refresh(view, &connection),
            None => self.renew(),
        }
    }
}

/// How long a list of a running server counts that does not tell of changes; `None` for one that does, or has none.
fn counts_for(view: &View, connection: &Connection, which: Listing) -> Option<Duration> {
    let is_told =
        !connection.declares(which.capability(), None) || connection.declares(which.capability(), Some("listChanged"));
    match connection.era() {
        _ if is_told => None,
        Era::Legacy => Some(UNANNOUNCED),
        Era::Modern => {
            let snapshot = view.slot().snapshot()?;
            Some(super::snapshot::counts_for(snapshot.list(which)?).max(ASKED_EVERY))
        }
    }
}
