//! A log file that never stops anybody: what cannot be written is dropped, counted and told now and then.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often lost lines are told.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// Lines that this process has lost, in whichever file; there is no one place that has all of them.
static LOST: AtomicU64 = AtomicU64::new(0);

/// How many lines of logs could not be written so far.
pub fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// A file that lines are added to.
pub struct LogFile(Mutex<State>);

struct State {
    file: File,
    /// A line was cut short: the next one must not be glued to it.
    broken: bool,
    /// Lines lost since they were last told.
    lost: u64,
    told: Option<Instant>,
}

impl From<File> for LogFile {
    fn from(file: File) -> Self {
        Self(Mutex::new(State { file, broken: false, lost: 0, told: None }))
    }
}

impl LogFile {
    /// Opens it, for this user only. Its folder must be there.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        Ok(Self::from(file))
    }

    /// The same in a folder that is made if need be.
    pub fn open_within(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        Self::open(path)
    }

    /// Adds a line, which ends in a line break.
    ///
    /// # Errors
    /// It is not there, or not as a whole.
    pub fn append(&self, line: &[u8]) -> Result<(), String> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).append(line)
    }

    /// Adds a line, which ends in a line break. What to say on stderr comes back.
    pub fn write(&self, line: &[u8], now: Instant) -> Option<String> {
        let mut state = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let error = state.append(line).err()?;
        state.lost += 1;
        LOST.fetch_add(1, Ordering::Relaxed);
        if state.told.is_some_and(|told| now.duration_since(told) < TELL_EVERY) {
            return None;
        }
        state.told = Some(now);
        let lost = std::mem::take(&mut state.lost);
        let lines = if lost == 1 { "1 line is lost".to_owned() } else { format!("{lost} lines are lost") };
        Some(format!("the log file cannot be written ({error}); {lines} since the last word"))
    }
}

impl State {
    fn append(&mut self, line: &[u8]) -> Result<(), String> {
        let written = match self.broken {
            true => self.file.write(&[b"\n", line].concat()).map(|count| count == line.len() + 1),
            false => self.file.write(line).map(|count| count == line.len()),
        };
        match written {
            Ok(true) => {
                self.broken = false;
                Ok(())
            }
            // Some of it is there, which happens when the disk becomes full.
            Ok(false) => {
                self.broken = true;
                Err("there is no room for a whole line".to_owned())
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_once_a_minute_with_what_was_lost() {
        let file = LogFile::open(Path::new("/dev/full")).expect("it opens");
        let start = Instant::now();
        let said = file.write(b"a\n", start).expect("it is told");
        assert!(said.contains("No space left on device") && said.contains("; 1 line is lost"), "{said}");
        for second in 1..60 {
            assert_eq!(file.write(b"a\n", start + Duration::from_secs(second)), None);
        }
        let said = file.write(b"a\n", start + TELL_EVERY).expect("it is told again");
        assert!(said.contains("; 60 lines are lost"), "{said}");
    }

    #[test]
    fn a_file_is_for_its_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new/log");
        let missing = LogFile::open(&path).map(drop).expect_err("a slip in a path makes no folders");
        assert_eq!((missing.kind(), folder.path().join("new").exists()), (io::ErrorKind::NotFound, false));
        let file = LogFile::open_within(&path).expect("it opens");
        assert_eq!(file.write(b"line\n", Instant::now()), None);
        let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&folder.path().join("new"))), (0o600, 0o700));
        assert_eq!(std::fs::read(&path).expect("text"), b"line\n");
    }
}
