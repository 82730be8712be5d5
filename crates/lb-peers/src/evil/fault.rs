//! The faults and where each exists.

/// The ways to reach the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Lines on stdin and stdout.
    Stdio,
    /// POST and GET at `/mcp`.
    Http,
}

impl Transport {
    /// The name in `--list-faults`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
        }
    }
}

/// What `strike` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Exits with 3 without answering.
    DieBeforeReply,
    /// Answers and exits with 3.
    DieAfterReply,
    /// Writes half of the answer, then nothing ever again (stdio) or the end of the connection (HTTP).
    HalfLine,
    /// Random bytes and lines that are no JSON before the answer (stdio), a body that is no JSON (HTTP).
    Garbage,
    /// 50 MB of log notifications, then the answer.
    Flood,
    /// Never answers; over HTTP not even with a head.
    Hang,
    /// One byte of the answer every 20 ms, under 5 s in all.
    Slow,
    /// Two strikes at once are answered with each other's ids; a single one is answered after 500 ms.
    SwappedIds,
    /// Answers to finished requests and to requests never made, then the true answer.
    StaleIds,
    /// An answer of 40 MB.
    HugeLine,
    /// Closes stdout without answering and lives on.
    CloseStdout,
    /// From now on SIGTERM and the end of stdin change nothing; a copy in a session of its own does the same.
    /// Both hold stdout and stderr open and end after 1000 s. The answer names them: `pid N child M`.
    IgnoreTerm,
    /// A result with unknown content types, members and audiences, odd numbers, escapes and whitespace.
    OddContent,
    /// 20,000 progress notifications where the call has a token, then the answer.
    ProgressStorm,
    /// `notifications/tools/list_changed` and at once the answer; the list has then changed. The notification goes
    /// where the era puts it: on stdio or the call's own stream (legacy), to every open listen (modern).
    ListChangedFirst,
    /// The answer comes on the session's GET stream or on the stream of another call. `via` (`get` or `post`) picks
    /// one; otherwise the GET stream if it is open. The call's own stream ends without an answer.
    WrongStream,
}

const BOTH: &[Transport] = &[Transport::Stdio, Transport::Http];
const STDIO: &[Transport] = &[Transport::Stdio];
const HTTP: &[Transport] = &[Transport::Http];

impl Fault {
    /// Every fault, in the order they are listed.
    pub const ALL: [Self; 16] = [
        Self::DieBeforeReply,
        Self::DieAfterReply,
        Self::HalfLine,
        Self::Garbage,
        Self::Flood,
        Self::Hang,
        Self::Slow,
        Self::SwappedIds,
        Self::StaleIds,
        Self::HugeLine,
        Self::CloseStdout,
        Self::IgnoreTerm,
        Self::OddContent,
        Self::ProgressStorm,
        Self::ListChangedFirst,
        Self::WrongStream,
    ];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DieBeforeReply => "die-before-reply",
            Self::DieAfterReply => "die-after-reply",
            Self::HalfLine => "half-line",
            Self::Garbage => "garbage",
            Self::Flood => "flood",
            Self::Hang => "hang",
            Self::Slow => "slow",
            Self::SwappedIds => "swapped-ids",
            Self::StaleIds => "stale-ids",
            Self::HugeLine => "huge-line",
            Self::CloseStdout => "close-stdout",
            Self::IgnoreTerm => "ignore-term",
            Self::OddContent => "odd-content",
            Self::ProgressStorm => "progress-storm",
            Self::ListChangedFirst => "list-changed-first",
            Self::WrongStream => "wrong-stream",
        }
    }

    /// The fault of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.name() == name)
    }

    /// Where the fault exists.
    #[must_use]
    pub fn transports(self) -> &'static [Transport] {
        match self {
            Self::CloseStdout | Self::IgnoreTerm => STDIO,
            Self::WrongStream => HTTP,
            _ => BOTH,
        }
    }

    /// The fault's line in `--list-faults`.
    #[must_use]
    pub fn listing(self) -> String {
        let transports: Vec<_> = self.transports().iter().map(|transport| transport.name()).collect();
        format!("{}\t{}", self.name(), transports.join(","))
    }
}
