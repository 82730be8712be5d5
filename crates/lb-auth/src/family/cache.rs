//! Records that were read a moment ago, and that some are not there.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use super::{CACHED_FOR, Record};

/// How many records are believed without asking, at most.
const CACHED_MAX: usize = 65_536;
/// So many are kept before it is looked which of them are stale.
const SWEPT_AT_MIN: usize = 1_024;

/// What was read a moment ago.
pub(super) struct Cache(Mutex<Kept>);

struct Kept {
    /// When it was read, and what was read; `None` where nothing was there.
    records: HashMap<[u8; 16], (SystemTime, Option<Arc<Record>>)>,
    /// At how many it is looked for stale ones. Twice as many as were left the last time, so that looking costs little
    /// for each, and what nobody asks for does not stay.
    swept_at: usize,
}

impl Default for Cache {
    fn default() -> Self {
        Self(Mutex::new(Kept { records: HashMap::new(), swept_at: SWEPT_AT_MIN }))
    }
}

impl Cache {
    /// What is known of a family, if that is not older than this.
    pub fn find(&self, id: &[u8; 16], age_max: Duration, now: SystemTime) -> Option<Option<Arc<Record>>> {
        let kept = self.0.lock();
        let (at, record) = kept.records.get(id)?;
        is_fresh(*at, age_max, now).then(|| record.clone())
    }

    /// How far a family was when it was last seen, however long ago; zero where that is not known.
    pub fn epoch(&self, id: &[u8; 16]) -> u64 {
        let kept = self.0.lock();
        kept.records.get(id).and_then(|(_, record)| record.as_ref()).map_or(0, |record| record.epoch())
    }

    pub fn keep(&self, id: &[u8; 16], record: Record, now: SystemTime) -> Arc<Record> {
        let record = Arc::new(record);
        self.put(id, Some(record.clone()), now);
        record
    }

    /// It is not there. What is over does not come again.
    pub fn keep_missing(&self, id: &[u8; 16], now: SystemTime) {
        self.put(id, None, now);
    }

    fn put(&self, id: &[u8; 16], record: Option<Arc<Record>>, now: SystemTime) {
        let mut kept = self.0.lock();
        if kept.swept_at <= kept.records.len() {
            kept.records.retain(|_, (at, _)| is_fresh(*at, CACHED_FOR, now));
            kept.swept_at = (kept.records.len() * 2).max(SWEPT_AT_MIN);
        }
        if kept.records.len() < CACHED_MAX || kept.records.contains_key(id) {
            kept.records.insert(*id, (now, record));
        }
    }

    pub fn forget(&self, id: &[u8; 16]) {
        self.0.lock().records.remove(id);
    }
}

/// A clock that was set back makes everything stale.
fn is_fresh(at: SystemTime, age_max: Duration, now: SystemTime) -> bool {
    now.duration_since(at).is_ok_and(|age: Duration| age < age_max)
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cache({})", self.0.lock().records.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    #[test]
    fn what_nobody_asks_for_any_more_does_not_stay() {
        let cache = Cache::default();
        for number in 0..20_000_u64 {
            let mut id = [0; 16];
            id[..8].copy_from_slice(&number.to_be_bytes());
            // A hundred in each second, so that five hundred are fresh.
            cache.keep_missing(&id, at(number / 100));
        }
        let kept = cache.0.lock().records.len();
        assert!(kept <= SWEPT_AT_MIN + 600, "{kept}");
    }
}
