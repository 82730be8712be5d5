//! Sessions that leave this process and go on elsewhere: nobody uses them, or they belong to another node.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use lb_exchange::{Cancel, FeedItem, Seat as _, SessionId, Streams as _};
use lb_wire::revision::code;
use lb_wire::{Raw, compose};

use super::Shared;
use crate::keep::Keeper;
use crate::live::hash;
use crate::seat::LegacySeat;

/// How many of them at once.
const AT_ONCE: usize = 32;
/// How long calls have to say that they are cut off.
const CUT_OFF_MAX: Duration = Duration::from_millis(500);
/// How often it is looked whether they have.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// How often it is looked for such sessions, at most and at least.
const LOOK_EVERY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(3));
const LOOK_WHILE_LEAVING: Duration = Duration::from_millis(200);

impl Shared {
    /// A session belongs to somebody else: it is dropped here, and nothing of it is written.
    pub(super) fn lose(self: &Arc<Self>, id: &SessionId) {
        let seat = self.sessions.write().remove(id.as_str());
        if let Some(seat) = seat {
            tracing::warn!(session = hash(id.as_str()), "session_lost");
            self.drop_seat(seat);
        }
    }

    /// The process ends, and with it what goes on here of a session. One that is written goes on elsewhere.
    pub(super) fn stop_seat(&self, seat: &Arc<LegacySeat>) {
        let Some(kept) = &seat.kept else { return seat.end(Cancel::SessionEnd) };
        if seat.live().is_some_and(|live| !live.is_remembered()) {
            // There was nothing to write.
            return seat.end(Cancel::SessionEnd);
        }
        if !seat.stop(&Cancel::SessionEnd) {
            return;
        }
        let session = hash(seat.id.as_str());
        match kept.is_released() {
            true => tracing::info!(session, "session_released"),
            false => tracing::warn!(session, "session_not_released"),
        }
        self.sessions.write().remove(seat.id.as_str());
        self.tell_how_many();
    }

    /// Ends what goes on here of a session that lives on elsewhere.
    pub(super) fn drop_seat(&self, seat: Arc<LegacySeat>) {
        seat.stop(&Cancel::SessionEnd);
        self.tasks.spawn(async move { seat.close().await });
    }

    /// Writes out a session that nobody uses, and lets go of it. Whoever asks for it meanwhile waits, and looks again.
    async fn put_to_rest(self: &Arc<Self>, keeper: &Arc<Keeper>, seat: Arc<LegacySeat>) {
        let (shared, keeper, id) = (self.clone(), keeper.clone(), seat.id.clone());
        let rest = async move {
            let seat = shared.take_resting(&id)?;
            let kept = seat.kept.clone()?;
            if seat.live().is_some_and(|live| !live.is_remembered()) {
                // Nothing of it was to be remembered.
                seat.end(Cancel::SessionEnd);
                shared.drop_seat(seat);
                return None;
            }
            if let Some(live) = seat.live() {
                live.turn_away();
            }
            store_unheard(&seat);
            if keeper.let_go(&kept).await {
                tracing::info!(session = hash(id.as_str()), "session_released");
                shared.resting.add(&id, &seat.caller.principal, shared.now() + kept.left(&keeper).as_secs());
                shared.drop_seat(seat);
            } else {
                if let Some(live) = seat.live() {
                    live.turn_back();
                }
                shared.publish(&seat);
            }
            None
        };
        // If somebody looks for it, it does not rest.
        if let Some(flight) = self.fly(seat.id.as_str(), rest) {
            flight.await;
        }
    }

    /// Takes out a session, if nobody has used it in the last moment.
    fn take_resting(&self, id: &SessionId) -> Option<Arc<LegacySeat>> {
        let mut sessions = self.sessions.write();
        let rests = sessions.get(id.as_str()).is_some_and(|seat| self.is_resting(seat));
        if rests { sessions.remove(id.as_str()) } else { None }
    }

    fn is_resting(&self, seat: &LegacySeat) -> bool {
        let since = seat.last_used().max(seat.busy.load(Ordering::Relaxed));
        let hands_over = self.is_leaving() && self.keeper.as_ref().is_some_and(|keeper| keeper.nodes().is_reached());
        let after = if hands_over { Duration::ZERO } else { self.setup.limits.rest_after };
        after.as_secs() <= self.now().saturating_sub(since) && seat.can_rest()
    }

    /// What may have been taken over while nobody heard of us must not go on here, and what the store has lost is told
    /// to it again.
    async fn verify(self: &Arc<Self>, keeper: &Arc<Keeper>, seats: &[Arc<LegacySeat>]) {
        let is_doubtful = |seat: &&Arc<LegacySeat>| seat.kept.as_ref().is_some_and(|kept| !keeper.is_verified(kept));
        let doubtful: Vec<_> = seats.iter().filter(is_doubtful).cloned().collect();
        let verified = doubtful.into_iter().map(|seat| self.verify_one(keeper, seat));
        stream::iter(verified).buffer_unordered(AT_ONCE).collect::<()>().await;
    }

    async fn verify_one(self: &Arc<Self>, keeper: &Arc<Keeper>, seat: Arc<LegacySeat>) {
        if let Some(kept) = &seat.kept
            && !kept.verify(keeper).await
        {
            self.lose(&seat.id);
        }
    }

    /// Looks after the sessions that are kept.
    async fn tend(self: &Arc<Self>, keeper: &Arc<Keeper>) {
        let seats: Vec<_> = self.sessions.read().values().cloned().collect();
        self.verify(keeper, &seats).await;
        let now = self.now();
        let mut resting = Vec::new();
        for seat in &seats {
            let Some(kept) = &seat.kept else { continue };
            if self.is_resting(seat) {
                resting.push(seat.clone());
                continue;
            }
            // What goes on here shall not expire there, even if its client never says a word. Where nothing does, a session
            // ends for want of use before what is kept of it expires.
            if !seat.is_idle() && kept.touch(keeper, now) {
                keeper.mark(&seat.id);
            }
        }
        if keeper.store().facts().away_since.is_none() {
            let resting = resting.into_iter().map(|seat| self.put_to_rest(keeper, seat));
            stream::iter(resting).buffer_unordered(AT_ONCE).collect::<()>().await;
        }
        let streams = seats.iter().filter(|seat| seat.ear.is_open()).count();
        keeper.nodes().report(seats.len() as u64, streams as u64);
    }
}

/// What servers said while nobody listened waits in memory. Before that goes it becomes part of the stream that the client
/// comes back for.
pub(super) fn store_unheard(seat: &LegacySeat) {
    for item in seat.ear.feed().drain() {
        let (FeedItem::Changed(_, note) | FeedItem::Updated(_, note) | FeedItem::Log(note) | FeedItem::Note(note)) =
            item
        else {
            continue;
        };
        let line = compose::notification(&note.method, note.params.as_ref()).into_line();
        seat.streams.append(seat.streams.standalone(), Some(line));
    }
}

/// Ends the calls that nobody waits for on a connection: whoever comes back for one elsewhere learns why. Before the last
/// word is written.
pub(super) async fn cut_off(seats: &[Arc<LegacySeat>]) {
    let message = "the gateway is shutting down; the call may still have run";
    let data = Raw::from_static(r#"{"reason":"shutdown"}"#);
    let why = Cancel::CutOff(compose::error_object(code::INTERNAL_ERROR, message, Some(&data)));
    let working: Vec<_> = seats.iter().filter(|seat| seat.is_working()).collect();
    if working.is_empty() {
        return;
    }
    working.iter().for_each(|seat| seat.desk.cancel_all(&why));
    let ended = async {
        while working.iter().any(|seat| seat.is_working()) {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        // One that is done is about to be stored.
        tokio::time::sleep(LOOK_AGAIN).await;
    };
    if tokio::time::timeout(CUT_OFF_MAX, ended).await.is_err() {
        tracing::warn!("calls did not end in time to be written");
    }
}

/// Looks after the sessions that are kept, until told to stop.
pub(super) async fn rest(gateway: Weak<Shared>) {
    loop {
        let Some(shared) = gateway.upgrade() else { return };
        let (tasks, bell, Some(keeper)) = (shared.tasks.clone(), shared.rest_now.clone(), shared.keeper.clone()) else {
            return;
        };
        let pause = match shared.is_leaving() {
            true => LOOK_WHILE_LEAVING,
            false => shared.setup.limits.rest_after.clamp(LOOK_EVERY.0, LOOK_EVERY.1),
        };
        // Not held while nothing is to be done.
        drop(shared);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = bell.notified() => {}
            () = keeper.nodes().doubted() => {}
            () = tasks.stopping() => return,
        }
        let Some(shared) = gateway.upgrade() else { return };
        tokio::select! {
            () = shared.tend(&keeper) => {}
            () = tasks.stopping() => return,
        }
    }
}
