//! The file: opening, reading, and what its errors mean.

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use redb::backends::FileBackend;
use redb::{Builder, Database, ReadableDatabase, ReadableTable, TableDefinition};

use crate::disk::backend::{Backend, Options, full, is_full};
use crate::disk::now_ms;
use crate::disk::rows::{ENTRIES, EXPIRY, Held, KEYS, Row};
use crate::{Durability, Error, Key, Limits, plan};

const META: TableDefinition<&str, u64> = TableDefinition::new("meta");

/// Changes when an older program could not read the rows.
const FORMAT: u64 = 1;

/// Pages that are kept in memory.
const CACHE_BYTES: usize = 16 * 1024 * 1024;

/// Below this, a file is not worth making smaller.
const COMPACT_FROM: u64 = 8 * 1024 * 1024;

/// How often a file that is too long is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long what did not fit is not tried again, where nothing was removed.
const FULL_FOR: Duration = Duration::from_secs(1);

/// How many keys one page of a scan looks at.
const PAGE: usize = 256;

/// The open file, and the lock that keeps other processes out.
pub(super) struct File {
    path: PathBuf,
    backend: Options,
    /// `None` after an error that only opening again can heal.
    database: RwLock<Option<Database>>,
    length: Arc<AtomicU64>,
    /// The length at which the writer looks whether the file is mostly free.
    look_at: AtomicU64,
    /// When it last looked while the file was too long.
    looked: Mutex<Option<Instant>>,
    /// Whether the file may become longer than it should, because that makes it shorter in the end.
    may_exceed: Arc<AtomicBool>,
    /// Whether there was no room since it was opened: the library may tell that later, and in other words.
    ran_out: Arc<AtomicBool>,
    closed: AtomicBool,
    /// How many bytes did not fit, and until when as many are not tried again.
    too_many: Mutex<Option<(Instant, usize)>>,
    trouble: Mutex<Trouble>,
    lock: fs::File,
    #[cfg(test)]
    pub(super) history: super::power_cut::History,
}

/// Since when nothing works, and what went wrong last.
#[derive(Clone, Default)]
pub(super) struct Trouble {
    pub(super) since: Option<SystemTime>,
    pub(super) last: Option<(SystemTime, String)>,
}

impl File {
    pub(super) fn open(folder: &Path, limits: &Limits, durability: Durability) -> Result<Self, Error> {
        let lock = lock(folder)?;
        let bytes_max = u64::try_from(limits.bytes_max).unwrap_or(u64::MAX);
        let file = Self {
            path: folder.join("state.redb"),
            backend: Options { bytes_max, sync: durability != Durability::None },
            database: RwLock::new(None),
            length: Arc::default(),
            look_at: AtomicU64::new(COMPACT_FROM),
            looked: Mutex::default(),
            may_exceed: Arc::default(),
            ran_out: Arc::default(),
            closed: AtomicBool::new(false),
            too_many: Mutex::default(),
            trouble: Mutex::default(),
            lock,
            #[cfg(test)]
            history: super::power_cut::History::default(),
        };
        file.reopen()?;
        if file.backend.sync {
            // A new file is in its folder after a power cut only when the folder is synced, too.
            fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| file.failed(&error.into()))?;
        }
        file.make_smaller()?;
        Ok(file)
    }

    /// Opens the file again after an error, or for the first time.
    pub(super) fn reopen(&self) -> Result<(), Error> {
        let mut place = self.database.write();
        *place = None;
        if self.closed.load(Ordering::Acquire) {
            return Err(self.failed(&redb::Error::PreviousIo));
        }
        self.ran_out.store(false, Ordering::Release);
        // Damage can make the library panic, which must not end us.
        let opened = catch_unwind(AssertUnwindSafe(|| self.exceeding(|| self.database())));
        *place = Some(opened.map_err(|_| self.broken("it cannot be read"))??);
        Ok(())
    }

    fn database(&self) -> Result<Database, Error> {
        let file = private(&self.path).map_err(|error| self.failed(&error.into()))?;
        let inner = FileBackend::new(file).map_err(|error| self.failed(&error.into()))?;
        let backend = Backend {
            inner,
            options: self.backend,
            length: self.length.clone(),
            may_exceed: self.may_exceed.clone(),
            ran_out: self.ran_out.clone(),
            #[cfg(test)]
            history: self.history.clone(),
        };
        let database = Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(backend);
        let database = database.map_err(|error| self.failed_to_open(error.into()))?;
        self.prepare(&database).map_err(|error| self.failed_to_open(error))?.map_or(Ok(database), Err)
    }

    /// Makes the tables; a file of another format is returned as an error of ours.
    fn prepare(&self, database: &Database) -> Result<Option<Error>, redb::Error> {
        // One that is full must open without being written to.
        let reading = database.begin_read()?;
        let meta = reading.open_table(META).and_then(|meta| Ok(meta.get("format")?.map(|format| format.value())));
        if meta.is_ok_and(|format| format == Some(FORMAT)) {
            return Ok(None);
        }
        drop(reading);
        let transaction = database.begin_write()?;
        let format = {
            let mut meta = transaction.open_table(META)?;
            let found = meta.get("format")?.map(|format| format.value());
            if found.is_none() {
                meta.insert("format", FORMAT)?;
            }
            transaction.open_table(KEYS)?;
            transaction.open_table(ENTRIES)?;
            transaction.open_table(EXPIRY)?;
            found.unwrap_or(FORMAT)
        };
        if format != FORMAT {
            let why = format!("{} has format {format}, and this program knows {FORMAT}", self.path.display());
            return Ok(Some(Error::Refused(why)));
        }
        transaction.commit()?;
        Ok(None)
    }

    /// Does something with the database, whatever it does to it.
    pub(super) fn with<T>(&self, work: impl FnOnce(&Database) -> Result<T, Failure>) -> Result<T, Error> {
        let place = self.database.read();
        let Some(database) = place.as_ref() else {
            return Err(self.failed(&redb::Error::PreviousIo));
        };
        match catch_unwind(AssertUnwindSafe(|| work(database))) {
            Ok(Ok(done)) => {
                self.trouble.lock().since = None;
                Ok(done)
            }
            Ok(Err(Failure::Ours(error))) => Err(error),
            Ok(Err(Failure::Theirs(error))) => Err(self.failed(&error)),
            Err(_) => Err(self.broken("it cannot be read")),
        }
    }

    /// Does something that frees room in the end, and may take some first.
    pub(super) fn exceeding<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = self.may_exceed.swap(true, Ordering::AcqRel);
        let done = work();
        self.may_exceed.store(before, Ordering::Release);
        done
    }

    /// Whether the file is longer than it should be: nothing may grow before it has become smaller.
    pub(super) fn is_over(&self) -> bool {
        self.backend.bytes_max < self.length.load(Ordering::Relaxed)
    }

    /// How many bytes are known not to fit; what is less may.
    pub(super) fn too_many_bytes(&self) -> usize {
        let too_many = *self.too_many.lock();
        too_many.filter(|(until, _)| Instant::now() < *until).map_or(usize::MAX, |(_, bytes)| bytes)
    }

    /// This many bytes did not fit: as many are not tried again for a moment.
    pub(super) fn note_too_many(&self, bytes: usize) {
        let least = self.too_many_bytes().min(bytes);
        *self.too_many.lock() = Some((Instant::now() + FULL_FOR, least));
    }

    /// Something was removed: what did not fit may fit now.
    pub(super) fn note_room(&self) {
        *self.too_many.lock() = None;
    }

    /// What those are told who want to write into a file that is full.
    pub(super) fn full(&self) -> Error {
        self.failed(&redb::Error::Io(full(self.backend.bytes_max)))
    }

    /// Writes everything out and lets go of the folder: nothing works from here on, and another process may have it.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // Waits for those who read.
        let database = self.database.write().take();
        if catch_unwind(AssertUnwindSafe(|| drop(database))).is_err() {
            tracing::error!("the file of the store could not be closed; it is checked when it is opened next");
        }
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(%error, "the folder of the store is free only when this process ends");
        }
    }

    /// Frees the space of what is gone when that is most of the file, or when the file is too long.
    pub(super) fn make_smaller(&self) -> Result<(), Error> {
        let length = self.length.load(Ordering::Relaxed);
        let is_over = self.is_over() && {
            let mut looked = self.looked.lock();
            let is_due = looked.is_none_or(|looked| LOOK_EVERY <= looked.elapsed());
            if is_due {
                *looked = Some(Instant::now());
            }
            is_due
        };
        if length < self.look_at.load(Ordering::Relaxed) && !is_over {
            return Ok(());
        }
        let bytes_max = self.backend.bytes_max;
        let mut place = self.database.write();
        let Some(database) = place.as_mut() else { return Ok(()) };
        let compacted = catch_unwind(AssertUnwindSafe(|| -> Result<(), redb::Error> {
            let transaction = database.begin_write()?;
            let stats = transaction.stats()?;
            transaction.abort()?;
            let used = stats.stored_bytes() + stats.metadata_bytes();
            if used.saturating_mul(3) < length || is_over && used.saturating_mul(4) < bytes_max.saturating_mul(3) {
                database.compact()?;
            }
            Ok(())
        }));
        let length = self.length.load(Ordering::Relaxed);
        self.look_at.store(length.saturating_mul(2).max(COMPACT_FROM), Ordering::Relaxed);
        match compacted {
            Ok(done) => done.map_err(|error| self.failed(&error)),
            Err(_) => Err(self.broken("it cannot be read")),
        }
    }

    pub(super) fn value(&self, key: &Key) -> Result<Option<Bytes>, Error> {
        self.with(|database| {
            let keys = database.begin_read()?.open_table(KEYS)?;
            let Some(found) = keys.get(key.as_str())? else { return Ok(None) };
            match Row::read(found.value())?.live(now_ms()) {
                None => Ok(None),
                Some(Held::Value(value)) => Ok(Some(Bytes::copy_from_slice(value))),
                Some(Held::Stream { .. }) => Err(plan::stream(key).into()),
            }
        })
    }

    pub(super) fn range(&self, key: &Key, after: u64, limit: usize) -> Result<Vec<(u64, Bytes)>, Error> {
        self.with(|database| {
            let transaction = database.begin_read()?;
            let keys = transaction.open_table(KEYS)?;
            let Some(found) = keys.get(key.as_str())? else { return Ok(Vec::new()) };
            match Row::read(found.value())?.live(now_ms()) {
                None => return Ok(Vec::new()),
                Some(Held::Value(_)) => return Err(plan::not_a_stream(key).into()),
                Some(Held::Stream { .. }) => {}
            }
            let Some(first) = after.checked_add(1) else { return Ok(Vec::new()) };
            let entries = transaction.open_table(ENTRIES)?;
            let found = entries.range((key.as_str(), first)..=(key.as_str(), u64::MAX))?.take(limit);
            let copied = found.map(|entry| {
                let (at, entry) = entry?;
                Ok((at.value().1, Bytes::copy_from_slice(entry.value())))
            });
            copied.collect()
        })
    }

    /// Some keys after this one, and after which the next page begins; `None` after the last one.
    pub(super) fn page(&self, after: Option<&str>, prefix: &str) -> Result<(Vec<Key>, Option<String>), Error> {
        self.with(|database| {
            let keys = database.begin_read()?.open_table(KEYS)?;
            let (now, mut found, mut last) = (now_ms(), Vec::new(), None);
            let rows = keys.range(after.unwrap_or(prefix)..)?;
            for (count, row) in rows.take(PAGE).enumerate() {
                let (name, row) = row?;
                let name = name.value();
                if !name.starts_with(prefix) {
                    return Ok((found, None));
                }
                if Some(name) != after && Row::read(row.value())?.live(now).is_some() {
                    found.extend(Key::read(name));
                }
                last = (count + 1 == PAGE).then(|| name.to_owned());
            }
            Ok((found, last))
        })
    }

    /// Whether it can be read.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.with(|database| {
            database.begin_read()?.open_table(META)?;
            Ok(())
        })
    }

    pub(super) fn trouble(&self) -> Trouble {
        self.trouble.lock().clone()
    }

    /// What an error below means to the caller; remembered for the facts.
    pub(super) fn failed(&self, error: &redb::Error) -> Error {
        let now = SystemTime::now();
        let since = *self.trouble.lock().since.get_or_insert(now);
        let path = self.path.display();
        let meant = match error {
            redb::Error::Corrupted(why) => Error::Corrupt { file: self.path.clone(), why: why.clone() },
            redb::Error::DatabaseAlreadyOpen => Error::InUse(self.path.clone()),
            redb::Error::UpgradeRequired(version) => {
                Error::Refused(format!("{path} is of version {version}, which this program cannot read"))
            }
            redb::Error::Io(error) if is_full(error) => Error::Full(format!("{path}: {error}")),
            redb::Error::PreviousIo if self.ran_out.load(Ordering::Acquire) => {
                Error::Full(format!("{path}: there is no room"))
            }
            other => Error::Away { since, why: format!("{path}: {other}") },
        };
        self.trouble.lock().last = Some((now, meant.to_string()));
        meant
    }

    /// The same when opening: what cannot be parsed is no passing trouble then.
    fn failed_to_open(&self, error: redb::Error) -> Error {
        match &error {
            redb::Error::Io(inner)
                if matches!(inner.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) =>
            {
                self.broken(&inner.to_string())
            }
            _ => self.failed(&error),
        }
    }

    pub(super) fn broken(&self, why: &str) -> Error {
        self.failed(&redb::Error::Corrupted(why.to_owned()))
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File").field("path", &self.path).finish_non_exhaustive()
    }
}

/// What went wrong inside of a transaction.
pub(super) enum Failure {
    /// The batch; nothing was changed for it.
    Ours(Error),
    /// The file.
    Theirs(redb::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Ours(error)
    }
}

/// `?` for every error of the library.
macro_rules! theirs {
    ($($kind:ty),+) => {
        $(impl From<$kind> for Failure {
            fn from(error: $kind) -> Self {
                Self::Theirs(error.into())
            }
        })+
    };
}
theirs!(redb::StorageError, redb::TableError, redb::TransactionError, redb::CommitError, redb::Error);

/// Keeps other processes out for as long as it is open, whatever they are.
fn lock(folder: &Path) -> Result<fs::File, Error> {
    let cannot = |error: io::Error| Error::Refused(format!("cannot use {}: {error}", folder.display()));
    let lock = private(&folder.join("lock")).map_err(cannot)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(fs::TryLockError::WouldBlock) => Err(Error::InUse(folder.to_owned())),
        Err(fs::TryLockError::Error(error)) => Err(cannot(error)),
    }
}

/// Opens or makes a file that only its owner may read.
fn private(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
