//! Which of the two wire contracts a request follows.

use lb_wire::Message;
use lb_wire::revision::{Era, Revision};

/// The member of a modern request's `_meta` that names its revision.
pub(crate) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The member of a modern request's `_meta` that says what its client can do.
pub(crate) const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The member of a modern request's `_meta` that says what its client is called.
pub(crate) const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";

/// The era that the version header alone speaks for. A revision that nobody knows is a newer one.
pub fn era_of_header(version: Option<&[u8]>) -> Era {
    match version.map(Revision::parse) {
        None => Era::Legacy,
        Some(Some(revision)) => revision.era(),
        Some(None) => Era::Modern,
    }
}

/// The era of a whole request. A modern `_meta` speaks for itself; an unknown version header does so only where no
/// session does.
pub(crate) fn era_of(version: Option<&[u8]>, session: Option<&[u8]>, message: &Message) -> Era {
    if message.meta(META_VERSION).is_some() {
        return Era::Modern;
    }
    match version.map(Revision::parse) {
        Some(None) if session.is_some() => Era::Legacy,
        _ => era_of_header(version),
    }
}
