//! One state of what is kept, in memory and as bytes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use lb_exchange::Principal;
use lb_wire::compose::Object;
use lb_wire::revision::{Era, Revision};
use lb_wire::{Cursor, Kind, Raw, Span, compose, splice};

use super::Class;
use crate::live::Listing;

/// What a server said, and when that was last seen to be so.
#[derive(Clone, Debug)]
pub struct Snapshot {
    era: Era,
    welcome: Raw,
    /// In the order of [`Listing::ALL`]; `None` for those that were never read.
    lists: [Option<Raw>; 4],
    /// Those that could not be read, and are empty for that.
    failed: [bool; 4],
    /// `None` until every list was read.
    checked: Option<SystemTime>,
}

impl Snapshot {
    /// Of a server that has just introduced itself.
    pub fn new(era: Era, welcome: &Raw) -> Self {
        Self { era, welcome: welcome.clone(), lists: Default::default(), failed: [false; 4], checked: None }
    }

    /// The era in which it was told.
    pub fn era(&self) -> Era {
        self.era
    }

    /// What the server said of itself, as written.
    pub fn welcome(&self) -> &Raw {
        &self.welcome
    }

    /// One of its lists, whole; `None` when it was never read.
    pub fn list(&self, which: Listing) -> Option<&Raw> {
        self.lists.get(which as usize).and_then(Option::as_ref)
    }

    /// Whether one of its lists is empty only because it could not be read.
    pub fn lacks(&self, which: Listing) -> bool {
        self.failed.get(which as usize) == Some(&true)
    }

    /// Whether the server declared a capability, and within it a flag.
    pub fn declares(&self, capability: &str, flag: Option<&str>) -> bool {
        let found = self.welcome.member("capabilities").and_then(|all| all.member(capability));
        let has = |found: Raw| match flag {
            Some(flag) => found.member(flag).is_some_and(|value| value.as_bytes() == b"true"),
            None => true,
        };
        found.is_some_and(has)
    }

    /// Whether every list could be read.
    pub fn is_whole(&self) -> bool {
        self.lists.iter().all(Option::is_some) && !self.failed.contains(&true)
    }

    /// For how long nobody has looked whether it is still so.
    pub fn age(&self) -> Duration {
        // A clock that was set back leaves it young, and so does a first look that is under way.
        self.checked.and_then(|checked| SystemTime::now().duration_since(checked).ok()).unwrap_or_default()
    }

    /// What is kept, as it is told: what nobody has compared for as long as the server says that it counts is not said
    /// to count any longer.
    pub(super) fn told(&self, kept: &Raw) -> Raw {
        let counts_for = counts_for(kept);
        if self.era == Era::Legacy || counts_for.is_zero() || self.age() < counts_for {
            return kept.clone();
        }
        splice::replace(kept, "ttlMs", &Raw::from_static("0"))
    }

    pub(super) fn introduced(&mut self, era: Era, welcome: &Raw) {
        if self.era != era {
            // Lists are written differently there.
            *self = Self::new(era, welcome);
        }
        self.welcome = welcome.clone();
    }

    /// True when another list was known before.
    pub(super) fn put(&mut self, which: Listing, list: Raw) -> bool {
        if let Some(failed) = self.failed.get_mut(which as usize) {
            *failed = false;
        }
        let Some(place) = self.lists.get_mut(which as usize) else { return false };
        let before = place.replace(list);
        let is_another = before.is_some_and(|before| *place != Some(before));
        if self.checked.is_none() && self.is_whole() {
            self.checked();
        }
        is_another
    }

    pub(super) fn failed(&mut self, which: Listing) {
        if let Some(place @ None) = self.lists.get_mut(which as usize) {
            *place = Some(empty(which, self.era));
            if let Some(failed) = self.failed.get_mut(which as usize) {
                *failed = true;
            }
        }
    }

    pub(super) fn checked(&mut self) {
        self.checked = Some(SystemTime::now());
    }
}

/// A list of these rows and nothing else.
pub fn list_of(which: Listing, rows: &[Raw]) -> Raw {
    compose::object(&[(which.member(), &compose::array(rows.iter()))])
}

/// A list without rows, as a server of this era writes it.
pub(super) fn empty(which: Listing, era: Era) -> Raw {
    match era {
        Era::Legacy => list_of(which, &[]),
        Era::Modern => Object::new()
            .text("resultType", "complete")
            .raw(which.member(), &Raw::from_static("[]"))
            .number("ttlMs", 0)
            .text("cacheScope", "private")
            .finish(),
    }
}

/// For how long a modern server says that what it answered counts.
pub(super) fn counts_for(kept: &Raw) -> Duration {
    let millis = kept.member("ttlMs").and_then(|ttl| ttl.as_str().parse().ok());
    Duration::from_millis(millis.unwrap_or(0))
}

/// Counts changes of what follows; what has another number is not read.
const FORMAT: &str = "1";
/// What is read of a shelf at most.
const BYTES_MAX: usize = 64 << 20;

/// Snapshots as bytes.
pub(super) fn write_all(kept: &[(&Class, Snapshot)]) -> Vec<u8> {
    let rows: Vec<Raw> = kept.iter().map(|(class, snapshot)| write(class, snapshot)).collect();
    let all = compose::object(&[("format", &Raw::from_static(FORMAT)), ("kept", &compose::array(rows.iter()))]);
    all.as_bytes().to_vec()
}

fn write(class: &Class, snapshot: &Snapshot) -> Raw {
    let checked = snapshot.checked.and_then(|checked| checked.duration_since(UNIX_EPOCH).ok());
    let seconds = checked.unwrap_or_default().as_secs();
    let row = Object::new()
        .text("revision", class.revision.as_str())
        .raw("capabilities", &class.capabilities)
        .flag("ours", class.ours)
        .maybe_text("principal", class.principal.as_ref().map(Principal::as_str))
        .text("era", if snapshot.era == Era::Modern { "modern" } else { "legacy" })
        .number("checked", seconds)
        .raw("welcome", &snapshot.welcome);
    Listing::ALL.into_iter().fold(row, |row, which| row.maybe(which.member(), snapshot.list(which))).finish()
}

/// Snapshots from bytes; `None` when they are of another format, or none at all. One that cannot be read is left out.
pub(super) fn read_all(bytes: Vec<u8>) -> Option<Vec<(Class, Snapshot)>> {
    if BYTES_MAX < bytes.len() {
        return None;
    }
    let all = Raw::parse(Bytes::from(bytes)).ok().filter(|all| all.kind() == Kind::Object)?;
    if all.member("format")?.as_str() != FORMAT {
        return None;
    }
    Some(elements(&all.member("kept")?).iter().filter_map(read).collect())
}

fn read(row: &Raw) -> Option<(Class, Snapshot)> {
    let object = |name: &str| row.member(name).filter(|value| value.kind() == Kind::Object).map(|raw| raw.detached());
    let revision = Revision::parse(row.member("revision")?.plain_str()?.as_bytes())?;
    let principal = match row.member("principal") {
        Some(name) => Some(Principal::named(&name.to_text()?)),
        None => None,
    };
    let (capabilities, ours) = (object("capabilities")?, row.member("ours")?.as_str() == "true");
    let class = Class { revision, capabilities, ours, principal };
    let era = match row.member("era")?.plain_str()? {
        "legacy" => Era::Legacy,
        "modern" => Era::Modern,
        _ => return None,
    };
    let seconds: u64 = row.member("checked")?.as_str().parse().ok()?;
    let mut snapshot = Snapshot::new(era, &object("welcome")?);
    snapshot.checked = Some(UNIX_EPOCH.checked_add(Duration::from_secs(seconds))?);
    for which in Listing::ALL {
        snapshot.put(which, object(which.member())?);
    }
    Some((class, snapshot))
}

/// The elements of an array.
pub(super) fn elements(array: &Raw) -> Vec<Raw> {
    let mut spans: Vec<Span> = Vec::new();
    let walk = Cursor::new(array.as_bytes()).elements(0, |span, _| spans.push(span));
    if walk.is_err() {
        return Vec::new();
    }
    let text = array.bytes();
    spans.into_iter().filter_map(|span| Raw::parse(text.slice(span.start()..span.end())).ok()).collect()
}
