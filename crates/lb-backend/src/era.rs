//! What a server's answer to the first request says about its era.

use lb_exchange::ErrorBody;
use lb_wire::Raw;
use lb_wire::revision::{Era, Revision, code};

use crate::error::{ConnectError, EraError};

/// The request that begins a connection of this era.
pub fn first_method(era: Era) -> &'static str {
    match era {
        Era::Legacy => "initialize",
        Era::Modern => "server/discover",
    }
}

/// The welcome that a result is.
///
/// # Errors
/// It is none of this era.
pub fn welcome(era: Era, result: Raw) -> Result<Raw, EraError> {
    let fits = match era {
        // A server that names a revision without `initialize` as what it settled on speaks that one.
        Era::Legacy => result.member("protocolVersion").is_some() && settles_on(&result) != Some(Era::Modern),
        Era::Modern => speaks(&result, "supportedVersions", Era::Modern),
    };
    if fits { Ok(result) } else { Err(EraError::WrongEra(no_welcome(era))) }
}

/// The error for an answer that is none.
pub fn no_welcome(era: Era) -> ConnectError {
    ConnectError::Handshake(format!("its answer is no {} result", first_method(era)))
}

/// What an error in place of a welcome stands for.
pub fn refusal(era: Era, error: Raw) -> EraError {
    // Only a server that names no legacy revision proves that the other era is not worth a try.
    let modern_only = era == Era::Modern
        && unsupported(&error)
            .is_some_and(|data| data.member("supported").is_some() && !speaks(&data, "supported", Era::Legacy));
    let message = error.member("message");
    let message = message.as_ref().and_then(Raw::to_text).map(|text| text.into_owned());
    let message = message.unwrap_or_else(|| "no reason given".to_owned());
    let refused = ConnectError::Refused { message, raw: error };
    if modern_only { EraError::Failed(refused) } else { EraError::WrongEra(refused) }
}

/// Whether a modern server refuses our revision but names it among its own: it is worth another try.
pub fn contradicts_itself(error: &EraError) -> bool {
    let ConnectError::Refused { raw, .. } = error.inner() else { return false };
    unsupported(raw).is_some_and(|data| speaks(&data, "supported", Era::Modern))
}

/// Whether this is an error that only the modern era has.
pub fn is_of_modern(error: &ConnectError) -> bool {
    let ConnectError::Refused { raw, .. } = error else { return false };
    code::is_modern_evidence(ErrorBody::from_server(raw.clone()).code)
}

/// What a server says about its revisions when it refuses ours.
fn unsupported(error: &Raw) -> Option<Raw> {
    let body = ErrorBody::from_server(error.clone());
    error.member("data").filter(|_| body.code == code::UNSUPPORTED_VERSION)
}

/// The era of the revision that a server settled on, if we know it.
fn settles_on(welcome: &Raw) -> Option<Era> {
    Some(Revision::parse(welcome.member("protocolVersion")?.plain_str()?.as_bytes())?.era())
}

/// Whether a list of revisions names one of this era that we speak.
fn speaks(object: &Raw, member: &str, era: Era) -> bool {
    let named: Vec<String> = object.member(member).and_then(|list| list.read().ok()).unwrap_or_default();
    named.iter().filter_map(|name| Revision::parse(name.as_bytes())).any(|revision| revision.era() == era)
}
