//! What is written of one session, in which order, and for as long as it is ours.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use lb_exchange::SessionId;
use lb_session::streams::{SharedStreams, without_line};
use lb_session::{Cell, Delta, Session, Ulid};
use lb_store::{Applied, Error, Outcome, Refusal};
use lb_wire::Raw;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Head;
use super::keys::Keys;
use super::owner::Owner;
use super::pieces::{Appended, Packed, Packing, Piece};
use super::record::Record;
use super::streams::StreamsLog;
use super::{Keeper, RETRY};

/// Entries of the log of events from which on the session is written anew: what it has forgotten is among them.
const EVENTS_NEAR: u64 = 4_096;
/// Events after which those that are not wanted any more are removed.
const TRIM_EVERY: u64 = 256;
/// Times that one write looks for more: for what has changed meanwhile, or because what it found was not what was written
/// last.
const ROUNDS_MAX: usize = 16;

/// One session that is awake here, as it is written.
#[derive(Debug)]
pub(crate) struct Writing {
    pub(super) id: SessionId,
    pub(super) keys: Keys,
    source: Source,
    /// Its resumable streams, from the moment that it is seated.
    pub(super) streams: OnceLock<SharedStreams>,
    /// The login that it is used by from now on: its head is to be written with that.
    family: parking_lot::Mutex<Option<Arc<str>>>,
    /// Whether it has ended, and what is kept of it is to go.
    over: AtomicBool,
    /// Whether its lifetime is to be renewed, and when that was last wanted, in seconds of the gateway's clock.
    touch: AtomicBool,
    touched: AtomicU64,
    /// When it was last used, in milliseconds of the keeper.
    used: AtomicU64,
    /// Under which lease of this node it was last known to be ours.
    verified: AtomicU64,
    /// Whether it has ever been ours in the store.
    owned: AtomicBool,
    /// Whether it began on a store that may have forgotten another one of its name: nothing is certain before all who have
    /// one have said so.
    assumed: AtomicBool,
    pub(super) state: Mutex<State>,
}

/// Where the changes of a session come from. Held weakly: what is written of a session does not keep it.
#[derive(Default)]
pub(crate) struct Source {
    /// Its state, if it has a surface of ours.
    pub(crate) cell: Option<Weak<Cell>>,
    /// What its only server was told, if it has one.
    pub(crate) told: Option<Told>,
}

/// Gives what a server was told by its client and must be told again; `None` when that was never anything.
pub(crate) type Told = Box<dyn Fn() -> Option<Raw> + Send + Sync>;

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Source")
    }
}

/// How far a session has been written.
#[derive(Debug)]
pub(super) struct State {
    /// We, with the epoch at which it is ours.
    pub(super) owner: Owner,
    /// The owner's key is yet to be set, in place of this.
    pub(super) claim: Option<Option<Bytes>>,
    /// Who its client is; nothing once it has ended.
    pub(super) head: Raw,
    /// Whether that has been tried: the store may have done it without an answer.
    pub(super) tried: bool,
    /// Whether an earlier one may have had its name, and have ended.
    pub(super) follows: bool,
    pub(super) pieces: VecDeque<Piece>,
    /// Tasks that may have a key of their own.
    pub(super) tasks: BTreeSet<Ulid>,
    events: Log,
    pub(super) streams: StreamsLog,
    told: Option<Raw>,
    /// Whether there is a record.
    recorded: bool,
    /// Whether everything has to be written again.
    anew: bool,
    /// Whether a batch was too large: what waits is written piece by piece.
    narrow: bool,
    /// Bytes that are counted for what waits.
    held: usize,
    pub(super) pause: Option<Pause>,
    /// In which life of the store it was last written.
    pub(super) life: Option<u64>,
    pub(super) end: Option<Ended>,
}

/// A log in the store. Positions only grow, also when the log is written anew: that begins behind all that was written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Log {
    /// What is added to a number to give its position.
    pub(crate) base: u64,
    /// The last position that was written, as far as the store has said.
    pub(crate) last: u64,
    /// The last position that the store was given: it may have written that without a word.
    given: u64,
    /// How many entries there are.
    pub(crate) entries: u64,
    /// How many were added since it was last trimmed.
    appended: u64,
}

impl Log {
    pub(crate) fn new(base: u64, last: u64, entries: u64) -> Self {
        Self { base, last: last.max(base), given: 0, entries, appended: 0 }
    }
}

/// A store that did not take it is not asked again before this.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    until: Instant,
    length: Duration,
}

/// Why nothing more is written of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It has ended, and what was kept of it is gone.
    Erased,
    /// It is written, and belongs to nobody.
    Released,
    /// It belongs to somebody else.
    Lost,
}

/// What came of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrote {
    /// Everything.
    All,
    /// It has to be tried again, not before this time has passed.
    Later(Duration),
    /// Nothing more will be written.
    Ended(Ended),
}

/// Why writing stopped before its end.
pub(super) enum Stop {
    Later(Error),
    /// All that there was is written, and there is more by now: others come first.
    More,
    Lost,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Later(error)
    }
}

impl Writing {
    /// A new session, owned by `owner` once the first batch is done.
    pub(crate) fn new(id: &SessionId, head: Raw, owner: Owner, source: Source) -> Result<Self, Error> {
        let state = State { claim: Some(None), ..State::of(head, owner) };
        Ok(Self::with(id, Keys::of(id.as_str())?, source, state))
    }

    /// The same with a name that an earlier one may have had, which is over.
    pub(crate) fn following(id: &SessionId, head: Raw, owner: Owner, source: Source) -> Result<Self, Error> {
        let assumed = owner.is_assumed();
        let state = State { claim: Some(None), follows: true, ..State::of(head, owner) };
        let writing = Self::with(id, Keys::of(id.as_str())?, source, state);
        writing.assumed.store(assumed, Ordering::Relaxed);
        Ok(writing)
    }

    /// A session that was taken over, and of which this is in the store.
    pub(crate) fn taken_over(
        id: &SessionId,
        keys: Keys,
        (head, owner): (Raw, Owner),
        source: Source,
        (tasks, events, told, recorded): (Vec<Ulid>, Log, Option<Raw>, bool),
    ) -> Self {
        let tasks = tasks.into_iter().collect();
        let state = State { tasks, events, told, recorded, ..State::of(head, owner) };
        let writing = Self::with(id, keys, source, state);
        writing.set_owned();
        writing
    }

    fn with(id: &SessionId, keys: Keys, source: Source, state: State) -> Self {
        let (over, touch, owned, assumed) = Default::default();
        let (touched, used, verified) = Default::default();
        let (id, state, streams) = (id.clone(), Mutex::new(state), OnceLock::new());
        let family = parking_lot::Mutex::default();
        Self { id, keys, source, streams, family, over, touch, touched, used, verified, owned, assumed, state }
    }

    /// It is used by this login from now on.
    pub(crate) fn set_family(&self, family: Arc<str>) {
        *self.family.lock() = Some(family);
    }

    /// The session is over: what is kept of it goes.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
        // A store that is away may not be asked for long; until then only the name of it is held.
        if let Ok(mut state) = self.state.try_lock() {
            state.clear();
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Whether it has ever been ours in the store: nobody else can have begun it.
    pub(crate) fn is_owned(&self) -> bool {
        self.owned.load(Ordering::Acquire)
    }

    pub(super) fn set_owned(&self) {
        self.owned.store(true, Ordering::Release);
    }

    /// Under which lease it was last known to be ours.
    pub(crate) fn verified(&self) -> u64 {
        self.verified.load(Ordering::Acquire)
    }

    /// It is ours under this lease. One that is only assumed to be is looked at each time.
    pub(crate) fn set_verified(&self, generation: u64) {
        if !self.is_assumed() {
            self.verified.fetch_max(generation, Ordering::AcqRel);
        }
    }

    pub(super) fn is_assumed(&self) -> bool {
        self.assumed.load(Ordering::Acquire)
    }

    /// Nobody else has one that the store forgot: they would have said so.
    pub(super) fn set_certain(&self) {
        self.assumed.store(false, Ordering::Release);
    }

    /// It begins at this second, and is written as such.
    pub(crate) fn begins(&self, now: u64) {
        self.touched.store(now, Ordering::Relaxed);
    }

    /// It is used now.
    pub(super) fn use_it(&self, keeper: &Keeper) {
        let up = u64::try_from(keeper.up().as_millis()).unwrap_or(u64::MAX);
        self.used.store(up, Ordering::Relaxed);
    }

    /// It is used, at this second. True when that is to be written: not each time.
    pub(crate) fn touch(&self, keeper: &Keeper, now: u64) -> bool {
        self.use_it(keeper);
        let last = self.touched.load(Ordering::Relaxed);
        let due = last + keeper.touch_every().as_secs() <= now;
        let ours = due && self.touched.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        ours && !self.touch.swap(true, Ordering::Relaxed)
    }

    /// How long it is kept from now on if nobody uses it.
    pub(crate) fn left(&self, keeper: &Keeper) -> Duration {
        keeper.ttl_since(Duration::from_millis(self.used.load(Ordering::Relaxed)))
    }

    /// Writes what has changed. A store that failed a moment ago is not asked, unless this is urgent.
    pub(super) async fn write(&self, keeper: &Keeper, urgent: bool) -> Wrote {
        let mut state = self.state.lock().await;
        if let Some(end) = state.end {
            return Wrote::Ended(end);
        }
        if keeper.is_stopped() {
            return Wrote::All;
        }
        if let Some(pause) = state.pause.filter(|_| !urgent) {
            let left = pause.until.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                return Wrote::Later(left);
            }
        }
        let written = self.write_all(&mut state, keeper).await;
        self.concluded(&mut state, keeper, written)
    }

    /// Notes how a write ended, and what still waits after it.
    pub(super) fn concluded(&self, state: &mut State, keeper: &Keeper, written: Result<(), Stop>) -> Wrote {
        match written {
            Ok(()) => {
                keeper.note_full(false);
                state.pause = None;
            }
            Err(Stop::More) => {
                state.pause = None;
                keeper.mark(&self.id);
                keeper.hurry.notify_one();
            }
            Err(Stop::Lost) => {
                state.end = Some(Ended::Lost);
                state.pieces.clear();
            }
            Err(Stop::Later(error)) => {
                let length = state.pause.map_or(RETRY.0, |pause| (pause.length * 2).min(RETRY.1));
                tracing::debug!(%error, "a session is written later");
                if matches!(error, Error::Full(_)) {
                    keeper.note_full(true);
                }
                self.tell_stalled();
                state.pause = Some(Pause { until: Instant::now() + length, length });
            }
        }
        let held: usize = state.pieces.iter().map(Piece::held).sum();
        if !keeper.holds(state.held, held) {
            // It is all there when it is written anew.
            state.start_anew();
            keeper.holds(held, 0);
        }
        state.held = state.pieces.iter().map(Piece::held).sum();
        match (state.end, state.pause) {
            (Some(end), _) => Wrote::Ended(end),
            (None, Some(pause)) => Wrote::Later(pause.length),
            (None, None) => Wrote::All,
        }
    }

    pub(super) async fn write_all(&self, state: &mut State, keeper: &Keeper) -> Result<(), Stop> {
        for _ in 0..ROUNDS_MAX {
            if self.is_over() {
                return self.erase(state, keeper).await;
            }
            let life = keeper.nodes().store_life();
            if state.life.replace(life).is_some_and(|before| before != life) {
                // What was written last may be missing.
                state.start_anew();
            }
            self.claim(state, keeper).await?;
            if state.pieces.is_empty() && !self.gather(state) {
                return Ok(());
            }
            self.flush(state, keeper).await?;
        }
        let begins_again = state.anew || state.claim.is_some() || !state.pieces.is_empty();
        Err(match begins_again {
            true => Stop::Later(Error::WrongShape("what is kept of a session changes while it is written")),
            false => Stop::More,
        })
    }

    /// Writes the pieces that wait, as long as the store takes them.
    async fn flush(&self, state: &mut State, keeper: &Keeper) -> Result<(), Stop> {
        while state.claim.is_none() {
            let (owner, pieces_max) = (state.owner.value(), if state.narrow { 1 } else { usize::MAX });
            let packing = Packing { keys: &self.keys, owner, tasks: &state.tasks, ttl: keeper.ttl(), pieces_max };
            let Some(packed) = packing.next(&state.pieces, state.recorded)? else { break };
            if let Some((Appended::Events, at)) = packed.last {
                state.events.given = state.events.given.max(at);
            }
            match keeper.store().apply(packed.batch.clone()).await {
                Ok(Applied::Done(outcomes)) => {
                    state.done(&packed, &outcomes);
                    self.tell_written(state);
                }
                // A batch that was done without an answer.
                Ok(Applied::Refused(Refusal::Order { last, .. })) if packed.last.is_some_and(|(_, at)| at == last) => {
                    state.done(&packed, &[]);
                    self.tell_written(state);
                }
                Ok(Applied::Refused(Refusal::Order { last, .. })) => {
                    tracing::warn!(
                        session = self.hash(),
                        "the log of a session is not as it was written; all is written anew"
                    );
                    match packed.last {
                        Some((Appended::Streams, _)) => state.streams.last = state.streams.last.max(last),
                        Some((Appended::Events, _)) | None => state.events.last = state.events.last.max(last),
                    }
                    state.start_anew();
                    return Ok(());
                }
                Ok(Applied::Refused(Refusal::Guard(_))) => return self.resolve(state, keeper).await,
                Err(error @ Error::TooLarge { .. }) => self.too_large(state, packed.count, error)?,
                Err(error @ (Error::WrongShape(_) | Error::WrongKind { .. } | Error::Tags(..))) => {
                    tracing::error!(session = self.hash(), %error, "a change of a session cannot be kept");
                    // The rest of it is worth keeping.
                    state.pieces.drain(..packed.count);
                }
                Err(error) => return Err(Stop::Later(error)),
            }
        }
        Ok(())
    }

    /// Puts what has changed into pieces behind those that wait; false when nothing has. The one place where what is to be
    /// written of a session is asked for.
    fn gather(&self, state: &mut State) -> bool {
        state.narrow = false;
        let cell = self.source.cell.as_ref().and_then(Weak::upgrade);
        let lost = std::mem::take(&mut state.anew);
        let anew = lost || EVENTS_NEAR <= state.events.entries;
        let renewed = self.family.lock().take().and_then(|family| Head::renewed(&state.head, family));
        if let Some(head) = renewed {
            state.head = head;
            if !anew {
                state.pieces.push_back(Piece::Head(state.head.clone()));
            }
        }
        if anew {
            state.pieces.push_back(Piece::Head(state.head.clone()));
            state.events.base = state.events.last.max(state.events.given);
            state.told = None;
            // One that has nothing to remember has nothing to write.
            cell.iter().for_each(|cell| {
                cell.with(|session| {
                    if session.is_kept() {
                        session.keep();
                    }
                });
            });
        }
        if self.touch.swap(false, Ordering::Relaxed) {
            state.pieces.push_back(Piece::Touch);
        }
        // Early: somebody may wait for them.
        self.gather_streams(state, lost);
        if let Some(delta) = cell.and_then(|cell| cell.with(Session::take_delta)) {
            state.add(delta, anew);
        }
        let told = self.source.told.as_ref().and_then(|told| told());
        if let Some(told) = told.filter(|told| state.told.as_ref() != Some(told)) {
            state.told = Some(told.clone());
            let record = Record { told: Some(told), ..Record::default() };
            state.pieces.push_back(Piece::Record(record.kept()));
        }
        !state.pieces.is_empty()
    }

    /// A batch has too many bytes for the store: it is written in smaller ones, and what alone is too large is shortened.
    fn too_large(&self, state: &mut State, count: usize, error: Error) -> Result<(), Stop> {
        if 1 < count {
            state.narrow = true;
            return Ok(());
        }
        match state.pieces.front_mut() {
            Some(Piece::Task(id, task)) => {
                tracing::warn!(session = self.hash(), task = %id, %error, "a task is kept without its result");
                match task.shortened() {
                    Some(shorter) => *task = shorter,
                    None => drop(state.pieces.pop_front()),
                }
            }
            Some(Piece::Event(..)) => {
                tracing::error!(session = self.hash(), %error, "an event is not kept");
                // Whoever comes back is told that it is missing.
                state.pieces.pop_front();
            }
            Some(Piece::Stream(_, entry)) => {
                tracing::warn!(session = self.hash(), %error, "a message of a stream is not kept");
                match without_line(entry) {
                    Some(shorter) => *entry = shorter,
                    None => drop(state.pieces.pop_front()),
                }
            }
            Some(Piece::Head(_) | Piece::TaskGone(_) | Piece::Record(_))
            | Some(Piece::Trim(_) | Piece::StreamsTrim(_) | Piece::Touch)
            | None => {
                tracing::error!(session = self.hash(), %error, "a session cannot be kept: raise the limit of the store");
                return Err(Stop::Later(error));
            }
        }
        Ok(())
    }

    /// How people see it.
    pub(super) fn hash(&self) -> String {
        crate::live::hash(self.id.as_str())
    }
}

impl State {
    fn of(head: Raw, owner: Owner) -> Self {
        Self {
            owner,
            claim: None,
            head,
            tried: false,
            follows: false,
            pieces: VecDeque::new(),
            tasks: BTreeSet::new(),
            events: Log::default(),
            streams: StreamsLog::default(),
            told: None,
            recorded: false,
            anew: false,
            narrow: false,
            held: 0,
            pause: None,
            life: None,
            end: None,
        }
    }

    fn add(&mut self, delta: Delta, anew: bool) {
        let base = self.events.base;
        let gone: Vec<Ulid> = if anew {
            let known: BTreeSet<Ulid> = delta.tasks.iter().map(|(id, _)| *id).collect();
            self.tasks.difference(&known).copied().collect()
        } else {
            delta.tasks_gone.into_iter().filter(|id| self.tasks.contains(id)).collect()
        };
        for (id, task) in delta.tasks {
            self.tasks.insert(id);
            self.pieces.push_back(Piece::Task(id, task));
        }
        self.pieces.extend(gone.into_iter().map(Piece::TaskGone));
        self.events.appended += delta.events.len() as u64;
        self.pieces
            .extend(delta.events.into_iter().map(|(seq, event)| Piece::Event(base + seq, event.bytes().clone())));
        let record = Record { events_base: base, session: Some(delta.record), told: None };
        self.pieces.push_back(Piece::Record(record.kept()));
        if anew || TRIM_EVERY <= self.events.appended {
            self.events.appended = 0;
            self.pieces.push_back(Piece::Trim(base + delta.events_from));
        }
    }

    /// The first pieces are written. Without outcomes they were before.
    fn done(&mut self, packed: &Packed, outcomes: &[Outcome]) {
        for piece in self.pieces.drain(..packed.count) {
            match piece {
                Piece::TaskGone(id) => drop(self.tasks.remove(&id)),
                Piece::Event(at, _) => {
                    self.events.last = at;
                    self.events.entries += 1;
                }
                Piece::Trim(_) => {
                    if let Some(Outcome::Trimmed(count)) = outcomes.first() {
                        self.events.entries = self.events.entries.saturating_sub(*count);
                    }
                }
                Piece::Record(_) => self.recorded = true,
                Piece::Stream(at, _) => self.streams.last = at,
                Piece::Head(_) | Piece::Task(..) | Piece::StreamsTrim(_) | Piece::Touch => {}
            }
        }
        if packed.there.iter().any(|step| outcomes.get(*step) == Some(&Outcome::Found(false))) {
            tracing::warn!("a part of a session is gone from where it is kept; all is written anew");
            self.start_anew();
        }
    }

    /// Forgets what waits: everything is written again.
    pub(super) fn start_anew(&mut self) {
        self.pieces.clear();
        (self.anew, self.recorded) = (true, false);
    }

    /// Forgets what waits: nothing is written any more.
    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        self.head = Raw::empty_object();
    }
}
