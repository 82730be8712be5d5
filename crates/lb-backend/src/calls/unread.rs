//! Whose request a server could not read.
//!
//! A server that cannot read a line answers with an error that names no request. But it reads lines in the order in
//! which they were written, and says so before it reads on. So an error without an id is about a line that was written
//! after every request that is known to have been read. Where several are left, the error is kept as a debt, and settled
//! once answers to the others leave no more lines than there are errors. A request that may be innocent is never ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lb_exchange::End;

use super::{Slot, Table};

/// Errors that may wait for their request; a server that sends more has lost its way.
const DEBTS_MAX: usize = 128;
/// Lines that nobody waits for and that errors may be about; with more, nothing is concluded until they are read.
const LOST_MAX: usize = 128;

/// Where in the order of all lines of a connection one was written: counted from one, 0 while it was not.
#[derive(Debug, Default)]
pub struct Place(AtomicU64);

impl Place {
    /// Written just now.
    pub fn set(&self, place: u64) {
        self.0.store(place, Ordering::Release);
    }

    /// The place.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// The place, which is of no interest any more.
    pub fn take(&self) -> u64 {
        self.0.swap(0, Ordering::AcqRel)
    }
}

/// Requests, and the errors that they turned out to be answered with.
pub type Guilty = Vec<(Arc<Slot>, End)>;

/// Ends the requests that are known to be meant; not under a lock.
pub fn tell(guilty: Guilty) {
    for (slot, end) in guilty {
        slot.end(end);
    }
}

/// What is known of how far the server has read.
#[derive(Debug, Default)]
pub struct Unread {
    /// The last place that it has surely read.
    read: u64,
    /// Lines that may be unreadable and that nobody waits for: cancelled requests with their ids, and notifications and
    /// answers, with none.
    lost: BTreeMap<u64, Option<u64>>,
    /// The last place of lines that were lost and are forgotten.
    blind: u64,
    /// The last line that is no request.
    unasked: u64,
    /// In the order in which they came, and so of `upto`.
    debts: Vec<Debt>,
}

/// An error without an id: it is about one of the lines at these places.
#[derive(Debug)]
struct Debt {
    after: u64,
    upto: u64,
    end: End,
}

impl Debt {
    fn covers(&self, place: u64) -> bool {
        self.after < place && place <= self.upto
    }
}

impl Unread {
    /// A request is gone without an answer: it may be one that an error is about, or will be.
    pub fn lose(&mut self, place: u64, id: u64) {
        if place != 0 {
            self.doubt(place, Some(id));
        }
    }

    /// A line is written that is no request.
    pub fn unasked(&mut self, place: u64, readable: bool) {
        self.unasked = place;
        if !readable {
            self.doubt(place, None);
        }
    }

    fn doubt(&mut self, place: u64, id: Option<u64>) {
        self.lost.insert(place, id);
        if LOST_MAX < self.lost.len() {
            self.blind = self.lost.last_key_value().map_or(place, |(last, _)| *last);
            self.lost.clear();
            self.debts.clear();
        }
    }

    /// Where the request was written that was cancelled and is answered after all; 0 for none.
    pub fn found(&mut self, id: u64) -> u64 {
        let place = self.lost.iter().find(|(_, lost)| **lost == Some(id)).map(|(place, _)| *place);
        if let Some(place) = place {
            self.lost.remove(&place);
        }
        place.unwrap_or(0)
    }

    /// Forgets what can lead to nothing any more: errors that nobody can be told, and lines that were read without one.
    /// All errors or none, as each may tell the others apart.
    fn forget(&mut self, lines: &[(u64, Option<u64>)]) {
        let read = self.read;
        let waits = |debt: &Debt| lines.iter().any(|(place, id)| id.is_some() && debt.covers(*place));
        if !self.debts.iter().any(|debt| read < debt.upto || waits(debt)) {
            self.debts.clear();
        }
        while self.debts.is_empty()
            && let Some(first) = self.lost.first_entry()
            && *first.key() <= read
        {
            self.blind = self.blind.max(*first.key());
            first.remove();
        }
    }

    /// Places that hold no more lines than there are errors about them.
    fn settled(&self, lines: &[(u64, Option<u64>)]) -> Option<(u64, u64)> {
        let up_to = |place: u64| lines.partition_point(|(line, _)| *line <= place);
        self.debts.iter().find_map(|first| {
            let mut owed = 0;
            self.debts.iter().find_map(|last| {
                owed += usize::from(first.after <= last.after);
                let lines = up_to(last.upto).saturating_sub(up_to(first.after));
                (0 < owed && lines <= owed).then_some((first.after, last.upto))
            })
        })
    }
}

impl Table {
    /// The server has read the line at this place, and could.
    pub fn read(&mut self, place: u64) -> Guilty {
        self.unread.read = self.unread.read.max(place);
        if self.unread.debts.is_empty() && self.unread.lost.is_empty() { Vec::new() } else { self.settle() }
    }

    /// The server could not read a line.
    pub fn unreadable(&mut self, end: End, parsing: bool) -> Guilty {
        let lines = self.lines();
        let (Some((first, _)), Some((last, _))) = (lines.first(), lines.last()) else { return Vec::new() };
        let unread = &mut self.unread;
        // One that says so late, after answers to what it read later, can mean any line.
        let after = if unread.read < *last { unread.read } else { first - 1 };
        // An error about anything else than JSON may be the answer to what wants none.
        let other = if parsing { unread.blind } else { unread.blind.max(unread.unasked) };
        if after < other || DEBTS_MAX <= unread.debts.len() {
            tracing::debug!(after, other, "error without an id dropped: it may be about a line that nobody waits for");
            return Vec::new();
        }
        let upto = unread.debts.last().map_or(*last, |debt| debt.upto.max(*last));
        unread.debts.push(Debt { after, upto, end });
        self.settle()
    }

    /// Closes the requests that are known by now to be meant.
    fn settle(&mut self) -> Guilty {
        let mut guilty = Vec::new();
        loop {
            let lines = self.lines();
            let Some((after, upto)) = self.unread.settled(&lines) else {
                self.unread.forget(&lines);
                return guilty;
            };
            let debts = self.unread.debts.extract_if(.., |debt| after <= debt.after && debt.upto <= upto);
            let debts: Vec<Debt> = debts.collect();
            let meant = lines.into_iter().filter(|(place, _)| after < *place && *place <= upto);
            for ((place, id), debt) in meant.zip(debts) {
                self.unread.read = self.unread.read.max(place);
                self.unread.lost.remove(&place);
                guilty.extend(id.and_then(|id| self.take(id)).map(|slot| (slot, debt.end)));
            }
        }
    }

    /// The lines that the server may not have been able to read, in their order; with an id, if somebody waits.
    fn lines(&self) -> Vec<(u64, Option<u64>)> {
        let open = self.open.iter().map(|(id, slot)| (slot.place.get(), Some(*id)));
        let open = open.filter(|(place, _)| *place != 0);
        let mut lines: Vec<_> = open.chain(self.unread.lost.keys().map(|place| (*place, None))).collect();
        lines.sort_unstable();
        lines
    }
}
