//! Why a server could not be reached or did not answer, in words for whoever has to mend it.

use std::time::Duration;

use lb_exchange::{ErrorBody, LoginError, LoginNeeded};
use lb_wire::revision::code;
use lb_wire::{Raw, compose};

/// Why there is no connection.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConnectError {
    /// Its program could not be started.
    #[error("cannot start the server: {0}")]
    Spawn(String),
    /// There is no such program, or none that can be run: so it is until somebody mends that.
    #[error("cannot start the server: {0}")]
    NoProgram(String),
    /// Its program ended before it answered.
    #[error("the server exited before it answered ({exit}){}{}", tail(stderr), also(stdout))]
    Exited {
        /// How it ended.
        exit: String,
        /// The last lines it wrote to stderr.
        stderr: String,
        /// What it wrote to stdout that is no message, in words.
        stdout: String,
    },
    /// No TCP or TLS connection.
    #[error("cannot connect to {url}: {why}")]
    Unreachable {
        /// Where.
        url: String,
        /// What failed.
        why: String,
    },
    /// It wants a login first; proves nothing about its era.
    #[error("the server answers HTTP {status}: authorization required")]
    Unauthorized {
        /// 401 or 403.
        status: u16,
    },
    /// Somebody must log in there first.
    #[error("a login is needed: open {} in a browser, log in there, and try again", .0.url)]
    LoginNeeded(LoginNeeded),
    /// There is no login to be had, or it does not take the one there is.
    #[error("the login failed: {0}")]
    LoginFailed(String),
    /// It answered with a status that proves nothing about its era.
    #[error("the server answers HTTP {status}{}", tail(body))]
    Status {
        /// The status.
        status: u16,
        /// The start of the body.
        body: String,
    },
    /// It refused the handshake.
    #[error("the server refused the handshake: {message}")]
    Refused {
        /// What it said.
        message: String,
        /// Its error object.
        raw: Raw,
    },
    /// It answered the handshake with something that is none.
    #[error("the server's handshake is not usable: {0}")]
    Handshake(String),
    /// No answer in time.
    #[error("the server did not answer within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    /// A program of ours did not answer in time.
    #[error("the server did not answer within {} s{}{}", within.as_secs_f64(), tail(stderr), also(stdout))]
    Silent {
        /// How long it had.
        within: Duration,
        /// The last lines it wrote to stderr.
        stderr: String,
        /// What it wrote to stdout that is no message, in words.
        stdout: String,
    },
    /// It crashed too often and is left alone.
    #[error("the server crashed {} and is not started again{}; last: {last}", times(*crashes), pause(*again))]
    GaveUp {
        /// How often in a row.
        crashes: u32,
        /// After what time it is; `None` for never.
        again: Option<Duration>,
        /// How it ended last.
        last: String,
        /// The last lines it wrote to stderr.
        stderr: String,
    },
    /// It failed again and again and is left alone for a while.
    #[error("it cannot be reached and is left alone for {:.1} s; last: {last}", again.as_secs_f64())]
    LeftAlone {
        /// After what time it is worth another try.
        again: Duration,
        /// What went wrong last.
        last: String,
    },
    /// Its program was started several times for one call and ended each time.
    #[error("backend spawn failed after {attempts} attempts; last: {last}{}", tail(stderr))]
    SpawnFailed {
        /// How often it was started.
        attempts: u32,
        /// What was wrong the last time.
        last: String,
        /// The last lines it wrote to stderr.
        stderr: String,
    },
    /// No room for another child.
    #[error("{0} server processes run already; let sessions share one with \"isolation\": \"shared\"")]
    TooManyChildren(usize),
    /// Shutting down.
    #[error("the gateway is shutting down")]
    Stopping,
    /// It is not served any more as it was.
    #[error("{0}; try again")]
    Dismissed(Dismissal),
}

/// Why a server is not served any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Dismissal {
    /// It was removed.
    #[error("it was removed")]
    Removed,
    /// It has another definition.
    #[error("its definition was changed")]
    Changed,
}

impl Dismissal {
    fn reason(self) -> &'static str {
        match self {
            Self::Removed => "server_removed",
            Self::Changed => "server_changed",
        }
    }

    /// What a call is told that was still running when it could not go on any longer.
    pub fn cut_off(self, server: &str) -> Raw {
        let message = format!(
            "server {server:?}: {self} while the call ran, and the call did not end in time; it may have run, so check \
             before calling again"
        );
        compose::error_object(code::INTERNAL_ERROR, &message, Some(&data(self.reason(), None, None)))
    }
}

/// Why a connection in one era failed, and whether that says anything about the era.
#[derive(Clone, Debug)]
pub enum EraError {
    /// The server does not speak this era: the other one is worth a try.
    WrongEra(ConnectError),
    /// The same, and it takes no first request by POST at all: so is the transport that was before.
    NoPost(ConnectError),
    /// It proves nothing.
    Failed(ConnectError),
}

impl EraError {
    /// What went wrong.
    pub fn inner(&self) -> &ConnectError {
        let (Self::WrongEra(error) | Self::NoPost(error) | Self::Failed(error)) = self;
        error
    }

    /// What went wrong.
    pub fn into_inner(self) -> ConnectError {
        let (Self::WrongEra(error) | Self::NoPost(error) | Self::Failed(error)) = self;
        error
    }
}

/// How often, in words.
pub fn times(count: u32) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times in a row") }
}

fn pause(again: Option<Duration>) -> String {
    // Rounded up: whoever waits that long finds it tried.
    again.map(|again| format!(" for {} s", again.as_secs() + 1)).unwrap_or_default()
}

fn tail(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {}", text.trim_end()) }
}

fn also(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!("; {words}") }
}

impl ConnectError {
    /// What the client is told: -32603 with the reason, exit status and stderr as data.
    pub fn to_body(&self, server: &str) -> ErrorBody {
        self.to_body_of(&format!("server {server:?}"))
    }

    /// The same, of a server that is called this.
    pub fn to_body_of(&self, server: &str) -> ErrorBody {
        if let Self::LeftAlone { again, last } = self {
            let data = left_alone(*again, last);
            return ErrorBody::new(code::INTERNAL_ERROR, &self.message(server), Some(&data));
        }
        if let Self::LoginNeeded(needed) = self {
            let data = login_needed(needed);
            return ErrorBody::new(code::INTERNAL_ERROR, &self.message(server), Some(&data)).needing(needed.clone());
        }
        let (reason, exit, stderr) = match self {
            Self::Spawn(_) | Self::NoProgram(_) => ("spawn_failed", None, None),
            Self::Exited { exit, stderr, .. } => ("backend_closed", Some(exit), Some(stderr)),
            Self::Unreachable { .. } => ("unreachable", None, None),
            Self::Unauthorized { .. } => ("authorization_required", None, None),
            Self::LoginNeeded(_) => ("login_needed", None, None),
            Self::LoginFailed(_) => ("login_failed", None, None),
            Self::Status { .. } => ("http_status", None, None),
            Self::Refused { .. } | Self::Handshake(_) => ("handshake_failed", None, None),
            Self::Timeout(_) => ("timeout", None, None),
            Self::Silent { stderr, .. } => ("timeout", None, Some(stderr)),
            Self::GaveUp { last, stderr, .. } => ("crash_loop", Some(last), Some(stderr)),
            Self::LeftAlone { .. } => ("circuit_open", None, None),
            Self::SpawnFailed { last, stderr, .. } => ("spawn_failed", Some(last), Some(stderr)),
            Self::TooManyChildren(_) => ("limit_exceeded", None, None),
            Self::Stopping => ("stopping", None, None),
            Self::Dismissed(why) => (why.reason(), None, None),
        };
        ErrorBody::new(code::INTERNAL_ERROR, &self.message(server), Some(&data(reason, exit, stderr)))
    }

    /// What happened to this server, and what to do about it.
    pub fn message(&self, server: &str) -> String {
        let hint = self.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("{server}: {self}{hint}")
    }

    /// Whether trying again by itself is of no use: it is for somebody to mend. Whoever uses the server tries again.
    pub fn is_lasting(&self) -> bool {
        match self {
            Self::NoProgram(_) | Self::Unauthorized { .. } | Self::LoginNeeded(_) => true,
            Self::Spawn(_)
            | Self::Exited { .. }
            | Self::Unreachable { .. }
            | Self::LoginFailed(_)
            | Self::Status { .. }
            | Self::Refused { .. }
            | Self::Handshake(_)
            | Self::Timeout(_)
            | Self::Silent { .. }
            | Self::GaveUp { .. }
            | Self::LeftAlone { .. }
            | Self::SpawnFailed { .. }
            | Self::TooManyChildren(_)
            | Self::Stopping
            | Self::Dismissed(_) => false,
        }
    }

    /// What can be done about it, where the message itself does not say.
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unreachable { why, .. } if why.contains("certificate") || why.contains("try http://") => None,
            Self::Unreachable { .. } => Some("see whether it runs and its url is right"),
            Self::Unauthorized { status: 401 } => Some(
                "put what it wants into \"headers\" of its entry in the config, or add \"auth\": \"user\" to log in there",
            ),
            Self::Unauthorized { .. } => Some("put what it wants into \"headers\" of its entry in the config"),
            Self::Status { status: 300..=399, .. } => Some("put the url that it names into the config"),
            Self::Status { status: 400..=428, .. } => Some("see whether its url is that of an MCP server"),
            Self::Status { status: 429, .. } => Some("try again later"),
            Self::Status { .. } | Self::Timeout(_) => Some("see the server's own log"),
            Self::Silent { stdout, .. } if !stdout.is_empty() => {
                Some("see whether it is an MCP server, and have it log to stderr if it is")
            }
            Self::Silent { stderr, .. } if !stderr.is_empty() => None,
            Self::Silent { .. } => Some("see whether it is an MCP server that speaks over stdin and stdout"),
            Self::Refused { .. } | Self::Handshake(_) => Some("see whether it is an MCP server"),
            Self::Spawn(_)
            | Self::NoProgram(_)
            | Self::Exited { .. }
            | Self::GaveUp { .. }
            | Self::LeftAlone { .. }
            | Self::SpawnFailed { .. }
            | Self::TooManyChildren(_)
            | Self::LoginNeeded(_)
            | Self::LoginFailed(_)
            | Self::Stopping
            | Self::Dismissed(_) => None,
        }
    }
}

impl From<LoginError> for ConnectError {
    fn from(error: LoginError) -> Self {
        match error {
            LoginError::Needed(needed) => Self::LoginNeeded(needed),
            LoginError::Failed(why) => Self::LoginFailed(why),
        }
    }
}

/// The data of an error about a server that wants a login first.
fn login_needed(needed: &LoginNeeded) -> Raw {
    compose::object(&[
        ("reason", &Raw::string("login_needed")),
        ("server", &Raw::string(needed.server.as_str())),
        ("url", &Raw::string(&needed.url)),
    ])
}

/// The data of an error about a server that is left alone.
fn left_alone(again: Duration, last: &str) -> Raw {
    // Rounded up: whoever waits that long is let pass.
    let millis = u64::try_from(again.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
    compose::object(&[
        ("reason", &Raw::string("circuit_open")),
        ("retryAfterMs", &Raw::value(&millis)),
        ("lastError", &Raw::string(last)),
    ])
}

/// What every call is told that was open when its server went away. `server` is what it is called.
pub fn closed(server: &str, exit: Option<&str>, stderr: Option<&str>) -> Raw {
    let what = match exit {
        Some(exit) => format!("the server exited during the call ({exit})"),
        None => "the server closed the connection during the call".to_owned(),
    };
    let message = format!("{server}: {what}; it may have run the call, so check before calling again");
    let exit = exit.map(str::to_owned);
    let stderr = stderr.map(str::to_owned);
    compose::error_object(code::INTERNAL_ERROR, &message, Some(&data("backend_closed", exit.as_ref(), stderr.as_ref())))
}

/// The same for a server that is reached over one stream, and why that is over if not because it was ended.
pub fn cut(server: &str, why: Option<&str>) -> Raw {
    let Some(why) = why else { return closed(server, None, None) };
    let message = format!(
        "{server}: the connection ended during the call ({why}); the server may have run the call, so check before calling \
         again"
    );
    compose::error_object(code::INTERNAL_ERROR, &message, Some(&data("backend_closed", None, None)))
}

/// The data of an error about a server.
pub fn data(reason: &'static str, exit: Option<&String>, stderr: Option<&String>) -> Raw {
    let mut members = vec![("reason", Raw::string(reason))];
    members.extend(exit.map(|text| ("exit", Raw::string(text))));
    members.extend(stderr.filter(|text| !text.is_empty()).map(|text| ("stderr", Raw::string(text))));
    let members: Vec<_> = members.iter().map(|(name, value)| (*name, value)).collect();
    compose::object(&members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_program_is_shown_with_its_stderr_and_never_with_a_log_of_its_own() {
        let welcome = "it wrote on stdout, which is no message of MCP: \"Welcome!\"";
        let quoted = format!(
            "did not answer within 30 s; {welcome}; see whether it is an MCP server, and have it log to stderr if it is"
        );
        for (stderr, stdout, want) in [
            ("waiting for a lock\n", "", "did not answer within 30 s: waiting for a lock"),
            ("", "", "did not answer within 30 s; see whether it is an MCP server that speaks over stdin and stdout"),
            ("", welcome, &quoted),
        ] {
            let (stderr, stdout) = (stderr.to_owned(), stdout.to_owned());
            let error = ConnectError::Silent { within: Duration::from_secs(30), stderr, stdout };
            assert_eq!(error.message("server \"x\""), format!("server \"x\": the server {want}"));
        }
    }
}
