//! The resumable streams of a session, as they are written: a log of their own, whose entries say what they are about.

use std::sync::Arc;

use lb_session::streams::{Bell, SharedStreams, StreamsDelta};

use super::Keeper;
use super::pieces::Piece;
use super::write::{State, Writing};

/// How far the log of the streams has been written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StreamsLog {
    /// The last position that was written.
    pub(super) last: u64,
    /// What is before this position has been removed, or will be.
    trimmed: u64,
}

impl Writing {
    /// These are its streams: they are written from here on.
    pub(crate) fn keep_streams(&self, keeper: &Arc<Keeper>, streams: &SharedStreams) {
        let (waits, id, keeper) = (keeper.keeping.wait_for_streams, self.id.clone(), Arc::downgrade(keeper));
        if self.streams.set(streams.clone()).is_err() {
            return;
        }
        streams.keep(
            waits,
            Bell::new(move || {
                let Some(keeper) = keeper.upgrade() else { return };
                keeper.mark(&id);
                if waits {
                    // Somebody waits for it, or will soon.
                    keeper.hurry.notify_one();
                }
            }),
        );
    }

    /// Puts what has changed of the streams into pieces. With `lost`, nothing of what was written counts.
    pub(super) fn gather_streams(&self, state: &mut State, lost: bool) {
        let Some(streams) = self.streams.get() else { return };
        if lost {
            streams.keep_anew(state.streams.last);
        }
        if let Some(delta) = streams.take_delta() {
            state.add_streams(delta);
        }
    }

    /// Tells the streams how far they are written.
    pub(super) fn tell_written(&self, state: &State) {
        if let Some(streams) = self.streams.get() {
            streams.written(state.streams.last);
        }
    }

    /// Tells the streams that the store takes nothing at the moment.
    pub(super) fn tell_stalled(&self) {
        if let Some(streams) = self.streams.get() {
            streams.stalled();
        }
    }
}

impl State {
    fn add_streams(&mut self, delta: StreamsDelta) {
        let entries = delta.entries.into_iter();
        self.pieces.extend(entries.map(|(at, entry)| Piece::Stream(at, entry)));
        if self.streams.trimmed < delta.from {
            self.streams.trimmed = delta.from;
            self.pieces.push_back(Piece::StreamsTrim(delta.from));
        }
    }
}
