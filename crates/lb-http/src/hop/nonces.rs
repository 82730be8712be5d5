//! Which headers were used: each is good once.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};

use super::{Unproven, WINDOW};

/// How many are remembered. Only what a key of the cluster has signed is. Tests have less to fill.
const MAX: usize = if cfg!(test) { 1 << 12 } else { 1 << 20 };

/// The nonces that were used and could be used again, by the time that they were signed with: whoever repeats one
/// repeats its time.
#[derive(Debug, Default)]
pub(super) struct Nonces(Mutex<Used>);

#[derive(Debug, Default)]
struct Used {
    by_time: BTreeMap<u64, HashSet<u128>>,
    count: usize,
}

impl Nonces {
    /// Uses one, which was signed at this time.
    pub(super) fn take(&self, time: u64, nonce: u128, now: u64) -> Result<(), Unproven> {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(oldest) = used.by_time.first_entry() {
            if now <= oldest.key().saturating_add(WINDOW.as_secs()) {
                break;
            }
            let forgotten = oldest.remove().len();
            used.count -= forgotten;
        }
        if MAX <= used.count {
            return Err(Unproven::Crowded);
        }
        if !used.by_time.entry(time).or_default().insert(nonce) {
            return Err(Unproven::Replayed);
        }
        used.count += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_good_once_and_forgotten_when_its_time_is_over() {
        let nonces = Nonces::default();
        let count = || nonces.0.lock().unwrap().count;
        assert_eq!(nonces.take(1000, 7, 1000), Ok(()));
        assert_eq!(nonces.take(1000, 7, 1000), Err(Unproven::Replayed));
        assert_eq!(nonces.take(1000, 7, 1030), Err(Unproven::Replayed), "for as long as it could be used");
        assert_eq!(nonces.take(1030, 8, 1000), Ok(()), "from a clock that is ahead");
        assert_eq!(nonces.take(1000, 9, 1000), Ok(()));
        assert_eq!(count(), 3);
        assert_eq!(nonces.take(1031, 9, 1031), Ok(()));
        assert_eq!(count(), 2, "what is over is forgotten");
        assert_eq!(nonces.take(1030, 8, 1060), Err(Unproven::Replayed));
        assert_eq!(nonces.take(1061, 1, 1061), Ok(()));
        assert_eq!(count(), 2);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let nonces = Nonces::default();
        for nonce in 0..MAX as u128 {
            assert_eq!(nonces.take(5, nonce, 5), Ok(()));
        }
        assert_eq!(nonces.take(5, u128::MAX, 5), Err(Unproven::Crowded));
        assert_eq!(nonces.take(36, u128::MAX, 36), Ok(()), "time makes room");
    }
}
