//! What is done at once, or not at all.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;

use crate::claim::Claim;
use crate::{Error, Key, Limits};

/// How many steps, and how many guards, a batch has at most.
pub const STEPS_MAX: usize = 1_024;

/// The largest number that every store counts exactly: positions of streams and counters stay within it.
pub(crate) const NUMBER_MAX: u64 = (1 << 53) - 1;

/// Longer than anything needs; keeps deadlines far from the end of every clock.
const TTL_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Guards and steps that are checked and done as one.
///
/// A key stands in one step only, except that several entries may be appended to one stream. All keys have one tag; see
/// [`Key`]. Every step that writes says for how long.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub(crate) guards: Vec<Guard>,
    pub(crate) steps: Vec<Step>,
}

/// What must hold for a batch to be done.
#[derive(Clone, Debug)]
pub struct Guard {
    /// The key.
    pub key: Key,
    /// The very bytes that it holds; `None` when it must not be there.
    pub holds: Option<Bytes>,
    /// Other bytes that will do as well.
    pub(crate) or: Vec<Bytes>,
    /// Whether the bytes are those of a claim, which the store itself has made.
    pub(crate) claim: bool,
}

/// One change.
#[derive(Clone, Debug)]
pub enum Step {
    /// Keeps a value, whatever was there.
    Set {
        /// Where.
        key: Key,
        /// What.
        value: Bytes,
        /// For how long.
        ttl: Duration,
    },
    /// Removes whatever is there.
    Delete {
        /// Where.
        key: Key,
    },
    /// Removes a value and returns it.
    Take {
        /// Where.
        key: Key,
    },
    /// Counts; the lifetime begins when the counter does.
    Add {
        /// Where.
        key: Key,
        /// How much.
        by: i64,
        /// For how long, from the first time on.
        ttl: Duration,
    },
    /// Gives what is there a new lifetime, from now on.
    Expire {
        /// Where.
        key: Key,
        /// For how long.
        ttl: Duration,
    },
    /// Adds to the end of a stream, which begins with it if need be. A position that does not grow refuses the batch.
    Append {
        /// Where.
        key: Key,
        /// The caller's number for it, from 1 on.
        seq: u64,
        /// What.
        entry: Bytes,
        /// How many of the newest entries are kept.
        keep: u64,
        /// For how long the stream lives, from now on.
        ttl: Duration,
    },
    /// Removes the entries of a stream that come before a position.
    Trim {
        /// Where.
        key: Key,
        /// The first position that stays.
        before: u64,
    },
    /// Takes hold of a key that is free or held by the same holder.
    Claim {
        /// Where.
        key: Key,
        /// Who: 1 to 512 bytes.
        holder: String,
        /// For how long.
        ttl: Duration,
    },
}

/// What came of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// Every step was done; one outcome for each.
    Done(Vec<Outcome>),
    /// Nothing was done.
    Refused(Refusal),
}

/// Why a batch was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This guard, counted from 0, does not hold.
    Guard(usize),
    /// This step, counted from 0, appends at a position that is not after the last one.
    Order {
        /// Which step.
        step: usize,
        /// The position that the stream has reached.
        last: u64,
    },
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Of [`Step::Set`] and [`Step::Append`].
    Done,
    /// Of [`Step::Take`]: what was there.
    Taken(Option<Bytes>),
    /// Of [`Step::Add`]: the new count.
    Count(i64),
    /// Of [`Step::Delete`] and [`Step::Expire`]: whether there was something.
    Found(bool),
    /// Of [`Step::Trim`]: how many entries went.
    Trimmed(u64),
    /// Of [`Step::Claim`]: it is held from now on.
    Claimed(Claim),
    /// Of [`Step::Claim`]: another one holds it.
    Held(Claim),
}

impl Step {
    /// The key that it changes.
    pub fn key(&self) -> &Key {
        match self {
            Self::Set { key, .. }
            | Self::Delete { key }
            | Self::Take { key }
            | Self::Add { key, .. }
            | Self::Expire { key, .. }
            | Self::Append { key, .. }
            | Self::Trim { key, .. }
            | Self::Claim { key, .. } => key,
        }
    }

    fn ttl(&self) -> Option<Duration> {
        match self {
            Self::Set { ttl, .. }
            | Self::Add { ttl, .. }
            | Self::Expire { ttl, .. }
            | Self::Append { ttl, .. }
            | Self::Claim { ttl, .. } => Some(*ttl),
            Self::Delete { .. } | Self::Take { .. } | Self::Trim { .. } => None,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Set { value, .. } => value.len(),
            Self::Append { entry, .. } => entry.len(),
            _ => 0,
        }
    }

    /// Whether nothing grows by it, so that it may be done where there is no room.
    fn shrinks(&self) -> bool {
        match self {
            Self::Delete { .. } | Self::Take { .. } | Self::Expire { .. } | Self::Trim { .. } => true,
            Self::Set { .. } | Self::Add { .. } | Self::Append { .. } | Self::Claim { .. } => false,
        }
    }

    fn check_numbers(&self) -> Result<(), Error> {
        let wrong = |why| Err(Error::WrongShape(why));
        if self.ttl().is_some_and(|ttl| ttl < Duration::from_millis(1) || TTL_MAX < ttl) {
            return wrong("a lifetime is from 1 ms to 10 years");
        }
        match self {
            Self::Add { by, .. } if NUMBER_MAX < by.unsigned_abs() => wrong("a count stays below 2^53"),
            Self::Append { seq, .. } if *seq == 0 || NUMBER_MAX < *seq => wrong("a position is from 1 to 2^53 - 1"),
            Self::Append { keep, .. } if *keep == 0 || NUMBER_MAX < *keep => wrong("a stream keeps at least one entry"),
            Self::Trim { before, .. } if NUMBER_MAX < *before => wrong("a position is from 1 to 2^53 - 1"),
            Self::Claim { holder, .. } if holder.is_empty() || 512 < holder.len() => {
                wrong("a holder has 1 to 512 bytes")
            }
            _ => Ok(()),
        }
    }
}

impl Batch {
    /// One without guards and steps.
    pub fn new() -> Self {
        Self::default()
    }

    /// Does it only if a key holds exactly this; `None` when it must not be there.
    #[must_use]
    pub fn when(mut self, key: &Key, holds: Option<Bytes>) -> Self {
        self.guards.push(Guard { key: key.clone(), holds, or: Vec::new(), claim: false });
        self
    }

    /// Does it only if a claim is still held as it was given.
    #[must_use]
    pub fn when_held(mut self, key: &Key, claim: &Claim) -> Self {
        self.guards.push(Guard { key: key.clone(), holds: Some(claim.value()), or: Vec::new(), claim: true });
        self
    }

    /// Adds a step.
    #[must_use]
    pub fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// [`Step::Set`].
    #[must_use]
    pub fn set(self, key: &Key, value: impl Into<Bytes>, ttl: Duration) -> Self {
        self.step(Step::Set { key: key.clone(), value: value.into(), ttl })
    }

    /// [`Step::Delete`].
    #[must_use]
    pub fn delete(self, key: &Key) -> Self {
        self.step(Step::Delete { key: key.clone() })
    }

    /// [`Step::Take`].
    #[must_use]
    pub fn take(self, key: &Key) -> Self {
        self.step(Step::Take { key: key.clone() })
    }

    /// [`Step::Add`].
    #[must_use]
    pub fn add(self, key: &Key, by: i64, ttl: Duration) -> Self {
        self.step(Step::Add { key: key.clone(), by, ttl })
    }

    /// [`Step::Expire`].
    #[must_use]
    pub fn expire(self, key: &Key, ttl: Duration) -> Self {
        self.step(Step::Expire { key: key.clone(), ttl })
    }

    /// [`Step::Append`].
    #[must_use]
    pub fn append(self, key: &Key, seq: u64, entry: impl Into<Bytes>, keep: u64, ttl: Duration) -> Self {
        self.step(Step::Append { key: key.clone(), seq, entry: entry.into(), keep, ttl })
    }

    /// [`Step::Trim`].
    #[must_use]
    pub fn trim(self, key: &Key, before: u64) -> Self {
        self.step(Step::Trim { key: key.clone(), before })
    }

    /// [`Step::Claim`].
    #[must_use]
    pub fn claim(self, key: &Key, holder: &str, ttl: Duration) -> Self {
        self.step(Step::Claim { key: key.clone(), holder: holder.to_owned(), ttl })
    }

    /// Whether nothing grows by it.
    pub(crate) fn only_shrinks(&self) -> bool {
        self.steps.iter().all(Step::shrinks)
    }

    /// The bytes that it adds.
    pub(crate) fn bytes(&self) -> usize {
        self.steps.iter().map(Step::bytes).sum()
    }

    /// What every store refuses before it looks at its keys.
    pub(crate) fn check(&self, limits: &Limits) -> Result<(), Error> {
        if STEPS_MAX < self.steps.len() || STEPS_MAX < self.guards.len() {
            return Err(Error::WrongShape("a batch has at most 1,024 steps and 1,024 guards"));
        }
        self.check_tags()?;
        self.check_keys()?;
        let mut total = 0;
        for step in &self.steps {
            step.check_numbers()?;
            limits.check_value(step.bytes())?;
            total += step.bytes();
        }
        let guarded = self.guards.iter().flat_map(|guard| guard.holds.iter().chain(&guard.or)).map(Bytes::len);
        limits.check_batch(total + guarded.sum::<usize>())
    }

    fn check_tags(&self) -> Result<(), Error> {
        let guards = self.guards.iter().map(|guard| &guard.key);
        let mut keys = guards.chain(self.steps.iter().map(Step::key));
        let Some(first) = keys.next() else { return Ok(()) };
        match keys.find(|key| !key.lies_with(first)) {
            None => Ok(()),
            Some(other) => Err(Error::Tags(first.to_string(), other.to_string())),
        }
    }

    /// What a step finds is then what was there before the batch, and can be checked before anything is done.
    fn check_keys(&self) -> Result<(), Error> {
        let mut seen: HashMap<&str, bool> = HashMap::with_capacity(self.steps.len());
        for step in &self.steps {
            let appends = matches!(step, Step::Append { .. });
            let again = seen.insert(step.key().as_str(), appends);
            if again.is_some_and(|before| !before || !appends) {
                return Err(Error::WrongShape("a key stands in one step of a batch, appends to one stream excepted"));
            }
        }
        Ok(())
    }
}

/// A lifetime in the unit of every store, never shorter than asked for.
pub(crate) fn milliseconds(ttl: Duration) -> u64 {
    let whole = ttl.as_micros().div_ceil(1_000);
    u64::try_from(whole).unwrap_or(u64::MAX)
}
