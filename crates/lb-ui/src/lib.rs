//! Pages for the people who run the gateway.
//!
//! Knows no HTTP: a page is bytes and what browsers must be told about them. Who may see it is decided by whoever
//! serves it.

mod page;
mod report;
mod waterfall;

pub use page::Page;
pub use waterfall::{Clock, Waterfall};
