//! The small part of a session that changes, whole: what the session says of itself, and where the rest of it is.

use lb_wire::Raw;
use lb_wire::compose::Object;

/// The shape of what is written. Another number is not read.
const VERSION: &str = "1";

/// The record of a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// Where its events begin: what comes before is of a time before it was written anew.
    pub(crate) events_base: u64,
    /// Its state, if it has a surface of ours.
    pub(crate) session: Option<Raw>,
    /// What its only server was told, if it has one.
    pub(crate) told: Option<Raw>,
}

impl Record {
    /// As it is written.
    pub(crate) fn kept(&self) -> Raw {
        Object::new()
            .text("version", VERSION)
            .number("events", self.events_base)
            .maybe("session", self.session.as_ref())
            .maybe("told", self.told.as_ref())
            .finish()
    }

    /// Reads what was written; `None` when that is none of ours.
    pub(crate) fn read(kept: &Raw) -> Option<Self> {
        if kept.member("version")?.to_text()? != VERSION {
            return None;
        }
        let events_base = kept.member("events")?.read().ok()?;
        let part = |name: &str| kept.member(name).map(|part| part.detached());
        Some(Self { events_base, session: part("session"), told: part("told") })
    }
}
