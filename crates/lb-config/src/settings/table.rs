//! The table: every setting once.

use super::check;
use super::kind::Kind;

/// The variable that names the file of settings.
pub const SETTINGS_VARIABLE: &str = "LANDBRIDGE_SETTINGS";
/// Variables that other parts of the project read, which are no settings: the trace of `wrap`, and those of tests.
pub(crate) const OTHER_VARIABLES: [&str; 5] =
    ["LANDBRIDGE_WRAP_DEBUG", "LANDBRIDGE_PEERS", "LANDBRIDGE_SEED", "LANDBRIDGE_LONG", "LANDBRIDGE_EVENTS"];
/// The variable that holds servers as JSON, in place of a config file.
pub const INLINE_CONFIG: &str = "LANDBRIDGE_CONFIG";

/// Which commands have a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every command: logs.
    Every,
    /// All that serve a config.
    Servers,
    /// `serve`, and the demo that runs without a command; flags of the demo are shown in its help too.
    Demo,
    /// `serve`.
    Serve,
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name in the file; the flag is the same with `-`, the variable `LANDBRIDGE_` and the same in capitals.
    pub key: &'static str,
    /// Whether there is a flag; a secret has none, because command lines are seen by others.
    pub has_flag: bool,
    /// Its variable, if that is not made of the key.
    renamed: Option<&'static str>,
    /// Further names of its variable, weaker than our own.
    pub aliases: &'static [&'static str],
    /// What it may be.
    pub kind: Kind,
    /// What holds without it, for people.
    pub default: &'static str,
    /// What stands for the value in the help.
    pub value_name: &'static str,
    /// What it does, in a sentence or two.
    pub help: &'static str,
    /// Which commands have it.
    pub scope: Scope,
    /// Whether a reload takes a new value up.
    pub reloads: bool,
    /// Whether its value is never shown.
    pub secret: bool,
}

impl Setting {
    const fn new(key: &'static str, scope: Scope, kind: Kind, default: &'static str, help: &'static str) -> Self {
        Self {
            key,
            has_flag: true,
            renamed: None,
            aliases: &[],
            kind,
            default,
            value_name: "VALUE",
            help,
            scope,
            reloads: false,
            secret: false,
        }
    }

    const fn named(self, value_name: &'static str) -> Self {
        Self { value_name, ..self }
    }

    const fn alias(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    const fn reloading(self) -> Self {
        Self { reloads: true, ..self }
    }

    const fn without_flag(self) -> Self {
        Self { has_flag: false, ..self }
    }

    /// The flag, without its dashes.
    #[must_use]
    pub fn flag(&self) -> String {
        self.key.replace('_', "-")
    }

    /// The variable.
    #[must_use]
    pub fn variable(&self) -> String {
        match self.renamed {
            Some(name) => name.to_owned(),
            None => format!("LANDBRIDGE_{}", self.key.to_ascii_uppercase()),
        }
    }

    /// Whether it only says that something is not there.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self.kind, Kind::Absent { .. })
    }
}

/// The setting of a key.
#[must_use]
pub fn find(key: &str) -> Option<&'static Setting> {
    TABLE.iter().find(|setting| setting.key == key)
}

/// All settings, in the order in which they are shown.
#[must_use]
pub fn table() -> &'static [Setting] {
    TABLE
}

const fn absent(
    key: &'static str,
    feature: &'static str,
    off: &'static [&'static str],
    aliases: &'static [&'static str],
) -> Setting {
    Setting::new(key, Scope::Serve, Kind::Absent { feature, off }, "", "").alias(aliases)
}

use Kind::{Count, List, Networks, Switch, Text, Time, Word};
use Scope::{Demo, Every, Serve, Servers};

pub(super) const OFF: &[&str] = &["false", "0", "no", "off", "none"];
const ANY_COUNT: u64 = u64::MAX;
/// Millions of anything fit in no memory.
const MANY: u64 = 10_000_000;

#[rustfmt::skip]
const TABLE: &[Setting] = &[
    Setting {
        renamed: Some("LANDBRIDGE_CONFIG_FILE"), reloads: true,
        ..Setting::new("config", Servers, Text(check::path), "none", "The servers, as JSON with `mcpServers`; comments, trailing commas and ${VAR} are fine. Without it there are none until a client adds some")
    }.named("FILE"),
    Setting::new("surface", Serve, Word(&["tools", "server"]), "tools", "What clients see at /mcp: the whole protocol as tools, or the only server by itself").named("SURFACE"),

    Setting::new("listen", Demo, Text(check::listen), "127.0.0.1:8080", "Where to listen; port 0 takes any free one, which is then printed").named("HOST:PORT|unix:PATH"),
    Setting::new("host", Demo, Text(check::bare_host), "127.0.0.1", "The host of --listen alone").named("HOST").alias(&["HOST", "MCP_CONFIG_SERVER_HTTP_HOST"]),
    Setting::new("port", Demo, Count(1, 65_535), "8080", "The port of --listen alone").named("PORT").alias(&["PORT", "MCP_CONFIG_SERVER_HTTP_PORT"]),
    Setting::new("reuse_port", Serve, Switch, "false", "Share the port with another process of the same user, so that a new one can take over"),
    Setting::new("public_url", Serve, Text(check::public_url), "none", "Where clients reach this from elsewhere; its host and origin are allowed").named("URL").reloading(),
    Setting::new("insecure_no_auth", Demo, Switch, "false", "Listen beyond this machine although everybody who can connect may use every server"),
    Setting::new("allow_host", Demo, List(check::host), "loopback names", "Further host names that requests may name; loopback names always may").named("HOST").alias(&["ALLOWED_HOSTS"]).reloading(),
    Setting::new("allow_origin", Demo, List(check::origin), "loopback origins", "Further web origins that may call; loopback origins always may").named("ORIGIN").alias(&["CORS_ORIGINS", "CORS_ORIGIN", "MCP_CONFIG_SERVER_HTTP_CORS_ORIGINS"]).reloading(),
    Setting::new("trusted_proxies", Serve, Networks, "none", "Addresses or networks of proxies whose word about the client's address counts; 127.0.0.1 is also whoever comes by unix:PATH").named("NETWORK").alias(&["TRUSTED_PROXIES"]).reloading(),
    Setting::new("proxy_header", Serve, Word(&["x-forwarded-for", "forwarded"]), "x-forwarded-for", "The header in which the trusted proxies say the client's address; any other is passed on as the client sent it, and says nothing").named("HEADER").reloading(),
    Setting::new("tls_cert", Serve, Text(check::path), "none", "Serve TLS with this certificate chain (PEM)").named("FILE"),
    Setting::new("tls_key", Serve, Text(check::path), "none", "The key of --tls-cert (PEM)").named("FILE"),
    Setting::new("mcp_path", Serve, Text(check::mcp_path), "/mcp", "Where the protocol is served").named("PATH").reloading(),

    Setting::new("allow_stdio_spawn", Demo, Switch, "false", "Let clients add servers that are programs to be started on this machine (add_server with a command)"),
    Setting::new("allow_commands", Serve, List(check::command), "none", "With --auth: programs that administrators may add over HTTP, each as an absolute path with the arguments it must have; `*` stands for one argument of any text that is no option").named("COMMAND"),
    Setting::new("pin", Servers, Word(&["off", "warn", "hide"]), "warn", "What happens to a tool whose description, schemas or annotations are no longer what they were when it was first seen: warn tells, hide keeps it from clients until the server is added anew, off does not look").named("MODE"),
    Setting::new("keyring", Servers, Word(&["auto", "off"]), "auto", "Where the key lies that logins at servers are sealed with: auto puts it into the keyring of the system where one is open, off beside them").named("MODE"),
    Setting::new("record_args", Demo, Switch, "false", "Show the arguments of calls on the waterfall page, without what looks secret, 1 KiB each at most"),
    Setting { secret: true, reloads: true, ..Setting::new("operator_token", Serve, Text(check::token), "none", "Lets operators see the pages for them from elsewhere") }.without_flag(),

    Setting::new("auth", Serve, List(check::any), "none", "Who gets in: `oidc` for people who log in at --oidc-issuer, `keys FILE` for programs that send a key of that file (landbridge auth key new makes one); may be given twice").named("oidc|keys FILE").alias(&["MCP_CONFIG_SERVER_AUTH_ENABLED"]),
    Setting::new("oidc_issuer", Serve, Text(check::issuer), "none", "The issuer of the OpenID Connect provider, exactly as it writes it; its slash at the end counts").named("URL").alias(&["MCP_CONFIG_SERVER_AUTH_OIDC_ISSUER", "MCP_CONFIG_SERVER_AUTH_OIDC_DOMAIN", "MCP_CONFIG_SERVER_AUTH_AUTH0_DOMAIN"]),
    Setting::new("oidc_client_id", Serve, Text(check::word), "none", "What landbridge is called at the provider; register PUBLIC_URL/oauth/callback there").named("ID").alias(&["MCP_CONFIG_SERVER_AUTH_OIDC_CLIENT_ID", "MCP_CONFIG_SERVER_AUTH_AUTH0_CLIENT_ID"]),
    Setting { secret: true, ..Setting::new("oidc_client_secret", Serve, Text(check::word), "none", "Its secret there; none for a public client") }.without_flag().alias(&["MCP_CONFIG_SERVER_AUTH_OIDC_CLIENT_SECRET", "MCP_CONFIG_SERVER_AUTH_AUTH0_CLIENT_SECRET"]),
    Setting::new("oidc_client_secret_file", Serve, Text(check::path), "none", "A file with the secret of the client that --oidc-client-id names").named("FILE"),
    Setting::new("oidc_scopes", Serve, List(check::any), "profile,email", "What is asked of the provider beside openid").named("SCOPES").alias(&["MCP_CONFIG_SERVER_AUTH_OIDC_SCOPE", "MCP_CONFIG_SERVER_AUTH_AUTH0_SCOPE"]),
    Setting::new("oidc_groups_claim", Serve, Text(check::word), "groups", "The claim of the provider's token that names a person's groups").named("NAME"),
    Setting::new("oidc_audience", Serve, Text(check::word), "none", "Sent to the provider as `audience`, where one wants it").named("TEXT").alias(&["MCP_CONFIG_SERVER_AUTH_OIDC_AUDIENCE", "MCP_CONFIG_SERVER_AUTH_AUTH0_AUDIENCE"]),
    Setting::new("auth_provider", Serve, Word(&["oidc", "auth0"]), "oidc", "With auth0, the issuer is given the slash at its end that Auth0 writes").without_flag().alias(&["MCP_CONFIG_SERVER_AUTH_PROVIDER"]),
    Setting::new("auth_base_url", Serve, Text(check::public_url), "--public-url", "What --public-url says, for a login only").without_flag().alias(&["MCP_CONFIG_SERVER_AUTH_BASE_URL", "MCP_CONFIG_SERVER_AUTH_ISSUER"]),
    Setting::new("token_ttl", Serve, Time(60_000), "15m", "How long an access token of ours is good, 1 day at most").named("TIME").alias(&["MCP_CONFIG_SERVER_AUTH_TOKEN_TTL"]),
    Setting::new("refresh_token_ttl", Serve, Time(60_000), "7d", "How long a login lasts that is not used, 30 days at most; it ends after 30 days in any case").named("TIME").alias(&["MCP_CONFIG_SERVER_AUTH_REFRESH_TOKEN_TTL"]),
    Setting::new("login_ttl", Serve, Time(60_000), "10m", "How long somebody may take to agree, and then to log in at the provider, 10 minutes at most").named("TIME").alias(&["MCP_CONFIG_SERVER_AUTH_SESSION_TTL"]),
    Setting::new("allow_any_user", Serve, Switch, "false", "Let everybody in whom the provider knows, although auth.allow in the file of settings names nobody"),
    Setting::new("cimd_allow", Serve, Networks, "none", "Networks that are not public and whose documents about clients are read all the same").named("NETWORK"),
    Setting::new("outbound_ca", Serve, Text(check::path), "the system's", "Further certificates (PEM) that the provider and others that a login needs are known by").named("FILE"),

    Setting::new("name", Serve, Text(check::name), "landbridge", "What this gateway is called on its pages for people").named("NAME").alias(&["MCP_CONFIG_SERVER_NAME"]),
    Setting::new("description", Serve, Text(check::sentence), "none", "What it is for, on its pages for people").named("TEXT").alias(&["MCP_CONFIG_SERVER_DESCRIPTION"]),
    Setting::new("environment", Serve, Word(&["dev", "staging", "prod"]), "dev", "Where it runs; in prod, /health hides version and environment").named("WHERE").alias(&["MCP_CONFIG_SERVER_ENVIRONMENT"]).reloading(),

    Setting::new("max_connections", Serve, Count(1, MANY), "10000", "Connections at one time").named("COUNT").reloading(),
    Setting::new("max_connections_per_ip", Serve, Count(0, MANY), "100", "Connections of one address at one time, 0 for any number; loopback and trusted proxies have no limit").named("COUNT").reloading(),
    Setting::new("max_sessions", Serve, Count(1, MANY), "10000", "Sessions at one time; more are refused with 503").named("COUNT"),
    Setting::new("max_body", Serve, Count(1_024, 256 << 20), "4194304", "The largest body of a request, in bytes").named("BYTES").reloading(),
    Setting::new("rate_limit_max", Serve, Count(0, ANY_COUNT), "100; 0 on loopback without --auth", "Requests of one address within --rate-limit-window, 0 for any number; not those with a valid login").named("COUNT").alias(&["RATE_LIMIT_MAX"]).reloading(),
    Setting::new("rate_limit_window", Serve, Time(1), "60s", "The time that --rate-limit-max counts in").named("TIME").alias(&["RATE_LIMIT_WINDOW_MS"]).reloading(),
    Setting::new("rate_limit_principal", Serve, Count(0, ANY_COUNT), "100", "Requests within a second of somebody who has logged in, 0 for any number").named("COUNT").reloading(),

    Setting::new("session_ttl", Serve, Time(1), "30m", "A session that nobody uses for this long is ended").named("TIME").alias(&["SESSION_TTL_MS", "MCP_CONFIG_STORAGE_SESSION_TTL"]),
    Setting::new("cleanup_interval", Serve, Time(10), "60s", "How often unused sessions are looked for").named("TIME").alias(&["CLEANUP_INTERVAL_MS"]),
    Setting::new("event_max_age", Serve, Time(1), "24h", "How long messages of an open stream are kept for a client that comes back").named("TIME").alias(&["EVENT_MAX_AGE_MS"]),
    Setting::new("event_max_count", Serve, Count(1, MANY), "5000", "How many messages of streams are kept per session").named("COUNT").alias(&["EVENT_MAX_COUNT"]),

    Setting::new("data", Serve, Text(check::path), "$XDG_STATE_HOME/landbridge", "Where sessions are kept beyond this process: a folder, or none to keep them in memory").named("FOLDER|none"),
    Setting { secret: true, ..Setting::new("store", Serve, Text(check::store), "none", "A Valkey or Redis server that keeps sessions in place of --data, for any number of landbridge processes: valkey://HOST:PORT/DB or rediss://; several hosts separated by commas are a cluster") }.named("URL").alias(&["MCP_CONFIG_STORAGE_VALKEY_URL"]),
    Setting::new("store_type", Serve, Word(&["memory", "disk", "valkey"]), "what --data and --store say", "Which of the stores: memory, disk or valkey").without_flag().alias(&["MCP_CONFIG_STORAGE_TYPE"]),
    Setting::new("store_ca", Serve, Text(check::path), "the system's", "Certificates (PEM) that a rediss:// server is known by").named("FILE"),
    Setting::new("store_prefix", Serve, Text(check::prefix), "landbridge:", "What all keys on a Valkey server begin with, so that several installations can share it").named("TEXT"),
    Setting::new("durability", Serve, Word(&["none", "batch", "event"]), "batch", "What may be lost when this process or the machine dies: batch up to 10 ms of changes, event nothing that was acknowledged, none a second, and more in a power cut").named("MODE"),
    Setting { secret: true, ..Setting::new("key", Serve, Text(check::key), "made in --data", "The secret that everything kept is sealed with and nodes know each other by; the same on all nodes") }.without_flag().alias(&["MCP_CONFIG_SERVER_AUTH_JWT_SECRET"]),
    Setting::new("key_file", Serve, Text(check::path), "made in --data", "A file with the secret that everything kept is sealed with, at least 32 bytes; a second line is an older one that is still accepted").named("FILE"),
    Setting::new("node_listen", Serve, Text(check::node_listen), "none", "Where other nodes with the same --store reach this one; nobody else can use it").named("HOST:PORT"),
    Setting::new("node_url", Serve, Text(check::public_url), "made of --node-listen", "What other nodes call it, where that is another").named("URL"),
    Setting::new("node_ca", Serve, Text(check::path), "the system's", "Certificates (PEM) that other nodes are known by where their --node-url is https").named("FILE"),
    Setting::new("node_insecure", Serve, Switch, "false", "Let nodes speak to each other without TLS beyond this machine"),

    Setting::new("header_timeout", Serve, Time(1), "10s", "How long the head of a request may take to arrive").named("TIME").reloading(),
    Setting::new("body_timeout", Serve, Time(1), "30s", "How long the body of a request may take to arrive").named("TIME").reloading(),
    Setting::new("keep_alive_timeout", Serve, Time(1), "75s", "How long a connection may be idle").named("TIME").reloading(),
    Setting::new("call_timeout", Servers, Time(1), "1h", "How long a call may take in all").named("TIME"),
    Setting::new("quiet_timeout", Servers, Time(1), "5m", "How long a call may go on without any sign of life; `timeout_ms` of a server says it for that one").named("TIME"),
    Setting::new("lookup_timeout", Servers, Time(1), "30s", "How long a list, a read, a prompt or a completion may take").named("TIME"),
    Setting::new("ask_timeout", Servers, Time(1), "10m", "How long a client may take to answer what a server asks").named("TIME"),
    Setting::new("drain_timeout", Serve, Time(0), "10s", "How long requests may go on after the signal to stop").named("TIME").reloading(),
    Setting::new("close_timeout", Serve, Time(1), "25s", "How long the rest of a stop may take after that: sessions, children, what is written; then the process ends whatever is left").named("TIME"),

    Setting { reloads: true, ..Setting::new("log_level", Every, Text(check::level), "info; warn on stdio", "How much to log: error, warn, info, debug or trace, or a filter such as `lb_backend=debug`") }.named("LEVEL").alias(&["MCP_LOG_LEVEL"]),
    Setting::new("log_format", Every, Word(&["text", "json"]), "text", "How to log: lines for people, or one JSON object per line").named("FORMAT"),
    Setting::new("log_file", Every, Text(check::path), "none", "Log to this file too; stderr keeps what it has").named("FILE"),
    Setting::new("log_dir", Every, Text(check::path), "none", "Log to a new file in this folder too, at level debug unless another is set").without_flag().named("FOLDER"),
    Setting::new("audit_log", Serve, Text(check::path), "none", "Write who did what to this file, one JSON object per line: logins, consent, tokens, keys, calls, servers that were added or removed; never what a call is about").named("FILE"),
    Setting::new("audit", Serve, Word(&["best-effort", "required"]), "best-effort", "What happens while --audit-log cannot be written: what is lost is counted, or requests are refused with 503").named("MODE"),

    absent("no_codemode", "codemode", &["true", "1", "yes", "on", ""], &[]),
    absent("codemode", "codemode", OFF, &[]),
    absent("sse", "the transport HTTP+SSE", OFF, &[]),
    absent("time_zone", "a time zone other than UTC", &["utc"], &["MCP_CONFIG_SERVER_TIME_ZONE"]).without_flag(),
];
