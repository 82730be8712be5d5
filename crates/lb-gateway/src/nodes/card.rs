//! What a node says of itself, and how it is written.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use lb_store::Error;
use lb_wire::Raw;
use lb_wire::compose::Object;

/// A node, in one of its lives: a process that starts again under the same id has another boot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeName {
    /// Which node: 1 to 64 bytes of `[A-Za-z0-9._-]`, and neither `-` nor `gone`, which name nobody.
    pub id: Box<str>,
    /// Which of its lives.
    pub boot: Box<str>,
}

/// Where processes can see of each other whether they are gone, without asking.
#[derive(Clone, Debug)]
pub struct Host {
    /// The same for all who can.
    pub place: Box<str>,
    /// Whether the node with this id, which was in the same place, is gone for good.
    pub is_gone: fn(&str) -> bool,
}

/// What a process joins with.
#[derive(Clone, Debug)]
pub struct About {
    /// See [`NodeName::id`].
    pub id: Box<str>,
    /// See [`NodeName::boot`].
    pub boot: Box<str>,
    /// Where other nodes reach it.
    pub url: Option<String>,
    /// The version of the program.
    pub version: String,
    /// Where others see whether it is gone.
    pub host: Option<Host>,
}

/// What a node said of itself last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// See [`NodeName::id`].
    pub id: Box<str>,
    /// See [`NodeName::boot`].
    pub boot: Box<str>,
    /// Where other nodes reach it.
    pub url: Option<String>,
    /// The version of its program.
    pub version: String,
    /// When it joined, since the Unix epoch.
    pub started: Duration,
    /// When it said this, since the Unix epoch and by its own clock.
    pub seen: Duration,
    /// Whether it is about to end.
    pub draining: bool,
    /// How many sessions it has.
    pub sessions: u64,
    /// How many streams are open at it.
    pub streams: u64,
    /// How late it said this.
    pub lag: Duration,
    /// How its store stands.
    pub store: NodeStore,
    /// See [`Host::place`].
    pub place: Option<Box<str>>,
}

/// How a node sees its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStore {
    /// `memory`, `disk` or `valkey`.
    pub kind: String,
    /// Whether it answers.
    pub ok: bool,
    /// How long it took to say this the time before.
    pub rtt: Duration,
}

impl NodeName {
    /// Reads what [`Display`](fmt::Display) writes: the id and the boot.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, boot) = text.split_once(' ')?;
        let name = Self { id: id.into(), boot: boot.into() };
        name.check().is_ok().then_some(name)
    }

    /// Whether it can stand where a node is named.
    pub(super) fn check(&self) -> Result<(), Error> {
        let plain = |text: &str| {
            (1..=64).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
        };
        if !plain(&self.id) || !plain(&self.boot) || matches!(&*self.id, "-" | "gone") {
            return Err(Error::WrongShape("the id of a node has 1 to 64 letters, digits, dots, dashes or underscores"));
        }
        Ok(())
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id, self.boot)
    }
}

impl About {
    /// A process that starts now: the boot is random, and so is the id unless one is given.
    pub fn new(id: Option<&str>, url: Option<String>, version: &str) -> Self {
        let id = id.map_or_else(|| format!("{:012x}", rand::random::<u64>() >> 16).into(), Into::into);
        Self {
            id,
            boot: format!("{:016x}", rand::random::<u64>()).into(),
            url,
            version: version.to_owned(),
            host: None,
        }
    }

    /// Its name.
    pub fn name(&self) -> NodeName {
        NodeName { id: self.id.clone(), boot: self.boot.clone() }
    }
}

impl NodeInfo {
    /// As operators see it; `now` is the present time since the Unix epoch.
    pub fn view(&self, now: Duration) -> Raw {
        self.common()
            .text("startedAt", &lb_session::rfc3339(self.started))
            .number("lastSeenMs", millis(now.saturating_sub(self.seen)))
            .finish()
    }

    /// As it is kept.
    pub(super) fn written(&self) -> Bytes {
        let card = self.common().text("boot", &self.boot).maybe_text("place", self.place.as_deref());
        let card = card.number("startedAt", millis(self.started)).number("seenAt", millis(self.seen));
        card.finish().bytes().clone()
    }

    /// Reads what was kept; `None` when no node wrote it.
    pub(super) fn read(kept: Bytes) -> Option<Self> {
        let kept = Raw::parse(kept).ok()?;
        let text = |of: &Raw, name: &str| Some(of.member(name)?.to_text()?.into_owned());
        let number = |of: &Raw, name: &str| of.member(name)?.read::<u64>().ok();
        let time = |of: &Raw, name: &str| number(of, name).map(Duration::from_millis);
        let flag = |of: &Raw, name: &str| of.member(name)?.read::<bool>().ok();
        let store = kept.member("store")?;
        let NodeName { id, boot } = NodeName::parse(&format!("{} {}", text(&kept, "id")?, text(&kept, "boot")?))?;
        Some(Self {
            id,
            boot,
            url: text(&kept, "url"),
            version: text(&kept, "version")?,
            started: time(&kept, "startedAt")?,
            seen: time(&kept, "seenAt")?,
            draining: flag(&kept, "draining")?,
            sessions: number(&kept, "sessions")?,
            streams: number(&kept, "streams")?,
            lag: time(&kept, "lagMs")?,
            store: NodeStore { kind: text(&store, "type")?, ok: flag(&store, "ok")?, rtt: time(&store, "rttMs")? },
            place: text(&kept, "place").map(Into::into),
        })
    }

    fn common(&self) -> Object {
        let store = Object::new().text("type", &self.store.kind).flag("ok", self.store.ok);
        let store = store.number("rttMs", millis(self.store.rtt)).finish();
        Object::new()
            .text("id", &self.id)
            .maybe_text("url", self.url.as_deref())
            .text("version", &self.version)
            .flag("draining", self.draining)
            .number("sessions", self.sessions)
            .number("streams", self.streams)
            .number("lagMs", millis(self.lag))
            .raw("store", &store)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod generated;
