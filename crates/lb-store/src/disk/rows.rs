//! The rows of the file, inside of one transaction.
//!
//! `keys` holds a row for each key: its deadline, and its value or how far its stream has come. `entries` holds the
//! entries of streams, and `expiry` finds the keys whose time is over.

use std::time::Duration;

use bytes::Bytes;
use redb::{ReadableTable, Table as Rows, TableDefinition, WriteTransaction};

use crate::Batch;
use crate::batch::milliseconds;
use crate::disk::file::Failure;
use crate::disk::now_ms;
use crate::plan::{Seen, Table};

pub(super) const KEYS: TableDefinition<&str, &[u8]> = TableDefinition::new("keys");
pub(super) const ENTRIES: TableDefinition<(&str, u64), &[u8]> = TableDefinition::new("entries");
pub(super) const EXPIRY: TableDefinition<(u64, &str), ()> = TableDefinition::new("expiry");

/// One row of `keys`: a byte for the kind, the deadline, and what the kind needs.
pub(super) struct Row<'a> {
    deadline: u64,
    held: Held<'a>,
}

/// What a row holds.
pub(super) enum Held<'a> {
    Value(&'a [u8]),
    Stream { last: u64, count: u64 },
}

impl<'a> Row<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, Failure> {
        let damaged = || Failure::Theirs(redb::Error::Corrupted("a row is too short".to_owned()));
        let (kind, rest) = bytes.split_first().ok_or_else(damaged)?;
        let (deadline, rest) = number(rest).ok_or_else(damaged)?;
        let held = match kind {
            0 => Held::Value(rest),
            1 => {
                let (last, rest) = number(rest).ok_or_else(damaged)?;
                let (count, _) = number(rest).ok_or_else(damaged)?;
                Held::Stream { last, count }
            }
            _ => return Err(damaged()),
        };
        Ok(Self { deadline, held })
    }

    /// What it holds, if its time is not over.
    pub(super) fn live(self, now: u64) -> Option<Held<'a>> {
        (now < self.deadline).then_some(self.held)
    }

    fn write(&self) -> Vec<u8> {
        match &self.held {
            Held::Value(value) => [&[0], self.deadline.to_le_bytes().as_slice(), value].concat(),
            Held::Stream { last, count } => {
                [&[1], self.deadline.to_le_bytes().as_slice(), &last.to_le_bytes(), &count.to_le_bytes()].concat()
            }
        }
    }
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*number), rest))
}

/// The tables of a transaction that writes, at one instant.
pub(super) struct Writing<'t> {
    keys: Rows<'t, &'static str, &'static [u8]>,
    entries: Rows<'t, (&'static str, u64), &'static [u8]>,
    expiry: Rows<'t, (u64, &'static str), ()>,
    now: u64,
}

impl<'t> Writing<'t> {
    pub(super) fn open(transaction: &'t WriteTransaction) -> Result<Self, Failure> {
        Ok(Self {
            keys: transaction.open_table(KEYS)?,
            entries: transaction.open_table(ENTRIES)?,
            expiry: transaction.open_table(EXPIRY)?,
            now: now_ms(),
        })
    }

    /// Removes keys whose time is over and their entries, this many of both at most; how many.
    pub(super) fn sweep(&mut self, most: usize) -> Result<usize, Failure> {
        let mut done = 0;
        while done < most {
            let first = self.expiry.first()?.map(|(at, _)| (at.value().0, at.value().1.to_owned()));
            let Some((_, key)) = first.filter(|(deadline, _)| *deadline <= self.now) else { break };
            // A long stream goes in several steps; nobody sees what is left of it.
            let entries = self.entries.extract_from_if((key.as_str(), 0)..(key.as_str(), u64::MAX), |_, _| true)?;
            for entry in entries.take(most - done) {
                entry?;
                done += 1;
            }
            if done < most {
                self.forget(&key)?;
                done += 1;
            }
        }
        Ok(done)
    }

    /// Removes a key with all that belongs to it; its deadline, if it was there.
    fn forget(&mut self, key: &str) -> Result<Option<u64>, Failure> {
        let (deadline, is_stream) = match self.keys.remove(key)? {
            None => return Ok(None),
            Some(row) => {
                let row = Row::read(row.value())?;
                (row.deadline, matches!(row.held, Held::Stream { .. }))
            }
        };
        self.expiry.remove((deadline, key))?;
        if is_stream {
            self.drop_entries(key, u64::MAX)?;
        }
        Ok(Some(deadline))
    }

    /// Removes the entries of a stream before a position; how many.
    fn drop_entries(&mut self, key: &str, before: u64) -> Result<u64, Failure> {
        let mut gone = 0;
        for entry in self.entries.extract_from_if((key, 0)..(key, before), |_, _| true)? {
            entry?;
            gone += 1;
        }
        Ok(gone)
    }

    fn write(&mut self, key: &str, row: &Row<'_>) -> Result<(), Failure> {
        self.keys.insert(key, row.write().as_slice())?;
        self.expiry.insert((row.deadline, key), ())?;
        Ok(())
    }

    fn deadline(&self, ttl: Duration) -> u64 {
        self.now.saturating_add(milliseconds(ttl))
    }
}

impl Table for Writing<'_> {
    type Failure = Failure;

    fn see(&self, key: &str) -> Result<Seen, Failure> {
        let Some(found) = self.keys.get(key)? else { return Ok(Seen::Nothing) };
        Ok(match Row::read(found.value())?.live(self.now) {
            None => Seen::Nothing,
            Some(Held::Value(value)) => Seen::Value(Bytes::copy_from_slice(value)),
            Some(Held::Stream { last, .. }) => Seen::Stream { last },
        })
    }

    fn put(&mut self, key: &str, value: Bytes, ttl: Duration) -> Result<(), Failure> {
        self.forget(key)?;
        let deadline = self.deadline(ttl);
        self.write(key, &Row { deadline, held: Held::Value(&value) })
    }

    fn change(&mut self, key: &str, value: Bytes) -> Result<(), Failure> {
        let deadline = self.forget(key)?.unwrap_or(self.now);
        self.write(key, &Row { deadline, held: Held::Value(&value) })
    }

    fn touch(&mut self, key: &str, ttl: Duration) -> Result<bool, Failure> {
        let found = self.keys.get(key)?.map(|row| row.value().to_vec());
        let Some(row) = found.as_deref().map(Row::read).transpose()?.filter(|row| self.now < row.deadline) else {
            return Ok(false);
        };
        self.expiry.remove((row.deadline, key))?;
        let deadline = self.deadline(ttl);
        self.write(key, &Row { deadline, ..row })?;
        Ok(true)
    }

    fn remove(&mut self, key: &str) -> Result<bool, Failure> {
        Ok(self.forget(key)?.is_some_and(|deadline| self.now < deadline))
    }

    fn push(&mut self, key: &str, seq: u64, entry: Bytes, keep: u64, ttl: Duration) -> Result<(), Failure> {
        let found = self.keys.get(key)?.map(|row| row.value().to_vec());
        let old = match found.as_deref().map(Row::read).transpose()? {
            Some(Row { deadline, held: Held::Stream { count, .. } }) if self.now < deadline => {
                self.expiry.remove((deadline, key))?;
                count
            }
            _ => {
                self.forget(key)?;
                0
            }
        };
        self.entries.insert((key, seq), &*entry)?;
        let mut count = old + 1;
        while keep < count {
            let oldest = self.entries.range((key, 0)..(key, seq))?.next().transpose()?.map(|(at, _)| at.value().1);
            let Some(oldest) = oldest else { break };
            self.entries.remove((key, oldest))?;
            count -= 1;
        }
        let deadline = self.deadline(ttl);
        self.write(key, &Row { deadline, held: Held::Stream { last: seq, count } })
    }

    fn trim(&mut self, key: &str, before: u64) -> Result<u64, Failure> {
        let found = self.keys.get(key)?.map(|row| row.value().to_vec());
        match found.as_deref().map(Row::read).transpose()? {
            Some(Row { deadline, held: Held::Stream { last, count } }) if self.now < deadline => {
                let gone = self.drop_entries(key, before)?;
                self.write(key, &Row { deadline, held: Held::Stream { last, count: count.saturating_sub(gone) } })?;
                Ok(gone)
            }
            _ => Ok(0),
        }
    }

    /// The file says so itself when it is full: the transaction is then undone.
    fn room(&mut self, _batch: &Batch) -> Result<(), Failure> {
        Ok(())
    }
}
