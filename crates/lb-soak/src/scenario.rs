//! The scenarios by name.

mod churn;
mod clock;
mod deaf;
mod disk;
mod exhaust;
mod half_open;
mod heavy;
mod hygiene;
mod kills;
mod kills_http;
mod restart;
mod stale;
mod steady;
mod weather;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;

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
    /// For an hour of its own.
    Long,
}

impl Size {
    /// One of two sizes.
    #[must_use]
    pub fn pick<T>(self, short: T, long: T) -> T {
        match self {
            Self::Short => short,
            Self::Long => long,
        }
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
        name: "R7",
        about: "rolling restarts under load, the new process first",
        run: |setup, size, seed| Box::pin(restart::run(setup, size, seed)),
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
        name: "R18",
        about: "sessions that come and go",
        run: |setup, size, seed| Box::pin(churn::run(setup, size, seed)),
    },
    Scenario {
        name: "R19",
        about: "lists, results and reports that are too much",
        run: |setup, size, seed| Box::pin(heavy::run(setup, size, seed)),
    },
    Scenario {
        name: "T5",
        about: "a shared process reports for a call whose client is gone",
        run: |setup, size, seed| Box::pin(stale::run(setup, size, seed)),
    },
    Scenario {
        name: "hygiene",
        about: "clients and servers die at random; nothing is left",
        run: |setup, size, seed| Box::pin(hygiene::run(setup, size, seed)),
    },
];
