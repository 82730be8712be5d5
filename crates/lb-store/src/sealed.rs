//! A store whose values nobody but us can read, make up, change, or move to another key.
//!
//! Stands over any other store. What is set or appended is encrypted and bound to the full name of its key, an entry
//! also to its position. What does not open is not there: whoever can write to the server can take things away, as he
//! can by deleting them, but cannot give us anything. The same value under the same key is always sealed alike, so
//! that guards on exact bytes hold. Counts and claims are made by the store itself and stay plain; a count is read by
//! adding 0. Messages on channels are not sealed.

mod cipher;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;

pub use self::cipher::SealKeys;
use crate::store::{Facts, Pending, Scan};
use crate::{
    Applied, Batch, Claim, Error, Guard, Key, Limits, Outcome, Refusal, Settings, Step, Store, Subscription, plan,
};

/// How often a guard meets something unreadable in its way before the batch counts as refused.
const TRIES_MAX: usize = 4;

/// How far apart two lines of the log are: whoever fills a server with rubbish must not fill the log, too.
const ALARM_EVERY: Duration = Duration::from_secs(1);

/// Seals what another store keeps.
pub(crate) struct Sealed {
    inner: Arc<dyn Store>,
    keys: SealKeys,
    prefix: String,
    limits: Limits,
    refused: AtomicU64,
    alarmed: Mutex<Option<Instant>>,
}

impl Sealed {
    /// Seals what is kept in a store that was opened with [`below`](Self::below).
    pub(crate) fn over(inner: Arc<dyn Store>, keys: SealKeys, settings: &Settings) -> Self {
        Self {
            inner,
            keys,
            prefix: settings.prefix.clone(),
            limits: settings.limits.clone(),
            refused: AtomicU64::new(0),
            alarmed: Mutex::default(),
        }
    }

    /// The settings of the store below: what is sealed is longer, and guards know both keys of a rotation.
    pub(crate) fn below(settings: &Settings) -> Settings {
        let mut below = settings.clone();
        let room = cipher::OVERHEAD * crate::STEPS_MAX;
        below.limits.value_bytes_max = settings.limits.value_bytes_max.saturating_mul(2).saturating_add(room);
        Settings { seal: None, ..below }
    }

    /// What a value under this key is bound to.
    fn value_at(&self, key: &Key) -> Vec<u8> {
        [b"value\0", self.prefix.as_bytes(), key.as_str().as_bytes()].concat()
    }

    /// What an entry at this position is bound to.
    fn entry_at(&self, key: &Key, seq: u64) -> Vec<u8> {
        [b"entry\0", self.prefix.as_bytes(), key.as_str().as_bytes(), b"\0", &seq.to_be_bytes()].concat()
    }

    fn seal(&self, batch: &Batch) -> Result<Batch, Error> {
        let guards = batch.guards.iter().map(|guard| self.seal_guard(guard));
        let steps = batch.steps.iter().map(|step| self.seal_step(step));
        Ok(Batch { guards: guards.collect::<Result<_, _>>()?, steps: steps.collect::<Result<_, _>>()? })
    }

    fn seal_guard(&self, guard: &Guard) -> Result<Guard, Error> {
        let Guard { key, holds: Some(value), claim: false, .. } = guard else { return Ok(guard.clone()) };
        let (holds, or) = self.keys.every_seal(&self.value_at(key), value)?;
        Ok(Guard { holds: Some(holds), or, ..guard.clone() })
    }

    fn seal_step(&self, step: &Step) -> Result<Step, Error> {
        let mut step = step.clone();
        match &mut step {
            Step::Set { key, value, .. } => *value = self.keys.seal(&self.value_at(key), value)?,
            Step::Append { key, seq, entry, .. } => *entry = self.keys.seal(&self.entry_at(key, *seq), entry)?,
            Step::Delete { .. }
            | Step::Take { .. }
            | Step::Add { .. }
            | Step::Expire { .. }
            | Step::Trim { .. }
            | Step::Claim { .. } => {}
        }
        Ok(step)
    }

    /// What was kept; `None`, and an alarm, when we did not keep it there.
    fn open(&self, key: &Key, bound_to: &[u8], kept: &Bytes) -> Option<Bytes> {
        let opened = self.keys.open(bound_to, kept);
        if opened.is_none() {
            self.alarm(key);
        }
        opened
    }

    fn alarm(&self, key: &Key) {
        let refused = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        let mut alarmed = self.alarmed.lock();
        if alarmed.is_none_or(|last| ALARM_EVERY <= last.elapsed()) {
            *alarmed = Some(Instant::now());
            tracing::error!(
                event = "store_record_refused", %key, refused,
                "the store holds what was not sealed with the key of this process; either others write there, or theirs is another"
            );
        }
    }

    async fn apply_sealed(&self, batch: Batch) -> Result<Applied, Error> {
        batch.check(&self.limits)?;
        let mut sealed = self.seal(&batch)?;
        let mut applied = self.inner.apply(sealed.clone()).await?;
        for _ in 0..TRIES_MAX {
            let Applied::Refused(Refusal::Guard(index)) = applied else { break };
            // What counts as absent must not be in the way; if it is replaced meanwhile, it is looked at again.
            let Some(unreadable) = self.in_the_way(batch.guards.get(index)).await? else { break };
            if let Some(guard) = sealed.guards.get_mut(index) {
                guard.holds = Some(unreadable);
            }
            applied = self.inner.apply(sealed.clone()).await?;
        }
        Ok(match applied {
            Applied::Done(outcomes) => Applied::Done(self.open_outcomes(&batch, outcomes)),
            refused @ Applied::Refused(_) => refused,
        })
    }

    /// What lies under a key that should be empty, if nobody could have put it there rightly.
    async fn in_the_way(&self, guard: Option<&Guard>) -> Result<Option<Bytes>, Error> {
        let Some(Guard { key, holds: None, .. }) = guard else { return Ok(None) };
        let Some(kept) = self.inner.get(key).await? else {
            // It has just gone: an empty place is what was asked for, but not what was found.
            return Ok(None);
        };
        if plan::number(&kept).is_some() || Claim::read(&kept).is_some() {
            return Ok(None);
        }
        Ok(if self.open(key, &self.value_at(key), &kept).is_none() { Some(kept) } else { None })
    }

    fn open_outcomes(&self, batch: &Batch, outcomes: Vec<Outcome>) -> Vec<Outcome> {
        let open = |(step, outcome): (&Step, Outcome)| match outcome {
            Outcome::Taken(Some(kept)) => Outcome::Taken(self.open(step.key(), &self.value_at(step.key()), &kept)),
            other => other,
        };
        batch.steps.iter().zip(outcomes).map(open).collect()
    }

    async fn range_opened(&self, key: &Key, mut after: u64, limit: usize) -> Result<Vec<(u64, Bytes)>, Error> {
        let mut opened = Vec::new();
        loop {
            // Those that do not open do not count, so that a page is only short at the end of a stream.
            let wanted = limit - opened.len();
            let page = self.inner.range(key, after, wanted).await?;
            let is_last = page.len() < wanted || page.is_empty();
            for (seq, kept) in page {
                after = seq;
                opened.extend(self.open(key, &self.entry_at(key, seq), &kept).map(|entry| (seq, entry)));
            }
            if is_last || limit <= opened.len() {
                return Ok(opened);
            }
        }
    }
}

impl Store for Sealed {
    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Option<Bytes>> {
        let get = async move {
            let kept = self.inner.get(key).await?;
            Ok(kept.and_then(|kept| self.open(key, &self.value_at(key), &kept)))
        };
        get.boxed()
    }

    fn apply(&self, batch: Batch) -> Pending<'_, Applied> {
        self.apply_sealed(batch).boxed()
    }

    fn range<'a>(&'a self, key: &'a Key, after: u64, limit: usize) -> Pending<'a, Vec<(u64, Bytes)>> {
        self.range_opened(key, after, limit).boxed()
    }

    fn scan(&self, prefix: &str) -> Scan {
        self.inner.scan(prefix)
    }

    fn publish<'a>(&'a self, channel: &'a Key, message: Bytes) -> Pending<'a, ()> {
        self.inner.publish(channel, message)
    }

    fn subscribe<'a>(&'a self, channel: &'a Key) -> Pending<'a, Subscription> {
        self.inner.subscribe(channel)
    }

    fn ping(&self) -> Pending<'_, ()> {
        self.inner.ping()
    }

    fn time(&self) -> Pending<'_, Option<SystemTime>> {
        self.inner.time()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }

    fn facts(&self) -> Facts {
        Facts { refused: self.refused.load(Ordering::Relaxed), ..self.inner.facts() }
    }
}

impl std::fmt::Debug for Sealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealed").field("inner", &self.inner).finish_non_exhaustive()
    }
}
