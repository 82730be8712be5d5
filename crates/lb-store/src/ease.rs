//! What is easier to call than a batch, for every store.

use std::time::Duration;

use bytes::Bytes;

use crate::claim::{Claim, Claimed};
use crate::{Applied, Batch, Error, Key, Outcome, Refusal, Store};

/// What came of appending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// It is there.
    Done,
    /// The stream has reached this position already.
    Behind(u64),
}

const ANSWER: Error = Error::WrongShape("the store answered with the outcome of another step");

impl dyn Store + '_ {
    /// Keeps a value, whatever was there.
    pub async fn set(&self, key: &Key, value: impl Into<Bytes>, ttl: Duration) -> Result<(), Error> {
        self.one(Batch::new().set(key, value, ttl)).await.map(drop)
    }

    /// Removes a value and returns it.
    pub async fn take(&self, key: &Key) -> Result<Option<Bytes>, Error> {
        match self.one(Batch::new().take(key)).await? {
            Outcome::Taken(value) => Ok(value),
            _ => Err(ANSWER),
        }
    }

    /// Keeps a value if nothing is there; whether it did.
    pub async fn set_if_absent(&self, key: &Key, value: impl Into<Bytes>, ttl: Duration) -> Result<bool, Error> {
        self.compare_and_set(key, None, value, ttl).await
    }

    /// Keeps a value if this one is there; whether it did.
    pub async fn compare_and_set(
        &self,
        key: &Key,
        holds: Option<Bytes>,
        value: impl Into<Bytes>,
        ttl: Duration,
    ) -> Result<bool, Error> {
        Ok(self.guarded(Batch::new().when(key, holds).set(key, value, ttl)).await?.is_some())
    }

    /// Counts, and returns the new count. The lifetime begins with the counter.
    pub async fn add(&self, key: &Key, by: i64, ttl: Duration) -> Result<i64, Error> {
        match self.one(Batch::new().add(key, by, ttl)).await? {
            Outcome::Count(count) => Ok(count),
            _ => Err(ANSWER),
        }
    }

    /// Gives what is there a new lifetime; whether something was.
    pub async fn expire(&self, key: &Key, ttl: Duration) -> Result<bool, Error> {
        self.found(Batch::new().expire(key, ttl)).await
    }

    /// Removes what is there; whether something was.
    pub async fn delete(&self, key: &Key) -> Result<bool, Error> {
        self.found(Batch::new().delete(key)).await
    }

    /// Adds to a stream, of which the newest `keep` entries stay.
    pub async fn append(
        &self,
        key: &Key,
        seq: u64,
        entry: impl Into<Bytes>,
        keep: u64,
        ttl: Duration,
    ) -> Result<Appended, Error> {
        match self.apply(Batch::new().append(key, seq, entry, keep, ttl)).await? {
            Applied::Done(_) => Ok(Appended::Done),
            Applied::Refused(Refusal::Order { last, .. }) => Ok(Appended::Behind(last)),
            Applied::Refused(Refusal::Guard(_)) => Err(ANSWER),
        }
    }

    /// Removes the entries of a stream before a position; how many.
    pub async fn trim(&self, key: &Key, before: u64) -> Result<u64, Error> {
        match self.one(Batch::new().trim(key, before)).await? {
            Outcome::Trimmed(count) => Ok(count),
            _ => Err(ANSWER),
        }
    }

    /// Takes hold of a key if it is free or ours.
    pub async fn claim(&self, key: &Key, holder: &str, ttl: Duration) -> Result<Claimed, Error> {
        match self.one(Batch::new().claim(key, holder, ttl)).await? {
            Outcome::Claimed(claim) => Ok(Claimed::Ours(claim)),
            Outcome::Held(claim) => Ok(Claimed::Theirs(claim)),
            _ => Err(ANSWER),
        }
    }

    /// Holds a claim for longer, if it is still this one; whether it is.
    pub async fn renew(&self, key: &Key, claim: &Claim, ttl: Duration) -> Result<bool, Error> {
        Ok(self.guarded(Batch::new().when_held(key, claim).expire(key, ttl)).await?.is_some())
    }

    /// Lets go of a claim, if it is still this one; whether it was. The next one gets a larger token all the same.
    pub async fn release(&self, key: &Key, claim: &Claim) -> Result<bool, Error> {
        Ok(self.guarded(Batch::new().when_held(key, claim).delete(key)).await?.is_some())
    }

    /// The outcome of a batch of one step that nothing guards.
    async fn one(&self, batch: Batch) -> Result<Outcome, Error> {
        self.guarded(batch).await?.ok_or(ANSWER)
    }

    /// The same where a guard may refuse it.
    async fn guarded(&self, batch: Batch) -> Result<Option<Outcome>, Error> {
        match self.apply(batch).await? {
            Applied::Done(outcomes) => outcomes.into_iter().next().map(Some).ok_or(ANSWER),
            Applied::Refused(_) => Ok(None),
        }
    }

    async fn found(&self, batch: Batch) -> Result<bool, Error> {
        match self.one(batch).await? {
            Outcome::Found(found) => Ok(found),
            _ => Err(ANSWER),
        }
    }
}
