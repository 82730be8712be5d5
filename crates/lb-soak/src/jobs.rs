//! What clients ask of the ledger, and the markers that tell calls apart in whatever anybody receives.

use std::collections::{BTreeSet, HashMap};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::history::{History, Must, Record};
use crate::random::Random;

const OPEN: &[u8] = b"MK";
const CLOSE: &[u8] = b"KM";
const MARKER_BYTES: usize = 20;

/// The marker of calls that are no part of the history.
pub const UNCOUNTED: &str = "uncounted";

/// One call.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// How long it takes.
    pub ms: u64,
    /// How often it reports.
    pub notes: u64,
    /// How much filling its answer has.
    pub bytes: u64,
    /// What has to come of it.
    pub must: Must,
}

impl Job {
    /// One that takes no time and has to succeed.
    pub const QUICK: Self = Self { ms: 0, notes: 0, bytes: 0, must: Must::Succeed };

    /// The same with another demand.
    pub fn must(self, must: Must) -> Self {
        Self { must, ..self }
    }

    /// The same, taking as long.
    pub fn taking(self, ms: u64) -> Self {
        Self { ms, ..self }
    }

    /// The same with as many reports.
    pub fn reporting(self, notes: u64) -> Self {
        Self { notes, ..self }
    }
}

/// A marker that occurs in no other text.
pub fn marker(random: &mut Random) -> String {
    format!("MK{:016x}KM", random.bits())
}

/// All markers in some bytes.
pub fn markers(bytes: &[u8]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for window in bytes.windows(MARKER_BYTES) {
        let Some(inner) = window.strip_prefix(OPEN).and_then(|rest| rest.strip_suffix(CLOSE)) else { continue };
        if inner.iter().all(u8::is_ascii_hexdigit) {
            found.insert(String::from_utf8_lossy(window).into_owned());
        }
    }
    found
}

/// What the servers of a run wrote down.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    read: Mutex<(u64, HashMap<String, u32>)>,
}

impl Ledger {
    /// An empty one.
    pub fn create(path: PathBuf) -> Self {
        std::fs::write(&path, "").expect("the ledger is written");
        Self { path, read: Mutex::default() }
    }

    /// The same file, read for itself.
    pub fn follow(other: &Self) -> Self {
        Self { path: other.path.clone(), read: Mutex::default() }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The processes that have done anything.
    pub fn workers(&self) -> BTreeSet<u32> {
        self.look(|known| known.values().copied().collect())
    }

    /// Waits until a call has had its effect: the process that did it.
    pub async fn entry(&self, marker: &str, patience: Duration) -> Option<u32> {
        let start = Instant::now();
        while start.elapsed() < patience {
            if let Some(pid) = self.look(|known| known.get(marker).copied()) {
                return Some(pid);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        None
    }

    fn look<T>(&self, with: impl FnOnce(&HashMap<String, u32>) -> T) -> T {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let (offset, known) = &mut *read;
        let mut text = Vec::new();
        let mut file = std::fs::File::open(&self.path).expect("the ledger is there");
        file.seek(SeekFrom::Start(*offset)).expect("the ledger is a file");
        file.read_to_end(&mut text).expect("the ledger is read");
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        for (marker, pid) in entries(&String::from_utf8_lossy(text.get(..whole).unwrap_or_default())) {
            known.insert(marker, pid);
        }
        *offset += whole as u64;
        with(known)
    }

    /// Copies every effect into the history.
    pub fn copy_to(&self, history: &History) {
        let text = std::fs::read_to_string(&self.path).expect("the ledger is read");
        for (marker, pid) in entries(&text).filter(|(marker, _)| !marker.starts_with(UNCOUNTED)) {
            history.write(&Record::Effect { marker, pid });
        }
    }
}

fn entries(text: &str) -> impl Iterator<Item = (String, u32)> + '_ {
    text.lines().filter_map(|line| {
        let (marker, pid) = line.split_once(' ')?;
        Some((marker.to_owned(), pid.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_found_wherever_they_stand() {
        let mut random = Random::new(1);
        let (one, two) = (marker(&mut random), marker(&mut random));
        assert_eq!(one.len(), MARKER_BYTES);
        let text = format!("MK{one}{{\"x\":\"{two}\"}}MK0123 {one}MKzz23456789abcdefKM");
        assert_eq!(markers(text.as_bytes()), BTreeSet::from([one, two]));
        assert!(markers(b"MK").is_empty());
    }
}
