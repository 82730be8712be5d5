//! The streams of all sessions together, and the bound on them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::shared::{Held, SharedStreams};
use super::{Clock, Limits, Ring, Streams};

/// What the sessions of one node keep. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limits: Limits,
    clock: Clock,
    /// Added to and taken from by each session under its own lock, read without any.
    bytes: Arc<AtomicUsize>,
    dropped: AtomicU64,
    /// Also held while room is made, so that one does it and others who need it wait.
    sessions: Mutex<Sessions>,
}

#[derive(Debug, Default)]
struct Sessions {
    all: Vec<Weak<Held>>,
    /// The dead are removed when there are more than this many.
    clean_at: usize,
}

impl Store {
    /// For sessions with these limits each, and their `node_bytes_max` together.
    pub fn new(limits: Limits, clock: Clock) -> Self {
        let (bytes, dropped, sessions) = Default::default();
        Self(Arc::new(Inner { limits, clock, bytes, dropped, sessions }))
    }

    /// The streams of another session.
    pub fn session(&self) -> SharedStreams {
        let streams = Arc::new(Held::new(Streams::counted(self.0.limits, self.0.bytes.clone())));
        let mut sessions = self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.clean_at <= sessions.all.len() {
            sessions.all.retain(|session| session.strong_count() != 0);
            sessions.clean_at = 2 * sessions.all.len() + 16;
        }
        sessions.all.push(Arc::downgrade(&streams));
        drop(sessions);
        SharedStreams::of(self.clone(), streams, self.0.clock)
    }

    /// How many bytes of messages all sessions store.
    pub fn bytes(&self) -> usize {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// How many messages and cursors had to go for want of room on this node, since this was last asked.
    pub fn take_dropped(&self) -> u64 {
        self.0.dropped.swap(0, Ordering::Relaxed)
    }

    /// Drops what is oldest over all sessions, ended streams first, if there is too much. A client that asks for it
    /// afterwards learns that the id is unknown, and a reader that had not come so far is ended.
    ///
    /// Takes a sixteenth off at once, so that the walk over the sessions is paid once per as many bytes.
    pub(super) fn make_room(&self) {
        let bytes_max = self.0.limits.node_bytes_max;
        if self.bytes() <= bytes_max {
            return;
        }
        let sessions = self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if self.bytes() <= bytes_max {
            return;
        }
        let sessions: Vec<_> = sessions.all.iter().filter_map(Weak::upgrade).collect();
        for tier in [Tier::Ended, Tier::Older, Tier::Newest] {
            self.drop_oldest(&sessions, tier, bytes_max - bytes_max / 16);
        }
    }

    fn drop_oldest(&self, sessions: &[Arc<Held>], tier: Tier, enough: usize) {
        let firsts = sessions.iter().enumerate();
        let firsts = firsts.filter_map(|(n, session)| Some(Reverse((session.lock().first(tier)?, n))));
        let mut firsts: BinaryHeap<_> = firsts.collect();
        while enough < self.bytes()
            && let Some(Reverse((_, n))) = firsts.pop()
            && let Some(session) = sessions.get(n)
        {
            let mut session = session.lock();
            let before = session.len();
            session.drop_first(tier);
            self.0.dropped.fetch_add((before - session.len()) as u64, Ordering::Relaxed);
            firsts.extend(session.first(tier).map(|at| Reverse((at, n))));
        }
    }
}

/// What goes first when a node holds too much.
#[derive(Clone, Copy)]
enum Tier {
    /// Whole streams that have ended.
    Ended,
    /// Messages of open streams that others followed.
    Older,
    /// The newest of each stream, which may be a response that nobody has had yet.
    Newest,
}

impl Streams {
    /// The time by which sessions are compared.
    fn first(&mut self, tier: Tier) -> Option<Duration> {
        match tier {
            Tier::Ended => {
                // Some were forgotten after their end.
                let rings = &self.rings;
                let gone = |ended: &mut (_, _)| rings.get(&ended.1).and_then(Ring::due) != Some(ended.0);
                while self.ended.pop_front_if(gone).is_some() {}
                self.ended.front().map(|(due, _)| *due)
            }
            Tier::Older => self.older.first_key_value().map(|(_, place)| place.at),
            Tier::Newest => self.newest.first_key_value().map(|(_, place)| place.at),
        }
    }

    fn drop_first(&mut self, tier: Tier) {
        match tier {
            Tier::Ended => {
                if self.first(tier).is_some()
                    && let Some((_, stream)) = self.ended.pop_front()
                {
                    self.forget(stream);
                }
            }
            Tier::Older => {
                if let Some(stream) = self.older.first_key_value().map(|(_, place)| place.stream) {
                    self.prune_one(stream);
                }
            }
            Tier::Newest => {
                if let Some(stream) = self.newest.first_key_value().map(|(_, place)| place.stream) {
                    self.prune_one(stream);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
