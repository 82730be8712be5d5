//! What a connected server said of itself, and what a failed call means.

use lb_backend::Connection;
use lb_exchange::ErrorBody;
use lb_wire::compose::Object;
use lb_wire::revision::{Era, Revision};
use lb_wire::{Kind, Raw};

/// What a connected server said of itself.
#[derive(Clone, Debug)]
pub struct Facts {
    /// What it can do, as it wrote it.
    pub capabilities: Raw,
    /// Who it is, as it wrote it.
    pub server_info: Option<Raw>,
    /// The revision that it speaks.
    pub revision: Revision,
    /// How to use it, as it wrote it.
    pub instructions: Option<Raw>,
    /// How many tools it lists.
    pub tool_count: usize,
}

impl Facts {
    pub(super) fn of(connection: &Connection, tool_count: usize) -> Self {
        let said = connection.welcome();
        let server_info = match connection.era() {
            Era::Legacy => said.member("serverInfo"),
            Era::Modern => said.member("_meta").and_then(|meta| meta.member("io.modelcontextprotocol/serverInfo")),
        };
        Self {
            capabilities: said.member("capabilities").unwrap_or_else(Raw::empty_object),
            server_info,
            revision: connection.revision(),
            instructions: said.member("instructions"),
            tool_count,
        }
    }

    /// Whether it declared a capability.
    pub fn has(&self, capability: &str) -> bool {
        self.capabilities.member(capability).is_some_and(|found| found.kind() == Kind::Object)
    }

    /// Whether it tells of changes of resources that it is asked to watch.
    pub fn subscribes(&self) -> bool {
        let resources = self.capabilities.member("resources");
        resources.and_then(|found| found.member("subscribe")).is_some_and(|flag| flag.as_bytes() == b"true")
    }

    /// What it can do, in a few words.
    pub fn flags(&self) -> Raw {
        let resources = self.has("resources");
        Object::new()
            .flag("tools", self.has("tools"))
            .flag("resources", resources)
            .flag("prompts", self.has("prompts"))
            .flag("resourceTemplates", resources)
            .flag("resourceSubscriptions", self.subscribes())
            .finish()
    }
}

/// The code of a failed call, as tools report it.
pub fn error_code(error: &ErrorBody) -> &'static str {
    let reason = error.raw.member("data").and_then(|data| data.member("reason"));
    match reason.as_ref().and_then(Raw::plain_str) {
        Some("timeout") => "TOOL_ERR_TIMEOUT",
        Some("limit_exceeded") => "LIMIT_EXCEEDED",
        Some("login_needed") => "LOGIN_NEEDED",
        Some("login_failed") => "LOGIN_FAILED",
        Some(_) => "TOOL_ERR_SERVER_DISCONNECTED",
        None => "TOOL_ERR_EXECUTION_FAILED",
    }
}

/// Whether an error of ours says that the server could not be reached.
pub fn is_out_of_reach(error: &ErrorBody) -> bool {
    let reason = error.raw.member("data").and_then(|data| data.member("reason"));
    matches!(reason.as_ref().and_then(Raw::plain_str), Some("unreachable" | "backend_closed" | "circuit_open"))
}
