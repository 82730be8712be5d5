//! What the parts of a session are called where it is kept.

use lb_session::Ulid;
use lb_store::{Error, Key};
use sha2::{Digest as _, Sha256};

/// The keys of one session, which all have its name as their tag.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    name: String,
    pub(crate) owner: Key,
    pub(crate) head: Key,
    pub(crate) record: Key,
    pub(crate) events: Key,
    pub(crate) streams: Key,
}

impl Keys {
    /// Of the session with this id.
    pub(crate) fn of(id: &str) -> Result<Self, Error> {
        let name = name_of(id);
        let key = |part: &str| Key::parse(&format!("session:{{{name}}}:{part}"));
        let (owner, head, record) = (key("owner")?, key("head")?, key("record")?);
        let (events, streams) = (key("events")?, key("streams")?);
        Ok(Self { name, owner, head, record, events, streams })
    }

    /// Of one task.
    pub(crate) fn task(&self, id: Ulid) -> Result<Key, Error> {
        Key::parse(&format!("session:{{{}}}:task:{id}", self.name))
    }
}

/// What a session is called where it is kept: its id is a secret of its client.
pub(crate) fn name_of(id: &str) -> String {
    let hash = Sha256::digest(id.as_bytes());
    hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
