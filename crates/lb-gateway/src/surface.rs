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

    /// Opens a request, other than those that introduce a client.
    fn open(&self, who: Visitor, call: Call) -> Exchange;
}

/// What a client is told when it arrives.
#[derive(Clone, Debug)]
pub struct Introduction {
    /// What the surface can do.
    pub capabilities: Raw,
    /// How to use it, for a model.
    pub instructions: String,
}

/// Who calls.
pub enum Visitor {
    /// A legacy client in its session.
    Seated(Arc<Live>),
    /// A modern client, which names its session itself, or none.
    Modern(Gateway),
}
