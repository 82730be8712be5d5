//! What servers log: a ring of rows for each, read on request.
//!
//! A row is never an event and wakes nobody.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use lb_wire::compose::Object;
use lb_wire::{Kind, Raw, Text};

use crate::moment::{Moment, rfc3339};
use crate::session::Session;
use crate::sight::Sight;

mod level;
#[cfg(test)]
mod tests;

pub use level::{Level, LogSource};

/// Bytes of the name of a logger that are kept.
const LOGGER_BYTES_MAX: usize = 256;

/// Something that a server logged.
#[derive(Clone, Debug)]
pub struct LogRow {
    /// How much it matters.
    pub level: Level,
    /// The part of the server that says it.
    pub logger: Option<Text>,
    /// Where it was read.
    pub source: LogSource,
    /// What it says; a line of output is a string.
    pub data: Raw,
}

/// Which rows are wanted.
#[derive(Clone, Copy, Debug)]
pub struct LogWish<'a> {
    /// Of this server only.
    pub server: Option<&'a str>,
    /// Of this level and above.
    pub level: Option<Level>,
    /// No more than these, the oldest.
    pub limit: usize,
    /// From these sources only; none named is all.
    pub sources: &'a [LogSource],
    /// Not from these sources.
    pub exclude: &'a [LogSource],
    /// Whether what is returned is forgotten.
    pub clear: bool,
    /// Of which servers at all.
    pub sight: Sight<'a>,
}

impl LogWish<'_> {
    fn wants(&self, row: &LogRow) -> bool {
        self.level.is_none_or(|level| level <= row.level)
            && (self.sources.is_empty() || self.sources.contains(&row.source))
            && !self.exclude.contains(&row.source)
    }
}

/// The rings of one session.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    by_server: HashMap<Box<str>, VecDeque<Kept>>,
    /// The order over all servers.
    next: u64,
}

#[derive(Debug)]
struct Kept {
    seq: u64,
    unix: Duration,
    row: LogRow,
}

impl Session {
    /// Keeps a row. The oldest of the server goes when there are too many.
    pub fn log(&mut self, server: &Text, row: LogRow, now: Moment) {
        if self.is_closed() {
            return;
        }
        let row = bounded(row, self.limits.log_line_bytes_max);
        self.logs.next += 1;
        let kept = Kept { seq: self.logs.next, unix: now.unix, row };
        let ring = self.logs.by_server.entry(Box::from(&**server)).or_default();
        ring.push_back(kept);
        while self.limits.logs_max < ring.len() {
            ring.pop_front();
        }
    }

    /// The rows that are wanted, oldest first. Exactly those are forgotten, if so wished.
    pub fn logs(&mut self, wish: &LogWish<'_>) -> Vec<Raw> {
        let mut found: Vec<(&str, &Kept)> = self
            .logs
            .by_server
            .iter()
            .filter(|(name, _)| wish.server.is_none_or(|server| server == &***name) && wish.sight.sees(name))
            .flat_map(|(name, ring)| ring.iter().map(move |kept| (&**name, kept)))
            .filter(|(_, kept)| wish.wants(&kept.row))
            .collect();
        found.sort_unstable_by_key(|(_, kept)| kept.seq);
        found.truncate(wish.limit);
        let rows = found.iter().map(|(server, kept)| shown(server, kept)).collect();
        if wish.clear {
            let gone: HashSet<u64> = found.iter().map(|(_, kept)| kept.seq).collect();
            self.logs.by_server.retain(|_, ring| {
                ring.retain(|kept| !gone.contains(&kept.seq));
                !ring.is_empty()
            });
        }
        rows
    }

    /// How many rows of a server are kept.
    pub fn log_count(&self, server: &str) -> usize {
        self.logs.by_server.get(server).map_or(0, VecDeque::len)
    }

    /// The last lines that the process of a server wrote to its standard error, oldest first.
    pub fn last_stderr(&self, server: &str, max: usize) -> Vec<String> {
        let ring = self.logs.by_server.get(server);
        let newest_first = ring.into_iter().flatten().rev().filter(|kept| kept.row.source == LogSource::Stderr);
        let mut lines: Vec<String> = newest_first.take(max).map(|kept| line(&kept.row.data).into_owned()).collect();
        lines.reverse();
        lines
    }

    pub(crate) fn forget_logs(&mut self, server: &str) {
        self.logs.by_server.remove(server);
    }
}

/// A text of at most `bytes_max` bytes, and a mark where it was cut.
pub(crate) fn shortened(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    let kept = text.get(..text.floor_char_boundary(bytes_max)).unwrap_or_default();
    Cow::Owned(format!("{kept}… [truncated, {} bytes]", text.len()))
}

/// The row without anything too long, in memory of its own.
fn bounded(row: LogRow, bytes_max: usize) -> LogRow {
    let text = line(&row.data);
    // A value that is no string is shown as the text that it was written as.
    let data = if text.len() <= bytes_max { row.data.detached() } else { Raw::string(&shortened(&text, bytes_max)) };
    let logger = row.logger.map(|name| Text::from(&*shortened(&name, LOGGER_BYTES_MAX)));
    LogRow { data, logger, ..row }
}

fn line(data: &Raw) -> Cow<'_, str> {
    match data.kind() {
        Kind::String => data.to_text().unwrap_or_default(),
        _ => data.as_str().into(),
    }
}

fn shown(server: &str, kept: &Kept) -> Raw {
    Object::new()
        .text("server", server)
        .text("level", kept.row.level.as_str())
        .maybe_text("logger", kept.row.logger.as_deref())
        .text("source", kept.row.source.as_str())
        .text("timestamp", &rfc3339(kept.unix))
        .raw("data", &kept.row.data)
        .finish()
}
