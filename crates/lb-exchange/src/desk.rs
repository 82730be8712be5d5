//! What a session has open under ids that its client knows: calls that run, and asks that wait for an answer.

use std::collections::HashMap;

use lb_wire::Id;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::exchange::Remote;
use crate::step::{Answer, AskKey, AskKind, Cancel};

/// The tables of one session. Ids of calls are the client's, ids of asks are ours; the two never mix.
#[derive(Debug, Default)]
pub struct Desk(Mutex<Tables>);

#[derive(Debug)]
struct Tables {
    running: HashMap<Id, Remote>,
    running_max: usize,
    asks: HashMap<u64, OpenAsk>,
    asks_ever: u64,
}

impl Default for Tables {
    fn default() -> Self {
        Self { running: HashMap::new(), running_max: Desk::RUNNING_MAX, asks: HashMap::new(), asks_ever: 0 }
    }
}

#[derive(Debug)]
struct OpenAsk {
    remote: Remote,
    key: AskKey,
    kind: AskKind,
    /// Until when it waits for its answer without the call that it was given to; `None` while that runs.
    alone_until: Option<Instant>,
}

/// Why a call cannot start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Busy {
    /// The client still has a call open under this id.
    #[error("a request with this id is still running")]
    Id,
    /// Too many calls at once.
    #[error("too many requests at once in this session")]
    Calls,
}

impl Desk {
    /// Calls that one session of many may have open.
    pub const RUNNING_MAX: usize = 64;
    /// Calls that a client may have open that we serve alone.
    pub const ALONE_MAX: usize = 1024;
    /// Asks that one session may have open.
    pub const ASKS_MAX: usize = 256;

    /// The client is the only one of this process, so that its calls keep nobody else's waiting.
    pub fn widen(&self) {
        self.0.lock().running_max = Self::ALONE_MAX;
    }

    /// Makes room for a call, before anything of it is done. It must be told to run next.
    ///
    /// # Errors
    /// The id is in use, or too many calls run.
    pub fn reserve(&self, id: Id) -> Result<(), Busy> {
        let mut tables = self.0.lock();
        if tables.running_max <= tables.running.len() {
            return Err(Busy::Calls);
        }
        match tables.running.entry(id) {
            std::collections::hash_map::Entry::Occupied(_) => Err(Busy::Id),
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(Remote::deaf());
                Ok(())
            }
        }
    }

    /// Notes that a call runs for which there is room.
    pub fn run(&self, id: Id, remote: Remote) {
        self.0.lock().running.insert(id, remote);
    }

    /// Notes that a call is over.
    pub fn done(&self, id: &Id) {
        self.0.lock().running.remove(id);
    }

    /// Cancels a running call; false when there is none of this id.
    pub fn cancel(&self, id: &Id, why: Cancel) -> bool {
        let remote = self.0.lock().running.get(id).cloned();
        remote.is_some_and(|remote| remote.cancel(why))
    }

    /// Cancels everything that runs, which is done when it has said its last word.
    pub fn cancel_all(&self, why: &Cancel) {
        let running: Vec<Remote> = self.0.lock().running.values().cloned().collect();
        for remote in running {
            remote.cancel(why.clone());
        }
    }

    /// Cancels everything that runs and refuses every open ask.
    pub fn clear(&self, why: &Cancel) {
        let (running, asks) = {
            let mut tables = self.0.lock();
            (std::mem::take(&mut tables.running), std::mem::take(&mut tables.asks))
        };
        for ask in asks.into_values() {
            ask.remote.answer(ask.key, ask.kind.refusal());
        }
        for remote in running.into_values() {
            remote.cancel(why.clone());
        }
    }

    /// Ids up to this number were given out before, by another process: an answer to one of them is none to a new ask.
    pub fn asked_before(&self, number: u64) {
        let mut tables = self.0.lock();
        tables.asks_ever = tables.asks_ever.max(number);
    }

    /// Opens an ask and gives the id to send it under; `None` when too many are open.
    pub fn ask(&self, remote: Remote, key: AskKey, kind: AskKind) -> Option<Id> {
        let mut tables = self.0.lock();
        if Self::ASKS_MAX <= tables.asks.len() {
            return None;
        }
        tables.asks_ever += 1;
        let number = tables.asks_ever;
        tables.asks.insert(number, OpenAsk { remote, key, kind, alone_until: None });
        Some(Id::number(number))
    }

    /// Hands an answer to whoever asked; false when no such ask is open.
    pub fn answer(&self, id: &Id, answer: Answer) -> bool {
        let ask = id.to_number().and_then(|number| self.0.lock().asks.remove(&number));
        ask.is_some_and(|ask| ask.remote.answer(ask.key, answer))
    }

    /// Forgets an ask that is no longer needed.
    pub fn withdraw(&self, id: &Id) -> bool {
        // Dropped when the table is free again: the last who keeps an ask answers it.
        let gone = id.to_number().and_then(|number| self.0.lock().asks.remove(&number));
        gone.is_some()
    }

    /// An ask goes on waiting without the call that it was given to; false when it waits no more.
    pub fn leave(&self, id: &Id, until: Instant) -> bool {
        let Some(number) = id.to_number() else { return false };
        let mut tables = self.0.lock();
        let ask = tables.asks.get_mut(&number).map(|ask| ask.alone_until = Some(until));
        ask.is_some()
    }

    /// Forgets an ask that waits without a call, because its server takes it back. Gives its id.
    pub fn withdraw_left(&self, key: &AskKey) -> Option<Id> {
        let mut tables = self.0.lock();
        let is_it = |ask: &OpenAsk| ask.alone_until.is_some() && ask.key == *key;
        let number = tables.asks.iter().find_map(|(number, ask)| is_it(ask).then_some(*number))?;
        let gone = tables.asks.remove(&number);
        drop(tables);
        gone.map(|_| Id::number(number))
    }

    /// Refuses the asks that wait without a call and have waited long enough. Gives their ids, of which the client must
    /// be told.
    #[must_use]
    pub fn expire(&self, now: Instant) -> Vec<Id> {
        let is_due = |_: &u64, ask: &mut OpenAsk| ask.alone_until.is_some_and(|until| until <= now);
        let due: Vec<_> = self.0.lock().asks.extract_if(is_due).collect();
        let refuse = |(number, ask): (u64, OpenAsk)| {
            ask.remote.answer(ask.key, ask.kind.refusal());
            Id::number(number)
        };
        due.into_iter().map(refuse).collect()
    }

    /// Whether an ask still waits for its answer.
    pub fn is_open(&self, id: &Id) -> bool {
        id.to_number().is_some_and(|number| self.0.lock().asks.contains_key(&number))
    }

    /// How many calls run.
    pub fn running(&self) -> usize {
        self.0.lock().running.len()
    }
}
