//! Input that no good client sends, and what an answer to it may look like.

pub mod corpus;
pub mod judge;
pub mod line;
pub mod request;
