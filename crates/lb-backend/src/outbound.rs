//! A client's request as its server shall see it: own ids and tokens, and `_meta` in the server's era.

use lb_exchange::Call;
use lb_wire::revision::{Era, Revision};
use lb_wire::splice::{self, Splice};
use lb_wire::{Id, Raw, compose};

use crate::calls::Names;

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT_INFO_KEY: &str = "io.modelcontextprotocol/clientInfo";
const LOG_LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";

/// The request to send, in an envelope of ours.
pub fn request(call: &Call, id: u64, era: Era, log_level: Option<&Raw>) -> Raw {
    let params = params(call, id, era, log_level);
    compose::request(&Id::number(id), call.message.method(), params.as_ref())
}

/// What the client calls its request, wherever the server will repeat a name of ours.
pub fn names(call: &Call) -> Names {
    let listens = call.message.method() == "subscriptions/listen";
    Names {
        token: call.message.meta("progressToken"),
        listen: listens.then(|| call.message.id().map(Id::to_raw)).flatten(),
        of_client: true,
    }
}

/// Whether a server may ask or log on behalf of this request.
pub fn is_eligible(call: &Call) -> bool {
    matches!(call.message.method(), "tools/call" | "prompts/get" | "resources/read")
}

fn params(call: &Call, id: u64, era: Era, log_level: Option<&Raw>) -> Option<Raw> {
    let message = &call.message;
    if call.caller.era() == era {
        let body = message.body()?;
        return Some(match message.meta_span_in_body("progressToken") {
            Some(at) => Splice::new(body).replace(at, &Id::number(id).to_raw()).apply(),
            None => body,
        });
    }
    let meta = match era {
        Era::Modern => modern_meta(call, id, log_level),
        Era::Legacy => legacy_meta(call, id),
    };
    let Some(body) = message.body() else { return Some(compose::object(&[("_meta", &meta)])) };
    Some(match message.member_span_in_body("_meta") {
        Some(at) => Splice::new(body).replace(at, &meta).apply(),
        None => Splice::new(body).insert(0, message.body_is_empty(), "_meta", &meta).apply(),
    })
}

/// A legacy client's request towards a modern server: nothing is declared, so that the server asks for nothing that
/// cannot be carried.
fn modern_meta(call: &Call, id: u64, log_level: Option<&Raw>) -> Raw {
    let version = Raw::string(Revision::LATEST_MODERN.as_str());
    let mut ours = vec![(VERSION_KEY, version), (CAPABILITIES_KEY, Raw::empty_object())];
    ours.extend(call.caller.client_info.clone().map(|info| (CLIENT_INFO_KEY, info)));
    ours.extend(log_level.map(|level| (LOG_LEVEL_KEY, level.clone())));
    splice::with(&kept_meta(call, id), &ours)
}

/// A modern client's request towards a legacy server.
fn legacy_meta(call: &Call, id: u64) -> Raw {
    kept_meta(call, id)
}

/// What the client wrote into `_meta` itself, with our progress token in place of its own. Names are compared as they
/// read, not as they are written: an escape in one must not carry it past us.
fn kept_meta(call: &Call, id: u64) -> Raw {
    let Some(meta) = call.message.meta_object() else { return Raw::empty_object() };
    let kept = splice::without(&meta, &[VERSION_KEY, CAPABILITIES_KEY, CLIENT_INFO_KEY, LOG_LEVEL_KEY]);
    splice::replace(&kept, "progressToken", &Id::number(id).to_raw())
}

/// The `_meta` of requests that we make ourselves to a modern server.
pub fn own_meta(client_info: Option<&Raw>, capabilities: &Raw) -> Raw {
    let version = Raw::string(Revision::LATEST_MODERN.as_str());
    let ours = our_info();
    let info = client_info.unwrap_or(&ours);
    compose::object(&[(VERSION_KEY, &version), (CAPABILITIES_KEY, capabilities), (CLIENT_INFO_KEY, info)])
}

/// What we call ourselves where no client stands behind a request.
pub fn our_info() -> Raw {
    Raw::from_static(concat!(r#"{"name":"landbridge","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#))
}
