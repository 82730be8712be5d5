//! Which of the two wire contracts a request follows.

use lb_wire::Message;
use lb_wire::revision::{Era, Revision};

use crate::front::Headers;

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

/// The era of a request that has no body, or none that was looked at.
pub(crate) fn era_without_body(headers: &Headers<'_>) -> Era {
    match (era_of_header(headers.version), headers.session) {
        // A session with a version that nobody knows gets to hear about the version.
        (Era::Modern, Some(_)) if headers.version.is_some_and(is_unknown) => Era::Legacy,
        (era, _) => era,
    }
}

fn is_unknown(version: &[u8]) -> bool {
    Revision::parse(version).is_none()
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
