//! What was ended here. A store that fails over may have lost that, and would bring it back.

use std::collections::HashMap;
use std::time::SystemTime;

use parking_lot::Mutex;

use super::FAMILY_LIFE;
use crate::token::{Claims, SKEW, seconds};

/// How many are remembered, at most. Beyond them the oldest are forgotten.
const GONE_MAX: usize = 65_536;

/// Families and tokens that were ended here, and families that were seen to be over, until they would be anyway.
#[derive(Default)]
pub(super) struct Gone(Mutex<Ended>);

#[derive(Default)]
struct Ended {
    families: HashMap<[u8; 16], Over>,
    tokens: HashMap<String, (Over, Claims)>,
    /// Families that another node has ended, as was seen here. That node may be gone when the store has lost it.
    missing: HashMap<[u8; 16], Over>,
}

/// Until when it is remembered, and the life of the store in which it was last ended.
#[derive(Clone, Copy)]
struct Over {
    until: u64,
    life: u64,
}

/// What has to be ended once more.
#[derive(Debug, Default)]
pub(super) struct Again {
    pub families: Vec<[u8; 16]>,
    pub tokens: Vec<Claims>,
}

impl Gone {
    /// A family was ended in this life of the store.
    pub fn family(&self, id: &[u8; 16], life: u64, now: SystemTime) {
        let mut ended = self.0.lock();
        ended.missing.remove(id);
        make_room(&mut ended.families, |over| over.until, now);
        ended.families.insert(*id, Over { until: seconds(now) + FAMILY_LIFE.as_secs(), life });
    }

    /// One of its access tokens was.
    pub fn token(&self, claims: &Claims, life: u64, now: SystemTime) {
        let mut ended = self.0.lock();
        make_room(&mut ended.tokens, |(over, _)| over.until, now);
        let over = Over { until: claims.exp + SKEW.as_secs(), life };
        ended.tokens.insert(claims.jti.clone(), (over, claims.clone()));
    }

    /// A family of which we have seen a token is not there, in this life of the store. It does not come again, whatever
    /// a store says later.
    pub fn missing(&self, id: &[u8; 16], life: u64, now: SystemTime) {
        let mut ended = self.0.lock();
        make_room(&mut ended.missing, |over| over.until, now);
        ended.missing.insert(*id, Over { until: seconds(now) + FAMILY_LIFE.as_secs(), life });
    }

    pub fn has_family(&self, id: &[u8; 16]) -> bool {
        let ended = self.0.lock();
        ended.families.contains_key(id) || ended.missing.contains_key(id)
    }

    pub fn has_token(&self, jti: &str) -> bool {
        self.0.lock().tokens.contains_key(jti)
    }

    /// What was ended, or was seen to be, in another life of the store than this one.
    pub fn before(&self, life: u64) -> Again {
        let ended = self.0.lock();
        let families = ended.families.iter().chain(&ended.missing).filter(|(_, over)| over.life != life);
        let families = families.map(|(id, _)| *id).collect();
        let tokens = ended.tokens.values().filter(|(over, _)| over.life != life);
        Again { families, tokens: tokens.map(|(_, claims)| claims.clone()).collect() }
    }
}

/// Forgets what would be over anyway, and where that is not enough what ends first.
fn make_room<K: Clone + Eq + std::hash::Hash, V>(
    ended: &mut HashMap<K, V>,
    until: impl Fn(&V) -> u64,
    now: SystemTime,
) {
    if ended.len() < GONE_MAX {
        return;
    }
    ended.retain(|_, value| seconds(now) < until(value));
    if GONE_MAX <= ended.len() {
        let mut ends: Vec<u64> = ended.values().map(&until).collect();
        ends.sort_unstable();
        let middle = ends.get(ends.len() / 2).copied().unwrap_or_default();
        ended.retain(|_, value| middle < until(value));
    }
}

impl std::fmt::Debug for Gone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ended = self.0.lock();
        write!(f, "Gone({}, {}, {})", ended.families.len(), ended.tokens.len(), ended.missing.len())
    }
}
