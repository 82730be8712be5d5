//! Sessions that were here and rest: counted, and nothing more.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, RandomState};

use lb_exchange::{Principal, SessionId};
use parking_lot::Mutex;

/// How many sessions rest that were here, until they are woken here or nobody has used them for too long. Another node
/// that wakes one says nothing: until its time is over it counts here, too.
#[derive(Default)]
pub(super) struct Resting {
    known: Mutex<Known>,
    hasher: RandomState,
}

#[derive(Default)]
struct Known {
    /// When each is over, and a hash of whose it is, by a hash of its id.
    ends: HashMap<u64, (u64, u64)>,
    /// How many are over at each second.
    at: BTreeMap<u64, u32>,
}

impl Known {
    fn remove(&mut self, hash: u64) {
        if let Some((end, _)) = self.ends.remove(&hash)
            && let Some(count) = self.at.get_mut(&end)
        {
            *count -= 1;
            if *count == 0 {
                self.at.remove(&end);
            }
        }
    }
}

impl Resting {
    /// A session of this principal rests, and is over at this second.
    pub(super) fn add(&self, id: &SessionId, whose: &Principal, end: u64) {
        let (hash, whose) = (self.hasher.hash_one(id.as_str()), self.hasher.hash_one(whose));
        let mut known = self.known.lock();
        known.remove(hash);
        known.ends.insert(hash, (end, whose));
        *known.at.entry(end).or_default() += 1;
    }

    /// A session is awake, or over.
    pub(super) fn remove(&self, id: &SessionId) {
        self.known.lock().remove(self.hasher.hash_one(id.as_str()));
    }

    /// How many rest at this second.
    pub(super) fn count(&self, now: u64) -> usize {
        let mut known = self.known.lock();
        if known.at.first_key_value().is_some_and(|(end, _)| *end <= now) {
            known.at = known.at.split_off(&(now + 1));
            known.ends.retain(|_, (end, _)| now < *end);
        }
        known.ends.len()
    }

    /// How many of this principal rest at this second.
    pub(super) fn count_of(&self, whose: &Principal, now: u64) -> usize {
        let whose = self.hasher.hash_one(whose);
        self.known.lock().ends.values().filter(|(end, owner)| now < *end && *owner == whose).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_counts_until_it_is_woken_or_over() {
        let (resting, ids) = (Resting::default(), [SessionId::random(), SessionId::random(), SessionId::random()]);
        for (id, end) in ids.iter().zip([10, 20, 20]) {
            resting.add(id, &Principal::local(), end);
        }
        // It has been woken elsewhere, and came back to rest here.
        resting.add(&ids[1], &Principal::named("other"), 30);
        assert_eq!(resting.count(9), 3);
        assert_eq!(resting.count(10), 2);
        let of = |name: &str, now: u64| resting.count_of(&Principal::named(name), now);
        assert_eq!((of("other", 10), of("local", 10), of("nobody", 10)), (1, 1, 0));
        resting.remove(&ids[2]);
        resting.remove(&ids[2]);
        assert_eq!((resting.count(20), resting.count(29), resting.count(30)), (1, 1, 0));
    }
}
