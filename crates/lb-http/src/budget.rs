//! Bytes of bodies that have not come as a whole: bounded over all connections, and not only each by itself.

use std::sync::atomic::{AtomicUsize, Ordering};

/// What all bodies that are still coming may hold together.
const BYTES_MAX: usize = 32 << 20;
/// What each may hold for nothing, so that usual requests are not counted.
const FREE: usize = 64 << 10;

/// What is held.
#[derive(Debug, Default)]
pub(crate) struct Budget(AtomicUsize);

impl Budget {
    /// Nothing of it, to be grown.
    pub(crate) fn part(&self) -> Part<'_> {
        Part { budget: self, held: 0 }
    }
}

/// What one body holds of it; given back when dropped.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    budget: &'a Budget,
    held: usize,
}

impl Part<'_> {
    /// Room for so many bytes in all; false when there is none.
    #[must_use]
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let wanted = bytes.saturating_sub(FREE);
        let more = wanted.saturating_sub(self.held);
        if more == 0 {
            return true;
        }
        let before = self.budget.0.fetch_add(more, Ordering::Relaxed);
        if BYTES_MAX < before.saturating_add(more) {
            self.budget.0.fetch_sub(more, Ordering::Relaxed);
            return false;
        }
        self.held = wanted;
        true
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        if 0 < self.held {
            self.budget.0.fetch_sub(self.held, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_bounded_over_all_and_given_back() {
        let budget = Budget::default();
        let mut usual: Vec<_> = (0..10_000).map(|_| budget.part()).collect();
        assert!(usual.iter_mut().all(|part| part.grow(FREE)), "small ones are free");
        let mut large: Vec<_> = (0..8).map(|_| budget.part()).collect();
        assert!(large.iter_mut().all(|part| part.grow(FREE + (4 << 20))));
        let mut late = budget.part();
        assert!(!late.grow(FREE + 1), "there is no room left");
        assert!(large.iter_mut().all(|part| part.grow(FREE + (4 << 20))), "what is held stays");
        large.pop();
        assert!(late.grow(FREE + (4 << 20)) && !late.grow(FREE + (4 << 20) + 1));
        drop((large, late));
        assert_eq!(budget.0.load(Ordering::Relaxed), 0);
    }
}
