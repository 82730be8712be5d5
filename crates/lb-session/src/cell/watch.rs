//! Waiting for a session to change.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::Cell;
use crate::session::Session;

/// Those who wait, as the session knows them.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    next: u64,
    /// Everybody who waits, in the order in which they came; with a waker between looking in vain and being woken.
    entries: BTreeMap<Key, Option<Waker>>,
    /// How many of them count against the limit.
    limited: usize,
}

/// One who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    number: u64,
    limited: bool,
}

impl Watchers {
    pub(super) fn enter(&mut self) -> Key {
        self.add(false)
    }

    pub(super) fn enter_limited(&mut self, max: usize) -> Result<Key, TooManyWaiters> {
        if max <= self.limited {
            return Err(TooManyWaiters { max });
        }
        self.limited += 1;
        Ok(self.add(true))
    }

    /// Everybody who has looked in vain, to be woken outside of the lock.
    pub(super) fn take_wakers(&mut self) -> Vec<Waker> {
        self.entries.values_mut().filter_map(Option::take).collect()
    }

    fn add(&mut self, limited: bool) -> Key {
        self.next += 1;
        let key = Key { number: self.next, limited };
        self.entries.insert(key, None);
        key
    }

    /// Gives back what it replaces: dropping a waker may run anything, so that is done without the lock.
    fn set(&mut self, key: Key, waker: &Waker) -> Option<Waker> {
        let entry = self.entries.get_mut(&key)?;
        if entry.as_ref().is_some_and(|known| known.will_wake(waker)) {
            return None;
        }
        entry.replace(waker.clone())
    }

    fn remove(&mut self, key: Key) -> Option<Waker> {
        self.limited -= usize::from(key.limited);
        self.entries.remove(&key).flatten()
    }
}

/// As many as may wait for the events of a session already do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("already {max} requests wait for activity")]
pub struct TooManyWaiters {
    /// How many may.
    pub max: usize,
}

/// One who waits; dropping it ends the wait at once.
pub struct Watch {
    cell: Arc<Cell>,
    key: Key,
}

impl Watch {
    pub(super) fn new(cell: Arc<Cell>, key: Key) -> Self {
        Self { cell, key }
    }

    /// Looks at the session; when there is nothing to see, the task is woken at the next change. Looking and leaving
    /// the waker are one step under one lock, so that no change falls between them.
    ///
    /// Cancel safe: yes; what `look` takes is the caller's from then on.
    pub fn poll<T>(&mut self, cx: &mut Context<'_>, look: impl FnOnce(&mut Session) -> Option<T>) -> Poll<T> {
        let (seen, _replaced) = self.cell.with(|session| match look(session) {
            Some(seen) => (Poll::Ready(seen), None),
            None => (Poll::Pending, session.watchers.set(self.key, cx.waker())),
        });
        seen
    }

    /// The cell that is watched.
    pub fn cell(&self) -> &Arc<Cell> {
        &self.cell
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.cell.with(|session| session.watchers.remove(self.key)));
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watch").field(&self.key).finish()
    }
}
