//! Sessions of the process before this one whose clients come back.

use std::sync::Arc;

use lb_exchange::{Feed, SessionId};
use lb_session::{Limits, Session};

use super::Shared;
use crate::keep::{Asleep, Writing};
use crate::listen::Ear;
use crate::live::Live;
use crate::seat::{LegacySeat, Way};

impl Shared {
    /// The session of this id that the process before this one had, as far as it was written down. Whose it is and where
    /// it leads is for the caller to look at, as with any other.
    pub(super) fn wake(self: &Arc<Self>, id: &str) -> Option<Arc<LegacySeat>> {
        let keeper = self.keeper.as_ref()?;
        let _one_at_a_time = self.waking.lock();
        if let Some(seat) = self.sessions.read().get(id).cloned() {
            return Some(seat);
        }
        let asleep = keeper.wake(id)?;
        let (id, tasks) = (SessionId::from_client(id), asleep.tasks.clone());
        let seat = self.seat_again(&id, asleep)?;
        let writing = Writing::new(id.as_str(), None, seat.live().map(|live| live.cell())).ok()?.with_tasks(tasks);
        keeper.begin(&id, writing);
        tracing::info!(session = crate::live::hash(id.as_str()), "session_restored");
        Some(seat)
    }

    fn seat_again(self: &Arc<Self>, id: &SessionId, asleep: Asleep) -> Option<Arc<LegacySeat>> {
        let (hello, kept) = (asleep.head.hello, asleep.kept);
        let caller = Arc::new(hello.caller.clone());
        if let Some(surface) = self.surface(&hello.mount).cloned() {
            let live = match &kept {
                Some(kept) => {
                    let how = self.keeper.as_ref()?.how();
                    let session = Session::restore(Limits::default(), kept, how, self.clock.now());
                    let told = session.inspect_err(|error| tracing::error!(%error, "a session is lost"));
                    Live::of(told.ok()?, self, caller.clone(), id.clone(), false)
                }
                None => Live::new(self, caller.clone(), id.clone(), false),
            };
            let ear = Arc::new(Ear::new(Feed::default()));
            let way = Way::Surface(live.clone(), surface);
            let seat = self.take_seat(id.clone(), hello.mount, caller, way, ear, &self.totals.own);
            live.connect_all();
            return Some(seat);
        }
        let entry = self.entry(&hello.mount, &hello.caller.principal)?;
        let (way, ear) = self.way(&entry, &hello);
        if let Way::Own(link) = &way {
            link.client_was_ready();
        }
        let seat = self.take_seat(id.clone(), hello.mount, caller, way, ear, &entry.watcher);
        self.still_served(&entry, &seat).ok()?;
        Some(seat)
    }
}
