//! A store in this process: one lock, nothing is awaited under it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, TryStreamExt, future, stream};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::hub::Hub;
use crate::plan::{self, Seen, Table};
use crate::store::{Facts, Kind, Pending, Scan};
use crate::{Applied, Batch, Error, Key, Limits, Step, Store, Subscription};

/// What a key costs beside its bytes: the two trees that know it.
const KEY_COST: usize = 128;

/// How many keys one page of a scan looks at, and how many expired ones an operation puts away.
const PAGE: usize = 256;

/// Keys in memory. Expiry is exact, and follows the paused clock of a test.
pub(crate) struct Memory {
    limits: Limits,
    rows: Arc<Mutex<Rows>>,
    hub: Arc<Hub>,
}

#[derive(Default)]
struct Rows {
    rows: BTreeMap<Arc<str>, Row>,
    expiry: BTreeSet<(Instant, Arc<str>)>,
    bytes: usize,
}

struct Row {
    held: Held,
    deadline: Instant,
}

enum Held {
    Value(Bytes),
    Stream { last: u64, entries: VecDeque<(u64, Bytes)>, bytes: usize },
}

/// The rows as they are at one instant.
struct At<'a> {
    rows: &'a mut Rows,
    limits: &'a Limits,
    now: Instant,
}

impl Memory {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, rows: Arc::default(), hub: Hub::new() }
    }

    fn look<T>(&self, key: &Key, found: impl FnOnce(Option<&Held>) -> Result<T, Error>) -> Result<T, Error> {
        let rows = self.rows.lock();
        found(rows.live(key.as_str(), Instant::now()).map(|row| &row.held))
    }
}

impl Store for Memory {
    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Option<Bytes>> {
        let found = self.look(key, |held| match held {
            None => Ok(None),
            Some(Held::Value(value)) => Ok(Some(value.clone())),
            Some(Held::Stream { .. }) => Err(plan::stream(key)),
        });
        future::ready(found).boxed()
    }

    fn apply(&self, batch: Batch) -> Pending<'_, Applied> {
        let apply = || {
            batch.check(&self.limits)?;
            let now = Instant::now();
            let mut rows = self.rows.lock();
            rows.put_away(now, PAGE);
            plan::run(&mut At { rows: &mut rows, limits: &self.limits, now }, &batch, plan::clock())
        };
        future::ready(apply()).boxed()
    }

    fn range<'a>(&'a self, key: &'a Key, after: u64, limit: usize) -> Pending<'a, Vec<(u64, Bytes)>> {
        let found = self.look(key, |held| match held {
            None => Ok(Vec::new()),
            Some(Held::Value(_)) => Err(plan::not_a_stream(key)),
            Some(Held::Stream { entries, .. }) => {
                let start = entries.partition_point(|(seq, _)| *seq <= after);
                Ok(entries.iter().skip(start).take(limit).cloned().collect())
            }
        });
        future::ready(found).boxed()
    }

    fn scan(&self, prefix: &str) -> Scan {
        let prefix: Arc<str> = prefix.into();
        let rows = self.rows.clone();
        let pages = stream::unfold(Some(Bound::Included(prefix.clone())), move |from| {
            let page = from.map(|from| rows.lock().page(from, &prefix));
            future::ready(page)
        });
        pages.map(|keys| Ok(stream::iter(keys.into_iter().map(Ok)))).try_flatten().boxed()
    }

    fn publish<'a>(&'a self, channel: &'a Key, message: Bytes) -> Pending<'a, ()> {
        future::ready(self.hub.publish(channel, message)).boxed()
    }

    fn subscribe<'a>(&'a self, channel: &'a Key) -> Pending<'a, Subscription> {
        future::ready(Ok(self.hub.subscribe(channel))).boxed()
    }

    fn ping(&self) -> Pending<'_, ()> {
        future::ready(Ok(())).boxed()
    }

    fn facts(&self) -> Facts {
        Facts { latency: Some(Duration::ZERO), ..Facts::well(Kind::Memory) }
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rows = self.rows.lock();
        f.debug_struct("Memory").field("keys", &rows.rows.len()).field("bytes", &rows.bytes).finish()
    }
}

impl Row {
    fn bytes(&self) -> usize {
        match &self.held {
            Held::Value(value) => value.len(),
            Held::Stream { bytes, .. } => *bytes,
        }
    }
}

impl Rows {
    fn live(&self, key: &str, now: Instant) -> Option<&Row> {
        self.rows.get(key).filter(|row| now < row.deadline)
    }

    fn insert(&mut self, key: &str, row: Row) {
        self.remove(key);
        let key: Arc<str> = key.into();
        self.bytes += key.len() + KEY_COST + row.bytes();
        self.expiry.insert((row.deadline, key.clone()));
        self.rows.insert(key, row);
    }

    fn remove(&mut self, key: &str) -> Option<Row> {
        let (key, row) = self.rows.remove_entry(key)?;
        self.bytes -= key.len() + KEY_COST + row.bytes();
        self.expiry.remove(&(row.deadline, key));
        Some(row)
    }

    /// Removes what has expired, `most` of it.
    fn put_away(&mut self, now: Instant, most: usize) {
        for _ in 0..most {
            match self.expiry.first() {
                Some((deadline, key)) if *deadline <= now => {
                    let key = key.clone();
                    self.remove(&key);
                }
                _ => return,
            }
        }
    }

    /// Some keys from here on, and where the next page begins; `None` after the last one.
    fn page(&self, from: Bound<Arc<str>>, prefix: &str) -> (Vec<Key>, Option<Bound<Arc<str>>>) {
        let now = Instant::now();
        let mut last = None;
        let mut keys = Vec::new();
        let looked_at = self.rows.range::<Arc<str>, _>((from, Bound::Unbounded)).take(PAGE);
        for (count, (key, row)) in looked_at.take_while(|(key, _)| key.starts_with(prefix)).enumerate() {
            if now < row.deadline {
                keys.extend(Key::read(key));
            }
            last = (count + 1 == PAGE).then(|| Bound::Excluded(key.clone()));
        }
        (keys, last)
    }
}

impl Table for At<'_> {
    type Failure = Error;

    fn see(&self, key: &str) -> Result<Seen, Error> {
        Ok(match self.rows.live(key, self.now).map(|row| &row.held) {
            None => Seen::Nothing,
            Some(Held::Value(value)) => Seen::Value(value.clone()),
            Some(Held::Stream { last, .. }) => Seen::Stream { last: *last },
        })
    }

    fn put(&mut self, key: &str, value: Bytes, ttl: Duration) -> Result<(), Error> {
        // A slice would keep the whole buffer that it was read with.
        let held = Held::Value(Bytes::copy_from_slice(&value));
        self.rows.insert(key, Row { held, deadline: self.now + ttl });
        Ok(())
    }

    fn change(&mut self, key: &str, value: Bytes) -> Result<(), Error> {
        let deadline = self.rows.live(key, self.now).map_or(self.now, |row| row.deadline);
        self.rows.insert(key, Row { held: Held::Value(value), deadline });
        Ok(())
    }

    fn touch(&mut self, key: &str, ttl: Duration) -> Result<bool, Error> {
        if self.rows.live(key, self.now).is_none() {
            return Ok(false);
        }
        if let Some(row) = self.rows.remove(key) {
            self.rows.insert(key, Row { deadline: self.now + ttl, ..row });
        }
        Ok(true)
    }

    fn remove(&mut self, key: &str) -> Result<bool, Error> {
        Ok(self.rows.remove(key).is_some_and(|row| self.now < row.deadline))
    }

    fn push(&mut self, key: &str, seq: u64, entry: Bytes, keep: u64, ttl: Duration) -> Result<(), Error> {
        let live = self.rows.remove(key).filter(|row| self.now < row.deadline);
        let (mut entries, mut bytes) = match live.map(|row| row.held) {
            Some(Held::Stream { entries, bytes, .. }) => (entries, bytes),
            Some(Held::Value(_)) | None => (VecDeque::new(), 0),
        };
        bytes += cost(&entry);
        entries.push_back((seq, Bytes::copy_from_slice(&entry)));
        while keep < entries.len() as u64 {
            bytes -= entries.pop_front().map_or(0, |(_, entry)| cost(&entry));
        }
        let held = Held::Stream { last: seq, entries, bytes };
        self.rows.insert(key, Row { held, deadline: self.now + ttl });
        Ok(())
    }

    fn trim(&mut self, key: &str, before: u64) -> Result<u64, Error> {
        let Some(row) = self.rows.rows.get_mut(key).filter(|row| self.now < row.deadline) else { return Ok(0) };
        let Held::Stream { entries, bytes, .. } = &mut row.held else { return Ok(0) };
        let mut gone = 0;
        while entries.front().is_some_and(|(seq, _)| *seq < before) {
            let freed = entries.pop_front().map_or(0, |(_, entry)| cost(&entry));
            *bytes -= freed;
            self.rows.bytes -= freed;
            gone += 1;
        }
        Ok(gone)
    }

    fn room(&mut self, batch: &Batch) -> Result<(), Error> {
        let (keys, bytes) = self.growth(batch);
        if self.fits(keys, bytes) {
            return Ok(());
        }
        // What has expired and was not put away yet must not stand in the way.
        self.rows.put_away(self.now, usize::MAX);
        let (keys, bytes) = self.growth(batch);
        if self.fits(keys, bytes) {
            return Ok(());
        }
        let (keys_max, bytes_max) = (self.limits.keys_max, self.limits.bytes_max);
        Err(Error::Full(format!("{keys_max} keys or {bytes_max} bytes are all there may be; nothing is thrown away")))
    }
}

/// What an entry of a stream costs.
fn cost(entry: &Bytes) -> usize {
    entry.len() + 64
}

impl At<'_> {
    fn fits(&self, keys: isize, bytes: isize) -> bool {
        let keys_fit = keys <= 0 || self.rows.rows.len().saturating_add_signed(keys) <= self.limits.keys_max;
        let bytes_fit = bytes <= 0 || self.rows.bytes.saturating_add_signed(bytes) <= self.limits.bytes_max;
        keys_fit && bytes_fit
    }

    /// How many keys and bytes more there are after the batch, at most.
    fn growth(&self, batch: &Batch) -> (isize, isize) {
        let mut keys = 0;
        let mut bytes = 0;
        let mut replace = |key: &str, new: Option<usize>| {
            let old = self.rows.rows.get(key).map(|row| key.len() + KEY_COST + row.bytes());
            keys += isize::from(new.is_some()) - isize::from(old.is_some());
            bytes += new.map_or(0, |new| (key.len() + KEY_COST + new).cast_signed()) - old.unwrap_or(0).cast_signed();
        };
        let mut appended = 0;
        for step in &batch.steps {
            let key = step.key().as_str();
            match step {
                Step::Set { value, .. } => replace(key, Some(value.len())),
                Step::Delete { .. } | Step::Take { .. } => replace(key, None),
                Step::Add { .. } => replace(key, Some(20)),
                Step::Claim { key, holder, .. } => {
                    replace(key.as_str(), Some(holder.len() + 20));
                    replace(&key.token(), Some(20));
                }
                Step::Append { entry, .. } => {
                    let is_new = !self.rows.rows.contains_key(key);
                    appended += cost(entry) + if is_new { key.len() + KEY_COST } else { 0 };
                }
                Step::Expire { .. } | Step::Trim { .. } => {}
            }
        }
        let new_streams = batch
            .steps
            .iter()
            .filter(|step| matches!(step, Step::Append { .. }) && !self.rows.rows.contains_key(step.key().as_str()));
        (keys + new_streams.count().cast_signed(), bytes + appended.cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        Key::parse(text).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_gone_at_its_very_instant() {
        let store: &dyn Store = &Memory::new(Limits::default());
        store.set(&key("a"), "1", Duration::from_millis(1_000)).await.unwrap();
        tokio::time::advance(Duration::from_millis(999)).await;
        assert_eq!(store.get(&key("a")).await.unwrap(), Some("1".into()));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(store.get(&key("a")).await.unwrap(), None);
        assert!(!store.delete(&key("a")).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_full_takes_nothing_throws_nothing_away_and_has_room_again_after_expiry() {
        let store: &dyn Store = &Memory::new(Limits { keys_max: 3, bytes_max: 2_000, ..Limits::default() });
        for name in ["a", "b", "c"] {
            store.set(&key(name), "1", Duration::from_secs(60)).await.unwrap();
        }
        assert!(matches!(store.set(&key("d"), "1", Duration::from_secs(1)).await, Err(Error::Full(_))));
        store.set(&key("a"), vec![0; 200], Duration::from_secs(1)).await.unwrap();
        assert!(matches!(store.set(&key("b"), vec![0; 1_500], Duration::from_secs(1)).await, Err(Error::Full(_))));
        assert!(matches!(store.append(&key("s"), 1, "x", 9, Duration::from_secs(1)).await, Err(Error::Full(_))));
        assert_eq!(store.get(&key("b")).await.unwrap(), Some("1".into()));
        tokio::time::advance(Duration::from_secs(1)).await;
        store.set(&key("d"), "1", Duration::from_secs(1)).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_count_of_bytes_comes_back_to_nothing() {
        let memory = Memory::new(Limits::default());
        let store: &dyn Store = &memory;
        let ttl = Duration::from_secs(5);
        for round in 1..50 {
            store.set(&key("a"), vec![1; round], ttl).await.unwrap();
            store.add(&key("n"), 3, ttl).await.unwrap();
            store.append(&key("s"), round as u64, vec![2; round], 7, ttl).await.unwrap();
            store.trim(&key("s"), round as u64 - 1).await.unwrap();
            store.expire(&key("s"), ttl).await.unwrap();
            store.claim(&key("c"), "me", ttl).await.unwrap();
        }
        tokio::time::advance(Duration::from_secs(2 * 86_400)).await;
        store.delete(&key("none")).await.unwrap();
        let rows = memory.rows.lock();
        assert_eq!((rows.rows.len(), rows.expiry.len(), rows.bytes), (0, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_grows_when_the_clock_stands_still_and_after_the_claim_has_expired() {
        let store: &dyn Store = &Memory::new(Limits::default());
        let mut last = 0;
        for round in 0..1_000 {
            let crate::Claimed::Ours(claim) =
                store.claim(&key("c"), &format!("n{round}"), Duration::from_millis(1)).await.unwrap()
            else {
                panic!("the claim has expired")
            };
            assert!(last < claim.token);
            last = claim.token;
            tokio::time::advance(Duration::from_millis(1)).await;
        }
    }
}
