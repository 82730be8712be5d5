//! The rows and their bounds: which row goes when there are too many.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::{Kind, Moment, ROWS_MAX, SESSION_ROWS_MAX, Status};

/// One request, as people see it.
#[derive(Clone, Debug)]
pub struct Row {
    /// Counts up, so that ids are in the order in which requests began.
    pub id: u64,
    /// The short hash of the session's id.
    pub session: Arc<str>,
    /// What kind of request it is.
    pub kind: Kind,
    /// The tool, the resource or the prompt.
    pub name: Box<str>,
    /// The server it went to.
    pub server: Option<Box<str>>,
    /// The arguments without secrets, cut; only if they are recorded.
    pub args: Option<Box<str>>,
    /// When it began.
    pub started: Moment,
    /// How long it took, or took until it was promoted.
    pub ended: Option<Duration>,
    /// How far it is.
    pub status: Status,
    /// Why it failed.
    pub error: Option<Box<str>>,
    /// What came back, in few words.
    pub summary: Option<Box<str>>,
}

/// How a request ended.
pub enum Outcome {
    Completed(Option<Box<str>>),
    Failed(Box<str>),
}

/// Rows by id, and the ids of each session.
#[derive(Default)]
pub struct Table {
    last_id: u64,
    rows: BTreeMap<u64, Kept>,
    sessions: HashMap<Arc<str>, VecDeque<u64>>,
}

struct Kept {
    row: Row,
    /// A promoted row has a time but runs on, so that this is not what `row.ended` says.
    over: bool,
}

impl Table {
    /// Makes room, then adds a row under the next id.
    pub fn insert(&mut self, mut row: Row) -> u64 {
        self.last_id += 1;
        row.id = self.last_id;
        if ROWS_MAX <= self.rows.len() {
            let oldest = self.oldest(self.rows.keys());
            oldest.into_iter().for_each(|id| self.remove(id));
        }
        if let Some((session, ids)) = self.sessions.get_key_value(&row.session) {
            row.session = session.clone();
            if SESSION_ROWS_MAX <= ids.len() {
                let oldest = self.oldest(ids.iter());
                oldest.into_iter().for_each(|id| self.remove(id));
            }
        }
        self.sessions.entry(row.session.clone()).or_default().push_back(row.id);
        self.rows.insert(row.id, Kept { row, over: false });
        self.last_id
    }

    /// Ends a row, unless it had to make room or its session is gone.
    pub fn end(&mut self, id: u64, outcome: Outcome, took: Duration) {
        let Some(kept) = self.rows.get_mut(&id) else { return };
        kept.over = true;
        kept.row.ended = Some(took);
        match outcome {
            Outcome::Completed(summary) => {
                kept.row.status = Status::Completed;
                kept.row.summary = summary;
            }
            Outcome::Failed(error) => {
                kept.row.status = Status::Failed;
                kept.row.error = Some(error);
            }
        }
    }

    /// Says that a row took too long and runs on.
    pub fn promote(&mut self, id: u64, took: Duration) {
        if let Some(kept) = self.rows.get_mut(&id) {
            kept.row.status = Status::Timeout;
            kept.row.ended = Some(took);
        }
    }

    pub fn clear_session(&mut self, session: &str) {
        for id in self.sessions.remove(session).into_iter().flatten() {
            self.rows.remove(&id);
        }
    }

    pub fn rows(&self, session: Option<&str>) -> Vec<Row> {
        match session {
            None => self.rows.values().map(|kept| kept.row.clone()).collect(),
            Some(session) => {
                let ids = self.sessions.get(session).into_iter().flatten();
                ids.filter_map(|id| self.rows.get(id)).map(|kept| kept.row.clone()).collect()
            }
        }
    }

    #[cfg(test)]
    pub fn sessions_len(&self) -> usize {
        self.sessions.len()
    }

    /// The oldest of these that is over; if all of them run, the oldest.
    fn oldest<'a>(&self, ids: impl Iterator<Item = &'a u64> + Clone) -> Option<u64> {
        let over = |id: &&u64| self.rows.get(id).is_some_and(|kept| kept.over);
        ids.clone().find(over).or_else(|| ids.clone().next()).copied()
    }

    fn remove(&mut self, id: u64) {
        let Some(kept) = self.rows.remove(&id) else { return };
        let Some(ids) = self.sessions.get_mut(&kept.row.session) else { return };
        if let Some(at) = ids.iter().position(|known| *known == id) {
            ids.remove(at);
        }
        if ids.is_empty() {
            self.sessions.remove(&kept.row.session);
        }
    }
}
