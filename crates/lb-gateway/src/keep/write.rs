//! What is written of one session, and in which order.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use lb_session::{Cell, Delta, Session, Ulid};
use lb_store::{Applied, Batch, Error, Key, Refusal};
use lb_wire::Raw;
use tokio::sync::Mutex;

use super::{Keeping, name_of};

/// Batches that wait for a store that does not answer; with more, the session is written anew as a whole.
const WAITING_MAX: usize = 64;
/// Events that a store keeps of one session, those among them that the session has forgotten.
const EVENTS_KEPT: u64 = 4_096;
/// Steps of one batch.
const STEPS_MAX: usize = 256;
/// Events after which those that are not wanted any more are removed.
const TRIM_EVERY: usize = 256;

/// The keys of one session.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    name: String,
    pub(super) head: Key,
    pub(super) record: Key,
    pub(super) events: Key,
}

impl Keys {
    /// Of the session with this id.
    pub(super) fn of(id: &str) -> Result<Self, Error> {
        Self::named(&name_of(id))
    }

    /// Of the session with this name.
    pub(super) fn named(name: &str) -> Result<Self, Error> {
        let key = |part: &str| Key::parse(&format!("session:{{{name}}}:{part}"));
        Ok(Self { name: name.to_owned(), head: key("head")?, record: key("record")?, events: key("events")? })
    }

    /// Of one task.
    pub(super) fn task(&self, id: Ulid) -> Result<Key, Error> {
        Key::parse(&format!("session:{{{}}}:task:{id}", self.name))
    }
}

/// One session that is awake, as it is written.
#[derive(Debug)]
pub(crate) struct Writing {
    keys: Keys,
    /// Its state, if it has a surface of ours.
    cell: Option<Weak<Cell>>,
    over: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Not written yet.
    head: Option<Raw>,
    waiting: VecDeque<Batch>,
    /// Tasks that have a key of their own.
    tasks: BTreeSet<Ulid>,
    appended: usize,
    /// Whether everything has to be written anew.
    anew: bool,
    erased: bool,
}

impl Writing {
    /// A session of this id. `head` is written first; `None` when it has been.
    pub(crate) fn new(id: &str, head: Option<Raw>, cell: Option<&Arc<Cell>>) -> Result<Self, Error> {
        let state = State { head, ..State::default() };
        Ok(Self {
            keys: Keys::of(id)?,
            cell: cell.map(Arc::downgrade),
            over: AtomicBool::new(false),
            state: Mutex::new(state),
        })
    }

    /// Tasks that were written by the process before.
    #[must_use]
    pub(crate) fn with_tasks(mut self, tasks: impl IntoIterator<Item = Ulid>) -> Self {
        self.state.get_mut().tasks.extend(tasks);
        self
    }

    /// The session is over: what is kept of it goes.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// Whether nothing is left to be done.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire) && self.state.try_lock().is_ok_and(|state| state.erased)
    }

    /// Writes what has changed; false when it has to be tried again.
    pub(super) async fn write(&self, keeping: &Keeping) -> bool {
        let mut state = self.state.lock().await;
        if let Err(error) = self.gather(&mut state, keeping) {
            tracing::error!(%error, "a session cannot be kept");
            return true;
        }
        while let Some(batch) = state.waiting.front().cloned() {
            match keeping.store.apply(batch).await {
                Ok(Applied::Done(_)) => drop(state.waiting.pop_front()),
                Ok(Applied::Refused(refusal)) => {
                    refused(&refusal);
                    return self.start_anew(&mut state);
                }
                Err(error) if error.is_temporary() => {
                    tracing::debug!(%error, "a session is written later");
                    return false;
                }
                Err(error) => {
                    tracing::warn!(%error, "a change of a session cannot be kept");
                    // The rest of it is worth keeping.
                    state.waiting.pop_front();
                }
            }
        }
        true
    }

    /// Puts what has changed into batches behind those that wait.
    fn gather(&self, state: &mut State, keeping: &Keeping) -> Result<(), Error> {
        if self.over.load(Ordering::Acquire) {
            return self.erase(state);
        }
        let cell = self.cell.as_ref().and_then(Weak::upgrade);
        if WAITING_MAX < state.waiting.len() {
            self.start_anew(state);
        }
        if std::mem::take(&mut state.anew) {
            state.waiting.push_back(Batch::new().delete(&self.keys.events));
            cell.iter().for_each(|cell| cell.with(Session::keep));
        }
        let delta = cell.and_then(|cell| cell.with(Session::take_delta));
        if let Some(head) = state.head.take() {
            state.waiting.push_back(Batch::new().set(&self.keys.head, head.bytes().clone(), keeping.ttl));
        }
        delta.map_or(Ok(()), |delta| self.add(state, delta, keeping))
    }

    fn add(&self, state: &mut State, delta: Delta, keeping: &Keeping) -> Result<(), Error> {
        let (keys, ttl) = (&self.keys, keeping.ttl);
        let mut batch = Steps { batch: Batch::new(), count: 0, full: &mut state.waiting };
        for (id, task) in &delta.tasks {
            state.tasks.insert(*id);
            batch.add(|batch| Ok(batch.set(&keys.task(*id)?, task.bytes().clone(), ttl)))?;
        }
        for id in delta.tasks_gone.iter().filter(|id| state.tasks.remove(id)) {
            batch.add(|batch| Ok(batch.delete(&keys.task(*id)?)))?;
        }
        let appended = delta.events.len();
        for (seq, event) in delta.events {
            let entry: Bytes = event.bytes().clone();
            batch.add(|batch| Ok(batch.append(&keys.events, seq, entry, EVENTS_KEPT, ttl)))?;
        }
        // Last: it says what holds of all that came before it.
        batch.add(|batch| Ok(batch.set(&keys.record, delta.record.bytes().clone(), ttl).expire(&keys.head, ttl)))?;
        batch.finish();
        state.appended += appended;
        if TRIM_EVERY <= state.appended {
            state.appended = 0;
            state.waiting.push_back(Batch::new().trim(&keys.events, delta.events_from));
        }
        Ok(())
    }

    fn erase(&self, state: &mut State) -> Result<(), Error> {
        if std::mem::replace(&mut state.erased, true) {
            return Ok(());
        }
        state.waiting.clear();
        let keys = &self.keys;
        let mut batch = Steps { batch: Batch::new(), count: 0, full: &mut state.waiting };
        batch.add(|batch| Ok(batch.delete(&keys.head).delete(&keys.record).delete(&keys.events)))?;
        for id in &state.tasks {
            batch.add(|batch| Ok(batch.delete(&keys.task(*id)?)))?;
        }
        batch.finish();
        Ok(())
    }

    /// Forgets what waits, and says that everything is to be written: false, so that it is done soon.
    fn start_anew(&self, state: &mut State) -> bool {
        state.waiting.clear();
        state.anew = true;
        false
    }
}

fn refused(refusal: &Refusal) {
    tracing::warn!(?refusal, "what is kept of a session is not what was written last; it is written anew");
}

/// Steps in the order in which they were added, in batches that are not too large.
struct Steps<'a> {
    batch: Batch,
    count: usize,
    full: &'a mut VecDeque<Batch>,
}

impl Steps<'_> {
    fn add(&mut self, step: impl FnOnce(Batch) -> Result<Batch, Error>) -> Result<(), Error> {
        if self.count == STEPS_MAX {
            self.full.push_back(std::mem::take(&mut self.batch));
            self.count = 0;
        }
        self.batch = step(std::mem::take(&mut self.batch))?;
        self.count += 1;
        Ok(())
    }

    fn finish(self) {
        if self.count != 0 {
            self.full.push_back(self.batch);
        }
    }
}
