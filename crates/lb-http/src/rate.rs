//! How many requests somebody may send in a while.
//!
//! Everybody has a bucket of tokens that is filled again, as a whole, when its window is over: what a client may do in
//! a window it may do at once. Buckets live in two generations of a bounded size, so that a crowd of addresses costs
//! a fixed amount of memory and no search.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

/// So many requests within so much time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests in one window.
    pub max: u32,
    /// How long a window is.
    pub window: Duration,
}

/// Counts beside us what is let through elsewhere.
pub trait Together: Send + Sync + std::fmt::Debug {
    /// Counts one more for somebody; how long to wait where that is more than the rate allows everywhere together. Never
    /// waits for anybody.
    fn take(&self, who: &str, rate: Rate) -> Option<Duration>;
}

/// What is left for somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// The rate that counts.
    pub rate: Rate,
    /// Requests left in this window.
    pub remaining: u32,
    /// How long until there are `rate.max` again.
    pub reset: Duration,
    /// Whether this request is among them.
    pub granted: bool,
}

/// Whose requests are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Source(u128);

impl Allowance {
    /// The same where others count as well: what they let through is not left.
    pub(crate) fn together(self, source: Source, others: &dyn Together) -> Self {
        match self.granted.then(|| others.take(&source.to_string(), self.rate)).flatten() {
            Some(reset) => Self { remaining: 0, reset, granted: false, ..self },
            None => self,
        }
    }
}

impl Source {
    /// Those of our own user, on a unix socket.
    pub(crate) const OWN_USER: Self = Self(0);

    /// Those of somebody who has logged in, wherever they come from.
    pub(crate) fn named(principal: &str) -> Self {
        let hash = Sha256::digest(principal.as_bytes());
        let first = hash.first_chunk::<16>().copied().unwrap_or_default();
        Self(u128::from_be_bytes(first))
    }

    /// Those of an address. An IPv6 host has a whole /64 to choose from, so that it counts as one.
    pub(crate) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(address.to_ipv6_mapped().to_bits()),
            IpAddr::V6(address) => Self(address.to_bits() >> 64 << 64),
        }
    }
}

/// The same text wherever it is counted.
impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The buckets of all sources.
#[derive(Debug)]
pub(crate) struct Buckets {
    generations: Mutex<Generations>,
    /// Of each of the two generations.
    entries_max: usize,
}

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<Source, Bucket>,
    old: HashMap<Source, Bucket>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    since: Instant,
    taken: u32,
}

impl Default for Buckets {
    fn default() -> Self {
        Self::new(32 * 1024)
    }
}

impl Buckets {
    fn new(entries_max: usize) -> Self {
        Self { generations: Mutex::default(), entries_max }
    }

    /// Takes a token, if there is one.
    pub(crate) fn take(&self, source: Source, rate: Rate, now: Instant) -> Allowance {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        let known = generations.young.get(&source).or_else(|| generations.old.get(&source)).copied();
        let fresh = Bucket { since: now, taken: 0 };
        let mut bucket = known.filter(|bucket| now < bucket.since + rate.window).unwrap_or(fresh);
        let granted = bucket.taken < rate.max;
        if granted {
            bucket.taken += 1;
        }
        // Those that have not been heard of for a whole generation are forgotten, which is a favour to them.
        if self.entries_max <= generations.young.len() && !generations.young.contains_key(&source) {
            generations.old = std::mem::take(&mut generations.young);
        }
        generations.young.insert(source, bucket);
        let reset = (bucket.since + rate.window).saturating_duration_since(now);
        Allowance { rate, remaining: rate.max.saturating_sub(bucket.taken), reset, granted }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        let generations = self.generations.lock().unwrap();
        generations.young.len() + generations.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { max: 3, window: Duration::from_secs(60) };

    fn source(text: &str) -> Source {
        Source::of(text.parse().unwrap())
    }

    #[test]
    fn a_bucket_gives_what_it_holds_and_is_filled_when_its_window_is_over() {
        let (buckets, start) = (Buckets::default(), Instant::now());
        let mut seen = Vec::new();
        for at in [0, 10, 20, 30, 59, 60, 61] {
            let got = buckets.take(source("192.0.2.1"), RATE, start + Duration::from_secs(at));
            seen.push((at, got.granted, got.remaining, got.reset.as_secs()));
        }
        let want = [
            (0, true, 2, 60),
            (10, true, 1, 50),
            (20, true, 0, 40),
            (30, false, 0, 30),
            (59, false, 0, 1),
            (60, true, 2, 60),
            (61, true, 1, 59),
        ];
        assert_eq!(seen, want);
        assert!(buckets.take(source("192.0.2.2"), RATE, start).granted, "others have buckets of their own");
        for name in ["alice", "bob", "192.0.2.1"] {
            let got: Vec<_> = (0..4).map(|_| buckets.take(Source::named(name), RATE, start).granted).collect();
            assert_eq!(got, [true, true, true, false], "{name}");
        }
    }

    #[test]
    fn what_others_let_through_counts_and_what_is_refused_here_is_not_counted_there() {
        #[derive(Debug)]
        struct Others(std::sync::atomic::AtomicU32);
        impl Together for Others {
            fn take(&self, who: &str, rate: Rate) -> Option<Duration> {
                assert_eq!((who.len(), rate), (32, RATE));
                let before = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                (rate.max <= before).then_some(Duration::from_secs(7))
            }
        }
        let (buckets, others, now) = (Buckets::default(), Others(2.into()), Instant::now());
        let one = source("192.0.2.1");
        let seen = [0; 5].map(|_| {
            let got = buckets.take(one, RATE, now).together(one, &others);
            (got.granted, got.remaining, got.reset.as_secs())
        });
        assert_eq!(seen, [(true, 2, 60), (false, 0, 7), (false, 0, 7), (false, 0, 60), (false, 0, 60)]);
        assert_eq!(others.0.into_inner(), 5, "asked three times");
    }

    #[test]
    fn a_rate_that_was_lowered_counts_at_once() {
        let (buckets, now) = (Buckets::default(), Instant::now());
        buckets.take(source("192.0.2.1"), RATE, now);
        let got = buckets.take(source("192.0.2.1"), Rate { max: 1, ..RATE }, now);
        assert_eq!((got.granted, got.remaining), (false, 0));
    }

    #[test]
    fn one_host_of_ipv6_is_one_source_and_ipv4_is_one_however_written() {
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"));
        assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
    }

    #[test]
    fn a_crowd_does_not_fill_the_memory_and_does_not_free_who_keeps_coming() {
        let (buckets, now) = (Buckets::new(100), Instant::now());
        for _ in 0..RATE.max {
            assert!(buckets.take(source("192.0.2.1"), RATE, now).granted);
        }
        for number in 0..10_000_u32 {
            buckets.take(Source::of(IpAddr::V4(number.into())), RATE, now);
            if number % 50 == 0 {
                assert!(!buckets.take(source("192.0.2.1"), RATE, now).granted, "after {number}");
            }
        }
        assert!(buckets.len() <= 200, "{} are kept", buckets.len());
    }
}
