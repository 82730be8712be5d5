//! One answer, without the protocol that carries it.

use bytes::Bytes;

/// What is shown at a path.
#[derive(Clone, Debug)]
pub struct Page {
    /// The HTTP status.
    pub status: u16,
    /// What the body is.
    pub content_type: &'static str,
    /// The page itself.
    pub body: Bytes,
    /// What a browser may do with it.
    pub content_security_policy: String,
}
