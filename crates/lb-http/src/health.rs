//! The pages that are not the protocol: health, ping, banner, and what to do when lost.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::phase::Level;
use crate::settings::Settings;

/// The document behind `/health`, and its status.
pub(crate) fn health(level: Level, started: Instant, settings: &Settings) -> (StatusCode, Bytes) {
    let mut document = Map::new();
    let serving = level == Level::Serving;
    document.insert("ok".into(), json!(serving));
    document.insert("status".into(), json!(if serving { "healthy" } else { "draining" }));
    document.insert("mode".into(), json!("stateful-streamable-http"));
    document.insert("version".into(), json!(env!("CARGO_PKG_VERSION")));
    document.insert("uptime".into(), json!(started.elapsed().as_secs()));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    document.insert("timestamp".into(), json!(now.as_secs()));
    for (name, value) in settings.health.iter().flat_map(|source| source()) {
        document.insert(name.into(), value);
    }
    let well = document.get("ok").and_then(Value::as_bool) != Some(false);
    let status = if well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Bytes::from(Value::Object(document).to_string()))
}

/// The text behind `/`: where the protocol is, for one server or for each of several.
pub(crate) fn banner(settings: &Settings, several: &[String]) -> Bytes {
    let (version, path) = (env!("CARGO_PKG_VERSION"), &settings.mcp_path);
    if several.is_empty() {
        return Bytes::from(format!("landbridge {version}: MCP at {path}\n"));
    }
    let mut text = format!("landbridge {version}: MCP at\n");
    for name in several {
        text += &format!("  {path}/server/{name}\n");
    }
    Bytes::from(text)
}

/// The answer to a path that does not exist.
pub(crate) fn lost(settings: &Settings) -> Bytes {
    let path = &settings.mcp_path;
    let error = format!(
        "Not found. Available endpoints: {path}, {path}/tools, {path}/server/{{name}}, /health, /ping, /waterfall"
    );
    Bytes::from(json!({ "error": error }).to_string())
}

/// The answer to a server that does not exist.
pub(crate) fn no_server(what: &str, available: &[String]) -> Bytes {
    Bytes::from(json!({ "error": what, "available": available }).to_string())
}
