//! One configured server: its name, where it is, how it is isolated and restarted.
//!
//! Owns the checked form only. It knows neither files nor the environment nor connections: whoever holds a value of
//! these types may rely on it. Two equal specs describe the same server, which is what a reload compares.

use std::borrow::Borrow;
use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::login::ServerAuth;
use crate::reach::Bounds;

/// One configured server, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerSpec {
    /// What clients and operators call it.
    pub name: ServerName,
    /// Where it is and how to get there.
    pub target: Target,
    /// Who shares one backend of it.
    pub isolation: Isolation,
    /// Longest wait for a step of one call; `None` leaves the gateway's own deadline.
    pub timeout: Option<Duration>,
    /// What a crash of its child leads to.
    pub restart: Restart,
    /// Listed, but never connected.
    pub disabled: bool,
    /// Which addresses it may have, by who defined it.
    pub bounds: Bounds,
    /// What it says of itself and lists is kept, over restarts too, and told without asking it.
    pub cached: bool,
    /// Its child is ended when nothing has used it for this long; `None` for never.
    pub idle_timeout: Option<Duration>,
    /// What was kept for longer is asked for again, while clients are told what is kept.
    pub max_age: Duration,
    /// How many backends the sessions that share are spread over; more than one only where they share.
    pub pool: usize,
    /// How long it may take to answer the handshake.
    pub init_timeout: Duration,
    /// How long it may take to tell one of its lists that is to be kept.
    pub list_timeout: Duration,
    /// Who logs in there; only where it has a URL.
    pub auth: ServerAuth,
    /// What it speaks at its URL.
    pub transport: Transport,
}

impl ServerSpec {
    /// [`ServerSpec::max_age`] of a server that says nothing else: a day.
    pub const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);
    /// [`ServerSpec::init_timeout`] of a server that says nothing else.
    pub const INIT_TIMEOUT: Duration = Duration::from_secs(30);
    /// [`ServerSpec::list_timeout`] of a server that says nothing else.
    pub const LIST_TIMEOUT: Duration = Duration::from_secs(5);
    /// Most backends that sessions are spread over.
    pub const POOL_MAX: usize = 16;

    /// A server with every setting at its default.
    #[must_use]
    pub fn new(name: ServerName, target: Target) -> Self {
        Self {
            name,
            target,
            isolation: Isolation::default(),
            timeout: None,
            restart: Restart::default(),
            disabled: false,
            bounds: Bounds::default(),
            cached: false,
            idle_timeout: None,
            max_age: Self::MAX_AGE,
            pool: 1,
            init_timeout: Self::INIT_TIMEOUT,
            list_timeout: Self::LIST_TIMEOUT,
            auth: ServerAuth::None,
            transport: Transport::default(),
        }
    }
}

/// What a server speaks at its URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// Streamable HTTP, or HTTP+SSE where it turns out to speak nothing else.
    #[default]
    Found,
    /// HTTP+SSE, the transport of 2024-11-05.
    Sse,
}

/// Name of a configured server: 1 to 32 of `[A-Za-z0-9_-]`, without `__`, which separates server and tool.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerName(Arc<str>);

/// Why a text is no server name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Empty, or longer than [`ServerName::BYTES_MAX`].
    #[error("a server name has 1 to {max} characters, this one has {0}", max = ServerName::BYTES_MAX)]
    Length(usize),
    /// A character outside `[A-Za-z0-9_-]`.
    #[error("a server name has no {0:?}")]
    Character(char),
    /// Holds `__`.
    #[error("a server name has no \"__\", which separates server and tool")]
    Separator,
    /// The gateway's own name.
    #[error("{:?} is the gateway's own name", ServerName::RESERVED)]
    Reserved,
    /// Mapping leaves neither a letter nor a digit.
    #[error("no letter or digit is left of this server name")]
    NothingLeft,
}

impl ServerName {
    /// Longest name, in bytes (all of them ASCII).
    pub const BYTES_MAX: usize = 32;
    /// The name that the gateway itself answers to, in any case.
    pub const RESERVED: &'static str = "landbridge";

    /// Takes a name exactly as it is written.
    ///
    /// # Errors
    /// When the text breaks one of the rules above.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if let Some(character) = text.chars().find(|c| !Self::allows(*c)) {
            return Err(NameError::Character(character));
        }
        if text.is_empty() || Self::BYTES_MAX < text.len() {
            return Err(NameError::Length(text.len()));
        }
        if text.contains("__") {
            return Err(NameError::Separator);
        }
        if text.eq_ignore_ascii_case(Self::RESERVED) {
            return Err(NameError::Reserved);
        }
        Ok(Self(text.into()))
    }

    /// Takes a name from another program's file: every other character becomes `-`.
    ///
    /// # Errors
    /// When the mapped text is no name either, or nothing readable is left of it.
    pub fn map_from(text: &str) -> Result<Self, NameError> {
        let mapped: String = text.chars().map(|c| if Self::allows(c) { c } else { '-' }).collect();
        if !mapped.is_empty() && !mapped.chars().any(|c| c.is_ascii_alphanumeric()) {
            return Err(NameError::NothingLeft);
        }
        Self::parse(&mapped)
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Lower case: two names are the same server exactly when these are equal.
    #[must_use]
    pub fn folded(&self) -> String {
        self.0.to_ascii_lowercase()
    }

    fn allows(c: char) -> bool {
        c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Borrow<str> for ServerName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// A value that is used but never shown: it has no `Display`, and `Debug` prints `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Takes the value in.
    #[must_use]
    pub fn new(value: impl Into<Box<str>>) -> Self {
        Self(value.into())
    }

    /// The value itself, for the one place that sends it on.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Where a server is.
///
/// `Debug` leaves out argument values and the query of a URL: configured tokens end up in both.
#[derive(Clone, PartialEq, Eq)]
pub enum Target {
    /// A process of ours that speaks over its standard input and output.
    Child {
        /// Program, looked up in `PATH` unless it names a path.
        command: String,
        /// Arguments, without the program.
        args: Vec<String>,
        /// Variables added to the child's environment.
        env: Vec<(String, Secret)>,
        /// Folder it starts in; `None` is ours.
        cwd: Option<PathBuf>,
        /// Hand on our whole environment instead of the allow-list.
        inherit_env: bool,
    },
    /// An HTTP endpoint.
    Http {
        /// Absolute `http` or `https` URL that passed [`check_url`].
        url: String,
        /// Headers sent with every request.
        headers: Vec<(String, Secret)>,
    },
    /// A server inside this process, by the name of its maker.
    Embedded(String),
}

impl Target {
    /// An HTTP endpoint whose URL is checked here.
    ///
    /// # Errors
    /// When [`check_url`] refuses the URL.
    pub fn http(url: impl Into<String>, headers: Vec<(String, Secret)>) -> Result<Self, UrlError> {
        let url = url.into();
        check_url(&url)?;
        Ok(Self::Http { url, headers })
    }

    /// The target as it may be listed and logged: no arguments, no query.
    #[must_use]
    pub fn address(&self) -> String {
        match self {
            Self::Child { command, .. } => format!("stdio://{command}"),
            Self::Http { url, .. } => match url.split_once('?') {
                Some((front, _)) => format!("{front}?***"),
                None => url.clone(),
            },
            Self::Embedded(name) => format!("embedded://{name}"),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Child { command, args, env, cwd, inherit_env } => f
                .debug_struct("Child")
                .field("command", command)
                .field("args", &args.iter().map(|_| Secret::new("")).collect::<Vec<_>>())
                .field("env", env)
                .field("cwd", cwd)
                .field("inherit_env", inherit_env)
                .finish(),
            Self::Http { headers, .. } => {
                f.debug_struct("Http").field("url", &self.address()).field("headers", headers).finish()
            }
            Self::Embedded(name) => f.debug_tuple("Embedded").field(name).finish(),
        }
    }
}

/// Why a text is no URL of a server. Never repeats the URL, whose query may hold a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Neither `http://` nor `https://` at its start.
    #[error("a server url starts with http:// or https://")]
    Scheme,
    /// No host, or one that cannot be a host.
    #[error("the url has no valid host")]
    Host,
    /// A port that is no number from 1 to 65535.
    #[error("the port is no number from 1 to 65535")]
    Port,
    /// `user:password@`, which nothing would send.
    #[error("the url holds a user name; credentials belong into headers")]
    UserInfo,
    /// `#…`, which nothing would send.
    #[error("the url has a fragment")]
    Fragment,
    /// A character that a URL writes percent-encoded.
    #[error("the url has a {0:?}, which must be percent-encoded")]
    Character(char),
    /// Longer than [`URL_BYTES_MAX`].
    #[error("the url is longer than {URL_BYTES_MAX} bytes")]
    Length,
}

/// Longest URL of a server, in bytes.
pub const URL_BYTES_MAX: usize = 8 * 1024;

/// Accepts an absolute `http` or `https` URL that can be sent as it is written.
///
/// # Errors
/// The first rule that the text breaks.
pub fn check_url(url: &str) -> Result<(), UrlError> {
    if URL_BYTES_MAX < url.len() {
        return Err(UrlError::Length);
    }
    let (scheme, rest) = url.split_once("://").ok_or(UrlError::Scheme)?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(UrlError::Scheme);
    }
    let sent_as_is = |c: char| c.is_ascii_graphic() && !"\"<>\\^`{|}".contains(c);
    if let Some(character) = rest.chars().find(|c| !sent_as_is(*c)) {
        return Err(UrlError::Character(character));
    }
    if rest.contains('#') {
        return Err(UrlError::Fragment);
    }
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(UrlError::UserInfo);
    }
    check_authority(authority)
}

fn check_authority(authority: &str) -> Result<(), UrlError> {
    let (host_ok, port) = match authority.strip_prefix('[') {
        Some(inner) => {
            let (address, after) = inner.split_once(']').ok_or(UrlError::Host)?;
            let port = match after.strip_prefix(':') {
                Some(port) => Some(port),
                None if after.is_empty() => None,
                None => return Err(UrlError::Host),
            };
            (address.parse::<Ipv6Addr>().is_ok(), port)
        }
        None => {
            let (host, port) = match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            };
            let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
            (host.chars().any(|c| c.is_ascii_alphanumeric()) && host.chars().all(allowed), port)
        }
    };
    if !host_ok {
        return Err(UrlError::Host);
    }
    // `u16::from_str` takes a leading `+`, a URL does not.
    let port_ok = |port: &str| port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|p| p != 0);
    if port.is_some_and(|port| !port_ok(port)) { Err(UrlError::Port) } else { Ok(()) }
}

/// Who shares one backend of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// Every session has its own.
    #[default]
    Session,
    /// All sessions use the same one.
    Shared,
}

impl Isolation {
    /// Every way, in the order in which they are explained.
    pub const ALL: [Self; 2] = [Self::Session, Self::Shared];

    /// The word a config file has for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Shared => "shared",
        }
    }

    /// The isolation that a config file's word means.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|isolation| isolation.as_str() == text)
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a crash of a server's child leads to.
#[derive(Clone, Debug, PartialEq)]
pub struct Restart {
    /// Start it again at all.
    pub enabled: bool,
    /// Attempts before the server is given up.
    pub attempts_max: u32,
    /// Wait before the first attempt.
    pub delay_first: Duration,
    /// Longest wait between two attempts.
    pub delay_max: Duration,
    /// By how much each wait is longer than the one before; at least 1.
    pub delay_factor: f64,
    /// Uptime after which the attempts are counted anew.
    pub healthy_after: Duration,
}

impl Default for Restart {
    fn default() -> Self {
        Self {
            enabled: true,
            attempts_max: 5,
            delay_first: Duration::from_secs(1),
            delay_max: Duration::from_secs(60),
            delay_factor: 2.0,
            healthy_after: Duration::from_secs(60),
        }
    }
}

impl Restart {
    /// Wait before attempt number `attempt`, counted from 1, without jitter.
    #[must_use]
    pub fn delay(&self, attempt: u32) -> Duration {
        let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
        // Bounded, so that no wait at all stays none: zero times infinity is no number.
        let growth = self.delay_factor.max(1.0).powi(exponent).min(1e9);
        let seconds = self.delay_first.as_secs_f64() * growth;
        Duration::try_from_secs_f64(seconds).unwrap_or(self.delay_max).min(self.delay_max)
    }
}

#[cfg(test)]
mod tests;
