//! Lists of servers on disk: one file each, for this user alone.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lb_exchange::Shelf;

/// Files in a folder of our own.
pub struct Disk {
    folder: PathBuf,
    reads: bool,
    writes: AtomicU64,
}

/// What is read of one file at most.
const BYTES_MAX: u64 = 64 << 20;

/// In the user's cache folder; `None` where there is none.
pub fn disk() -> Option<Arc<dyn Shelf>> {
    lb_config::cache_folder().map(|folder| Arc::new(Disk::new(folder, true)) as Arc<dyn Shelf>)
}

/// The same, which finds nothing of what was kept before.
pub fn blank_disk() -> Option<Arc<dyn Shelf>> {
    lb_config::cache_folder().map(|folder| Arc::new(Disk::new(folder, false)) as Arc<dyn Shelf>)
}

impl Disk {
    fn new(folder: PathBuf, reads: bool) -> Self {
        Self { folder, reads, writes: AtomicU64::new(0) }
    }

    fn file(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.json"))
    }

    fn write(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let number = self.writes.fetch_add(1, Ordering::Relaxed);
        let new = self.folder.join(format!(".{key}.{}.{number}.new", std::process::id()));
        let written = write_new(&new, bytes).and_then(|()| fs::rename(&new, self.file(key)));
        if written.is_err()
            && let Err(error) = fs::remove_file(&new)
        {
            tracing::debug!(%error, "a half-written file stays: {}", new.display());
        }
        written
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)
}

impl Shelf for Disk {
    fn load(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.file(key);
        // A device or a pipe would keep us waiting.
        let is_file = fs::metadata(&path).is_ok_and(|facts| facts.is_file() && facts.len() <= BYTES_MAX);
        let mut bytes = Vec::new();
        let file = File::open(&path).ok().filter(|_| self.reads && is_file)?;
        file.take(BYTES_MAX).read_to_end(&mut bytes).ok().map(|_| bytes)
    }

    fn save(&self, key: &str, bytes: &[u8]) {
        if let Err(error) = self.write(key, bytes) {
            tracing::warn!(%error, "lists are not kept in {}; they are read anew at the next start", self.folder.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_is_saved_is_for_this_user_alone_and_can_be_loaded() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = folder.path().join("a/landbridge");
        let disk = Disk::new(own.clone(), true);
        assert_eq!(disk.load("k"), None);
        disk.save("k", b"one");
        disk.save("k", b"two");
        assert_eq!(disk.load("k").as_deref(), Some(&b"two"[..]));
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!(mode(&own), 0o700);
        let files: Vec<_> = fs::read_dir(&own).expect("a folder").map(|file| file.expect("a file").path()).collect();
        assert_eq!(files, [own.join("k.json")], "nothing half-written is left");
        assert_eq!(mode(&own.join("k.json")), 0o600);
        assert_eq!(Disk::new(own, false).load("k"), None, "a blank one finds nothing");
    }

    #[test]
    fn what_cannot_be_read_or_written_is_missed_and_no_more() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("k.json")).expect("a folder in the way");
        let disk = Disk::new(folder.path().to_owned(), true);
        assert_eq!(disk.load("k"), None);
        disk.save("k", b"one");
        assert_eq!(disk.load("k"), None);
        let left = fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 1, "what could not be put in place is removed");
    }
}
