//! Which store, and its limits.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::{Error, SealKeys};

const MIB: usize = 1024 * 1024;

/// Everything that a store is opened with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where things are kept.
    pub place: Place,
    /// What all names on a server begin with, so that several users of it do not meet. Printable, without braces.
    pub prefix: String,
    /// How long one operation may take, attempts to connect included.
    pub timeout: Duration,
    /// What is too much.
    pub limits: Limits,
    /// What a power cut may take from a store on disk.
    pub durability: Durability,
    /// What values and entries are sealed with; `None` keeps them as they are.
    pub seal: Option<SealKeys>,
    /// Certificates in PEM that are trusted instead of the system's, for `rediss://`.
    pub ca_file: Option<PathBuf>,
}

/// Where things are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In this process, and gone with it.
    Memory,
    /// In a file in this folder, for one process at a time.
    Disk(PathBuf),
    /// On a Valkey or Redis server from 6.2 on, or a cluster of them, for any number of processes.
    Valkey(Servers),
}

/// How to reach a server, or the nodes of a cluster.
#[derive(Clone, PartialEq, Eq)]
pub struct Servers {
    /// Host and port; several of them are a cluster.
    pub hosts: Vec<(String, u16)>,
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// The user of the server's access list.
    pub user: Option<String>,
    /// The database; a cluster has only 0.
    pub database: i64,
    pub(crate) password: Option<String>,
}

/// What is too much.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The bytes of one value or entry. A batch may have four times as many.
    pub value_bytes_max: usize,
    /// The keys of a store in memory.
    pub keys_max: usize,
    /// The bytes of a store in memory, and of the file of a store on disk. That file grows by doubling, so that it can
    /// be full with half of this in it; batches that only remove, trim or prolong are done all the same.
    pub bytes_max: usize,
}

/// What a power cut may take from a store on disk. The end of the process, `kill -9` included, takes nothing that was
/// acknowledged, whatever is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The system writes when it likes: a power cut can take the last half minute, or leave a file that is refused as
    /// damaged.
    None,
    /// Waits this long for other writes before all are forced to the disk: a power cut takes nothing that was
    /// acknowledged.
    Batch(Duration),
    /// Forces what waits to the disk at once: a power cut takes nothing that was acknowledged.
    Event,
}

impl Default for Limits {
    fn default() -> Self {
        Self { value_bytes_max: 17 * MIB, keys_max: 1_000_000, bytes_max: 1024 * MIB }
    }
}

impl Default for Durability {
    fn default() -> Self {
        Self::Batch(Duration::from_millis(10))
    }
}

impl Limits {
    pub(crate) fn check_value(&self, bytes: usize) -> Result<(), Error> {
        within(bytes, self.value_bytes_max)
    }

    pub(crate) fn check_batch(&self, bytes: usize) -> Result<(), Error> {
        within(bytes, self.value_bytes_max.saturating_mul(4))
    }
}

pub(crate) fn within(bytes: usize, max: usize) -> Result<(), Error> {
    if max < bytes { Err(Error::TooLarge { bytes, max }) } else { Ok(()) }
}

impl Settings {
    /// The usual settings for a place.
    pub fn new(place: Place) -> Self {
        Self {
            place,
            prefix: "landbridge:".to_owned(),
            timeout: Duration::from_secs(2),
            limits: Limits::default(),
            durability: Durability::default(),
            seal: None,
            ca_file: None,
        }
    }

    /// The usual settings for a place as people write it: `memory`, `disk:FOLDER`, or
    /// `valkey://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...][/DATABASE]`. `redis://` is the same, `rediss://` and
    /// `valkeys://` are encrypted. What has a special meaning in a password is written as `%40`.
    ///
    /// # Errors
    /// [`Error::WrongShape`]; never with a part of the text, which may be a password.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let place = match text.split_once(':') {
            None if text == "memory" => Place::Memory,
            Some(("disk", "")) => return Err(Error::WrongShape("disk:FOLDER needs a folder")),
            Some(("disk", folder)) => Place::Disk(folder.into()),
            Some(("valkey" | "redis", rest)) => Place::Valkey(Servers::parse(rest, false)?),
            Some(("valkeys" | "rediss", rest)) => Place::Valkey(Servers::parse(rest, true)?),
            _ => {
                return Err(Error::WrongShape(
                    "a store is memory, disk:FOLDER, valkey://HOST:PORT or rediss://HOST:PORT",
                ));
            }
        };
        Ok(Self::new(place))
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if 128 < self.prefix.len() || !self.prefix.bytes().all(|b| b.is_ascii_graphic() && b != b'{' && b != b'}') {
            return Err(Error::WrongShape(
                "a prefix is at most 128 bytes of printable ASCII, without spaces and braces",
            ));
        }
        if self.timeout.is_zero() {
            return Err(Error::WrongShape("a store needs a timeout above 0"));
        }
        Ok(())
    }
}

impl Servers {
    /// Whether there are several.
    pub fn is_cluster(&self) -> bool {
        1 < self.hosts.len()
    }

    fn parse(rest: &str, tls: bool) -> Result<Self, Error> {
        let rest = rest.strip_prefix("//").ok_or(Error::WrongShape("an address of a store begins with valkey://"))?;
        let (credentials, rest) = match rest.rsplit_once('@') {
            Some((credentials, rest)) => (Some(credentials), rest),
            None => (None, rest),
        };
        let (hosts, database) = rest.split_once('/').unwrap_or((rest, ""));
        let hosts = hosts.split(',').map(host).collect::<Result<Vec<_>, _>>()?;
        let number = if database.is_empty() { Ok(0) } else { database.parse() };
        let database = number.map_err(|_| Error::WrongShape("the database of a store is a number"))?;
        if 1 < hosts.len() && database != 0 {
            return Err(Error::WrongShape("a cluster has only the database 0"));
        }
        let (user, password) = match credentials.map(|text| text.split_once(':').unwrap_or((text, ""))) {
            None => (None, None),
            Some((user, password)) => (some(decode(user)?), some(decode(password)?)),
        };
        Ok(Self { hosts, tls, user, database, password })
    }
}

fn some(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn host(text: &str) -> Result<(String, u16), Error> {
    const WRONG: Error = Error::WrongShape("a host of a store is NAME, NAME:PORT or [ADDRESS]:PORT");
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or(WRONG)?,
        None => {
            text.split_once(':').map_or((text, ""), |(name, _)| (name, text.strip_prefix(name).unwrap_or_default()))
        }
    };
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().map_err(|_| WRONG)?,
        None if port.is_empty() => 6379,
        None => return Err(WRONG),
    };
    if name.is_empty() || port == 0 { Err(WRONG) } else { Ok((name.to_owned(), port)) }
}

/// `%40` becomes `@`.
fn decode(text: &str) -> Result<String, Error> {
    const WRONG: Error = Error::WrongShape("% in the credentials of a store is followed by two hexadecimal digits");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16)).ok_or(WRONG);
        let value = digit()? * 16 + digit()?;
        bytes.push(u8::try_from(value).map_err(|_| WRONG)?);
    }
    String::from_utf8(bytes).map_err(|_| WRONG)
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Servers")
            .field("hosts", &self.hosts)
            .field("tls", &self.tls)
            .field("user", &self.user)
            .field("database", &self.database)
            .field("password", &self.password.as_ref().map(|_| "***"))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(text: &str) -> Servers {
        match Settings::parse(text).unwrap().place {
            Place::Valkey(servers) => servers,
            other => panic!("{text} is {other:?}"),
        }
    }

    #[test]
    fn places_are_read_as_people_write_them() {
        assert_eq!(Settings::parse("memory").unwrap().place, Place::Memory);
        assert_eq!(Settings::parse("disk:/var/lib/x").unwrap().place, Place::Disk("/var/lib/x".into()));
        let one = servers("valkey://127.0.0.1:7001/3");
        assert_eq!((one.hosts, one.database, one.tls), (vec![("127.0.0.1".into(), 7001)], 3, false));
        let many = servers("rediss://ann:p%40ss:w@[::1]:7001,b,c:7003");
        assert!(many.tls && many.is_cluster());
        assert_eq!((many.user.as_deref(), many.password.as_deref()), (Some("ann"), Some("p@ss:w")));
        assert_eq!(many.hosts, [("::1".into(), 7001), ("b".into(), 6379), ("c".into(), 7003)]);
        let nameless = servers("redis://:secret@h");
        assert_eq!((nameless.user, nameless.password.as_deref()), (None, Some("secret")));
    }

    #[test]
    fn wrong_places_are_refused_without_showing_a_secret() {
        for text in [
            "",
            "disk:",
            "mem",
            "valkey:h",
            "valkey://",
            "valkey://h:x",
            "valkey://h:0",
            "valkey://a,b/1",
            "valkey://u:hunter2@",
            "valkey://u:hunter2%4@h",
            "valkey://u:hunter2@h:99999",
            "http://u:hunter2@h",
        ] {
            let error = Settings::parse(text).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
        let settings = Settings::parse("valkey://u:hunter2@h").unwrap();
        assert!(!format!("{settings:?}").contains("hunter2"), "{settings:?}");
    }
}
