//! Where the eras of client and server differ: what one says of itself, in the words of the other, and the requests that
//! have no counterpart.

pub mod mirrored;

use lb_backend::Connection;
use lb_exchange::{Call, End, Outcome};
use lb_wire::revision::{Era, Revision, code};
use lb_wire::{Raw, compose, splice};

/// The result of `initialize` for a client that speaks this revision with us, from what the server said in its era.
pub fn welcome(era: Era, said: &Raw, revision: Revision) -> Raw {
    match era {
        Era::Legacy => splice::replace(said, "protocolVersion", &Raw::string(revision.as_str())),
        Era::Modern => greeting(said, revision),
    }
}

/// The result of `initialize` from that of `server/discover`.
fn greeting(said: &Raw, revision: Revision) -> Raw {
    let version = Raw::string(revision.as_str());
    let capabilities = said.member("capabilities").map_or_else(Raw::empty_object, |raw| without_subscribe(&raw));
    let info = said.member("_meta").and_then(|meta| meta.member("io.modelcontextprotocol/serverInfo"));
    let info = info.unwrap_or_else(|| Raw::from_static(r#"{"name":"unknown","version":"0"}"#));
    let instructions = said.member("instructions");
    let mut members = vec![("protocolVersion", &version), ("capabilities", &capabilities), ("serverInfo", &info)];
    members.extend(instructions.as_ref().map(|text| ("instructions", text)));
    compose::object(&members)
}

/// The result of `server/discover` for a server that knows only `initialize`.
pub fn discovered(said: &Raw) -> Raw {
    let capabilities = said.member("capabilities").map_or_else(Raw::empty_object, |raw| without_subscribe(&raw));
    let versions = Raw::value(&[Revision::LATEST_MODERN.as_str()]);
    let info = said.member("serverInfo").unwrap_or_else(|| Raw::from_static(r#"{"name":"unknown","version":"0"}"#));
    let meta = compose::object(&[("io.modelcontextprotocol/serverInfo", &info)]);
    let (complete, ttl, scope) =
        (Raw::from_static("\"complete\""), Raw::from_static("0"), Raw::from_static("\"private\""));
    let instructions = said.member("instructions");
    let mut members = vec![
        ("resultType", &complete),
        ("supportedVersions", &versions),
        ("capabilities", &capabilities),
        ("ttlMs", &ttl),
        ("cacheScope", &scope),
        ("_meta", &meta),
    ];
    members.extend(instructions.as_ref().map(|text| ("instructions", text)));
    compose::object(&members)
}

/// A modern client's request on a connection: passed on, or answered here where a legacy server has no such request.
pub fn from_modern(connection: &Connection, call: Call) -> Result<Call, End> {
    if connection.era() == Era::Modern {
        return Ok(call);
    }
    match call.message.method() {
        "server/discover" => Err(End::ours(Outcome::Result(discovered(connection.welcome())))),
        method @ ("subscriptions/listen" | "tasks/get" | "tasks/update" | "tasks/cancel") => {
            let message = format!("the server speaks {}, which has no {method}", connection.revision().as_str());
            Err(End::error(code::METHOD_NOT_FOUND, &message, None))
        }
        _ => Ok(call),
    }
}

/// A legacy client's request on a connection: passed on, or answered here where a modern server has no such request.
pub fn from_legacy(connection: &Connection, call: Call) -> Result<Call, End> {
    if connection.era() == Era::Legacy {
        return Ok(call);
    }
    match call.message.method() {
        "logging/setLevel" => match call.message.member("level") {
            Some(level) => {
                connection.set_log_level(level);
                Err(End::ours(Outcome::Result(Raw::empty_object())))
            }
            None => Err(End::error(code::INVALID_PARAMS, "\"level\" is missing", None)),
        },
        method @ ("resources/subscribe" | "resources/unsubscribe" | "tasks/list" | "tasks/result") => {
            let message = format!("the server speaks {}, which has no {method}", connection.revision().as_str());
            Err(End::error(code::METHOD_NOT_FOUND, &message, None))
        }
        _ => Ok(call),
    }
}

/// Capabilities without what cannot be carried between the eras: resource subscriptions, and extensions of the other.
fn without_subscribe(capabilities: &Raw) -> Raw {
    let kept = splice::without(capabilities, &["tasks", "extensions"]);
    match kept.member("resources") {
        Some(resources) => splice::replace(&kept, "resources", &splice::without(&resources, &["subscribe"])),
        None => kept,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_lose_only_what_the_other_era_lacks() {
        for (input, want) in [
            (r#"{"tools":{"listChanged":true}}"#, r#"{"tools":{"listChanged":true}}"#),
            (r#"{"tasks":{},"tools":{ },"extensions":{}}"#, r#"{"tools":{ }}"#),
            (
                r#"{"resources":{"subscribe":true,"listChanged":true},"x":1.0}"#,
                r#"{"resources":{"listChanged":true},"x":1.0}"#,
            ),
            (r#"{"resources":{"subscribe":true}}"#, r#"{"resources":{}}"#),
            // The same names, spelt with escapes.
            (r#"{"t\u0061sks":{},"resource\u0073":{"\u0073ubscribe":true}}"#, r#"{"resource\u0073":{}}"#),
            ("{}", "{}"),
            ("3", "3"),
        ] {
            assert_eq!(without_subscribe(&Raw::from_static(input)).as_str(), want, "input {input}");
        }
    }

    #[test]
    fn a_greeting_says_what_discover_said() {
        let said = r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"instructions":"a\u0062",
            "_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"2"}}}"#;
        let want = concat!(
            r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"#,
            r#""serverInfo":{"name":"s","version":"2"},"instructions":"a\u0062"}"#
        );
        assert_eq!(greeting(&Raw::from_static(said), Revision::V2025_06_18).as_str(), want);
    }
}
