//! A session behind its lock, and those who wait for something to happen in it.

/// Who waits.
#[derive(Debug, Default)]
pub struct Watchers {}
