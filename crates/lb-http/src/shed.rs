//! What was not taken on, and why: an operator wants to see that it happens, and to what.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why somebody was told to come back later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// One address asked too often: 429.
    Rate,
    /// A session or a server has too many calls: 429.
    Busy,
    /// Too many calls are being answered: 503.
    InFlight,
    /// Too much of bodies has not come as a whole: 503.
    Bodies,
    /// There is no room for another session: 503.
    Sessions,
    /// We stop: 503.
    Stopping,
    /// One address has too many connections: another one is closed.
    Connections,
}

impl Why {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 7] =
        [Self::Rate, Self::Busy, Self::InFlight, Self::Bodies, Self::Sessions, Self::Stopping, Self::Connections];

    /// The reason in a word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Busy => "busy",
            Self::InFlight => "in_flight",
            Self::Bodies => "bodies",
            Self::Sessions => "sessions",
            Self::Stopping => "stopping",
            Self::Connections => "connections",
        }
    }
}

/// How often what happened.
#[derive(Debug, Default)]
pub struct Shed([AtomicU64; Why::ALL.len()]);

impl Shed {
    /// Once more.
    pub(crate) fn add(&self, why: Why) {
        if let Some(count) = self.0.get(why as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often so far.
    #[must_use]
    pub fn count(&self, why: Why) -> u64 {
        self.0.get(why as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_count_of_its_own() {
        let shed = Shed::default();
        for (times, why) in Why::ALL.into_iter().enumerate() {
            (0..=times).for_each(|_| shed.add(why));
        }
        let counts: Vec<_> = Why::ALL.into_iter().map(|why| shed.count(why)).collect();
        assert_eq!(counts, [1, 2, 3, 4, 5, 6, 7]);
    }
}
