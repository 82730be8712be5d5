//! What was ended here. A store that fails over may have lost that, and would bring it back.

use std::collections::HashMap;
use std::time::SystemTime;

use parking_lot::Mutex;

use super::FAMILY_LIFE;
use crate::token::{Claims, SKEW, seconds};

/// How many are remembered, at most. Beyond them the oldest are forgotten.
const GONE_MAX: usize = 65_536;

/// Families and tokens that were ended here, until they would be over anyway.
#[derive(Default)]
pub(super) struct Gone(Mutex<Ended>);

#[derive(Default)]
struct Ended {
    families: HashMap<[u8; 16], u64>,
    tokens: HashMap<String, (u64, Claims)>,
    /// The life of the store in which all of it was last known to be ended.
    life: Option<u64>,
}

/// What has to be ended once more.
#[derive(Debug, Default)]
pub(super) struct Again {
    pub families: Vec<[u8; 16]>,
    pub tokens: Vec<Claims>,
}

impl Gone {
    /// A family is over.
    pub fn family(&self, id: &[u8; 16], now: SystemTime) {
        let mut ended = self.0.lock();
        make_room(&mut ended.families, |until| *until, now);
        ended.families.insert(*id, seconds(now) + FAMILY_LIFE.as_secs());
    }

    /// One of its access tokens is.
    pub fn token(&self, claims: &Claims, now: SystemTime) {
        let mut ended = self.0.lock();
        make_room(&mut ended.tokens, |(until, _)| *until, now);
        ended.tokens.insert(claims.jti.clone(), (claims.exp + SKEW.as_secs(), claims.clone()));
    }

    pub fn has_family(&self, id: &[u8; 16]) -> bool {
        self.0.lock().families.contains_key(id)
    }

    pub fn has_token(&self, jti: &str) -> bool {
        self.0.lock().tokens.contains_key(jti)
    }

    /// All of it, when the store is in another life than the last time.
    pub fn in_life(&self, life: u64) -> Option<Again> {
        let ended = self.0.lock();
        if ended.life == Some(life) {
            return None;
        }
        let tokens = ended.tokens.values().map(|(_, claims)| claims.clone()).collect();
        Some(Again { families: ended.families.keys().copied().collect(), tokens })
    }

    /// All of it was ended in this life.
    pub fn done_in(&self, life: u64) {
        self.0.lock().life = Some(life);
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
        write!(f, "Gone({}, {})", ended.families.len(), ended.tokens.len())
    }
}
