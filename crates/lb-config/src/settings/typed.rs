//! The settings as they are used: typed, complete, and checked against each other.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use lb_exchange::Secret;

use super::gather::{Gathered, Place};
use super::kind::Value;
use super::listen::{Address, Listen, Reach, is_loopback};
use super::login::Login;
use super::state::State;

/// What clients see at the main path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// The whole protocol as tools.
    Tools,
    /// The only server.
    Server,
}

/// Where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Environment {
    /// On somebody's desk.
    Dev,
    /// Before it is used.
    Staging,
    /// In use: versions are hidden.
    Prod,
}

/// The header in which trusted proxies say whose request they pass on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// `X-Forwarded-For`.
    XForwardedFor,
    /// `Forwarded`.
    Forwarded,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// What happens to a tool that is no longer what it was when it was first seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pin {
    /// Nothing.
    Off,
    /// It is told.
    #[default]
    Warn,
    /// It is told, and nobody can see or call the tool.
    Hide,
}

/// Files of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The chain.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// Every setting, checked. `None` where there is no default.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, each a setting of its own")]
pub struct Settings {
    /// The servers' file.
    pub config: Option<PathBuf>,
    /// Servers as JSON, which take the place of the file.
    pub inline_servers: Option<String>,
    /// What clients see.
    pub surface: Surface,
    /// Where to listen.
    pub listen: Listen,
    /// Which flags, variables or lines of a file say so, for people.
    pub listen_source: String,
    /// Whether the port is shared with another process.
    pub reuse_port: bool,
    /// Where clients reach us from elsewhere.
    pub public_url: Option<String>,
    /// Who gets in; `None` for everybody who can connect.
    pub login: Option<Login>,
    /// Whether everybody who can connect may do everything.
    pub insecure_no_auth: bool,
    /// Further hosts, that of the public URL included.
    pub allow_host: Vec<String>,
    /// Further origins, that of the public URL included.
    pub allow_origin: Vec<String>,
    /// Proxies that are believed.
    pub trusted_proxies: Vec<(IpAddr, u8)>,
    /// Where they say whose request it is.
    pub proxy_header: ProxyHeader,
    /// TLS, if it is ours to do.
    pub tls: Option<Tls>,
    /// Where the protocol is served.
    pub mcp_path: String,
    /// Whether clients may add programs.
    pub allow_stdio_spawn: bool,
    /// Programs that administrators may add from elsewhere: a path and its arguments.
    pub allow_commands: Vec<String>,
    /// What happens to tools that change.
    pub pin: Pin,
    /// Whether arguments are recorded.
    pub record_args: bool,
    /// What operators from elsewhere show.
    pub operator_token: Option<Secret>,
    /// What it is called.
    pub name: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Where it runs.
    pub environment: Environment,
    /// Connections at one time.
    pub connections_max: usize,
    /// Connections of one address; `None` for any number.
    pub connections_per_ip_max: Option<usize>,
    /// Sessions at one time.
    pub sessions_max: usize,
    /// The largest body, in bytes.
    pub body_bytes_max: usize,
    /// Requests of one address within the window; `None` for any number.
    pub rate_limit_max: Option<u64>,
    /// Whether nobody said so, so that it depends on who can connect.
    rate_by_reach: bool,
    /// That window.
    pub rate_limit_window: Duration,
    /// Requests within a second of one principal that has logged in; `None` for any number.
    pub rate_limit_principal: Option<u64>,
    /// When an unused session ends.
    pub session_ttl: Duration,
    /// How often those are looked for.
    pub cleanup_every: Duration,
    /// How long messages of open streams are kept.
    pub event_age_max: Duration,
    /// How many are kept per session.
    pub events_max: usize,
    /// For the head of a request.
    pub header_timeout: Duration,
    /// For its body.
    pub body_timeout: Duration,
    /// For an idle connection.
    pub keep_alive_timeout: Duration,
    /// For a call in all.
    pub call_timeout: Duration,
    /// For a call without a sign of life.
    pub quiet_timeout: Duration,
    /// For what only looks something up.
    pub lookup_timeout: Duration,
    /// For the answer to what a server asks.
    pub ask_timeout: Duration,
    /// For what is under way at the end.
    pub drain_timeout: Duration,
    /// For the rest of the end.
    pub close_timeout: Duration,
    /// What is kept beyond this process, and where.
    pub state: State,
    /// How much to log; `None` for what fits the command.
    pub log_level: Option<String>,
    /// How.
    pub log_format: LogFormat,
    /// Into which file.
    pub log_file: Option<PathBuf>,
    /// Into which folder.
    pub log_dir: Option<PathBuf>,
    /// Into which file who did what is written.
    pub audit_log: Option<PathBuf>,
    /// Whether nothing is done while that cannot be written.
    pub audit_required: bool,
}

/// Of one address, without a valid login: as many as a program on this machine sends would be too many.
const RATE_OF_STRANGERS: u64 = 100;

impl Settings {
    /// Puts checked values together, and checks what only shows in combination.
    pub fn settle(gathered: &mut Gathered) -> Self {
        let address = gathered.address();
        gathered.check_address();
        let login = Login::settle(gathered, &address);
        if login.is_none() {
            gathered.check_reach(&address);
        }
        gathered.check_pairs(&address.listen);
        let state = State::settle(gathered);
        let base_url = login.as_ref().and_then(|_| gathered.text("auth_base_url"));
        let public_url = gathered.text("public_url").or(base_url);
        let (mut allow_host, mut allow_origin) = (gathered.list("allow_host"), gathered.list("allow_origin"));
        if let Some(url) = &public_url {
            allow_host.extend(url_host(url));
            allow_origin.push(url.clone());
        }
        let per_ip = gathered.count("max_connections_per_ip", 100);
        let path = |key: &str| gathered.text(key).map(|path| home(&path, gathered));
        let settings = Self {
            config: path("config"),
            inline_servers: gathered.inline_servers.clone(),
            surface: if gathered.is("surface", "server") { Surface::Server } else { Surface::Tools },
            reuse_port: gathered.switch("reuse_port"),
            insecure_no_auth: gathered.switch("insecure_no_auth"),
            trusted_proxies: gathered.networks("trusted_proxies"),
            proxy_header: match gathered.is("proxy_header", "forwarded") {
                true => ProxyHeader::Forwarded,
                false => ProxyHeader::XForwardedFor,
            },
            tls: path("tls_cert").zip(path("tls_key")).map(|(cert, key)| Tls { cert, key }),
            mcp_path: gathered.text("mcp_path").unwrap_or_else(|| "/mcp".to_owned()),
            allow_stdio_spawn: gathered.switch("allow_stdio_spawn"),
            allow_commands: gathered.list("allow_commands"),
            pin: match gathered.text("pin").as_deref() {
                Some("off") => Pin::Off,
                Some("hide") => Pin::Hide,
                _ => Pin::Warn,
            },
            record_args: gathered.switch("record_args"),
            operator_token: gathered.text("operator_token").map(Secret::new),
            name: gathered.text("name"),
            description: gathered.text("description"),
            environment: match gathered.text("environment").as_deref() {
                Some("prod") => Environment::Prod,
                Some("staging") => Environment::Staging,
                _ => Environment::Dev,
            },
            connections_max: size(gathered.count("max_connections", 10_000)),
            connections_per_ip_max: (per_ip != 0).then(|| size(per_ip)),
            sessions_max: size(gathered.count("max_sessions", 10_000)),
            body_bytes_max: size(gathered.count("max_body", 4 << 20)),
            rate_limit_max: Some(gathered.count("rate_limit_max", 0)).filter(|max| *max != 0),
            rate_by_reach: gathered.value("rate_limit_max").is_none(),
            rate_limit_window: gathered.time("rate_limit_window", 60),
            rate_limit_principal: Some(gathered.count("rate_limit_principal", 100)).filter(|max| *max != 0),
            session_ttl: gathered.time("session_ttl", 30 * 60),
            cleanup_every: gathered.time("cleanup_interval", 60),
            event_age_max: gathered.time("event_max_age", 24 * 60 * 60),
            events_max: size(gathered.count("event_max_count", 5_000)),
            header_timeout: gathered.time("header_timeout", 10),
            body_timeout: gathered.time("body_timeout", 30),
            keep_alive_timeout: gathered.time("keep_alive_timeout", 75),
            call_timeout: gathered.time("call_timeout", 60 * 60),
            quiet_timeout: gathered.time("quiet_timeout", 5 * 60),
            lookup_timeout: gathered.time("lookup_timeout", 30),
            ask_timeout: gathered.time("ask_timeout", 10 * 60),
            drain_timeout: gathered.time("drain_timeout", 10),
            close_timeout: gathered.time("close_timeout", 25),
            state,
            login,
            log_level: gathered.text("log_level").filter(|level| !level.is_empty()),
            log_format: if gathered.is("log_format", "json") { LogFormat::Json } else { LogFormat::Text },
            log_file: path("log_file"),
            log_dir: path("log_dir"),
            audit_log: path("audit_log"),
            audit_required: gathered.is("audit", "required"),
            listen_source: address.source(),
            listen: address.listen,
            public_url,
            allow_host,
            allow_origin,
        };
        let is_local = settings.listen.is_local();
        settings.reached(is_local)
    }

    /// The same for a place that only this machine reaches, or others too: a socket that was handed over need not be
    /// where `listen` says. Where callers log in, strangers come through a proxy on this machine from anywhere.
    #[must_use]
    pub fn reached(self, only_locally: bool) -> Self {
        let rate_limit_max = match (self.rate_by_reach, only_locally && self.login.is_none()) {
            (false, _) => self.rate_limit_max,
            (true, true) => None,
            (true, false) => Some(RATE_OF_STRANGERS),
        };
        Self { rate_limit_max, ..self }
    }
}

/// Why nobody may listen beyond this machine without saying so.
const OPEN: &str = "everybody who can connect could use every server, because there is no login";
/// What to do about it.
const OPEN_HINT: &str = "listen on 127.0.0.1 or on unix:PATH, let people log in with --auth, or say --insecure-no-auth \
                         (LANDBRIDGE_INSECURE_NO_AUTH=1) if something in front of it keeps others out";

/// Why a name is no use.
const NOWHERE: &str = "this machine knows no address of that name";

/// What to do about it.
const NOWHERE_HINT: &str = "give an address of this machine, as in 127.0.0.1";

/// What to do about a host. Shells and machines set variables for themselves that we take for ours.
fn reach_hint(place: &Place, hint: &str) -> String {
    match place {
        Place::Alias(name) => format!(
            "if {name} is not meant for landbridge, set LANDBRIDGE_HOST=127.0.0.1 or give --host 127.0.0.1, which are \
             stronger; else {hint}"
        ),
        Place::Default | Place::File { .. } | Place::Variable(_) | Place::Flag(_) => hint.to_owned(),
    }
}

impl Gathered {
    /// Refuses to be reachable from elsewhere without login.
    fn check_reach(&mut self, address: &Address) {
        if self.switch("insecure_no_auth") {
            return;
        }
        // Who can connect is decided by the host; the port may be from elsewhere.
        let (Address { listen, host, .. }, reach) = (address, address.listen.reach());
        if let (Listen::Tcp(text), Reach::Open | Reach::Nowhere) = (listen, reach) {
            let (why, hint) = if reach == Reach::Open { (OPEN, OPEN_HINT) } else { (NOWHERE, NOWHERE_HINT) };
            let message = format!("refused to listen on {text}: {why}");
            let key = if self.held.get("host").is_some_and(|held| held.place == *host) { "host" } else { "listen" };
            self.error(key, host, message, Some(reach_hint(host, hint)));
        }
        let url = self.held.get("public_url").cloned();
        if let Some(held) = url
            && let Value::Text(url) = &held.value
            && !url_host(url).is_some_and(|host| is_loopback(&host))
        {
            let message = format!("refused to be reached at {url}: {OPEN}");
            self.error("public_url", &held.place, message, Some(OPEN_HINT.to_owned()));
        }
    }

    /// What makes no sense alone, or together.
    fn check_pairs(&mut self, listen: &Listen) {
        for (one, other) in [("tls_cert", "tls_key"), ("tls_key", "tls_cert")] {
            if let (Some(held), None) = (self.held.get(one).cloned(), self.held.get(other)) {
                let hint = format!("give --{} too", other.replace('_', "-"));
                self.error(one, &held.place, "a certificate and its key belong together".to_owned(), Some(hint));
            }
        }
        if let (true, Some(held), None) =
            (self.is("audit", "required"), self.held.get("audit").cloned(), self.held.get("audit_log"))
        {
            let hint = Some("give --audit-log too".to_owned());
            self.error("audit", &held.place, "nothing can be required of a file that is not named".to_owned(), hint);
        }
        if let (Listen::Unix(_), Some(held)) = (listen, self.held.get("tls_cert").cloned()) {
            self.error("tls_cert", &held.place, "a socket of this machine needs no TLS: leave it out".to_owned(), None);
        }
    }

    fn value(&self, key: &str) -> Option<&Value> {
        self.held.get(key).map(|held| &held.value)
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        match self.value(key) {
            Some(Value::Text(text)) => Some(text.clone()),
            _ => None,
        }
    }

    pub(super) fn is(&self, key: &str, word: &str) -> bool {
        matches!(self.value(key), Some(Value::Text(text)) if text == word)
    }

    pub(super) fn switch(&self, key: &str) -> bool {
        matches!(self.value(key), Some(Value::Switch(true)))
    }

    fn count(&self, key: &str, default: u64) -> u64 {
        match self.value(key) {
            Some(Value::Count(count)) => *count,
            _ => default,
        }
    }

    pub(super) fn time(&self, key: &str, default_seconds: u64) -> Duration {
        match self.value(key) {
            Some(Value::Time(time)) => *time,
            _ => Duration::from_secs(default_seconds),
        }
    }

    pub(super) fn list(&self, key: &str) -> Vec<String> {
        match self.value(key) {
            Some(Value::List(list)) => list.clone(),
            _ => Vec::new(),
        }
    }

    pub(super) fn networks(&self, key: &str) -> Vec<(IpAddr, u8)> {
        match self.value(key) {
            Some(Value::Networks(networks)) => networks.clone(),
            _ => Vec::new(),
        }
    }
}

fn size(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// The host of a checked URL, in lower case.
pub(super) fn url_host(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let with_port = rest.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    Some(with_port.map_or(rest, |(host, _)| host).to_ascii_lowercase())
}

/// A path with `~` for the user's own folder.
pub(super) fn home(path: &str, gathered: &Gathered) -> PathBuf {
    match (path.strip_prefix("~/"), &gathered.home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => path.into(),
    }
}
