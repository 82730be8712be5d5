//! A server that a client has added, as it is written.

use std::time::Duration;

use bytes::Bytes;
use lb_exchange::{Bounds, Isolation, Principal, Restart, Secret, ServerName, ServerSpec, Target};
use lb_wire::{Raw, Text};
use serde::{Deserialize, Serialize};

use crate::registry::{Entry, Scope};

/// The shape of what is written. Another number is not read.
const VERSION: u32 = 1;

/// A definition, and whose it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Added {
    pub(super) spec: ServerSpec,
    pub(super) owner: Principal,
    pub(super) by: Option<Text>,
}

#[derive(Serialize, Deserialize)]
struct Record {
    version: u32,
    name: String,
    owner: String,
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
        let Scope::Principal(owner) = &entry.scope else { return None };
        Some(Self { spec: (**entry.spec()).clone(), owner: owner.clone(), by: entry.added_by.clone() })
    }

    /// As it is written; `None` for a server that lives in this process alone.
    pub(super) fn written(&self) -> Option<Bytes> {
        let Self { spec, owner, by } = self;
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
            owner: owner.as_str().to_owned(),
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
            ..ServerSpec::new(ServerName::parse(&record.name).ok()?, target)
        };
        Some(Self { spec, owner: Principal::named(&record.owner), by: record.by.map(|by| Text::from(&*by)) })
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
        for spec in [spec, ServerSpec { timeout: Some(Duration::from_secs(1)), ..ServerSpec::new(name, url) }] {
            let added = Added { spec, owner: Principal::local(), by: Some(Text::from_static("abc")) };
            assert_eq!(Added::read(added.written().expect("it can be kept")), Some(added));
        }
        assert_eq!(Added::read(Bytes::from_static(b"{}")), None);
        assert_eq!(Added::read(Bytes::from_static(b"nonsense")), None);
    }
}
