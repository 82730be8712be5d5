//! What of a session waits to be written, and how it is put into batches.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use lb_session::{KeptTask, Ulid};
use lb_store::{Batch, Error};
use lb_wire::Raw;

use super::keys::Keys;

/// Steps of one batch; a store takes a few more.
pub(super) const STEPS_MAX: usize = 1_000;
/// Bytes from which on a batch is full.
const BATCH_BYTES: usize = 4 << 20;
/// Events that a store keeps of one session, those of before it was written anew among them.
const EVENTS_KEPT: u64 = 8_192;
/// Entries that a store keeps of the streams of one session: more than there ever are.
const STREAMS_KEPT: u64 = 65_536;

/// One thing to be written. They are written in order, and what follows from a change ends with a record.
#[derive(Debug)]
pub(super) enum Piece {
    /// Who it belongs to and where it leads.
    Head(Raw),
    Task(Ulid, KeptTask),
    TaskGone(Ulid),
    /// An event, by its position.
    Event(u64, Bytes),
    /// Events before this position are not wanted any more.
    Trim(u64),
    /// An entry of the log of the streams, by its position.
    Stream(u64, Raw),
    /// Entries of that log before this position are not wanted any more.
    StreamsTrim(u64),
    /// Everything is wanted for longer.
    Touch,
    /// What holds of all that came before it.
    Record(Raw),
}

impl Piece {
    /// The bytes that it keeps from being free: a task shares its own with the session.
    pub(super) fn held(&self) -> usize {
        match self {
            Self::Event(_, entry) => entry.len(),
            Self::Record(raw) | Self::Stream(_, raw) => raw.as_bytes().len(),
            Self::Head(_) | Self::Task(..) | Self::TaskGone(_) => 0,
            Self::Trim(_) | Self::StreamsTrim(_) | Self::Touch => 0,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Task(_, task) => task.bytes(),
            Self::Head(_) | Self::TaskGone(_) | Self::Event(..) | Self::Stream(..) => self.held(),
            Self::Trim(_) | Self::StreamsTrim(_) | Self::Touch | Self::Record(_) => self.held(),
        }
    }

    /// The log that it adds to, and where.
    fn appends(&self) -> Option<(Appended, u64)> {
        match self {
            Self::Event(at, _) => Some((Appended::Events, *at)),
            Self::Stream(at, _) => Some((Appended::Streams, *at)),
            Self::Head(_) | Self::Task(..) | Self::TaskGone(_) | Self::Record(_) => None,
            Self::Trim(_) | Self::StreamsTrim(_) | Self::Touch => None,
        }
    }

    /// Whether it cannot stand in one batch with others: it touches keys that they touch.
    fn is_alone(&self) -> bool {
        matches!(self, Self::Trim(_) | Self::StreamsTrim(_) | Self::Touch)
    }
}

/// The logs of a session. A batch adds to one of them, so that it is clear which is not as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Appended {
    Events,
    Streams,
}

/// What a batch is made for.
pub(super) struct Packing<'a> {
    pub(super) keys: &'a Keys,
    /// The value of the owner's key that makes us the owner.
    pub(super) owner: Bytes,
    /// Tasks that have a key.
    pub(super) tasks: &'a BTreeSet<Ulid>,
    pub(super) ttl: Duration,
    /// Pieces in one batch.
    pub(super) pieces_max: usize,
}

/// The first pieces, as a batch that is done only while we are the owner.
pub(super) struct Packed {
    pub(super) batch: Batch,
    /// How many pieces these are.
    pub(super) count: usize,
    /// The steps that find out whether what never changes is still there.
    pub(super) there: Vec<usize>,
    /// The log that it adds to, if any, and the last position there.
    pub(super) last: Option<(Appended, u64)>,
    steps: usize,
}

impl Packing<'_> {
    /// The next batch; `None` when nothing waits.
    pub(super) fn next(&self, pieces: &VecDeque<Piece>, recorded: bool) -> Result<Option<Packed>, Error> {
        let batch = Batch::new().when(&self.keys.owner, Some(self.owner.clone()));
        let mut packed = Packed { batch, count: 0, there: Vec::new(), last: None, steps: 0 };
        let (mut bytes, mut has_head) = (0, false);
        for piece in pieces {
            let full = self.pieces_max <= packed.count || STEPS_MAX <= packed.steps || BATCH_BYTES <= bytes;
            let logs = packed.last.zip(piece.appends());
            let mixes = logs.is_some_and(|((log, _), (other, _))| log != other);
            if packed.count != 0 && (full || mixes || piece.is_alone()) {
                break;
            }
            has_head |= matches!(piece, Piece::Head(_));
            bytes += piece.bytes();
            packed = self.add(packed, piece, has_head, recorded)?;
            if piece.is_alone() || matches!(piece, Piece::Record(_)) {
                break;
            }
        }
        Ok((packed.count != 0).then_some(packed))
    }

    fn add(&self, packed: Packed, piece: &Piece, has_head: bool, recorded: bool) -> Result<Packed, Error> {
        let Packed { batch, count, mut there, last, mut steps } = packed;
        let last = piece.appends().or(last);
        let (keys, ttl) = (self.keys, self.ttl);
        let batch = match piece {
            Piece::Head(head) => batch.set(&keys.head, head.bytes().clone(), ttl),
            Piece::Task(id, task) => batch.set(&keys.task(*id)?, task.compose().bytes().clone(), ttl),
            Piece::TaskGone(id) => batch.delete(&keys.task(*id)?),
            Piece::Event(at, entry) => batch.append(&keys.events, *at, entry.clone(), EVENTS_KEPT, ttl),
            Piece::Trim(before) => batch.trim(&keys.events, *before),
            Piece::Stream(at, entry) => batch.append(&keys.streams, *at, entry.bytes().clone(), STREAMS_KEPT, ttl),
            Piece::StreamsTrim(before) => batch.trim(&keys.streams, *before),
            Piece::Touch => {
                there.push(steps);
                there.extend(recorded.then_some(steps + 1));
                let all = batch.expire(&keys.head, ttl).expire(&keys.record, ttl);
                let all = all.expire(&keys.owner, ttl).expire(&keys.events, ttl).expire(&keys.streams, ttl);
                steps += 4;
                self.tasks.iter().take(STEPS_MAX).try_fold(all, |all, id| Ok(all.expire(&keys.task(*id)?, ttl)))?
            }
            Piece::Record(record) => {
                let batch = batch.set(&keys.record, record.bytes().clone(), ttl).expire(&keys.owner, ttl);
                steps += 1;
                if has_head {
                    batch
                } else {
                    steps += 1;
                    there.push(steps);
                    batch.expire(&keys.head, ttl)
                }
            }
        };
        Ok(Packed { batch, count: count + 1, there, last, steps: steps + 1 })
    }
}
