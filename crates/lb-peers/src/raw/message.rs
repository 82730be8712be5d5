//! JSON-RPC messages as these servers see them: members as raw text, so that ids and tokens are echoed byte for byte.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

/// `_meta` key of the protocol revision.
pub const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// `_meta` key of the client's capabilities.
pub const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// Members of a JSON object, each as the text it had.
pub type Members = BTreeMap<String, Box<RawValue>>;

/// A received message.
#[derive(Debug, Default)]
pub struct Message {
    /// The id as written; `None` for a notification.
    pub id: Option<String>,
    /// `None` for a response.
    pub method: Option<String>,
    /// The members of `params`, empty where it is absent or no object.
    pub params: Members,
    /// The members of `params._meta`.
    pub meta: Members,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

impl Message {
    /// Reads one message; `None` when the bytes are no JSON object.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        // The derived reader would take an array for the members in order.
        if !bytes.trim_ascii_start().starts_with(b"{") {
            return None;
        }
        let envelope: Envelope<'_> = serde_json::from_slice(bytes).ok()?;
        let params = envelope.params.map(members).unwrap_or_default();
        let meta = params.get("_meta").map(|meta| members(meta)).unwrap_or_default();
        let id = envelope.id.map(|id| id.get().to_owned());
        Some(Self { id, method: envelope.method.map(Cow::into_owned), params, meta })
    }

    /// The method, empty for a response.
    #[must_use]
    pub fn method(&self) -> &str {
        self.method.as_deref().unwrap_or_default()
    }

    /// A parameter that is a string.
    #[must_use]
    pub fn text_param(&self, name: &str) -> Option<String> {
        self.params.get(name).and_then(|value| text(value))
    }

    /// The members of `params.arguments`.
    #[must_use]
    pub fn arguments(&self) -> Members {
        self.params.get("arguments").map(|value| members(value)).unwrap_or_default()
    }

    /// The revision named in `_meta`.
    #[must_use]
    pub fn meta_version(&self) -> Option<String> {
        self.meta.get(META_VERSION).and_then(|value| text(value))
    }
}

/// The members of a JSON object; none where the value is something else.
#[must_use]
pub fn members(value: &RawValue) -> Members {
    serde_json::from_str(value.get()).unwrap_or_default()
}

/// The value of a JSON string.
#[must_use]
pub fn text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// `text` as a JSON string.
#[must_use]
pub fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A response with a result, both given as JSON text.
#[must_use]
pub fn result(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// A response with an error; `data` is JSON text.
#[must_use]
pub fn error(id: &str, code: i64, message: &str, data: Option<&str>) -> String {
    let data = data.map(|data| format!(r#","data":{data}"#)).unwrap_or_default();
    let message = quote(message);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}{data}}}}}"#)
}

/// A notification; `params` is JSON text.
#[must_use]
pub fn notification(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_members_keep_their_bytes() {
        let line = br#"{"id": 1e0 ,"method":"tools/call","params":{"arguments":{"message":"\u0041"},"_meta":{"progressToken":"\/"}}}"#;
        let message = Message::parse(line).expect("a message");
        assert_eq!(message.id.as_deref(), Some("1e0"));
        assert_eq!(message.arguments().get("message").map(|raw| raw.get()), Some(r#""\u0041""#));
        assert_eq!(message.meta.get("progressToken").map(|raw| raw.get()), Some(r#""\/""#));
        assert!(Message::parse(b"[]").is_none());
        assert!(Message::parse(b"\xff").is_none());
    }
}
