//! The scenarios by name.

mod churn;
mod clock;
mod deaf;
mod disk;
mod exhaust;
mod full_store;
mod half_open;
mod heavy;
mod herd;
mod hygiene;
mod kills;
mod kills_http;
mod malformed;
mod moments;
mod nodes;
mod restart;
mod slow;
mod stale;
mod steady;
mod streams_http;
mod weather;

pub use clock::library;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::{Duration, Instant};

/// What a scenario runs with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The gateway; the peers lie beside it.
    pub binary: String,
    /// Where histories go.
    pub folder: PathBuf,
}

/// How large it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// For every run of the tests.
    Short,
    /// Goes on for this long, but is never smaller than the short size, nor larger than the full one.
    For(Duration),
}

/// Who has less time than this has none for what can only be small or full.
const FULL_FROM: Duration = Duration::from_secs(120);

impl Size {
    /// What can only be small or full.
    #[must_use]
    pub fn pick<T>(self, short: T, full: T) -> T {
        match self {
            Self::For(time) if FULL_FROM <= time => full,
            Self::Short | Self::For(_) => short,
        }
    }

    /// How long to go on, from this many seconds to that many.
    #[must_use]
    pub fn time(self, short_s: u64, full_s: u64) -> Duration {
        let (short, full) = (Duration::from_secs(short_s), Duration::from_secs(full_s));
        match self {
            Self::Short => short,
            Self::For(time) => time.clamp(short, full),
        }
    }

    /// Turns from now on: this many at least, that many at most, and between them until the time is over.
    #[must_use]
    pub fn turns(self, short: u64, full: u64) -> Turns {
        let (most, time) = match self {
            Self::Short => (short, Duration::ZERO),
            Self::For(time) => (full, time),
        };
        Turns { done: 0, least: short, most, until: Instant::now() + time }
    }

    /// The size of one of so many parts that come one after the other.
    #[must_use]
    pub fn part(self, of: u32) -> Self {
        match self {
            Self::Short => Self::Short,
            Self::For(time) => Self::For(time / of.max(1)),
        }
    }
}

/// See [`Size::turns`]. A copy goes on from where it was made, until the same time.
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    done: u64,
    least: u64,
    most: u64,
    until: Instant,
}

impl Iterator for Turns {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let goes_on = self.done < self.least || self.done < self.most && Instant::now() < self.until;
        self.done += u64::from(goes_on);
        goes_on.then(|| self.done - 1)
    }
}

type Run = Pin<Box<dyn Future<Output = PathBuf> + Send>>;

/// A scenario: it leaves a history, whose path it gives.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// The row it shows.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    run: fn(Setup, Size, u64) -> Run,
}

impl std::fmt::Debug for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Scenario {
    /// The scenario of this name, without regard to case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        SCENARIOS.iter().copied().find(|scenario| scenario.name.eq_ignore_ascii_case(name))
    }

    /// Runs it to its end and gives the path of its history. A panic is for the caller to catch: the history then
    /// breaks off, which the checker tells.
    pub async fn run(self, setup: &Setup, size: Size, seed: u64) -> PathBuf {
        std::fs::create_dir_all(&setup.folder).expect("a folder for histories");
        (self.run)(setup.clone(), size, seed).await
    }

    /// Where its history is.
    #[must_use]
    pub fn path(self, folder: &Path, seed: u64) -> PathBuf {
        folder.join(format!("history-{}-{seed}.jsonl", self.name))
    }
}

/// All of them.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "R2",
        about: "calls at 70 % of what it can do",
        run: |setup, size, seed| Box::pin(steady::steady(setup, size, seed)),
    },
    Scenario {
        name: "R3",
        about: "many more calls than may be answered at one time",
        run: |setup, size, seed| Box::pin(steady::overload(setup, size, seed)),
    },
    Scenario {
        name: "R4",
        about: "kill -9 of servers that are children, in the middle of calls",
        run: |setup, size, seed| Box::pin(kills::run(setup, size, seed)),
    },
    Scenario {
        name: "R5",
        about: "kill -9 of a server over HTTP, in the middle of streams",
        run: |setup, size, seed| Box::pin(kills_http::run(setup, size, seed)),
    },
    Scenario {
        name: "R5-resume",
        about: "kill -9 and cuts of a server over HTTP whose streams can be resumed",
        run: |setup, size, seed| Box::pin(streams_http::run(setup, size, seed)),
    },
    Scenario {
        name: "R6",
        about: "kill -9 of one of three nodes, in the middle of streams",
        run: |setup, size, seed| Box::pin(nodes::kills(setup, size, seed)),
    },
    Scenario {
        name: "R7",
        about: "rolling restarts under load, the new process first",
        run: |setup, size, seed| Box::pin(restart::run(setup, size, seed)),
    },
    Scenario {
        name: "R8",
        about: "the store of three nodes hangs, restarts and forgets",
        run: |setup, size, seed| Box::pin(nodes::store(setup, size, seed)),
    },
    Scenario {
        name: "R10",
        about: "the store of three nodes is full",
        run: |setup, size, seed| Box::pin(full_store::run(setup, size, seed)),
    },
    Scenario {
        name: "R11",
        about: "clients that never read",
        run: |setup, size, seed| Box::pin(deaf::run(setup, size, seed)),
    },
    Scenario {
        name: "R12",
        about: "a client that vanished without a packet",
        run: |setup, size, seed| Box::pin(half_open::run(setup, size, seed)),
    },
    Scenario {
        name: "R13",
        about: "a network that is slow, slices and resets",
        run: |setup, size, seed| Box::pin(weather::run(setup, size, seed)),
    },
    Scenario {
        name: "R14",
        about: "a full disk under the log file",
        run: |setup, size, seed| Box::pin(disk::run(setup, size, seed)),
    },
    Scenario {
        name: "R15",
        about: "a clock that jumps by hours",
        run: |setup, size, seed| Box::pin(clock::run(setup, size, seed)),
    },
    Scenario {
        name: "R16",
        about: "no descriptors left",
        run: |setup, size, seed| Box::pin(exhaust::run(setup, size, seed)),
    },
    Scenario {
        name: "R17",
        about: "malformed requests and lines",
        run: |setup, size, seed| Box::pin(malformed::run(setup, size, seed)),
    },
    Scenario {
        name: "R18",
        about: "sessions, servers, events and addresses that come and go",
        run: |setup, size, seed| Box::pin(churn::run(setup, size, seed)),
    },
    Scenario {
        name: "R19",
        about: "lists, results and reports that are too much",
        run: |setup, size, seed| Box::pin(heavy::run(setup, size, seed)),
    },
    Scenario {
        name: "R20",
        about: "everybody comes back at once after a restart of all nodes",
        run: |setup, size, seed| Box::pin(herd::run(setup, size, seed)),
    },
    Scenario {
        name: "THREE-NODES-batch",
        about: "three nodes behind a balancer, and everything that can go wrong with them and their store",
        run: |setup, size, seed| Box::pin(nodes::all(setup, size, seed, "batch")),
    },
    Scenario {
        name: "THREE-NODES-event",
        about: "the same, with every event written before it is told",
        run: |setup, size, seed| Box::pin(nodes::all(setup, size, seed, "event")),
    },
    Scenario {
        name: "KILLS-batch",
        about: "kill -9 of one node with a file, at random moments",
        run: |setup, size, seed| Box::pin(moments::run(setup, size, seed, "batch")),
    },
    Scenario {
        name: "KILLS-event",
        about: "the same, with every event written before it is told",
        run: |setup, size, seed| Box::pin(moments::run(setup, size, seed, "event")),
    },
    Scenario {
        name: "T5",
        about: "a shared process reports for a call whose client is gone",
        run: |setup, size, seed| Box::pin(stale::run(setup, size, seed)),
    },
    Scenario {
        name: "T24",
        about: "thousands of clients that send a byte a second",
        run: |setup, size, seed| Box::pin(slow::run(setup, size, seed)),
    },
    Scenario {
        name: "hygiene",
        about: "clients and servers die at random; nothing is left",
        run: |setup, size, seed| Box::pin(hygiene::run(setup, size, seed)),
    },
];
