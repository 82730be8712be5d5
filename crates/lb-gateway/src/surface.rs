//! The port to surfaces of our own: what a client sees that is not one server alone.

use std::sync::Arc;

use lb_exchange::{Call, Exchange};
use lb_wire::Raw;

use crate::gateway::Gateway;
use crate::live::Live;

/// A surface. Registered where everything is wired; the middle knows it only by this.
pub trait Surface: Send + Sync {
    /// What a client is told when it arrives.
    fn introduction(&self) -> Introduction;

    /// What a modern call of a tool needs of the session of its client.
    fn need(&self, tool: &str) -> Need {
        let _ = tool;
        Need::Nothing
    }

    /// Opens a request, other than those that introduce a client.
    fn open(&self, who: Via, call: Call) -> Exchange;
}

/// What a call needs of a session that its client may never have heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing: it is no call of a tool that is here.
    Nothing,
    /// It looks at what there is, and changes it where there is something.
    Look,
    /// It may have to remember something.
    Memory,
}

/// What a client is told when it arrives.
#[derive(Clone, Debug)]
pub struct Introduction {
    /// What the surface can do.
    pub capabilities: Raw,
    /// How to use it, for a model.
    pub instructions: String,
}

/// By which way a call came.
pub enum Via {
    /// A legacy client in its session.
    Seated(Arc<Live>),
    /// A modern client, which names its session itself, or none.
    Modern(Gateway),
}
