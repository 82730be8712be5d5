//! The opening of a conversation in both eras: which one a message belongs to, and what `initialize` and
//! `server/discover` answer.

use super::message::{self, META_CAPABILITIES, Message};

/// The revisions with a handshake, oldest first.
pub const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// The revision without one.
pub const MODERN: &str = "2026-07-28";
/// Members of every complete modern result, to be followed by others.
pub const COMPLETE: &str = r#""resultType":"complete","#;
/// Caching hints of modern lists, to be followed by others.
pub const UNCACHED: &str = r#""ttlMs":0,"cacheScope":"private","#;

/// The era one message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// Up to 2025-11-25.
    Legacy,
    /// 2026-07-28.
    Modern,
}

/// The eras a server speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eras {
    /// Only legacy.
    Legacy,
    /// Only modern.
    Modern,
    /// Either, told apart message by message.
    #[default]
    Dual,
}

impl Eras {
    /// Reads the value of `--era`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "legacy" => Some(Self::Legacy),
            "modern" => Some(Self::Modern),
            "dual" => Some(Self::Dual),
            _ => None,
        }
    }

    fn supported(self) -> String {
        let legacy = LEGACY.map(message::quote).join(",");
        match self {
            Self::Legacy => format!("[{legacy}]"),
            Self::Modern => format!("[{}]", message::quote(MODERN)),
            Self::Dual => format!("[{legacy},{}]", message::quote(MODERN)),
        }
    }
}

/// Why a request is not served.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status that goes with it.
    pub status: u16,
    /// The JSON-RPC code.
    pub code: i64,
    /// What is wrong.
    pub message: &'static str,
    /// JSON text for `data`.
    pub data: Option<String>,
}

impl Refusal {
    /// A refusal without data.
    #[must_use]
    pub fn new(status: u16, code: i64, message: &'static str) -> Self {
        Self { status, code, message, data: None }
    }

    /// The response to the request `id`.
    #[must_use]
    pub fn response(&self, id: &str) -> String {
        message::error(id, self.code, self.message, self.data.as_deref())
    }
}

/// What a server says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Hello {
    /// The name in `serverInfo`.
    pub name: &'static str,
    /// The eras it speaks.
    pub eras: Eras,
}

impl Hello {
    /// Tells the era of a message and refuses one that this server, or its era, does not allow.
    ///
    /// # Errors
    /// With the answer that the revision asks for.
    pub fn check(&self, message: &Message, header_version: Option<&str>) -> Result<Era, Refusal> {
        let named = message.meta_version().or_else(|| header_version.map(str::to_owned));
        let known_legacy = named.as_deref().is_none_or(|version| LEGACY.contains(&version));
        let modern = message.meta_version().is_some() || !known_legacy || message.method() == "server/discover";
        if message.method() == "initialize" || !modern {
            return match self.eras {
                Eras::Modern => Err(self.unsupported(named.as_deref().unwrap_or("2025-11-25"))),
                Eras::Legacy | Eras::Dual => Ok(Era::Legacy),
            };
        }
        if self.eras == Eras::Legacy {
            return Err(Refusal::new(400, -32601, "method not found"));
        }
        if message.id.is_none() {
            return Ok(Era::Modern);
        }
        match (message.meta_version(), header_version) {
            (None, _) => Err(Refusal::new(400, -32602, "_meta lacks the protocol version")),
            (Some(body), Some(header)) if body != header => {
                Err(Refusal::new(400, -32020, "MCP-Protocol-Version differs from _meta"))
            }
            (Some(body), _) if body != MODERN => Err(self.unsupported(&body)),
            (Some(_), _) if !message.meta.contains_key(META_CAPABILITIES) => {
                Err(Refusal::new(400, -32602, "_meta lacks the client capabilities"))
            }
            (Some(_), _) => Ok(Era::Modern),
        }
    }

    /// The result of `initialize`: the version asked for, or the newest legacy one.
    #[must_use]
    pub fn initialize(&self, message: &Message) -> String {
        let asked = message.text_param("protocolVersion");
        let version = LEGACY.iter().copied().find(|known| Some(*known) == asked.as_deref()).unwrap_or("2025-11-25");
        format!(
            r#"{{"protocolVersion":"{version}","capabilities":{CAPABILITIES},"serverInfo":{}}}"#,
            self.server_info()
        )
    }

    /// The result of `server/discover`.
    #[must_use]
    pub fn discover(&self) -> String {
        let (supported, info) = (self.eras.supported(), self.server_info());
        let meta = format!(r#""_meta":{{"io.modelcontextprotocol/serverInfo":{info}}}"#);
        format!(r#"{{{COMPLETE}{UNCACHED}"supportedVersions":{supported},"capabilities":{CAPABILITIES},{meta}}}"#)
    }

    fn server_info(&self) -> String {
        format!(r#"{{"name":"{}","version":"1.0.0"}}"#, self.name)
    }

    fn unsupported(&self, requested: &str) -> Refusal {
        let requested = message::quote(requested);
        let data = format!(r#"{{"supported":{},"requested":{requested}}}"#, self.eras.supported());
        Refusal { data: Some(data), ..Refusal::new(400, -32022, "unsupported protocol version") }
    }
}

const CAPABILITIES: &str = r#"{"logging":{},"tools":{"listChanged":true}}"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(eras: Eras, line: &str, header: Option<&str>) -> Result<Era, i64> {
        let message = Message::parse(line.as_bytes()).expect("a message");
        Hello { name: "x", eras }.check(&message, header).map_err(|refusal| refusal.code)
    }

    #[test]
    fn eras_are_told_apart_and_incomplete_modern_requests_refused() {
        let meta = |version: &str, more: &str| {
            format!(
                r#"{{"id":1,"method":"tools/list","params":{{"_meta":{{"{}":"{version}"{more}}}}}}}"#,
                message::META_VERSION
            )
        };
        let caps = format!(r#","{META_CAPABILITIES}":{{}}"#);
        let init = r#"{"id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
        let list = r#"{"id":1,"method":"tools/list"}"#;
        let full = meta(MODERN, &caps);
        for (eras, line, header, want) in [
            (Eras::Dual, init, None, Ok(Era::Legacy)),
            (Eras::Modern, init, None, Err(-32022)),
            (Eras::Dual, list, Some("2025-06-18"), Ok(Era::Legacy)),
            (Eras::Dual, list, Some(MODERN), Err(-32602)),
            (Eras::Dual, full.as_str(), Some(MODERN), Ok(Era::Modern)),
            (Eras::Dual, full.as_str(), None, Ok(Era::Modern)),
            (Eras::Dual, full.as_str(), Some("2025-06-18"), Err(-32020)),
            (Eras::Legacy, full.as_str(), Some(MODERN), Err(-32601)),
            (Eras::Dual, &meta(MODERN, ""), None, Err(-32602)),
            (Eras::Dual, &meta("2030-01-01", &caps), None, Err(-32022)),
        ] {
            assert_eq!(check(eras, line, header), want, "{eras:?} {header:?} {line}");
        }
    }
}
