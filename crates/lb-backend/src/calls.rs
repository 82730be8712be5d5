//! Requests of ours that a connection has open, and the steps that wait for whoever holds them.

mod unread;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use lb_exchange::{AskKey, AskKind, Audience, End, InFlight, Note, Resume, Step, Stray};
use lb_wire::Raw;
use parking_lot::Mutex;

pub use unread::Place;
use unread::Unread;

/// Steps that may wait for one exchange; beyond, progress keeps the newest and logs drop the oldest.
const STEPS_MAX: usize = 256;
/// Bytes that may wait for one exchange.
const STEP_BYTES_MAX: usize = 1 << 20;
/// Asks that one exchange may have open.
const ASKS_MAX: usize = 16;

/// The open requests of one connection.
#[derive(Debug)]
pub struct Calls(Mutex<Table>);

#[derive(Debug)]
struct Table {
    /// Ordered by id, so oldest first.
    open: BTreeMap<u64, Arc<Slot>>,
    next: u64,
    /// Set once the connection is gone: every later call ends with it at once.
    closed: Option<Raw>,
    /// Whether that was for being idle, and nobody has told the other side.
    rested: bool,
    unread: Unread,
    /// When the last request of a client ended.
    ended: Option<Instant>,
}

impl Calls {
    /// No calls; ids start at one.
    pub fn new() -> Self {
        let (open, unread) = Default::default();
        Self(Mutex::new(Table { open, next: 1, closed: None, rested: false, unread, ended: None }))
    }

    /// Opens a slot, or says why the connection is gone.
    pub fn open(&self, names: Names, eligible: bool) -> Result<(u64, Arc<Slot>), Raw> {
        let mut table = self.0.lock();
        if let Some(why) = &table.closed {
            return Err(why.clone());
        }
        let id = table.next;
        table.next += 1;
        let slot = Arc::new(Slot { names, eligible, place: Place::default(), state: Mutex::default() });
        table.open.insert(id, slot.clone());
        Ok((id, slot))
    }

    /// The slot of an open request.
    pub fn get(&self, id: u64) -> Option<Arc<Slot>> {
        self.0.lock().open.get(&id).cloned()
    }

    /// The slot of an open request that the server has spoken of, and so has read.
    pub fn heard(&self, id: u64) -> Option<Arc<Slot>> {
        let mut table = self.0.lock();
        let slot = table.open.get(&id)?.clone();
        let guilty = table.read(slot.place.take());
        drop(table);
        unread::tell(guilty);
        Some(slot)
    }

    /// Closes the slot of a request that the server has answered.
    pub fn answered(&self, id: u64) -> Option<Arc<Slot>> {
        let mut table = self.0.lock();
        let slot = table.take(id);
        let place = slot.as_ref().map_or_else(|| table.unread.found(id), |slot| slot.place.get());
        let guilty = table.read(place);
        drop(table);
        unread::tell(guilty);
        slot
    }

    /// Closes the slot of a request that nobody waits for any more; false when it was closed before.
    pub fn cancelled(&self, id: u64) -> bool {
        let mut table = self.0.lock();
        let Some(slot) = table.take(id) else { return false };
        table.unread.lose(slot.place.get(), id);
        true
    }

    /// A line is written at this place that is no request. `readable` when every server can read it.
    pub fn unasked(&self, place: u64, readable: bool) {
        self.0.lock().unread.unasked(place, readable);
    }

    /// The server could not read one of our lines, and cannot say which: ends the request that it was, as soon as only
    /// one can be meant. `parsing` when the line was no JSON to it.
    pub fn unreadable(&self, end: End, parsing: bool) {
        let mut table = self.0.lock();
        let guilty = table.unreadable(end, parsing);
        drop(table);
        unread::tell(guilty);
    }

    /// Closes the slot of a request that has ended or was never sent.
    pub fn remove(&self, id: u64) -> Option<Arc<Slot>> {
        self.0.lock().take(id)
    }

    /// When the last request of a client ended, if one has.
    pub fn ended(&self) -> Option<Instant> {
        self.0.lock().ended
    }

    /// What is open, oldest first.
    pub fn in_flight(&self) -> Vec<InFlight> {
        let in_flight = |(id, slot): (&u64, &Arc<Slot>)| {
            let audience = slot.state.lock().audience;
            InFlight { id: *id, eligible: slot.eligible, audience }
        };
        self.0.lock().open.iter().map(in_flight).collect()
    }

    /// How many requests are open.
    pub fn len(&self) -> usize {
        self.0.lock().open.len()
    }

    /// Whether the connection is gone.
    pub fn is_closed(&self) -> bool {
        self.0.lock().closed.is_some()
    }

    /// Refuses every later request with this error, if none is open now; false when one is, or it was closed before.
    pub fn close_if_idle(&self, error: &Raw) -> bool {
        let mut table = self.0.lock();
        let idle = table.open.is_empty() && table.closed.is_none();
        if idle {
            table.closed = Some(error.clone());
            table.rested = true;
        }
        idle
    }

    /// Whether it was closed for being idle, so that the other side is still to be told; true once.
    pub fn take_rested(&self) -> bool {
        std::mem::take(&mut self.0.lock().rested)
    }

    /// Ends every open request with this error, and every later one too. Only the first reason counts.
    pub fn close(&self, error: &Raw) {
        let open = {
            let mut table = self.0.lock();
            if table.closed.is_some() {
                return;
            }
            table.closed = Some(error.clone());
            std::mem::take(&mut table.open)
        };
        for slot in open.into_values() {
            slot.end(End::ours(lb_exchange::Outcome::Error(lb_exchange::ErrorBody::from_server(error.clone()))));
        }
    }
}

impl Table {
    /// Takes out a request that is over.
    fn take(&mut self, id: u64) -> Option<Arc<Slot>> {
        let slot = self.open.remove(&id)?;
        // What we ask ourselves, and what only listens, needs no server.
        if slot.names.of_client && slot.names.listen.is_none() {
            self.ended = Some(Instant::now());
        }
        Some(slot)
    }
}

/// Where the steps of one exchange wait.
#[derive(Debug)]
pub struct Slot {
    names: Names,
    eligible: bool,
    /// Where in the order of lines it was written; unset on connections that have no such order.
    place: Place,
    state: Mutex<State>,
}

/// What the client calls this exchange, wherever the server will repeat a name of ours.
#[derive(Debug, Default)]
pub struct Names {
    /// The client's progress token.
    pub token: Option<Raw>,
    /// The client's id of a listen request.
    pub listen: Option<Raw>,
    /// Whether there is a client at all.
    pub of_client: bool,
}

#[derive(Debug, Default)]
struct State {
    steps: VecDeque<Step>,
    bytes: usize,
    /// Asked and neither answered nor withdrawn.
    asks: Vec<OpenAsk>,
    end: Option<Box<End>>,
    /// Whether what is said here reaches its client.
    audience: Audience,
    dropped: u64,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct OpenAsk {
    key: AskKey,
    kind: AskKind,
    /// Set when it need not end with the exchange.
    stray: Option<Stray>,
}

impl Slot {
    /// What the client calls this exchange.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Where in the order of lines it was written.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Whether what is said here reaches its client has changed.
    pub fn heard_by(&self, audience: Audience) {
        self.state.lock().audience = audience;
    }

    /// Adds a note; a slow holder loses old progress and old logs, never anything else.
    pub fn note(&self, note: Note) {
        let mut state = self.state.lock();
        if STEPS_MAX <= state.steps.len() || STEP_BYTES_MAX <= state.bytes {
            state.make_room(&note.method);
        }
        state.bytes += note.weight();
        state.steps.push_back(Step::Note(note));
        Self::wake(state);
    }

    /// Adds an ask; false when too many are open, and the server is to be refused.
    pub fn ask(&self, ask: lb_exchange::Ask) -> bool {
        let mut state = self.state.lock();
        if ASKS_MAX <= state.asks.len() {
            return false;
        }
        let stray = match &ask.resume {
            Resume::Stray(stray) => Some(stray.clone()),
            Resume::Live | Resume::Replay { .. } => None,
        };
        state.asks.push(OpenAsk { key: ask.key.clone(), kind: ask.kind, stray });
        state.steps.push_back(Step::Ask(ask));
        Self::wake(state);
        true
    }

    /// An ask was answered; false when the server waits for no answer any more.
    pub fn answered(&self, key: &AskKey) -> bool {
        let mut state = self.state.lock();
        let Some(at) = state.asks.iter().position(|ask| ask.key == *key) else { return false };
        let ask = state.asks.swap_remove(at);
        drop(state);
        ask.stray.is_none_or(|stray| stray.close())
    }

    /// What is asked and not answered when the call is over, and ends with it: the server still waits for something.
    pub fn take_asks(&self) -> Vec<(AskKey, AskKind)> {
        let asks = std::mem::take(&mut self.state.lock().asks);
        asks.into_iter().filter(|ask| ask.stray.is_none()).map(|ask| (ask.key, ask.kind)).collect()
    }

    /// Adds the withdrawal of an open ask. With too much waiting, one that nobody has seen goes without a word, so that a
    /// server cannot fill memory with asking and withdrawing.
    pub fn withdraw(&self, key: &AskKey) {
        let mut state = self.state.lock();
        let Some(at) = state.asks.iter().position(|ask| ask.key == *key) else { return };
        state.asks.swap_remove(at);
        let before = state.steps.len();
        if STEPS_MAX <= before {
            state.steps.retain(|step| !matches!(step, Step::Ask(ask) if ask.key == *key));
        }
        if state.steps.len() == before {
            state.steps.push_back(Step::Withdraw { key: key.clone() });
            Self::wake(state);
        }
    }

    /// Adds a pause. One is enough while nobody has seen it, so that a server cannot fill memory with them.
    pub fn pause(&self) {
        let mut state = self.state.lock();
        if !matches!(state.steps.back(), Some(Step::Pause { .. })) && state.steps.len() < STEPS_MAX {
            state.steps.push_back(Step::Pause { retry: None });
            Self::wake(state);
        }
    }

    /// Sets the end, which has a place of its own and is never dropped.
    pub fn end(&self, end: End) {
        let mut state = self.state.lock();
        if state.end.is_none() {
            state.end = Some(Box::new(end));
        }
        Self::wake(state);
    }

    /// The next step.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<Step> {
        let mut state = self.state.lock();
        if let Some(step) = state.steps.pop_front() {
            if let Step::Note(note) = &step {
                state.bytes = state.bytes.saturating_sub(note.weight());
            }
            return Poll::Ready(step);
        }
        if let Some(end) = state.end.take() {
            return Poll::Ready(Step::End(*end));
        }
        match &state.waker {
            Some(known) if known.will_wake(cx.waker()) => {}
            _ => state.waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    fn wake(mut state: parking_lot::MutexGuard<'_, State>) {
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl State {
    /// Drops what may be dropped to let one more note in: older progress when progress comes, else the oldest log, else
    /// the oldest progress.
    fn make_room(&mut self, method: &str) {
        let is = |step: &Step, name: &str| matches!(step, Step::Note(note) if &*note.method == name);
        let order = if method == PROGRESS { [PROGRESS, LOG] } else { [LOG, PROGRESS] };
        let at = order.iter().find_map(|name| self.steps.iter().position(|step| is(step, name)));
        if let Some(Step::Note(note)) = at.and_then(|at| self.steps.remove(at)) {
            self.bytes = self.bytes.saturating_sub(note.weight());
            self.dropped += 1;
        }
    }
}

/// Method of progress notifications.
pub const PROGRESS: &str = "notifications/progress";
/// Method of log notifications.
pub const LOG: &str = "notifications/message";
