//! JSON-RPC and MCP error codes, and the HTTP status a modern error travels with.

/// The bytes are not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// JSON, but not a message we can take.
pub const INVALID_REQUEST: i64 = -32600;
/// No such method here.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The method exists, its parameters do not fit. Modern: also a resource that does not exist.
pub const INVALID_PARAMS: i64 = -32602;
/// The fault is on the answering side.
pub const INTERNAL_ERROR: i64 = -32603;
/// Legacy, implementation-defined; never sent on the modern wire.
pub const SERVER_ERROR: i64 = -32000;
/// Legacy only: the resource does not exist. Accepted from modern servers, never sent to modern clients.
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// Modern: a mirrored header is missing, malformed or differs from the body.
pub const HEADER_MISMATCH: i64 = -32020;
/// Modern: the request needs a capability that the client did not declare.
pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
/// Modern: the revision named by the request is not spoken here.
pub const UNSUPPORTED_VERSION: i64 = -32022;
/// 2025-11-25 only: the client must first visit the URLs in `data.elicitations`.
pub const URL_ELICITATION_REQUIRED: i64 = -32042;

/// Status of [`INVALID_PARAMS`] when what is missing or malformed is the required `_meta` itself.
pub const META_INVALID_STATUS: u16 = 400;

/// HTTP status of a modern reply that carries this error, while the status can still be chosen.
///
/// [`INVALID_PARAMS`] is in band here; use [`META_INVALID_STATUS`] when the request's `_meta` is at fault.
#[must_use]
pub const fn modern_status(code: i64) -> u16 {
    match code {
        PARSE_ERROR | INVALID_REQUEST | HEADER_MISMATCH | MISSING_CLIENT_CAPABILITY | UNSUPPORTED_VERSION => 400,
        METHOD_NOT_FOUND => 404,
        _ => 200,
    }
}

/// A 4xx reply with this code proves that the peer is modern.
#[must_use]
pub const fn is_modern_evidence(code: i64) -> bool {
    matches!(code, HEADER_MISMATCH | MISSING_CLIENT_CAPABILITY | UNSUPPORTED_VERSION)
}

/// A code that must not be sent to a modern client: implementation-defined, or removed from the protocol.
#[must_use]
pub const fn is_forbidden_modern(code: i64) -> bool {
    matches!(code, -32019..=-32000 | URL_ELICITATION_REQUIRED)
}
