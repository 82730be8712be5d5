//! How a program ended.

use std::fmt;

/// How a program ended: by itself with a code, or by a signal.
///
/// Both are `None` only when nobody saw the end, because the supervisor was killed before its program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    /// The exit code, when the program ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl Exit {
    /// The end of a program that nobody saw.
    pub const UNKNOWN: Self = Self { code: None, signal: None };

    /// Ended by itself with `code`.
    #[must_use]
    pub const fn with_code(code: i32) -> Self {
        Self { code: Some(code), signal: None }
    }

    /// Ended by `signal`.
    #[must_use]
    pub const fn by_signal(signal: i32) -> Self {
        Self { code: None, signal: Some(signal) }
    }

    /// Whether the program ended by itself with code 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.code == Some(0)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exited with code {code}"),
            (None, Some(signal)) => write!(f, "killed by signal {signal}"),
            (None, None) => f.write_str("ended with unknown status"),
        }
    }
}
