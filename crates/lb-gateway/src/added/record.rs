//! A server that a client has added, as it is written.

use std::time::Duration;

use bytes::Bytes;
use lb_exchange::{
    Bounds, Isolation, OauthClient, Principal, Restart, Secret, ServerAuth, ServerName, ServerSpec, Target,
};
use lb_wire::{Raw, Text};
use serde::{Deserialize, Serialize};

use crate::registry::{Entry, Scope};

/// The shape of what is written. Another number is not read.
const VERSION: u32 = 1;

/// A definition, and whose it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Added {
    pub(super) spec: ServerSpec,
    pub(super) scope: Scope,
    pub(super) by: Option<Text>,
}

#[derive(Serialize, Deserialize)]
struct Record {
    version: u32,
    name: String,
    /// Empty where it is everybody's.
    owner: String,
    #[serde(default)]
    everybody: bool,
    by: Option<String>,
    target: TargetRecord,
    shared: bool,
    timeout_ms: Option<u64>,
    restart: RestartRecord,
    bounds: BoundsRecord,
    cached: bool,
    idle_timeout_ms: Option<u64>,
    max_age_ms: u64,
    pool: usize,
    init_timeout_ms: u64,
    list_timeout_ms: u64,
    /// Not in what was written before there were logins.
    #[serde(default)]
    auth: AuthRecord,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TargetRecord {
    Child { command: String, args: Vec<String>, env: Vec<(String, String)>, cwd: Option<String>, inherit_env: bool },
    Http { url: String, headers: Vec<(String, String)> },
}

#[derive(Serialize, Deserialize)]
struct RestartRecord {
    enabled: bool,
    attempts_max: u32,
    delay_first_ms: u64,
    delay_max_ms: u64,
    delay_factor: f64,
    healthy_after_ms: u64,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AuthRecord {
    #[default]
    None,
    User(ClientRecord),
    Service(ClientRecord),
}

#[derive(Serialize, Deserialize)]
struct ClientRecord {
    id: Option<String>,
    secret: Option<String>,
    scopes: Vec<String>,
    metadata_url: Option<String>,
}

impl From<&OauthClient> for ClientRecord {
    fn from(client: &OauthClient) -> Self {
        Self {
            id: client.client_id.clone(),
            secret: client.client_secret.as_ref().map(|secret| secret.expose().to_owned()),
            scopes: client.scopes.clone(),
            metadata_url: client.client_id_metadata_url.clone(),
        }
    }
}

impl From<ClientRecord> for OauthClient {
    fn from(record: ClientRecord) -> Self {
        Self {
            client_id: record.id,
            client_secret: record.secret.map(Secret::new),
            scopes: record.scopes,
            client_id_metadata_url: record.metadata_url,
        }
    }
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum BoundsRecord {
    Anywhere,
    Near,
    Public,
}

impl Added {
    /// What is kept of a defined server: nothing of those that come from a file.
    pub(super) fn of(entry: &Entry) -> Option<Self> {
        let scope = entry.scope.clone();
        let added = || Self { spec: (**entry.spec()).clone(), scope, by: entry.added_by.clone() };
        (entry.scope != Scope::All).then(added)
    }

    /// As it is written; `None` for a server that lives in this process alone.
    pub(super) fn written(&self) -> Option<Bytes> {
        let Self { spec, scope, by } = self;
        let (owner, everybody) = match scope {
            Scope::Principal(owner) => (owner.as_str(), false),
            Scope::Operator => ("", true),
            Scope::All => return None,
        };
        let exposed = |pairs: &[(String, Secret)]| {
            pairs.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect()
        };
        let target = match &spec.target {
            Target::Child { command, args, env, cwd, inherit_env } => TargetRecord::Child {
                command: command.clone(),
                args: args.clone(),
                env: exposed(env),
                cwd: cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned()),
                inherit_env: *inherit_env,
            },
            Target::Http { url, headers } => TargetRecord::Http { url: url.clone(), headers: exposed(headers) },
            Target::Embedded(_) => return None,
        };
        let record = Record {
            version: VERSION,
            name: spec.name.to_string(),
            owner: owner.to_owned(),
            everybody,
            by: by.as_ref().map(|by| by.as_str().to_owned()),
            target,
            shared: spec.isolation == Isolation::Shared,
            timeout_ms: spec.timeout.map(millis),
            restart: RestartRecord {
                enabled: spec.restart.enabled,
                attempts_max: spec.restart.attempts_max,
                delay_first_ms: millis(spec.restart.delay_first),
                delay_max_ms: millis(spec.restart.delay_max),
                delay_factor: spec.restart.delay_factor,
                healthy_after_ms: millis(spec.restart.healthy_after),
            },
            bounds: match spec.bounds {
                Bounds::Anywhere => BoundsRecord::Anywhere,
                Bounds::Near => BoundsRecord::Near,
                Bounds::Public => BoundsRecord::Public,
            },
            cached: spec.cached,
            idle_timeout_ms: spec.idle_timeout.map(millis),
            max_age_ms: millis(spec.max_age),
            pool: spec.pool,
            init_timeout_ms: millis(spec.init_timeout),
            list_timeout_ms: millis(spec.list_timeout),
            auth: match &spec.auth {
                ServerAuth::None => AuthRecord::None,
                ServerAuth::User(client) => AuthRecord::User(client.into()),
                ServerAuth::Service(client) => AuthRecord::Service(client.into()),
            },
        };
        Some(Raw::value(&record).bytes().clone())
    }

    /// Reads what was written; `None` when that is none of ours.
    pub(super) fn read(kept: Bytes) -> Option<Self> {
        let record: Record = Raw::parse(kept).ok()?.read().ok()?;
        if record.version != VERSION {
            return None;
        }
        let hidden =
            |pairs: Vec<(String, String)>| pairs.into_iter().map(|(name, value)| (name, Secret::new(value))).collect();
        let target = match record.target {
            TargetRecord::Child { command, args, env, cwd, inherit_env } => {
                Target::Child { command, args, env: hidden(env), cwd: cwd.map(Into::into), inherit_env }
            }
            TargetRecord::Http { url, headers } => Target::http(url, hidden(headers)).ok()?,
        };
        let restart = record.restart;
        let spec = ServerSpec {
            isolation: if record.shared { Isolation::Shared } else { Isolation::Session },
            timeout: record.timeout_ms.map(Duration::from_millis),
            restart: Restart {
                enabled: restart.enabled,
                attempts_max: restart.attempts_max,
                delay_first: Duration::from_millis(restart.delay_first_ms),
                delay_max: Duration::from_millis(restart.delay_max_ms),
                delay_factor: restart.delay_factor,
                healthy_after: Duration::from_millis(restart.healthy_after_ms),
            },
            bounds: match record.bounds {
                BoundsRecord::Anywhere => Bounds::Anywhere,
                BoundsRecord::Near => Bounds::Near,
                BoundsRecord::Public => Bounds::Public,
            },
            cached: record.cached,
            idle_timeout: record.idle_timeout_ms.map(Duration::from_millis),
            max_age: Duration::from_millis(record.max_age_ms),
            pool: record.pool.clamp(1, ServerSpec::POOL_MAX),
            init_timeout: Duration::from_millis(record.init_timeout_ms),
            list_timeout: Duration::from_millis(record.list_timeout_ms),
            auth: match record.auth {
                AuthRecord::None => ServerAuth::None,
                AuthRecord::User(client) => ServerAuth::User(client.into()),
                AuthRecord::Service(client) => ServerAuth::Service(client.into()),
            },
            ..ServerSpec::new(ServerName::parse(&record.name).ok()?, target)
        };
        let scope = match record.everybody {
            true => Scope::Operator,
            false => Scope::Principal(Principal::named(&record.owner)),
        };
        Some(Self { spec, scope, by: record.by.map(|by| Text::from(&*by)) })
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_read_as_it_was_written() {
        let name = ServerName::parse("a").expect("a name");
        let target = Target::Child {
            command: "npx".to_owned(),
            args: vec!["-y".to_owned(), "x@1".to_owned()],
            env: vec![("TOKEN".to_owned(), Secret::new("s3cret"))],
            cwd: Some("/tmp".into()),
            inherit_env: false,
        };
        let mut spec = ServerSpec::new(name.clone(), target);
        spec.isolation = Isolation::Shared;
        spec.idle_timeout = Some(Duration::from_secs(7));
        spec.bounds = Bounds::Near;
        let url = Target::http("https://example.com/mcp", vec![("X".to_owned(), Secret::new("y"))]).expect("a URL");
        let client = OauthClient {
            client_id: Some("gw".to_owned()),
            client_secret: Some(Secret::new("s3cret")),
            scopes: vec!["a".to_owned()],
            client_id_metadata_url: Some("https://us/client.json".to_owned()),
        };
        let plain = ServerSpec { timeout: Some(Duration::from_secs(1)), ..ServerSpec::new(name, url) };
        let logins = [
            ServerAuth::None,
            ServerAuth::User(OauthClient::default()),
            ServerAuth::User(client.clone()),
            ServerAuth::Service(client),
        ];
        let with_logins = logins.map(|auth| ServerSpec { auth, ..plain.clone() });
        for spec in std::iter::once(spec).chain(with_logins) {
            for scope in [Scope::Principal(Principal::local()), Scope::Operator] {
                let added = Added { spec: spec.clone(), scope, by: Some(Text::from_static("abc")) };
                assert_eq!(Added::read(added.written().expect("it can be kept")), Some(added));
            }
            let of_a_file = Added { spec, scope: Scope::All, by: None };
            assert_eq!(of_a_file.written(), None);
        }
        // As it was written before there were logins.
        let added = Added { spec: plain, scope: Scope::Principal(Principal::local()), by: None };
        let text = String::from_utf8(added.written().expect("it can be kept").to_vec()).expect("text");
        let older = text.replace(r#","auth":"none""#, "");
        assert_ne!(older, text);
        assert_eq!(Added::read(older.into()), Some(added));
        assert_eq!(Added::read(Bytes::from_static(b"{}")), None);
        assert_eq!(Added::read(Bytes::from_static(b"nonsense")), None);
    }
}
