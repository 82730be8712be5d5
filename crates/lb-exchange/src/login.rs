//! What we prove ourselves with at servers that want a login.
//!
//! Whoever connects asks a [`Login`] what to send; whoever keeps tokens implements it. Neither knows the other.

use std::fmt::Debug;
use std::sync::Arc;

use crate::middle::BoxFuture;
use crate::principal::Principal;
use crate::server::{Secret, ServerName, ServerSpec};

/// The logins of everybody at every server.
pub trait Logins: Send + Sync + Debug {
    /// What this principal proves itself with at this server; `None` where the server is asked without a login.
    fn of(&self, principal: &Principal, server: &Arc<ServerSpec>) -> Option<Arc<dyn Login>>;
}

/// What one principal proves itself with at one server. Shared by all its connections to that server.
pub trait Login: Send + Sync + Debug {
    /// What goes with the next request; `None` while the server has not said what it wants. Known without waiting, but
    /// for the first time and when a token is about to end.
    ///
    /// Cancel safe: yes.
    fn proof(&self) -> BoxFuture<'_, Result<Option<Proof>, LoginError>>;

    /// The server did not take it: what to send instead, once. A refusal of a proof that is not the newest any more is
    /// answered with the newest.
    ///
    /// Cancel safe: yes.
    fn refused(&self, refusal: Refused) -> BoxFuture<'_, Result<Proof, LoginError>>;

    /// Whether a login that was used here has ended, as far as that is known without asking the server. Is looked up
    /// again once in a few seconds.
    ///
    /// Cancel safe: yes.
    fn is_over(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }

    /// Waits until the needed login of this id has come to its end, whatever that is. Never ends where that cannot be
    /// known: whoever waits looks again after a while.
    ///
    /// Cancel safe: yes.
    fn ended<'a>(&'a self, id: &'a str) -> BoxFuture<'a, ()> {
        let _ = id;
        Box::pin(std::future::pending())
    }
}

/// What goes with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The value of the header `Authorization`.
    pub value: Secret,
    /// Grows with each token, so that a refusal tells which one it means.
    pub number: u64,
}

/// How a server refused a request.
#[derive(Clone, Debug)]
pub struct Refused {
    /// 401, or 403 when a challenge says that the scope is too small.
    pub status: u16,
    /// The values of `WWW-Authenticate`.
    pub challenges: Vec<String>,
    /// What went with the request.
    pub proof: Option<Proof>,
}

/// Why there is nothing to send.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// Somebody must log in first.
    #[error("a login is needed: open {}", .0.url)]
    Needed(LoginNeeded),
    /// It cannot be had, and why; says what to do, and no secret.
    #[error("{0}")]
    Failed(String),
}

/// A login that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginNeeded {
    /// Where.
    pub server: ServerName,
    /// Names it, towards clients too.
    pub id: String,
    /// What the person opens.
    pub url: String,
}

/// Who logs in at a server, and as which client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ServerAuth {
    /// Nobody: what it wants is in its headers.
    #[default]
    None,
    /// Each principal by itself, in a browser.
    User(OauthClient),
    /// The gateway, with credentials of its own.
    Service(OauthClient),
}

/// What we are at a server's authorization server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OauthClient {
    /// Our name there; without one we name our own document, or register.
    pub client_id: Option<String>,
    /// What proves that we are it.
    pub client_secret: Option<Secret>,
    /// What to ask for, instead of what the server names.
    pub scopes: Vec<String>,
    /// A document about us that is somewhere else than with us.
    pub client_id_metadata_url: Option<String>,
}
