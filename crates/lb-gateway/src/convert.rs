//! Where the eras of client and server differ: what one says of itself, in the words of the other, and the requests that
//! have no counterpart.

use lb_backend::Connection;
use lb_exchange::{Call, End, Outcome};
use lb_wire::revision::{Era, Revision, code};
use lb_wire::splice::Splice;
use lb_wire::{Cursor, Raw, compose};

/// The result of `initialize` for a client that speaks this revision with us.
pub fn welcome(connection: &Connection, revision: Revision) -> Raw {
    let version = Raw::string(revision.as_str());
    if connection.era() == Era::Legacy {
        let welcome = connection.welcome();
        return match span_of(welcome, "protocolVersion") {
            Some(at) => Splice::new(welcome.clone()).replace(at, &version).apply(),
            None => welcome.clone(),
        };
    }
    let said = connection.welcome();
    let capabilities = said.member("capabilities").map_or_else(Raw::empty_object, |raw| without_subscribe(&raw));
    let info = said.member("_meta").and_then(|meta| meta.member("io.modelcontextprotocol/serverInfo"));
    let info = info.unwrap_or_else(|| Raw::from_static(r#"{"name":"unknown","version":"0"}"#));
    let instructions = said.member("instructions");
    let mut members = vec![("protocolVersion", &version), ("capabilities", &capabilities), ("serverInfo", &info)];
    members.extend(instructions.as_ref().map(|text| ("instructions", text)));
    compose::object(&members)
}

/// The result of `server/discover` for a server that knows only `initialize`.
fn discovered(connection: &Connection) -> Raw {
    let said = connection.welcome();
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
        "server/discover" => Err(End::ours(Outcome::Result(discovered(connection)))),
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
    let mut kept: Vec<(String, Raw)> = Vec::new();
    for (name, value) in members(capabilities) {
        match name.as_str() {
            "tasks" | "extensions" => {}
            "resources" => {
                let inner: Vec<_> = members(&value).into_iter().filter(|(name, _)| name != "subscribe").collect();
                kept.push((name, object(&inner)));
            }
            _ => kept.push((name, value)),
        }
    }
    object(&kept)
}

fn members(raw: &Raw) -> Vec<(String, Raw)> {
    let mut found = Vec::new();
    let mut cursor = Cursor::new(raw.as_bytes());
    let walk = cursor.members(0, |cursor, key, _| {
        let (value, _) = cursor.skip(1)?;
        let name = String::from_utf8_lossy(key.of(raw.as_bytes())).into_owned();
        found.extend(Raw::parse(raw.bytes().slice(value.start()..value.end())).ok().map(|value| (name, value)));
        Ok(())
    });
    if walk.is_ok() { found } else { Vec::new() }
}

fn object(members: &[(String, Raw)]) -> Raw {
    let members: Vec<_> = members.iter().map(|(name, value)| (name.as_str(), value)).collect();
    compose::object(&members)
}

fn span_of(raw: &Raw, member: &str) -> Option<lb_wire::Span> {
    let mut found = None;
    let mut cursor = Cursor::new(raw.as_bytes());
    let walk = cursor.members(0, |cursor, key, _| {
        let (value, _) = cursor.skip(1)?;
        if key.of(raw.as_bytes()) == member.as_bytes() {
            found = Some(value);
        }
        Ok(())
    });
    walk.ok().and(found)
}
