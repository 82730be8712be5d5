//! What an operator can set about the HTTP side.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use lb_exchange::Secret;

use crate::hop::NodeKeys;
use crate::listen::Place;
use crate::manage::Managed;
use crate::network::Network;
use crate::nodes::NodeClock;
use crate::pages::Pages;
use crate::rate::{Rate, Together};

/// Further members of `/health`, such as the number of sessions.
pub type HealthSource = Arc<dyn Fn() -> Vec<(&'static str, serde_json::Value)> + Send + Sync>;

/// Why nothing is done now, for whoever asks; `None` while everything is.
pub type Closed = Arc<dyn Fn() -> Option<&'static str> + Send + Sync>;

/// Limits, times and names of the HTTP side.
///
/// All of it can be replaced while serving, see [`Handle::update`](crate::Handle::update). The next request sees the new
/// values; the times of a connection are those of its beginning.
#[derive(Clone)]
pub struct Settings {
    /// Where the protocol is served; everything else hangs below it.
    pub mcp_path: String,
    /// Hosts under which we may be addressed, without port, in lower case.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may call us, beside those on our own host or on loopback; `*` for any.
    pub allowed_origins: Vec<String>,
    /// The URL under which others reach us. With one, being on this machine makes nobody an operator: everybody who
    /// comes through the proxy in front would be.
    pub public_url: Option<String>,
    /// Whether callers must log in. With a login, being on this machine makes nobody an operator.
    pub login: bool,
    /// Who lets them in, gives them tokens and decides what they may do; `None` without a login.
    pub auth: Option<Arc<lb_auth::Auth>>,
    /// Where people log in at servers behind us; `None` where nobody can.
    pub behind: Option<lb_auth::behind::Behind>,
    /// Who sends it as `Authorization: Bearer` is an operator, from wherever.
    pub operator_token: Option<Secret>,
    /// Where this runs; `/health` tells no version in production.
    pub environment: Environment,
    /// Proxies whose word about the client's address is believed.
    pub trusted_proxies: Vec<Network>,
    /// Where they say it.
    pub proxy_header: ProxyHeader,

    /// Requests of one client address, this machine's included, unless they come with a valid login. `None`: no such
    /// limit, as fits a gateway on loopback without a login.
    pub rate: Option<Rate>,
    /// Requests of one principal that has logged in. Without a login, those of one address of another machine.
    pub principal_rate: Option<Rate>,
    /// Calls that are being answered at one time; further ones get 503 with `Retry-After`. Streams that have no end
    /// do not count.
    pub in_flight_max: usize,
    /// Connections at one time; further ones wait to be accepted until one ends.
    pub connections_max: usize,
    /// Connections of one client address at one time; further ones are closed at once. Loopback and trusted proxies
    /// are not counted.
    pub connections_per_ip_max: usize,

    /// The largest body.
    pub body_bytes_max: usize,
    /// How long a body may take to arrive.
    pub body_read_max: Duration,
    /// Bytes per second that a body must bring after its first seconds; 0 for any.
    pub body_rate_min: u32,
    /// How long the head of a request may take to arrive, from its first byte.
    pub head_read_max: Duration,
    /// How long a TLS handshake may take.
    pub handshake_max: Duration,
    /// How long a connection may be idle.
    pub idle_max: Duration,
    /// How long a client may refuse to take what we write, or to acknowledge it.
    pub write_stall_max: Duration,

    /// How long requests may go on after the shutdown began.
    pub drain_max: Duration,
    /// How long connections without a request stay open after the shutdown began, so that what is on its way on them
    /// is still served.
    pub drain_linger: Duration,
    /// How long clients of a stream that we close shall wait before they come back.
    pub retry_after: Duration,

    /// What `/health` says beside the usual.
    pub health: Option<HealthSource>,
    /// Pages for operators.
    pub pages: Vec<Pages>,
    /// What operators change.
    pub managed: Vec<Managed>,

    /// Whether everything but the pages for operators is refused for a while.
    pub closed: Option<Closed>,

    /// How this node and others reach each other; `None` where it is alone.
    pub node: Option<NodeSettings>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mcp_path: "/mcp".into(),
            allowed_hosts: vec!["localhost".into(), "127.0.0.1".into(), "[::1]".into()],
            allowed_origins: Vec::new(),
            public_url: None,
            login: false,
            auth: None,
            behind: None,
            operator_token: None,
            environment: Environment::Development,
            trusted_proxies: Vec::new(),
            proxy_header: ProxyHeader::XForwardedFor,
            rate: None,
            principal_rate: Some(Rate { max: 100, window: Duration::from_secs(1) }),
            in_flight_max: 1024,
            connections_max: 10_000,
            connections_per_ip_max: 100,
            body_bytes_max: 4 << 20,
            body_read_max: Duration::from_secs(30),
            body_rate_min: 1024,
            head_read_max: Duration::from_secs(10),
            handshake_max: Duration::from_secs(10),
            idle_max: Duration::from_secs(75),
            write_stall_max: Duration::from_secs(30),
            drain_max: Duration::from_secs(10),
            drain_linger: Duration::from_millis(500),
            retry_after: Duration::from_secs(3),
            health: None,
            pages: Vec::new(),
            managed: Vec::new(),
            closed: None,
            node: None,
        }
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").field("mcp_path", &self.mcp_path).finish_non_exhaustive()
    }
}

/// How nodes reach each other, see [`Listener::bind_for_nodes`](crate::Listener::bind_for_nodes).
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// Where other nodes connect. What it is at the start holds until the end.
    pub listen: Place,
    /// The URL under which they do, exactly as they are told it. What was sent to another URL is refused; without one
    /// it is not looked at.
    pub url: Option<String>,
    /// What nodes know each other by.
    pub keys: NodeKeys,
    /// Whether nodes beyond this machine may be spoken to without TLS.
    pub insecure: bool,
    /// A file of PEM with the authorities of the other nodes' certificates; without one it is those of the system.
    pub authorities: Option<PathBuf>,
    /// What the other nodes let through of the same rates; `None` where each counts by itself.
    pub together: Option<Arc<dyn Together>>,
    /// The clock that all nodes go by.
    pub clock: Arc<NodeClock>,
}

impl NodeSettings {
    /// What time it is for all nodes, in seconds.
    pub(crate) fn now(&self) -> u64 {
        self.clock.now()
    }
}

/// The header in which a proxy says whose request it passes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyHeader {
    /// `X-Forwarded-For`, as most write it.
    #[default]
    XForwardedFor,
    /// `Forwarded`, as the standard has it.
    Forwarded,
}

/// Where landbridge runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Environment {
    /// On somebody's desk.
    #[default]
    Development,
    /// Where things are tried before they count.
    Staging,
    /// Where they count.
    Production,
}

impl Environment {
    /// Its name in settings: `dev`, `staging` or `prod`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Development => "dev",
            Self::Staging => "staging",
            Self::Production => "prod",
        }
    }
}

/// It is none of the three environments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give dev, staging or prod")]
pub struct EnvironmentError;

impl FromStr for Environment {
    type Err = EnvironmentError;

    fn from_str(text: &str) -> Result<Self, EnvironmentError> {
        match text {
            "dev" | "development" => Ok(Self::Development),
            "staging" => Ok(Self::Staging),
            "prod" | "production" => Ok(Self::Production),
            _ => Err(EnvironmentError),
        }
    }
}
