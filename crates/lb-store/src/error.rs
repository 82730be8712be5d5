//! What can go wrong with a store.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::Key;

/// Why a store did not do what was asked. Nothing of the batch was done, except where a variant says otherwise.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The server cannot be reached. A batch that was under way when the connection broke may have been done.
    #[error("the store is away since {}: {why}", seconds_ago(*since))]
    Away {
        /// When it was last seen, or first missed.
        since: SystemTime,
        /// What the connection said.
        why: String,
    },
    /// The store did not answer in time. A batch may have been done.
    #[error("the store did not answer within {0:?}")]
    Timeout(Duration),
    /// There is no room, and nothing is thrown away to make some.
    #[error("the store is full: {0}")]
    Full(String),
    /// A value, a message or a whole batch has too many bytes.
    #[error("{bytes} bytes are more than the {max} that the store takes")]
    TooLarge {
        /// What was asked for.
        bytes: usize,
        /// What there is.
        max: usize,
    },
    /// The server does not let us: credentials, rights, version, certificate.
    #[error("the store refuses: {0}")]
    Refused(String),
    /// The key holds something else.
    #[error("{key} holds {holds}")]
    WrongKind {
        /// The key.
        key: Key,
        /// What it holds, in words.
        holds: &'static str,
    },
    /// A request or a setting that no store takes.
    #[error("{0}")]
    WrongShape(&'static str),
    /// A batch that touches keys of several tags: a cluster could not do it at once.
    #[error("a batch touches keys of one tag, not `{0}` and `{1}`: put the same text in braces into both")]
    Tags(String, String),
    /// Another process has the folder.
    #[error("{} is used by another process: stop it, or choose another folder", .0.display())]
    InUse(PathBuf),
    /// What was read cannot be what was written.
    #[error("{} is damaged ({why}): move it away to start empty, or put a backup in its place", file.display())]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// What was found.
        why: String,
    },
}

impl Error {
    /// Whether the same may work a little later.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Away { .. } | Self::Timeout(_) | Self::Full(_) => true,
            Self::TooLarge { .. }
            | Self::Refused(_)
            | Self::WrongKind { .. }
            | Self::WrongShape(_)
            | Self::Tags(..)
            | Self::InUse(_)
            | Self::Corrupt { .. } => false,
        }
    }
}

fn seconds_ago(since: SystemTime) -> String {
    format!("{:.1} s", since.elapsed().unwrap_or_default().as_secs_f64())
}
