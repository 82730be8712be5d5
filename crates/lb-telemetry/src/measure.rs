//! Numbers that many threads change at once.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Only ever grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn inc(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// How many so far.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// Up or down by so many.
    pub fn add(&self, change: i64) {
        self.0.fetch_add(change, Ordering::Relaxed);
    }

    /// What it stands at from now on.
    pub fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// What it stands at.
    pub fn value(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How long things took, in fixed classes.
#[derive(Debug, Default)]
pub struct Histogram {
    classes: [AtomicU64; Self::BOUNDS.len() + 1],
    sum_ns: AtomicU64,
}

/// What a histogram holds at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// Upper bounds of the classes, in seconds; one class more has none.
    pub bounds: &'static [f64],
    /// How many fell into each class, not summed up.
    pub counts: Vec<u64>,
    /// All of them together, in seconds.
    pub sum: f64,
}

impl Histogram {
    /// Upper bounds in seconds: a warm call takes less than a millisecond, and a patient client waits for minutes.
    pub const BOUNDS: [f64; 14] =
        [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 120.0];

    /// One more that took this long.
    pub fn record(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let class = Self::BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(Self::BOUNDS.len());
        if let Some(class) = self.classes.get(class) {
            class.fetch_add(1, Ordering::Relaxed);
        }
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// What it holds now.
    pub fn distribution(&self) -> Distribution {
        let counts = self.classes.iter().map(|class| class.load(Ordering::Relaxed)).collect();
        let sum = Duration::from_nanos(self.sum_ns.load(Ordering::Relaxed)).as_secs_f64();
        Distribution { bounds: &Self::BOUNDS, counts, sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_class() {
        let histogram = Histogram::default();
        for took in [0, 500, 501, 1_000_000, 120_000_000, 120_000_001] {
            histogram.record(Duration::from_micros(took));
        }
        let got = histogram.distribution();
        assert_eq!(got.counts, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1]);
        assert!((got.sum - 241.001_002).abs() < 1e-6, "sum {}", got.sum);
    }
}
