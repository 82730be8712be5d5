//! The thread that writes.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use redb::{Database, ReadableDatabase, ReadableTable};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::disk::file::{Failure, File};
use crate::disk::now_ms;
use crate::disk::rows::{EXPIRY, Writing};
use crate::{Applied, Batch, Error, plan};

/// How many batches are done in one transaction at most.
const GROUP_MAX: usize = 256;

/// How many expired keys one transaction removes at most.
const SWEEP_MAX: usize = 512;

/// How long expired keys wait when nobody writes.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// A batch, and who waits for it.
pub(super) struct Work {
    pub(super) batch: Batch,
    pub(super) answer: oneshot::Sender<Result<Applied, Error>>,
    pub(super) _place: OwnedSemaphorePermit,
}

/// Writes until the store is dropped. Two transactions are `interval` apart at least.
pub(super) fn run(file: &File, queue: &Receiver<Work>, interval: Duration) {
    let mut may_write_at = Instant::now();
    let mut idle_for = SWEEP_EVERY;
    loop {
        let mut group = Vec::new();
        match queue.recv_timeout(idle_for) {
            Ok(work) => group.push(work),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if group.is_empty() {
            idle_for = if tidy_up(file) == SWEEP_MAX { Duration::ZERO } else { SWEEP_EVERY };
            continue;
        }
        gather(queue, &mut group, may_write_at);
        write(file, group);
        may_write_at = Instant::now() + interval;
        if let Err(error) = file.make_smaller() {
            tracing::warn!(%error, "the file of the store could not be made smaller");
        }
    }
}

/// Takes what waits, and what comes before this instant.
fn gather(queue: &Receiver<Work>, group: &mut Vec<Work>, until: Instant) {
    while group.len() < GROUP_MAX {
        let Ok(work) = queue.recv_timeout(until.saturating_duration_since(Instant::now())) else { return };
        group.push(work);
    }
}

pub(super) fn write(file: &File, group: Vec<Work>) {
    match file.with(|database| transact(database, &group)) {
        Ok(applied) => {
            for (work, applied) in group.into_iter().zip(applied) {
                answer(work, applied);
            }
        }
        Err(error) => {
            for work in group {
                answer(work, Err(error.clone()));
            }
            // After an error the library wants to be opened again; if that fails, the next batch tries it.
            if let Err(error) = file.reopen() {
                tracing::error!(%error, "the store cannot be opened again");
            }
        }
    }
}

/// Does all batches in one transaction; each of them is done or refused by itself.
fn transact(database: &Database, group: &[Work]) -> Result<Vec<Result<Applied, Error>>, Failure> {
    let transaction = database.begin_write()?;
    let mut results = Vec::with_capacity(group.len());
    {
        let mut tables = Writing::open(&transaction)?;
        for work in group {
            match plan::run(&mut tables, &work.batch, plan::clock()) {
                Ok(applied) => results.push(Ok(applied)),
                Err(Failure::Ours(error)) => results.push(Err(error)),
                Err(failure) => return Err(failure),
            }
        }
        tables.sweep(SWEEP_MAX)?;
    }
    if results.iter().any(|result| matches!(result, Ok(Applied::Done(_)))) {
        transaction.commit()?;
    } else {
        transaction.abort()?;
    }
    Ok(results)
}

fn answer(work: Work, applied: Result<Applied, Error>) {
    // Whoever asked may have given up.
    drop(work.answer.send(applied));
}

/// Removes what has expired while nobody writes; how many keys.
fn tidy_up(file: &File) -> usize {
    let swept = file.with(|database| {
        let expiry = database.begin_read()?.open_table(EXPIRY)?;
        if expiry.first()?.is_none_or(|(at, _)| now_ms() < at.value().0) {
            return Ok(0);
        }
        let transaction = database.begin_write()?;
        let swept = Writing::open(&transaction)?.sweep(SWEEP_MAX)?;
        transaction.commit()?;
        Ok(swept)
    });
    swept.unwrap_or_else(|error| {
        tracing::warn!(%error, "expired keys could not be removed");
        if let Err(error) = file.reopen() {
            tracing::error!(%error, "the store cannot be opened again");
        }
        0
    })
}

#[cfg(test)]
mod tests {
    use redb::ReadableTableMetadata;

    use super::*;
    use crate::disk::rows::{ENTRIES, KEYS};
    use crate::{Durability, Key, Limits};

    fn rows(file: &File) -> (u64, u64, u64) {
        let counted = file.with(|database| {
            let read = database.begin_read()?;
            let (keys, entries) = (read.open_table(KEYS)?.len()?, read.open_table(ENTRIES)?.len()?);
            Ok((keys, entries, read.open_table(EXPIRY)?.len()?))
        });
        counted.unwrap()
    }

    fn write_all(file: &File, batch: Batch) {
        let places = std::sync::Arc::new(tokio::sync::Semaphore::new(1));
        let (answer, mut answered) = oneshot::channel();
        write(file, vec![Work { batch, answer, _place: places.try_acquire_owned().unwrap() }]);
        answered.try_recv().unwrap().unwrap();
    }

    #[test]
    fn expired_rows_are_removed_bit_by_bit_with_their_entries() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::open(folder.path(), &Limits::default(), Durability::None).unwrap();
        let key = |n: usize| Key::parse(&format!("{{t}}{n}")).unwrap();
        let short = Duration::from_millis(1);
        write_all(&file, (0..1_000).fold(Batch::new(), |batch, n| batch.append(&key(n), 1, "x", 9, short)));
        write_all(&file, Batch::new().append(&key(5_000), 1, "x", 9, Duration::from_secs(600)));
        let begun = Instant::now();
        while rows(&file) != (1, 1, 1) {
            let now = tidy_up(&file);
            assert!(now <= SWEEP_MAX, "{now} in one transaction");
            assert!(begun.elapsed() < Duration::from_secs(20), "{:?} are left", rows(&file));
        }
        assert_eq!(tidy_up(&file), 0);
    }

    #[test]
    fn every_row_has_one_deadline_and_every_entry_a_stream() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::open(folder.path(), &Limits::default(), Durability::None).unwrap();
        let key = |n: u64| Key::parse(&format!("{{t}}{n}")).unwrap();
        let ttl = Duration::from_secs(600);
        for round in 1..100 {
            let batch = Batch::new().append(&key(1), round, "x", 5, ttl).set(&key(2), "1", ttl).add(&key(3), 1, ttl);
            write_all(&file, batch.claim(&key(4), "me", ttl).expire(&key(5), ttl));
            write_all(&file, Batch::new().expire(&key(1), ttl + Duration::from_secs(round)).trim(&key(6), round));
        }
        // Four keys, and the last token of the claim.
        assert_eq!(rows(&file), (5, 5, 5));
        write_all(&file, Batch::new().set(&key(1), "no stream", ttl));
        assert_eq!(rows(&file), (5, 0, 5));
    }
}
