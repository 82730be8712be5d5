//! One server, or the servers of a cluster and which of them has which keys.
//!
//! A cluster's own client would send a command again after its connection broke. Ours does so only when a server said
//! that it did not do it, because a batch may not be done twice.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use redis::{
    Client, Cmd, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo, RedisError, TlsCertificates,
    Value, cmd,
};
use rustls::crypto::CryptoProvider;

use crate::valkey::link::{Answer, Ask, Link, Twice, jittered};
use crate::{Error, Key, Servers, Settings};

/// How many parts a cluster's keys are in.
const SLOTS: u16 = 16_384;

/// How long a map counts at least while a server is away: another one may have taken its slots over.
const MAP_KEPT: Duration = Duration::from_millis(250);

/// How often a command follows the cluster to another server.
const MOVES_MAX: usize = 4;

/// The pause before a server is asked again that takes no writes: whoever replaces it may need a moment.
const MOVED_AFTER: Duration = Duration::from_millis(50);

/// Host and port.
pub(super) type Address = (String, u16);

/// All servers of a store.
pub(super) struct Nodes {
    servers: Servers,
    ca: Option<Vec<u8>>,
    timeout: Duration,
    prefix: String,
    links: Mutex<HashMap<Address, Arc<Link>>>,
    map: Mutex<Map>,
    /// See [`Facts::lives`](crate::Facts::lives).
    lives: Arc<AtomicU64>,
}

/// Which server has which slots, and when that was asked.
#[derive(Default)]
struct Map {
    parts: Arc<Vec<Part>>,
    is_old: bool,
    asked: Option<Instant>,
}

/// The slots from `first` to `last` are on this server.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    first: u16,
    last: u16,
    address: Address,
}

impl Nodes {
    pub(super) fn new(servers: &Servers, settings: &Settings) -> Result<Self, Error> {
        let read = |file: &std::path::PathBuf| {
            std::fs::read(file).map_err(|error| Error::Refused(format!("cannot read {}: {error}", file.display())))
        };
        if servers.tls && CryptoProvider::get_default().is_none() {
            // Another one may have been quicker: one is as good as the other.
            drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
        }
        Ok(Self {
            servers: servers.clone(),
            ca: settings.ca_file.as_ref().map(read).transpose()?,
            timeout: settings.timeout,
            prefix: settings.prefix.clone(),
            links: Mutex::default(),
            map: Mutex::default(),
            lives: Arc::default(),
        })
    }

    pub(super) fn is_cluster(&self) -> bool {
        self.servers.is_cluster()
    }

    /// Asks the server that has a key, and is told within the timeout however often the key has moved.
    pub(super) async fn ask(&self, key: &Key, twice: Twice, ask: Ask<'_>) -> Result<Value, Error> {
        let by = Instant::now() + self.timeout;
        let mut refuses = None;
        for _ in 0..MOVES_MAX {
            let link = self.link(&self.address(key, by).await?)?;
            match link.ask(twice, &ask, by).await {
                Ok(Answer::Here(answer)) => return Ok(answer),
                Ok(Answer::Elsewhere) => {
                    self.forget_map(Duration::ZERO);
                    if !self.is_cluster() {
                        tokio::time::sleep(jittered(MOVED_AFTER)).await;
                    }
                    refuses = Some(link.refuses());
                }
                Err(error) => {
                    if matches!(error, Error::Away { .. } | Error::Timeout(_)) {
                        self.forget_map(MAP_KEPT);
                    }
                    return Err(error);
                }
            }
        }
        Err(refuses.unwrap_or(Error::Timeout(self.timeout)))
    }

    /// Asks one server something that does no harm twice.
    pub(super) async fn ask_at(&self, address: &Address, command: Cmd) -> Result<Value, Error> {
        self.ask_by(address, command, Instant::now() + self.timeout).await
    }

    async fn ask_by(&self, address: &Address, command: Cmd, by: Instant) -> Result<Value, Error> {
        match self.link(address)?.ask(Twice::Harmless, &Ask::Command(command), by).await? {
            Answer::Here(answer) => Ok(answer),
            Answer::Elsewhere => {
                self.forget_map(Duration::ZERO);
                Err(Error::Away { since: SystemTime::now(), why: "the cluster is changing".to_owned() })
            }
        }
    }

    /// Every server that has keys.
    pub(super) async fn all(&self) -> Result<Vec<Address>, Error> {
        if !self.is_cluster() {
            return Ok(self.servers.hosts.clone());
        }
        let by = Instant::now() + self.timeout;
        let mut all: Vec<Address> = self.map(by).await?.iter().map(|part| part.address.clone()).collect();
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }

    /// How to reach one server for something of one's own, the next one in turn.
    pub(super) fn client(&self, turn: usize) -> Result<Client, Error> {
        let hosts = &self.servers.hosts;
        let address = hosts.get(turn % hosts.len().max(1)).ok_or(Error::WrongShape("a store needs a server"))?;
        Ok(self.link(address)?.client().clone())
    }

    /// The earliest time since which one of them is away, and the last error of all.
    pub(super) fn trouble(&self) -> (Option<SystemTime>, Option<(SystemTime, String)>) {
        let links = self.links.lock();
        let since = links.values().filter_map(|link| link.away_since()).min();
        (since, links.values().filter_map(|link| link.last_error()).max())
    }

    /// See [`Facts::lives`](crate::Facts::lives).
    pub(super) fn lives(&self) -> u64 {
        self.lives.load(Ordering::Acquire)
    }

    pub(super) fn password(&self) -> Option<&str> {
        self.servers.password.as_deref()
    }

    async fn address(&self, key: &Key, by: Instant) -> Result<Address, Error> {
        let first = self.servers.hosts.first().ok_or(Error::WrongShape("a store needs a server"))?;
        if !self.is_cluster() {
            return Ok(first.clone());
        }
        let map = self.map(by).await?;
        let slot = slot(&self.prefix, key);
        let part = map.iter().find(|part| (part.first..=part.last).contains(&slot));
        part.map(|part| part.address.clone()).ok_or_else(|| Error::Away {
            since: SystemTime::now(),
            why: format!("no server of the cluster has the slot {slot}"),
        })
    }

    /// Which server has which slots, asked of the first one that answers.
    async fn map(&self, by: Instant) -> Result<Arc<Vec<Part>>, Error> {
        {
            let map = self.map.lock();
            if !map.parts.is_empty() && !map.is_old {
                return Ok(map.parts.clone());
            }
        }
        let mut last = Error::WrongShape("a store needs a server");
        let hosts = &self.servers.hosts;
        for (asked, address) in hosts.iter().enumerate() {
            let mut ask = cmd("CLUSTER");
            ask.arg("SLOTS");
            // One that hangs leaves time for the others.
            let left = by.saturating_duration_since(Instant::now());
            let share = u32::try_from(hosts.len() - asked).unwrap_or(u32::MAX);
            match self.ask_by(address, ask, Instant::now() + left / share).await {
                Ok(answer) => {
                    let parts = Arc::new(parts(&answer, address));
                    // Servers that have left the cluster are no trouble of ours.
                    self.links.lock().retain(|address, _| parts.iter().any(|part| part.address == *address));
                    let mut map = self.map.lock();
                    if !map.parts.is_empty() && map.parts != parts {
                        self.lives.fetch_add(1, Ordering::AcqRel);
                    }
                    *map = Map { parts: parts.clone(), is_old: false, asked: Some(Instant::now()) };
                    return Ok(parts);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Asks for the map again before it is used next, if it is at least this old.
    fn forget_map(&self, age: Duration) {
        let mut map = self.map.lock();
        map.is_old |= map.asked.is_none_or(|asked| age <= asked.elapsed());
    }

    fn link(&self, address: &Address) -> Result<Arc<Link>, Error> {
        let mut links = self.links.lock();
        if let Some(link) = links.get(address) {
            return Ok(link.clone());
        }
        let link = Arc::new(Link::new(
            self.connect_to(address)?,
            self.servers.password.clone(),
            self.timeout,
            self.lives.clone(),
        ));
        links.insert(address.clone(), link.clone());
        Ok(link)
    }

    fn connect_to(&self, (host, port): &Address) -> Result<Client, Error> {
        let refused = |error: RedisError| crate::valkey::failure::read(&error, self.password(), SystemTime::now());
        let mut redis = RedisConnectionInfo::default()
            .set_db(self.servers.database)
            .set_protocol(ProtocolVersion::RESP3)
            .set_lib_name("landbridge", env!("CARGO_PKG_VERSION"));
        if let Some(user) = &self.servers.user {
            redis = redis.set_username(user);
        }
        if let Some(password) = &self.servers.password {
            redis = redis.set_password(password);
        }
        let address = if self.servers.tls {
            ConnectionAddr::TcpTls { host: host.clone(), port: *port, insecure: false, tls_params: None }
        } else {
            ConnectionAddr::Tcp(host.clone(), *port)
        };
        let info = address.into_connection_info().map_err(refused)?.set_redis_settings(redis);
        match (&self.ca, self.servers.tls) {
            (Some(ca), true) => {
                let certificates = TlsCertificates { client_tls: None, root_cert: Some(ca.clone()) };
                Client::build_with_tls(info, certificates).map_err(refused)
            }
            _ => Client::open(info).map_err(refused),
        }
    }
}

/// `CLUSTER SLOTS`: for each part its first and last slot and the server that has it, then its replicas.
fn parts(answer: &Value, asked: &Address) -> Vec<Part> {
    let Value::Array(rows) = answer else { return Vec::new() };
    let read = |row: &Value| {
        let Value::Array(row) = row else { return None };
        let [Value::Int(first), Value::Int(last), Value::Array(server), ..] = row.as_slice() else { return None };
        let [host, Value::Int(port), ..] = server.as_slice() else { return None };
        let host = match host {
            Value::BulkString(host) if !host.is_empty() => String::from_utf8(host.clone()).ok()?,
            // The one who was asked.
            _ => asked.0.clone(),
        };
        let address = (host, u16::try_from(*port).ok()?);
        Some(Part { first: u16::try_from(*first).ok()?, last: u16::try_from(*last).ok()?, address })
    };
    rows.iter().filter_map(read).collect()
}

/// The part of a cluster that a key belongs to.
fn slot(prefix: &str, key: &Key) -> u16 {
    let crc = if key.as_str().contains('{') {
        crc16(key.tag().bytes())
    } else {
        crc16(prefix.bytes().chain(key.as_str().bytes()))
    };
    crc % SLOTS
}

/// The checksum that the cluster specification names (XMODEM).
fn crc16(bytes: impl Iterator<Item = u8>) -> u16 {
    bytes.fold(0, |crc, byte| {
        (0..8).fold(
            crc ^ (u16::from(byte) << 8),
            |crc: u16, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        assert_eq!(crc16(b"123456789".iter().copied()), 0x31c3);
        let key = |text: &str| Key::parse(text).unwrap();
        assert_eq!(slot("", &key("foo")), 12_182);
        assert_eq!(slot("landbridge:", &key("session:{foo}:x")), 12_182);
        assert_eq!(slot("f", &key("oo")), 12_182);
    }
}
