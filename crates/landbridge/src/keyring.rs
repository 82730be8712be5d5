//! The keyring of the system: where a desktop keeps the secrets of whoever is logged in (the Secret Service).
//!
//! Nobody is asked anything: a keyring that is locked, or wants to be asked first, counts as one that cannot be used. A
//! gateway has nobody in front of it.

mod bus;
mod secrets;
mod wire;

use std::fmt;
use std::time::Duration;

pub use self::secrets::Keyring;

/// Why a keyring cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// There is none here.
    Absent,
    /// Nothing was answered for this long.
    Silent(Duration),
    /// Somebody would have to unlock it.
    Locked,
    /// Anything else, for people.
    Failed(String),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("there is none in this session"),
            Self::Silent(waited) => write!(f, "it did not answer within {waited:?}"),
            Self::Locked => f.write_str("it is locked"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}
