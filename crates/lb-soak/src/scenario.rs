//! The scenarios by name.

mod hygiene;
mod kills;

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
        name: "R4",
        about: "kill -9 of servers that are children, in the middle of calls",
        run: |setup, size, seed| Box::pin(kills::run(setup, size, seed)),
    },
    Scenario {
        name: "hygiene",
        about: "clients and servers die at random; nothing is left",
        run: |setup, size, seed| Box::pin(hygiene::run(setup, size, seed)),
    },
];
