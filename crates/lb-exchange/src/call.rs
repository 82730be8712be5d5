//! A request as the middle sees it: who calls, where, and what.

use std::sync::Arc;

use bytes::Bytes;
use lb_telemetry::Context;
use lb_wire::revision::{Era, Revision};
use lb_wire::{Message, Raw};

use crate::principal::Principal;
use crate::server::ServerName;
use crate::visitor::{Rights, Visitor};

/// Facts about a client that hold for one session, or in the modern era for one request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Who is calling.
    pub principal: Principal,
    /// The client that speaks for them, as it was registered; `None` where nobody logs in.
    pub client: Option<Arc<str>>,
    /// The login that this began with.
    pub family: Option<Arc<str>>,
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

    /// Who that is, without what a request of theirs may do.
    pub fn visitor(&self) -> Visitor {
        let (principal, client, family) = (self.principal.clone(), self.client.clone(), self.family.clone());
        Visitor { principal, client, family, rights: None }
    }

    /// Whether it is the one who sent a request: a session belongs to a principal and a client together.
    pub fn is(&self, who: &Visitor) -> bool {
        self.principal == who.principal && self.client == who.client
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

    /// Whether the client opens links that it is asked to open.
    pub fn opens_links(&self) -> bool {
        let mode = self.0.member("elicitation").and_then(|elicitation| elicitation.member("url"));
        mode.is_some_and(|mode| mode.as_bytes() != b"null")
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

/// The trace that a request belongs to, as headers tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The span it comes from.
    pub parent: Context,
    /// What tracing systems keep with it.
    pub state: Option<Box<str>>,
}

impl Trace {
    /// How long a `tracestate` may be; longer ones are left out.
    pub const STATE_BYTES_MAX: usize = 512;

    /// From the headers `traceparent` and `tracestate`; `None` when they name no trace.
    pub fn read(parent: &[u8], state: Option<&[u8]>) -> Option<Box<Self>> {
        let parent = Context::parse(parent)?;
        let state = state.filter(|state| !state.is_empty() && state.len() <= Self::STATE_BYTES_MAX);
        let state = state.and_then(|state| std::str::from_utf8(state).ok()).map(Box::from);
        Some(Box::new(Self { parent, state }))
    }
}

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
    /// The trace it belongs to, where headers tell it.
    pub trace: Option<Box<Trace>>,
    /// What this request may do; `None` where everything is allowed. Never those of another request of its session.
    pub rights: Option<Arc<dyn Rights>>,
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
