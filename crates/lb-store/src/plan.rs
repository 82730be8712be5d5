//! How a batch is done where this process holds the keys: everything is checked before anything is changed.
//!
//! Valkey does the same in `valkey/apply.lua`; the conformance suite holds both against one another.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;

use crate::batch::NUMBER_MAX;
use crate::claim::Claim;
use crate::{Applied, Batch, Error, Guard, Key, Outcome, Refusal, Step};

/// How long the last token of a claim outlives the claim.
pub(crate) const TOKEN_KEPT: Duration = Duration::from_secs(86_400);

/// What is under a key that has not expired.
pub(crate) enum Seen {
    Nothing,
    Value(Bytes),
    Stream { last: u64 },
}

/// Keys that a batch is done on. `F` is what may go wrong below, beside what a batch may.
pub(crate) trait Table {
    type Failure: From<Error>;

    fn see(&self, key: &str) -> Result<Seen, Self::Failure>;
    fn put(&mut self, key: &str, value: Bytes, ttl: Duration) -> Result<(), Self::Failure>;
    /// Replaces a value that is there, for as long as it lives anyway.
    fn change(&mut self, key: &str, value: Bytes) -> Result<(), Self::Failure>;
    fn touch(&mut self, key: &str, ttl: Duration) -> Result<bool, Self::Failure>;
    fn remove(&mut self, key: &str) -> Result<bool, Self::Failure>;
    fn push(&mut self, key: &str, seq: u64, entry: Bytes, keep: u64, ttl: Duration) -> Result<(), Self::Failure>;
    fn trim(&mut self, key: &str, before: u64) -> Result<u64, Self::Failure>;
    /// Whether there is room for what the batch adds.
    fn room(&mut self, batch: &Batch) -> Result<(), Self::Failure>;
}

/// Does a batch that was checked by itself. `clock` is the store's, in microseconds since 1970.
pub(crate) fn run<T: Table>(table: &mut T, batch: &Batch, clock: u64) -> Result<Applied, T::Failure> {
    for (index, guard) in batch.guards.iter().enumerate() {
        if !holds(table, guard)? {
            return Ok(Applied::Refused(Refusal::Guard(index)));
        }
    }
    if let Some(refusal) = check(table, batch)? {
        return Ok(Applied::Refused(refusal));
    }
    table.room(batch)?;
    let outcomes = batch.steps.iter().map(|step| perform(table, step, clock));
    Ok(Applied::Done(outcomes.collect::<Result<_, _>>()?))
}

fn holds<T: Table>(table: &T, guard: &Guard) -> Result<bool, T::Failure> {
    match table.see(guard.key.as_str())? {
        Seen::Nothing => Ok(guard.holds.is_none()),
        Seen::Value(value) => Ok(guard.holds.as_ref() == Some(&value) || guard.or.contains(&value)),
        Seen::Stream { .. } => Err(stream(&guard.key).into()),
    }
}

/// What a step would find wrong.
fn check<T: Table>(table: &T, batch: &Batch) -> Result<Option<Refusal>, T::Failure> {
    let mut reached: HashMap<&str, u64> = HashMap::new();
    for (index, step) in batch.steps.iter().enumerate() {
        match step {
            Step::Set { .. } | Step::Delete { .. } | Step::Expire { .. } => {}
            Step::Take { key } => drop(value(table, key)?),
            Step::Add { key, by, .. } => drop(sum(table, key, *by)?),
            Step::Claim { key, .. } => drop(claim(table, key)?),
            Step::Trim { key, .. } => drop(position(table, key)?),
            Step::Append { key, seq, .. } => {
                let last = match reached.get(key.as_str()) {
                    Some(last) => *last,
                    None => position(table, key)?,
                };
                if *seq <= last {
                    return Ok(Some(Refusal::Order { step: index, last }));
                }
                reached.insert(key.as_str(), *seq);
            }
        }
    }
    Ok(None)
}

fn perform<T: Table>(table: &mut T, step: &Step, clock: u64) -> Result<Outcome, T::Failure> {
    match step {
        Step::Set { key, value, ttl } => {
            table.put(key.as_str(), value.clone(), *ttl)?;
            Ok(Outcome::Done)
        }
        Step::Delete { key } => table.remove(key.as_str()).map(Outcome::Found),
        Step::Take { key } => {
            let taken = value(table, key)?;
            table.remove(key.as_str())?;
            Ok(Outcome::Taken(taken))
        }
        Step::Add { key, by, ttl } => {
            let (count, is_new) = sum(table, key, *by)?;
            let text = Bytes::from(count.to_string());
            if is_new {
                table.put(key.as_str(), text, *ttl)?
            } else {
                table.change(key.as_str(), text)?
            }
            Ok(Outcome::Count(count))
        }
        Step::Expire { key, ttl } => {
            // A claim that is renewed for days must not lose its last token.
            table.touch(&key.token(), *ttl + TOKEN_KEPT)?;
            table.touch(key.as_str(), *ttl).map(Outcome::Found)
        }
        Step::Append { key, seq, entry, keep, ttl } => {
            table.push(key.as_str(), *seq, entry.clone(), *keep, *ttl)?;
            Ok(Outcome::Done)
        }
        Step::Trim { key, before } => table.trim(key.as_str(), *before).map(Outcome::Trimmed),
        Step::Claim { key, holder, ttl } => take_hold(table, key, holder, *ttl, clock),
    }
}

fn take_hold<T: Table>(
    table: &mut T,
    key: &Key,
    holder: &str,
    ttl: Duration,
    clock: u64,
) -> Result<Outcome, T::Failure> {
    let last = match claim(table, key)? {
        Some(present) if present.holder != holder => return Ok(Outcome::Held(present)),
        Some(present) => present.token,
        None => match table.see(&key.token())? {
            Seen::Value(token) => number(&token).and_then(|token| u64::try_from(token).ok()).unwrap_or(0),
            Seen::Nothing | Seen::Stream { .. } => 0,
        },
    };
    let claim = Claim { token: clock.max(last + 1), holder: holder.to_owned() };
    table.put(key.as_str(), claim.value(), ttl)?;
    table.put(&key.token(), claim.token.to_string().into(), ttl + TOKEN_KEPT)?;
    Ok(Outcome::Claimed(claim))
}

fn value<T: Table>(table: &T, key: &Key) -> Result<Option<Bytes>, T::Failure> {
    match table.see(key.as_str())? {
        Seen::Nothing => Ok(None),
        Seen::Value(value) => Ok(Some(value)),
        Seen::Stream { .. } => Err(stream(key).into()),
    }
}

/// The new count, and whether there was none.
fn sum<T: Table>(table: &T, key: &Key, by: i64) -> Result<(i64, bool), T::Failure> {
    let Some(value) = value(table, key)? else { return Ok((by, true)) };
    let Some(old) = number(&value) else { return Err(not_a_count(key).into()) };
    match old.checked_add(by).filter(|sum| sum.unsigned_abs() <= NUMBER_MAX) {
        Some(count) => Ok((count, false)),
        None => Err(Error::WrongShape("a count stays below 2^53").into()),
    }
}

fn claim<T: Table>(table: &T, key: &Key) -> Result<Option<Claim>, T::Failure> {
    let Some(value) = value(table, key)? else { return Ok(None) };
    match Claim::read(&value) {
        Some(claim) => Ok(Some(claim)),
        None => Err(not_a_claim(key).into()),
    }
}

/// The last position of a stream; 0 when there is none.
fn position<T: Table>(table: &T, key: &Key) -> Result<u64, T::Failure> {
    match table.see(key.as_str())? {
        Seen::Nothing => Ok(0),
        Seen::Stream { last } => Ok(last),
        Seen::Value(_) => Err(not_a_stream(key).into()),
    }
}

/// A count as it is written: digits, nothing else.
pub(crate) fn number(value: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(value).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == value && number.unsigned_abs() <= NUMBER_MAX).then_some(number)
}

pub(crate) fn stream(key: &Key) -> Error {
    Error::WrongKind { key: key.clone(), holds: "a stream, not a value" }
}

pub(crate) fn not_a_stream(key: &Key) -> Error {
    Error::WrongKind { key: key.clone(), holds: "a value, not a stream" }
}

pub(crate) fn not_a_count(key: &Key) -> Error {
    Error::WrongKind { key: key.clone(), holds: "a value that is no count" }
}

pub(crate) fn not_a_claim(key: &Key) -> Error {
    Error::WrongKind { key: key.clone(), holds: "a value that is no claim" }
}

/// The wall clock in microseconds since 1970.
pub(crate) fn clock() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
