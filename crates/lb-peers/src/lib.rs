//! lb-peers

pub mod evil;
pub mod fixture;
pub mod raw;
