//! A request as the middle sees it: who calls, where, and what.

use std::sync::Arc;

use bytes::Bytes;
use lb_wire::revision::{Era, Revision};
use lb_wire::{Message, Raw};

use crate::principal::Principal;
use crate::server::ServerName;

/// Facts about a client that hold for one session, or in the modern era for one request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Who is calling.
    pub principal: Principal,
    /// The revision this client speaks with us.
    pub revision: Revision,
    /// What it declared it can do.
    pub capabilities: Capabilities,
    /// What it calls itself, as it wrote it; passed on, never a key.
    pub client_info: Option<Raw>,
}

impl Caller {
    /// The wire contract this client speaks with us.
    pub fn era(&self) -> Era {
        self.revision.era()
    }
}

/// Client capabilities, exactly as declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities(pub Raw);

impl Capabilities {
    /// Nothing declared.
    pub fn none() -> Self {
        Self(Raw::empty_object())
    }

    /// Whether a top-level capability is declared.
    pub fn has(&self, name: &str) -> bool {
        self.0.member(name).is_some_and(|value| value.as_bytes() != b"null")
    }
}

/// Where a client came in: which surface it sees.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Mount {
    /// The configured default.
    Default,
    /// The whole protocol as a fixed set of tools.
    Tools,
    /// One server alone, transparent.
    Server(ServerName),
}

/// `Mcp-Param-*` headers: the part of the name after the prefix, in lower case, and the value as sent.
pub type ParamHeaders = Vec<(String, Bytes)>;

/// One request of a client.
#[derive(Clone, Debug)]
pub struct Call {
    /// Who calls.
    pub caller: Arc<Caller>,
    /// Where it came in.
    pub mount: Mount,
    /// The request.
    pub message: Message,
    /// Parameters that the client mirrored into headers; `None` for clients that have none: legacy ones, and all on pipes.
    pub headers: Option<ParamHeaders>,
}

/// A legacy client introducing itself.
#[derive(Clone, Debug)]
pub struct Hello {
    /// What it said about itself, with the revision that the front settled on.
    pub caller: Caller,
    /// Where it came in.
    pub mount: Mount,
    /// The `initialize` request.
    pub message: Message,
}
