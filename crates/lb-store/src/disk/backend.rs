//! What the library writes to: a file with a bound on its length.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use redb::StorageBackend;
use redb::backends::FileBackend;

/// The bound, and whether anything is synced.
#[derive(Clone, Copy)]
pub(super) struct Options {
    pub(super) bytes_max: u64,
    pub(super) sync: bool,
}

/// The library's file with a bound on its length, and with syncing left out where nobody asked for it.
#[derive(Debug)]
pub(super) struct Backend {
    pub(super) inner: FileBackend,
    pub(super) options: Options,
    pub(super) length: Arc<AtomicU64>,
    pub(super) may_exceed: Arc<AtomicBool>,
    pub(super) ran_out: Arc<AtomicBool>,
    #[cfg(test)]
    pub(super) history: super::power_cut::History,
}

impl Backend {
    /// Remembers an error that means that there is no room.
    fn note<T>(&self, done: io::Result<T>) -> io::Result<T> {
        if done.as_ref().is_err_and(is_full) {
            self.ran_out.store(true, Ordering::Release);
        }
        done
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at most {} bytes", self.bytes_max)
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        let length = self.inner.len()?;
        self.length.store(length, Ordering::Relaxed);
        Ok(length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read(offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let may_exceed = self.may_exceed.load(Ordering::Acquire);
        if self.options.bytes_max < length && self.inner.len()? < length && !may_exceed {
            return self.note(Err(full(self.options.bytes_max)));
        }
        #[cfg(test)]
        self.history.length(length);
        self.note(self.inner.set_len(length))?;
        self.length.store(length, Ordering::Relaxed);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        if !self.options.sync {
            return Ok(());
        }
        self.note(self.inner.sync_data())?;
        #[cfg(test)]
        self.history.synced();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        #[cfg(test)]
        self.history.wrote(offset, data);
        self.note(self.inner.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.inner.close()
    }
}

/// What is told where the file may not grow.
pub(super) fn full(bytes_max: u64) -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, format!("the file may have {bytes_max} bytes"))
}

/// Whether there is no room.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}
