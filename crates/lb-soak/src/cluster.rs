//! Several gateways on one store behind one address, their clients, and what goes wrong with them.

pub mod balancer;
pub mod client;
pub mod life;
mod look;
pub mod nodes;
pub mod plan;
pub mod wire;
