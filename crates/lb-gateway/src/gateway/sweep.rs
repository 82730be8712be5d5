//! Sessions that nobody uses, and what their streams need not keep.

use std::sync::Weak;
use std::sync::atomic::Ordering;

use lb_exchange::{Cancel, FeedItem, Note, Seat as _};
use lb_wire::revision::method;
use lb_wire::{Text, compose};

use super::Shared;

/// Ends sessions that nobody uses, and forgets what their streams need not keep.
pub(super) async fn sweep(gateway: Weak<Shared>) {
    loop {
        let Some((tasks, every)) =
            gateway.upgrade().map(|shared| (shared.tasks.clone(), shared.setup.limits.sweep_every))
        else {
            return;
        };
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = tasks.stopping() => return,
        }
        let Some(shared) = gateway.upgrade() else { return };
        let now = shared.now();
        let seats: Vec<_> = shared.sessions.read().values().cloned().collect();
        for seat in seats {
            let touched = seat.last_used();
            let unused = now.saturating_sub(touched);
            seat.streams.tick();
            for id in seat.desk.expire(tokio::time::Instant::now()) {
                let params = compose::object(&[("requestId", &id.to_raw())]);
                let note = Note::new(Text::from_static(method::CANCELLED), Some(params));
                // Only asks can be refused by a feed.
                drop(seat.ear.feed().push(FeedItem::Note(note)));
            }
            let limits = &shared.setup.limits;
            let is_idle = seat.is_idle();
            if !is_idle {
                seat.busy.store(now, Ordering::Relaxed);
            }
            let resting = now.saturating_sub(touched.max(seat.busy.load(Ordering::Relaxed)));
            let idle = is_idle && limits.idle_after.as_secs() <= resting;
            if idle || (seat.live().is_some() && limits.unused_max.as_secs() <= unused) {
                tracing::info!("session_timeout_cleanup");
                seat.end(Cancel::SessionEnd);
            }
        }
        let messages = shared.stored.take_dropped();
        if messages != 0 {
            shared.totals.messages_dropped.add(messages);
            tracing::warn!(messages, bytes = shared.stored.bytes(), "dropped stored messages for want of room");
        }
    }
}
