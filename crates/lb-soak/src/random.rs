//! Numbers that follow from a seed, the same with every version of everything.

/// A small generator (splitmix64): good enough to spread faults, and ten lines long.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 when there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        self.bits().checked_rem(end).unwrap_or(0)
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        let place = self.below(all.len() as u64);
        all.get(usize::try_from(place).ok()?)
    }

    /// A generator of its own for one part of a run.
    pub fn fork(&mut self) -> Self {
        Self(self.bits())
    }
}

/// A seed that nobody has chosen.
#[must_use]
pub fn seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Random::new(now.as_nanos() as u64 ^ u64::from(std::process::id())).bits() >> 16
}
