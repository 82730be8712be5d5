//! The pages that are not the protocol: health, ping, banner, and what to do when lost.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::phase::Level;
use crate::settings::{Environment, Settings};

/// The document behind `/health`, and its status. What the source says wins, but nothing is well while we stop.
pub(crate) fn health(level: Level, started: Instant, settings: &Settings) -> (StatusCode, Bytes) {
    let hidden = settings.environment == Environment::Production;
    let told = |text: &str| json!(if hidden { "redacted" } else { text });
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut document = Map::new();
    let usual = [
        ("ok", json!(true)),
        ("status", json!("healthy")),
        ("activeSessions", json!(0)),
        ("mode", json!("stateful-streamable-http")),
        ("sdk", json!(if hidden { "landbridge" } else { concat!("landbridge/", env!("CARGO_PKG_VERSION")) })),
        ("timestamp", json!(now.as_secs())),
        ("uptime", json!(started.elapsed().as_secs())),
        ("version", told(env!("CARGO_PKG_VERSION"))),
        ("environment", told(settings.environment.as_str())),
        ("storage", json!({ "type": "memory", "ok": true })),
    ];
    for (name, value) in usual.into_iter().chain(settings.health.iter().flat_map(|source| source())) {
        document.insert(name.into(), value);
    }
    if level != Level::Serving {
        document.insert("ok".into(), json!(false));
        document.insert("status".into(), json!("draining"));
    }
    let well = document.get("ok").and_then(Value::as_bool) != Some(false);
    let status = if well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Bytes::from(Value::Object(document).to_string()))
}

/// The text behind `/`: where the protocol is, for one server or for each of several, and where else to look.
pub(crate) fn banner(settings: &Settings, several: &[String]) -> Bytes {
    let path = &settings.mcp_path;
    let version = match settings.environment {
        Environment::Production => String::new(),
        Environment::Development | Environment::Staging => format!(" {}", env!("CARGO_PKG_VERSION")),
    };
    let mut text = format!("landbridge{version}: MCP at");
    if several.is_empty() {
        text += &format!(" {path}\n");
    } else {
        text += "\n";
        for name in several {
            text += &format!("  {path}/server/{name}\n");
        }
    }
    text += "\nThis is no page to read: give the URL to an MCP client, as a server of type http.\n\n";
    text += "  /health     how it is doing, for monitors\n  /ping       says pong\n";
    for pages in &settings.pages {
        text += &format!("  {:<10}  for the operator\n", pages.path);
    }
    Bytes::from(text)
}

/// The answer to a path that does not exist.
pub(crate) fn lost(settings: &Settings) -> Bytes {
    let path = &settings.mcp_path;
    let mut error =
        format!("Not found. Available endpoints: {path}, {path}/tools, {path}/server/{{name}}, /health, /ping");
    for path in settings.pages.iter().map(|pages| pages.path).chain(settings.managed.iter().map(|managed| managed.path))
    {
        error += ", ";
        error += path;
    }
    Bytes::from(json!({ "error": error }).to_string())
}

/// The answer to a method that a page does not have.
pub(crate) fn wrong_method(allow: &str) -> Bytes {
    Bytes::from(json!({ "error": format!("Method not allowed. Use {allow}") }).to_string())
}

/// The answer to a server that does not exist.
pub(crate) fn no_server(what: &str, available: &[String]) -> Bytes {
    Bytes::from(json!({ "error": what, "available": available }).to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn told(level: Level, settings: &Settings) -> (u16, Value) {
        let (status, body) = health(level, Instant::now(), settings);
        (status.as_u16(), serde_json::from_slice(&body).unwrap())
    }

    #[test]
    fn health_tells_what_monitors_ask_for_and_no_version_in_production() {
        let (status, document) = told(Level::Serving, &Settings::default());
        assert_eq!((status, &document["ok"], &document["status"]), (200, &json!(true), &json!("healthy")));
        assert_eq!(document["mode"], "stateful-streamable-http");
        assert_eq!(document["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(document["environment"], "dev");
        assert_eq!(document["storage"], json!({ "type": "memory", "ok": true }));
        for name in ["activeSessions", "sdk", "timestamp", "uptime"] {
            assert!(document.get(name).is_some(), "{name}");
        }
        let hidden = Settings { environment: Environment::Production, ..Settings::default() };
        let (_, document) = told(Level::Serving, &hidden);
        assert_eq!((&document["version"], &document["environment"]), (&json!("redacted"), &json!("redacted")));
        assert!(!document.to_string().contains(env!("CARGO_PKG_VERSION")), "{document}");
        assert!(!String::from_utf8_lossy(&banner(&hidden, &[])).contains(env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn whoever_is_not_well_says_so_with_503() {
        let ill: crate::HealthSource =
            Arc::new(|| vec![("ok", json!(false)), ("status", json!("degraded")), ("storage", json!({ "ok": false }))]);
        let settings = Settings { health: Some(ill), ..Settings::default() };
        let (status, document) = told(Level::Serving, &settings);
        assert_eq!((status, &document["status"], &document["storage"]["ok"]), (503, &json!("degraded"), &json!(false)));
        let well: crate::HealthSource = Arc::new(|| vec![("ok", json!(true)), ("status", json!("healthy"))]);
        let settings = Settings { health: Some(well), ..Settings::default() };
        let (status, document) = told(Level::Draining, &settings);
        assert_eq!((status, &document["ok"], &document["status"]), (503, &json!(false), &json!("draining")));
    }
}
