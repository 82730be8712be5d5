//! Numbers of events that clients may have and the store never had.
//!
//! Reports of progress are sent before they are written. When their process is gone, so are they; whoever comes after it
//! leaves out as many numbers as may have been given out, and remembers which.

use std::collections::VecDeque;

/// Ranges that are remembered. Each stands for the end of a process.
const RANGES_MAX: usize = 8;

/// Ranges of numbers, oldest first: the last one that was written before it, and the last one in it.
#[derive(Debug, Default)]
pub(super) struct Lost(VecDeque<(u64, u64)>);

impl Lost {
    pub(super) fn add(&mut self, after: u64, upto: u64) {
        self.0.push_back((after, upto));
        if RANGES_MAX < self.0.len() {
            self.0.pop_front();
        }
    }

    /// Forgets those that no stream is old enough for, which is what says `wanted` of the number before a range.
    pub(super) fn retain(&mut self, wanted: impl Fn(u64) -> bool) {
        self.0.retain(|(after, _)| wanted(*after));
    }

    /// The last number that was written before this one, if this one may have been lost.
    pub(super) fn follows(&self, sequence: u64) -> Option<u64> {
        self.0.iter().find(|(after, upto)| *after < sequence && sequence <= *upto).map(|(after, _)| *after)
    }

    /// As they are written; `None` when there are none.
    pub(super) fn written(&self) -> Option<lb_wire::Raw> {
        (!self.0.is_empty()).then(|| lb_wire::Raw::value(&self.0))
    }

    pub(super) fn read(written: Vec<(u64, u64)>) -> Self {
        let skipped = written.len().saturating_sub(RANGES_MAX);
        Self(written.into_iter().skip(skipped).collect())
    }
}
