//! Sessions that outlive the process: what changes is written behind the calls, and read back when a client asks for it.
//!
//! A call never waits for the store. Whoever changes a session marks it; one task takes what the marked sessions have
//! noted and writes it, session by session in the order in which it happened. Every write holds only while the session is
//! ours: one small value, the owner, guards them all. What the store does not take is tried again, and a session of
//! which too much waits is written anew as a whole. Nothing is read before somebody asks for it.

mod head;
mod keys;
mod own;
mod owner;
mod pieces;
mod read;
mod record;
mod streams;
mod write;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use lb_exchange::{BoxFuture, SessionId};
use lb_store::Store;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use self::head::Head;
pub(crate) use self::keys::Keys;
pub(crate) use self::owner::{Holder, Owner};
pub(crate) use self::read::{Asleep, Found, look, read};
pub(crate) use self::write::{Ended, Source, Writing, Wrote};
use crate::clock::sleep_until;
use crate::nodes::{Membership, NodeName};

/// The part of its lifetime after which what is kept of a session that is used is to live anew.
const TOUCH_PART: u32 = 3;
/// That is never sooner.
const TOUCH_EVERY_MIN: Duration = Duration::from_secs(1);
/// Sessions that are written at once.
const AT_ONCE: usize = 16;
/// The wait before a store that failed is tried again, at first and at most. While it is away only one session tries.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// Bytes that wait for a store that does not answer; sessions that have more are written anew when it does.
const WAITING_BYTES_MAX: usize = 32 << 20;
/// The wait of those that were not tried because the store did not answer others.
const RETRY_UNTRIED: Duration = Duration::from_millis(500);
/// Sessions that have ended and are removed in one go, before what has changed meanwhile is written.
const ERASED_AT_ONCE: usize = 256;
/// Sessions that have ended and are not yet removed; beyond them nobody is let in.
const ENDING_MAX: usize = 4_096;
/// How long the end of the process waits for the store.
const FINISH_MAX: Duration = Duration::from_secs(5);
/// How long the end of a session waits for the store.
const ERASE_MAX: Duration = Duration::from_secs(2);

/// Sessions that are remembered to have been claimed and not read.
const CLAIMED_MAX: usize = 10_000;

/// How a gateway keeps its sessions.
#[derive(Clone, Debug)]
pub struct Keeping {
    /// Where.
    pub store: Arc<dyn Store>,
    /// Who we are among those who use the store, and who else is.
    pub nodes: Arc<Membership>,
    /// How long changes gather before they are written; not at all when nothing may be answered before it is written.
    pub gather: Duration,
    /// How long a session is kept that nobody uses.
    pub ttl: Duration,
    /// Whether others read what is kept, or nothing may be lost: a client is told its session when that is written.
    pub shared: bool,
    /// Whether what ends a stream or needs an answer is sent when it is written.
    pub wait_for_streams: bool,
}

/// What came of making a session ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    Ours,
    /// It is somebody else's.
    Lost,
    /// The store has not said so: it is tried again behind the calls.
    Unknown,
}

/// Who hears of a session that belongs to somebody else.
type Lost = Box<dyn Fn(&SessionId) + Send + Sync>;

/// Writes what changes.
pub(crate) struct Keeper {
    keeping: Keeping,
    began: Instant,
    marked: Mutex<HashSet<Box<str>>>,
    bell: Notify,
    /// What is marked is not to gather for long.
    hurry: Notify,
    /// What is being written of each session that is awake.
    writing: Mutex<HashMap<Box<str>, Arc<Writing>>>,
    /// Held while what is marked is written.
    pass: tokio::sync::Mutex<()>,
    /// Bytes that wait.
    waiting: AtomicUsize,
    /// Whether the store had no room when it was last written to.
    full: AtomicBool,
    /// The process ends: from here on only [`Keeper::finish`] writes.
    finishing: CancellationToken,
    /// Whether nothing is written any more: what happens from here on is the end of the process, not of sessions.
    stopped: AtomicBool,
    /// Hears of sessions that belong to somebody else.
    lost: OnceLock<Lost>,
    /// Sessions that were claimed and could not be read: the owners that were set, and whether changes may be missing.
    claimed: Mutex<HashMap<Box<str>, (Owner, bool)>>,
}

impl Keeper {
    pub(crate) fn new(keeping: Keeping) -> Arc<Self> {
        let (marked, writing, pass, waiting, claimed) = Default::default();
        let (bell, hurry) = (Notify::new(), Notify::new());
        let (finishing, stopped) = (CancellationToken::new(), AtomicBool::new(false));
        let (lost, full) = (OnceLock::new(), AtomicBool::new(false));
        Arc::new(Self {
            keeping,
            began: Instant::now(),
            marked,
            bell,
            hurry,
            writing,
            pass,
            waiting,
            full,
            finishing,
            stopped,
            lost,
            claimed,
        })
    }

    /// Who hears of sessions that belong to somebody else: they are to be dropped without another word to the store.
    pub(crate) fn tell_lost(&self, hear: impl Fn(&SessionId) + Send + Sync + 'static) {
        if self.lost.set(Box::new(hear)).is_err() {
            tracing::error!("somebody hears of lost sessions already");
        }
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.keeping.store
    }

    pub(crate) fn nodes(&self) -> &Arc<Membership> {
        &self.keeping.nodes
    }

    pub(crate) fn me(&self) -> &NodeName {
        self.keeping.nodes.me()
    }

    /// How long what is written is kept: longer than nobody may use it, so that not every use has to be written.
    pub(crate) fn ttl(&self) -> Duration {
        self.keeping.ttl.saturating_add(self.touch_every())
    }

    /// How often the lifetime of what is kept of a session begins anew while the session is used, at most.
    pub(crate) fn touch_every(&self) -> Duration {
        (self.keeping.ttl / TOUCH_PART).max(TOUCH_EVERY_MIN)
    }

    /// How long a session is kept that nobody has used since then.
    pub(crate) fn ttl_since(&self, used: Duration) -> Duration {
        self.keeping.ttl.saturating_sub(self.up().saturating_sub(used)).max(TOUCH_EVERY_MIN)
    }

    /// How long this has been keeping sessions.
    pub(crate) fn up(&self) -> Duration {
        self.began.elapsed()
    }

    /// Whether a client is told its session only when that is written.
    pub(crate) fn is_shared(&self) -> bool {
        self.keeping.shared
    }

    pub(crate) fn generation(&self) -> u64 {
        self.keeping.nodes.generation()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Whether a session is known to be ours, or nobody can say otherwise.
    pub(crate) fn is_verified(&self, writing: &Writing) -> bool {
        self.generation() <= writing.verified() || self.store().facts().away_since.is_some()
    }

    /// A session is new, or awake again: it is written from here on.
    pub(crate) fn begin(&self, writing: &Arc<Writing>) {
        writing.use_it(self);
        self.writing.lock().insert(writing.id.as_str().into(), writing.clone());
        self.mark(&writing.id);
    }

    /// Whether a new session could be kept, as far as is known, beside these that are here.
    pub(crate) fn has_room(&self, sessions: usize) -> bool {
        let ending = self.writing.lock().len().saturating_sub(sessions);
        let away = self.is_shared() && self.store().facts().away_since.is_some();
        ending <= ENDING_MAX && !away
    }

    /// Whether the store had no room when it was last written to.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    fn note_full(&self, full: bool) {
        if full && !self.full.swap(true, Ordering::Relaxed) {
            tracing::warn!("store_full: the store has no room; new sessions are refused until it has");
        } else if !full {
            self.full.store(false, Ordering::Relaxed);
        }
    }

    /// Something of a session is to be written.
    pub(crate) fn mark(&self, id: &SessionId) {
        if !self.is_stopped() && self.marked.lock().insert(id.as_str().into()) {
            self.bell.notify_one();
        }
    }

    /// A session has ended: what is kept of it goes.
    pub(crate) fn forget(&self, id: &SessionId) {
        if self.is_stopped() {
            return;
        }
        if let Some(writing) = self.writing.lock().get(id.as_str()) {
            writing.end();
        }
        self.mark(id);
    }

    /// Whether nothing may be answered before what it changed is written.
    pub(crate) fn writes_first(&self) -> bool {
        self.keeping.gather.is_zero()
    }

    /// Writes what there is of one session, now. False when the store does not take it.
    pub(crate) async fn write_now(&self, writing: &Writing) -> bool {
        let wrote = writing.write(self, true).await;
        self.after(writing, wrote);
        wrote == Wrote::All
    }

    /// Makes a session ours that is new, unless somebody else was faster.
    pub(crate) async fn claim(&self, writing: &Arc<Writing>) -> Claim {
        if !self.writes(writing) {
            writing.set_verified(self.generation());
            self.begin(writing);
        }
        let wrote = writing.write(self, true).await;
        self.after(writing, wrote);
        match wrote {
            Wrote::All => Claim::Ours,
            Wrote::Later(_) => Claim::Unknown,
            Wrote::Ended(_) => Claim::Lost,
        }
    }

    /// Whether a session is written.
    pub(crate) fn writes(&self, writing: &Arc<Writing>) -> bool {
        self.writing_of(&writing.id).is_some_and(|known| Arc::ptr_eq(&known, writing))
    }

    /// What is being written of a session, or removed.
    pub(crate) fn writing_of(&self, id: &SessionId) -> Option<Arc<Writing>> {
        self.writing.lock().get(id.as_str()).cloned()
    }

    /// Waits until nothing is kept of a session that has ended, for as long as is reasonable.
    pub(crate) async fn erased(&self, writing: &Writing) {
        let gone = async {
            while !self.is_stopped() && !matches!(writing.write(self, true).await, Wrote::Ended(_)) {
                tokio::time::sleep(RETRY.0).await;
            }
        };
        if tokio::time::timeout(ERASE_MAX, gone).await.is_err() {
            tracing::warn!(session = writing.hash(), "what is kept of a session that has ended is removed later");
        }
    }

    /// Writes one session and lets go of it. False when it stays ours.
    pub(crate) async fn let_go(&self, writing: &Writing) -> bool {
        let wrote = writing.release(self).await;
        self.after(writing, wrote);
        let gone = matches!(wrote, Wrote::Ended(_));
        if !gone {
            self.mark(&writing.id);
        }
        gone
    }

    /// Writes what there is and lets go of every session, and then writes nothing more: the process ends, and its sessions
    /// are to come back.
    pub(crate) fn finish(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.finish_all())
    }

    async fn finish_all(&self) {
        self.finishing.cancel();
        let until = Instant::now() + FINISH_MAX;
        let all: Vec<_> = self.writing.lock().values().cloned().collect();
        let releases: Vec<BoxFuture<'_, bool>> =
            all.into_iter().map(|writing| Box::pin(self.released(writing, until)) as BoxFuture<'_, bool>).collect();
        let releases = stream::iter(releases).buffer_unordered(AT_ONCE * 4);
        let kept_back = releases.fold(0, |kept, done| std::future::ready(kept + usize::from(!done))).await;
        self.stopped.store(true, Ordering::Release);
        if kept_back != 0 {
            tracing::warn!(sessions = kept_back, "sessions could not be written to their end");
        }
    }

    /// Lets go of one session, as soon as the store lets us; false when it does not in time.
    async fn released(&self, writing: Arc<Writing>, until: Instant) -> bool {
        loop {
            match tokio::time::timeout_at(until, writing.release(self)).await {
                Ok(Wrote::Ended(_)) => return true,
                Ok(Wrote::All | Wrote::Later(_)) if Instant::now() + RETRY.0 < until => {
                    tokio::time::sleep(RETRY.0).await;
                }
                Ok(Wrote::All | Wrote::Later(_)) | Err(_) => return false,
            }
        }
    }

    /// Writes until the process ends. Cancel safe: what was noted and not written is lost, as with the process.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut again = None;
        loop {
            tokio::select! {
                () = self.bell.notified() => self.gather().await,
                () = sleep_until(again) => {}
                () = self.finishing.cancelled() => return,
            }
            let passed = tokio::select! {
                passed = self.pass(false) => passed,
                () = self.finishing.cancelled() => return,
            };
            again = passed.map(|wait| Instant::now() + wait);
        }
    }

    /// Lets changes gather, unless somebody waits for them.
    async fn gather(&self) {
        tokio::select! {
            () = tokio::time::sleep(self.keeping.gather) => {}
            () = self.hurry.notified() => {}
        }
    }

    /// Writes what is marked; false when some of it has to be tried again.
    #[cfg(test)]
    pub(crate) async fn write_marked(&self) -> bool {
        self.pass(true).await.is_none()
    }

    /// Writes what is marked. After what time some of it has to be tried again, if any.
    async fn pass(&self, urgent: bool) -> Option<Duration> {
        let _one_at_a_time = self.pass.lock().await;
        let (marked, left) = self.take_marked();
        let away = AtomicBool::new(false);
        let writes = marked.into_iter().map(|writing| {
            let away = &away;
            async move {
                // One is enough to find out that nobody answers.
                let wrote = match away.load(Ordering::Relaxed) {
                    true => Wrote::Later(RETRY_UNTRIED),
                    false => writing.write(self, urgent).await,
                };
                self.after(&writing, wrote);
                let Wrote::Later(wait) = wrote else { return None };
                away.fetch_or(self.store().facts().away_since.is_some(), Ordering::Relaxed);
                self.marked.lock().insert(writing.id.as_str().into());
                Some(wait)
            }
        });
        let waits = stream::iter(writes).buffer_unordered(AT_ONCE);
        let wait = waits.fold(None, |least, wait| async move { least.into_iter().chain(wait).min() }).await;
        match left && !away.load(Ordering::Relaxed) {
            true => Some(Duration::ZERO),
            false => wait,
        }
    }

    /// What is marked: sessions that go on come first, and of those that have ended so many as may hold the others up.
    /// Whether some are left.
    fn take_marked(&self) -> (Vec<Arc<Writing>>, bool) {
        let mut marked = self.marked.lock();
        let writing = self.writing.lock();
        let found = std::mem::take(&mut *marked).into_iter().filter_map(|id| writing.get(&id).cloned());
        let (mut ended, mut all): (Vec<_>, Vec<_>) = found.partition(|writing| writing.is_over());
        let later = ended.split_off(ended.len().min(ERASED_AT_ONCE));
        marked.extend(later.iter().map(|writing| Box::from(writing.id.as_str())));
        all.append(&mut ended);
        (all, !later.is_empty())
    }

    /// What follows from a write.
    fn after(&self, writing: &Writing, wrote: Wrote) {
        let Wrote::Ended(end) = wrote else { return };
        let was_here = self.put_down(writing);
        if end == Ended::Lost
            && was_here
            && let Some(hear) = self.lost.get()
        {
            hear(&writing.id);
        }
    }

    /// Nothing more is written of this. False when another process of writing has taken its place: the session is awake
    /// again.
    fn put_down(&self, writing: &Writing) -> bool {
        let mut all = self.writing.lock();
        let is_here = all.get(writing.id.as_str()).is_some_and(|here| std::ptr::eq(&raw const **here, writing));
        if is_here {
            all.remove(writing.id.as_str());
        }
        is_here
    }

    /// Counts what waits anew; false when that is too much.
    fn holds(&self, before: usize, now: usize) -> bool {
        let all = self.waiting.fetch_add(now, Ordering::Relaxed) + now;
        self.waiting.fetch_sub(before, Ordering::Relaxed);
        now == 0 || all.saturating_sub(before) <= WAITING_BYTES_MAX
    }

    /// A session was claimed with this owner, and could not be read: whoever asks next may go on.
    pub(crate) fn note_claimed(&self, id: &str, owner: Owner, may_miss: bool) {
        let mut claimed = self.claimed.lock();
        if claimed.len() < CLAIMED_MAX {
            claimed.insert(id.into(), (owner, may_miss));
        }
    }

    /// A session that was claimed with this very owner and not read, and whether changes may be missing.
    pub(crate) fn take_claimed(&self, id: &str, owner: &Owner) -> Option<bool> {
        let (claimed, may_miss) = self.claimed.lock().remove(id)?;
        (claimed == *owner).then_some(may_miss)
    }

    /// How many sessions are written here.
    #[cfg(test)]
    pub(crate) fn awake(&self) -> usize {
        self.writing.lock().len()
    }
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("keeping", &self.keeping).finish_non_exhaustive()
    }
}
