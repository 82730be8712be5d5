//! The thread that writes.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use redb::{ReadableDatabase, ReadableTable};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::disk::file::{Failure, File};
use crate::disk::now_ms;
use crate::disk::rows::{EXPIRY, Writing};
use crate::{Applied, Batch, Error, plan};

/// How many batches are done in one transaction at most.
const GROUP_MAX: usize = 256;

/// How many expired keys and entries one transaction removes at most.
const SWEEP_MAX: usize = 512;

/// The same where there is little room: each transaction needs some before it frees more.
const SWEEPS: [usize; 4] = [SWEEP_MAX, 64, 8, 1];

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
            idle_for = if 0 < tidy_up(file) { Duration::ZERO } else { SWEEP_EVERY };
        } else {
            gather(queue, &mut group, may_write_at);
            write(file, group);
            may_write_at = Instant::now() + interval;
        }
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
    // What did not fit a moment ago is not tried: each attempt has the whole file read again.
    let too_many = file.too_many_bytes();
    let does_not_fit = |work: &Work| too_many <= work.batch.bytes() && !work.batch.only_shrinks();
    let (refused, group): (Vec<Work>, Vec<Work>) = group.into_iter().partition(does_not_fit);
    for work in refused {
        drop(work.answer.send(Err(file.full())));
    }
    if group.is_empty() {
        return;
    }
    let batches: Vec<&Batch> = group.iter().map(|work| &work.batch).collect();
    let applied = match transact(file, &batches, SWEEP_MAX) {
        Ok(applied) => applied,
        Err(error) => each(file, &batches, error),
    };
    for (work, applied) in group.into_iter().zip(applied) {
        // Whoever asked may have given up.
        drop(work.answer.send(applied));
    }
}

/// Does batches one by one that could not be done together, so that one does not suffer from another.
fn each(file: &File, batches: &[&Batch], error: Error) -> Vec<Result<Applied, Error>> {
    if batches.len() == 1 && !is_full(&error) {
        return vec![Err(error)];
    }
    let mut failed: Option<Error> = None;
    // Where this many bytes do not fit, more do not either.
    let mut too_many = usize::MAX;
    let one = |batch: &&Batch| {
        if let Some(error) = &failed {
            return Err(error.clone());
        }
        if too_many <= batch.bytes() && !batch.only_shrinks() {
            return Err(file.full());
        }
        let applied = alone(file, batch);
        match &applied {
            Err(error) if is_full(error) => too_many = too_many.min(batch.bytes()),
            Err(error) if error.is_temporary() => failed = Some(error.clone()),
            _ => {}
        }
        applied
    };
    batches.iter().map(one).collect()
}

fn alone(file: &File, batch: &Batch) -> Result<Applied, Error> {
    let once = || transact(file, &[batch], 0).and_then(|mut applied| applied.pop().unwrap_or_else(|| Err(file.full())));
    match once() {
        Err(error) if is_full(&error) && batch.only_shrinks() => file.exceeding(once),
        // What has expired must not stand in the way.
        Err(error) if is_full(&error) && 0 < tidy_up(file) => {
            file.note_room();
            once()
        }
        Err(error) if is_full(&error) => {
            file.note_too_many(batch.bytes());
            Err(error)
        }
        applied => applied,
    }
}

fn is_full(error: &Error) -> bool {
    matches!(error, Error::Full(_))
}

/// Does all batches in one transaction, and removes some of what has expired; each batch is done or refused by itself.
fn transact(file: &File, batches: &[&Batch], sweep: usize) -> Result<Vec<Result<Applied, Error>>, Error> {
    let is_over = file.is_over();
    let done = file.with(|database| {
        let transaction = database.begin_write()?;
        let mut results = Vec::with_capacity(batches.len());
        {
            let mut tables = Writing::open(&transaction)?;
            for batch in batches {
                if is_over && !batch.only_shrinks() {
                    results.push(Err(file.full()));
                    continue;
                }
                match plan::run(&mut tables, batch, plan::clock()) {
                    Ok(applied) => results.push(Ok(applied)),
                    Err(Failure::Ours(error)) => results.push(Err(error)),
                    Err(failure) => return Err(failure),
                }
            }
            tables.sweep(sweep)?;
        }
        let is_done = |result: &Result<Applied, Error>| matches!(result, Ok(Applied::Done(_)));
        if results.iter().any(is_done) {
            transaction.commit()?;
            if batches.iter().zip(&results).any(|(batch, result)| batch.only_shrinks() && is_done(result)) {
                file.note_room();
            }
        } else {
            transaction.abort()?;
        }
        Ok(results)
    });
    done.inspect_err(|_| heal(file))
}

/// After an error the library wants to be opened again; if that fails, the next batch tries it.
fn heal(file: &File) {
    if let Err(error) = file.reopen() {
        tracing::error!(%error, "the store cannot be opened again");
    }
}

/// Removes some of what has expired, in smaller steps where there is little room; how many keys and entries.
fn tidy_up(file: &File) -> usize {
    let mut failed = None;
    for most in SWEEPS {
        match sweep(file, most) {
            Err(error) if is_full(&error) => failed = Some(error),
            Err(error) => {
                failed = Some(error);
                break;
            }
            Ok(swept) => return swept,
        }
    }
    let swept = match failed {
        Some(error) if is_full(&error) => file.exceeding(|| sweep(file, SWEEP_MAX)),
        Some(error) => Err(error),
        None => Ok(0),
    };
    swept.unwrap_or_else(|error| {
        tracing::warn!(%error, "expired keys could not be removed");
        0
    })
}

fn sweep(file: &File, most: usize) -> Result<usize, Error> {
    let swept = file.with(|database| {
        let expiry = database.begin_read()?.open_table(EXPIRY)?;
        if expiry.first()?.is_none_or(|(at, _)| now_ms() < at.value().0) {
            return Ok(0);
        }
        let transaction = database.begin_write()?;
        let swept = Writing::open(&transaction)?.sweep(most)?;
        transaction.commit()?;
        Ok(swept)
    });
    swept.inspect_err(|_| heal(file))
}

#[cfg(test)]
mod tests {
    use redb::ReadableTableMetadata;

    use super::*;
    use crate::disk::rows::{ENTRIES, KEYS};
    use crate::{Durability, Key, Limits};

    const LONG: Duration = Duration::from_secs(600);

    fn rows(file: &File) -> (u64, u64, u64) {
        let counted = file.with(|database| {
            let read = database.begin_read()?;
            let (keys, entries) = (read.open_table(KEYS)?.len()?, read.open_table(ENTRIES)?.len()?);
            Ok((keys, entries, read.open_table(EXPIRY)?.len()?))
        });
        counted.unwrap()
    }

    fn write_all(file: &File, batch: Batch) {
        done(file, batch).unwrap();
    }

    fn done(file: &File, batch: Batch) -> Result<Applied, Error> {
        let places = std::sync::Arc::new(tokio::sync::Semaphore::new(1));
        let (answer, mut answered) = oneshot::channel();
        write(file, vec![Work { batch, answer, _place: places.try_acquire_owned().unwrap() }]);
        answered.try_recv().unwrap()
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
    fn a_long_stream_goes_in_several_steps() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::open(folder.path(), &Limits::default(), Durability::None).unwrap();
        let (stream, short) = (Key::parse("s").unwrap(), Duration::from_millis(1));
        for part in 0..2 {
            let entries = (1..=1_000).map(|n| part * 1_000 + n);
            write_all(&file, entries.fold(Batch::new(), |batch, n| batch.append(&stream, n, "x", 9_999, LONG)));
        }
        write_all(&file, Batch::new().expire(&stream, short));
        let begun = Instant::now();
        let mut steps = 0;
        while rows(&file) != (0, 0, 0) {
            let now = tidy_up(&file);
            assert!(now <= SWEEP_MAX, "{now} in one transaction");
            steps += usize::from(0 < now);
            assert!(begun.elapsed() < Duration::from_secs(20), "{:?} are left", rows(&file));
        }
        assert!(3 < steps, "2,000 entries in {steps} steps");
        // What is left of one that is on its way out does not show in the next one of that name.
        write_all(&file, (1..=1_000).fold(Batch::new(), |batch, n| batch.append(&stream, n, "x", 9_999, LONG)));
        write_all(&file, Batch::new().expire(&stream, short));
        while tidy_up(&file) == 0 {
            assert!(begun.elapsed() < Duration::from_secs(20));
        }
        write_all(&file, Batch::new().append(&stream, 1, "new", 9, LONG));
        assert_eq!(rows(&file), (1, 1, 1));
    }

    #[test]
    fn one_that_does_not_fit_takes_no_other_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let limits = Limits { bytes_max: 4 * 1024 * 1024, ..Limits::default() };
        let file = File::open(folder.path(), &limits, Durability::None).unwrap();
        let key = |n: usize| Key::parse(&format!("{{t}}{n}")).unwrap();
        let sizes = [10, 9_000_000, 20, 9_500_000, 30];
        let batches = (0..).zip(sizes).map(|(n, size)| Batch::new().set(&key(n), vec![1; size], LONG));
        let places = std::sync::Arc::new(tokio::sync::Semaphore::new(sizes.len()));
        let mut answers = Vec::new();
        let group = batches.map(|batch| {
            let (answer, answered) = oneshot::channel();
            answers.push(answered);
            Work { batch, answer, _place: places.clone().try_acquire_owned().unwrap() }
        });
        write(&file, group.collect());
        let done: Vec<bool> = answers.into_iter().map(|mut answered| answered.try_recv().unwrap().is_ok()).collect();
        assert_eq!(done, [true, false, true, false, true]);
        assert_eq!(rows(&file).0, 3);
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

    #[test]
    fn what_did_not_fit_is_tried_again_only_when_something_was_removed() {
        let folder = tempfile::tempdir().unwrap();
        let limits = Limits { bytes_max: 2 << 20, ..Limits::default() };
        let file = File::open(folder.path(), &limits, Durability::None).unwrap();
        let put = |key: &str, bytes| done(&file, Batch::new().set(&Key::parse(key).unwrap(), vec![7; bytes], LONG));
        let mut kept = 0;
        while put(&format!("k{kept}"), 100_000).is_ok() {
            kept += 1;
        }
        let bytes = file.too_many_bytes();
        assert!((100_000..200_000).contains(&bytes), "{bytes}");
        assert!(is_full(&put("more", 100_000).unwrap_err()));
        let removed = Batch::new().delete(&Key::parse("k0").unwrap());
        done(&file, removed).unwrap();
        assert_eq!(file.too_many_bytes(), usize::MAX, "what was removed may have made room");
    }
}
