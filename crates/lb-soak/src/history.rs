//! What happened in a run, one JSON object per line, in the order it was written down.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    /// The first line.
    Begin {
        /// Which scenario.
        scenario: String,
        /// What it can be repeated with.
        seed: u64,
    },
    /// A client sent a call.
    Sent {
        /// When, since the beginning.
        at_ms: u64,
        /// Who; each session of a client has a name of its own.
        client: String,
        /// The text that tells this call from every other.
        marker: String,
        /// What has to come of it.
        must: Must,
    },
    /// A call ended for its client.
    Ended {
        /// When.
        at_ms: u64,
        /// Who.
        client: String,
        /// Which call.
        marker: String,
        /// How.
        how: How,
        /// What was said, for people.
        detail: String,
    },
    /// A marker stood in something that a client received.
    Seen {
        /// Who received it.
        client: String,
        /// The marker.
        marker: String,
    },
    /// A server did what a call asked for.
    Effect {
        /// Which call.
        marker: String,
        /// The process that did it.
        pid: u32,
    },
    /// A report of a stream reached the client, whatever connections it took.
    Event {
        /// Which stream.
        stream: String,
        /// The id it came with, or its number in words.
        id: String,
        /// Which one it is, counted by the server from 1.
        number: u64,
    },
    /// Such a stream was read to its end.
    StreamEnd {
        /// Which stream.
        stream: String,
        /// How many events its server sent.
        count: u64,
    },
    /// A client has a session.
    Opened {
        /// When.
        at_ms: u64,
        /// Who; another name for every session.
        client: String,
        /// The node that opened it, where that is known.
        node: Option<usize>,
    },
    /// What nodes call the session of a client.
    Named {
        /// Who.
        client: String,
        /// The name that operators see.
        session: String,
    },
    /// The sessions that a node had just before something was done to it.
    Holds {
        /// When.
        at_ms: u64,
        /// Which node.
        node: usize,
        /// Their names.
        sessions: Vec<String>,
    },
    /// From here on nothing may be lost that was told or acknowledged, but with the store.
    Strict,
    /// Nobody is told the first id of a stream before the stream is kept.
    StreamsFirst,
    /// A client was told that its session is unknown.
    Lost {
        /// When.
        at_ms: u64,
        /// Who.
        client: String,
        /// What was said.
        detail: String,
    },
    /// A request without an effect of its own ended: opening a session, waiting for events, setting a timer.
    Request {
        /// When it was sent.
        sent_ms: u64,
        /// When it ended.
        at_ms: u64,
        /// Who.
        client: String,
        /// What was asked for.
        what: String,
        /// How it ended.
        how: How,
        /// What was said, for people.
        detail: String,
    },
    /// A client asked for a timer.
    Armed {
        /// When it was answered.
        at_ms: u64,
        /// Who.
        client: String,
        /// The text that tells this timer from every other.
        timer: String,
        /// When it fires first.
        due_ms: u64,
        /// Whether the answer came: without it, nobody knows whether there is a timer.
        sure: bool,
    },
    /// An event of its session reached a client that says which one it had last.
    Activity {
        /// When.
        at_ms: u64,
        /// Who.
        client: String,
        /// The event's id.
        id: String,
        /// Its type.
        what: String,
        /// The timer that it is about.
        timer: Option<String>,
        /// How often that has fired.
        number: Option<u64>,
        /// Why events are missing, where it says so.
        cause: Option<String>,
        /// The first and the last id that may be missing, where it says so.
        #[serde(default)]
        gap: Option<(String, String)>,
    },
    /// A client has had everything that there was.
    CaughtUp {
        /// When.
        at_ms: u64,
        /// Who.
        client: String,
    },
    /// Trouble began, or is over.
    Trouble {
        /// When.
        at_ms: u64,
        /// Of what kind.
        what: Trouble,
        /// With which node.
        node: Option<usize>,
        /// Whether it is over.
        over: bool,
    },
    /// How the gateway stood.
    Sample {
        /// When.
        at_ms: u64,
        /// In which part of the run.
        phase: String,
        /// Which process.
        pid: u32,
        /// Resident memory.
        rss_kib: u64,
        /// Open descriptors.
        fds: u64,
        /// Processes below it.
        processes: u64,
        /// Those of them that ended and were not collected.
        zombies: u64,
        /// Processor time used so far, in ticks of 10 ms.
        ticks: u64,
    },
    /// Something was done to the gateway, its clients or its servers.
    Fault {
        /// When.
        at_ms: u64,
        /// What.
        what: String,
    },
    /// A process that should have been gone.
    Left {
        /// Its id.
        pid: u32,
        /// Its command line and state.
        what: String,
    },
    /// Something counted; several of one name are added up.
    Count {
        /// What.
        name: String,
        /// How many.
        value: i64,
    },
    /// What a figure has to be.
    Bound {
        /// Which figure.
        of: Measure,
        /// At least.
        min: i64,
        /// At most.
        max: i64,
    },
    /// For people.
    Note {
        /// What there is to say.
        text: String,
    },
    /// The last line: the scenario came to its end.
    Done,
}

/// What has to come of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Must {
    /// Its result.
    Succeed,
    /// An error: its server was killed.
    Fail,
    /// A result or an error; the connection holds.
    Answer,
    /// A result, or a refusal that says when to come again.
    ServeOrShed,
    /// Any end.
    End,
    /// Its result, or what the trouble of that time excuses.
    Hold,
}

/// What can be wrong with several nodes on one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// A node was killed.
    NodeKilled,
    /// A node was told to end.
    NodeStopped,
    /// The store does not answer; it has forgotten nothing when it does again.
    StoreAway,
    /// The store came back with nothing in it.
    StoreEmptied,
    /// The store takes no writes.
    StoreFull,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// With its result.
    Result,
    /// With an error, in JSON-RPC or as a result that says so.
    Error,
    /// The connection ended first.
    Broken,
    /// 429 or 503, with `Retry-After`.
    Shed,
    /// Another status, or one of these without `Retry-After`.
    Refused,
    /// It did not, as long as anybody waited.
    Never,
}

/// A figure that follows from a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "measure", rename_all = "snake_case")]
pub enum Measure {
    /// The sum of the counts of this name.
    Counted {
        /// The name.
        name: String,
    },
    /// Calls of clients whose names begin like this that ended like this.
    Calls {
        /// The beginning.
        client: String,
        /// The end.
        how: How,
    },
    /// The longest that a call took to end like this, in ms.
    Slowest {
        /// The end.
        how: How,
    },
    /// What so many in a hundred calls of clients whose names begin like this did not exceed, in ms.
    Percentile {
        /// The beginning.
        client: String,
        /// How many.
        percent: usize,
    },
    /// The last sample of one phase less the last of another.
    Growth {
        /// Of what.
        of: Quantity,
        /// The phase before.
        from: String,
        /// The phase after.
        to: String,
    },
    /// The highest sample of a phase less the last of another.
    Peak {
        /// Of what.
        of: Quantity,
        /// The phase before.
        from: String,
        /// The phase with the peak.
        to: String,
    },
    /// What the samples of a phase grow by in a minute, by the straight line that fits them best.
    PerMinute {
        /// Of what.
        of: Quantity,
        /// The phase.
        phase: String,
    },
    /// The median of what the tenths of a phase grow by in a minute: what grows with the number of things that come and
    /// go does so all the time, and what grows for once, with the most that were there together, does not count.
    Steady {
        /// Of what.
        of: Quantity,
        /// The phase.
        phase: String,
    },
    /// The last sample of a phase.
    Last {
        /// Of what.
        of: Quantity,
        /// The phase.
        phase: String,
    },
}

/// What a sample holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Resident memory in KiB.
    RssKib,
    /// Open descriptors.
    Fds,
    /// Processes below.
    Processes,
    /// Zombies below.
    Zombies,
    /// Processor time in ticks.
    Ticks,
}

/// Writes a history; clones write the same one.
#[derive(Clone, Debug)]
pub struct History {
    path: PathBuf,
    start: Instant,
    file: Arc<Mutex<BufWriter<File>>>,
}

impl History {
    /// A new file with its first line.
    ///
    /// # Panics
    /// When the file cannot be written.
    #[must_use]
    pub fn create(path: PathBuf, scenario: &str, seed: u64) -> Self {
        let file = File::create(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let history = Self { path, start: Instant::now(), file: Arc::new(Mutex::new(BufWriter::new(file))) };
        history.write(&Record::Begin { scenario: scenario.to_owned(), seed });
        history
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Milliseconds since the beginning.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Adds a line.
    ///
    /// # Panics
    /// When the file cannot be written: what was not written down cannot be checked.
    pub fn write(&self, record: &Record) {
        let mut line = serde_json::to_string(record).expect("a record is JSON");
        line.push('\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes()).expect("the history is written");
        if matches!(record, Record::Done) {
            file.flush().expect("the history is written");
        }
    }

    /// Writes down what was done.
    pub fn fault(&self, what: impl Into<String>) {
        self.write(&Record::Fault { at_ms: self.now_ms(), what: what.into() });
    }

    /// Writes down a report of a stream, under its number where it came without an id.
    pub fn event(&self, stream: &str, id: Option<String>, number: u64) {
        let id = id.unwrap_or_else(|| format!("report {number}"));
        self.write(&Record::Event { stream: stream.to_owned(), id, number });
    }

    /// Counts.
    pub fn count(&self, name: &str, value: i64) {
        self.write(&Record::Count { name: name.to_owned(), value });
    }

    /// Demands.
    pub fn bound(&self, of: Measure, min: i64, max: i64) {
        self.write(&Record::Bound { of, min, max });
    }

    /// Demands of a counted figure.
    pub fn bound_count(&self, name: &str, min: i64, max: i64) {
        self.bound(Measure::Counted { name: name.to_owned() }, min, max);
    }

    /// Says something.
    pub fn note(&self, text: impl Into<String>) {
        self.write(&Record::Note { text: text.into() });
    }

    /// Makes sure that everything so far is in the file.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn flush(&self) {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).flush().expect("the history is written");
    }
}

/// Reads a history; a line that is none is an error with its number.
///
/// # Errors
/// When the file cannot be read or a line cannot be understood.
pub fn read(path: &Path) -> Result<Vec<Record>, String> {
    let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut records = Vec::new();
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|error| format!("{}: {error}", path.display()))?;
        let record = serde_json::from_str(&line);
        records.push(record.map_err(|error| format!("{}:{}: {error}", path.display(), number + 1))?);
    }
    Ok(records)
}
