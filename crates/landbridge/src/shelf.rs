//! Lists of servers on disk: one file each, for this user alone.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use lb_exchange::Shelf;
use rustix::fs::{Mode, OFlags};

/// Files in a folder of our own.
pub struct Disk {
    folder: PathBuf,
    reads: bool,
    writes: AtomicU64,
}

/// What is read of one file at most.
const BYTES_MAX: u64 = 64 << 20;
/// What nobody has written for so long is of a server that nobody uses any more.
const AGE_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Files that are kept, the newest ones.
const FILES_MAX: usize = 200;
/// How often old files are looked for: at the first write, and then once in so many.
const PRUNE_EVERY: u64 = 64;

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
        if number.is_multiple_of(PRUNE_EVERY)
            && let Err(error) = prune(&self.folder, SystemTime::now())
        {
            tracing::debug!(%error, "old lists stay in {}", self.folder.display());
        }
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

/// Removes lists that are old or too many, and what was never finished. Nothing else that may be in the folder.
fn prune(folder: &Path, now: SystemTime) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)?.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_list = name.starts_with("lists-") && name.ends_with(".json");
        let is_unfinished = name.starts_with(".lists-") && name.ends_with(".new");
        let facts = entry.metadata().ok().filter(|facts| facts.is_file() && (is_list || is_unfinished));
        let Some(written) = facts.and_then(|facts| facts.modified().ok()) else { continue };
        files.push((written, entry.path()));
    }
    // The newest first.
    files.sort_by(|one, other| other.cmp(one));
    let is_old = |written: SystemTime| now.duration_since(written).is_ok_and(|age| AGE_MAX < age);
    for (number, (written, path)) in files.iter().enumerate() {
        if FILES_MAX <= number || is_old(*written) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)
}

impl Shelf for Disk {
    fn load(&self, key: &str) -> Option<Vec<u8>> {
        if !self.reads {
            return None;
        }
        // Opening or reading a pipe would keep us waiting.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(self.file(key), flags, Mode::empty()).ok()?);
        file.metadata().ok().filter(|facts| facts.is_file() && facts.len() <= BYTES_MAX)?;
        let mut bytes = Vec::new();
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

    #[test]
    fn a_pipe_or_a_link_by_that_name_keeps_nobody_waiting() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        rustix::fs::mknodat(rustix::fs::CWD, path("pipe.json"), rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .expect("a pipe");
        fs::write(path("other"), "{}").expect("written");
        std::os::unix::fs::symlink(path("other"), path("link.json")).expect("a link");
        let disk = Disk::new(folder.path().to_owned(), true);
        assert_eq!((disk.load("pipe"), disk.load("link")), (None, None));
    }

    #[test]
    fn old_lists_and_those_beyond_the_newest_go_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let now = SystemTime::now();
        let put = |name: &str, days: u64, seconds: u64| {
            let file = File::create(folder.path().join(name)).expect("a file");
            let age = Duration::from_secs(days * 24 * 60 * 60 + seconds);
            file.set_modified(now.checked_sub(age).expect("a time")).expect("its time is set");
        };
        put("lists-old.json", 31, 0);
        put(".lists-old.1.0.new", 31, 0);
        put("notes.json", 31, 0);
        put("lists-fair.json", 29, 0);
        for n in 0..FILES_MAX as u64 {
            put(&format!("lists-{n:03}.json"), 1, n);
        }
        Disk::new(folder.path().to_owned(), true).save("lists-new", b"{}");
        let has = |name: &str| folder.path().join(name).exists();
        assert!(has("lists-new.json") && has("lists-000.json") && has("notes.json"));
        assert!(!has("lists-old.json") && !has(".lists-old.1.0.new"), "they are old");
        assert!(!has("lists-fair.json"), "it is the oldest of too many");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), FILES_MAX + 2);
    }
}
