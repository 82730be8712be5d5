//! What a node says of a request: whose it is, and how it came.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lb_auth::Grant;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// What a node says of a request that it sends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claims {
    /// Whose request it is.
    pub(crate) principal: String,
    /// What they were let in with, where there is a login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) grant: Option<Grant>,
    /// The client's address; none of a client on a unix socket.
    pub(crate) ip: Option<IpAddr>,
    /// The request's id.
    pub(crate) id: String,
    /// The host that the client named.
    pub(crate) host: Option<String>,
    /// `http` or `https`, as the client came.
    pub(crate) scheme: String,
    /// The URL of the node that it is for.
    pub(crate) to: String,
    /// The hash of the body, see [`digest`].
    pub(crate) body: String,
}

impl Claims {
    /// In a form that fits a header.
    pub(crate) fn write(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    pub(crate) fn read(text: &str) -> Option<Self> {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
    }
}

/// The SHA-256 of a body.
pub(crate) fn digest(body: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(body))
}
