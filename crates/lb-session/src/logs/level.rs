//! How much a log row matters, and where it comes from.

/// The levels of the protocol, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the words are those of the protocol")]
pub enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl Level {
    /// All of them, from the least to the most.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    /// From its word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == text)
    }
}

/// Where a log row was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSource {
    /// A message of the protocol.
    Protocol,
    /// A line of standard error.
    Stderr,
    /// A line of standard output that is no message.
    Stdout,
}

impl LogSource {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Protocol, Self::Stderr, Self::Stdout];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Protocol => "protocol",
            Self::Stderr => "stderr",
            Self::Stdout => "stdout",
        }
    }

    /// From its word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.as_str() == text)
    }
}
