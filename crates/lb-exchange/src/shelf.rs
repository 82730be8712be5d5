//! Where bytes are kept that outlive this process, and can be done without.

/// Bytes by key, on a disk or wherever the program has room. What is not there, or cannot be read, is made anew by
/// whoever misses it, so that nothing here fails.
///
/// Both calls may block.
pub trait Shelf: Send + Sync {
    /// What was kept under this key; `None` when there is nothing, or nothing that can be read.
    fn load(&self, key: &str) -> Option<Vec<u8>>;

    /// Keeps bytes under a key, in place of what was there: whoever loads meanwhile gets all of the one or of the other.
    fn save(&self, key: &str, bytes: &[u8]);
}
