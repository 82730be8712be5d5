//! How a server stands, and why it cannot be used: what clients are told of it.

use std::time::Duration;

use lb_exchange::{ErrorBody, LoginNeeded};
use lb_session::backend::Status;
use lb_wire::{Raw, Text, compose};

use super::servers::NoServer;
use crate::registry::Entry;

/// How a server stands, for a client.
#[derive(Clone, Debug)]
pub struct ServerView {
    /// Its name.
    pub name: Text,
    /// Where it is, without secrets.
    pub address: String,
    /// How it is reached.
    pub transport: &'static str,
    /// How it stands.
    pub status: Status,
    /// Since when it is connected, since the Unix epoch.
    pub connected_at: Option<Duration>,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// Which attempt is next, while it is out of reach.
    pub attempt: Option<u32>,
    /// How long until then.
    pub next_retry: Option<Duration>,
    /// Whether it answers its health checks, while connected.
    pub healthy: Option<bool>,
    /// Health checks that failed in a row, while connected.
    pub health_failures: Option<u32>,
    /// Its process.
    pub pid: Option<u32>,
    /// Since when it is defined, since the Unix epoch.
    pub added_at: Duration,
    /// The session that defined it, as people see it.
    pub added_by: Option<Text>,
    /// The login that it waits for.
    pub login: Option<LoginNeeded>,
}

impl ServerView {
    /// Of a server that this session has nothing to do with yet.
    pub(super) fn unconnected(entry: &Entry) -> Self {
        Self {
            name: Text::from(entry.name().as_str()),
            address: entry.spec().target.address(),
            transport: entry.transport(),
            status: Status::NotConnected,
            connected_at: None,
            last_error: None,
            attempt: None,
            next_retry: None,
            healthy: None,
            health_failures: None,
            pid: None,
            added_at: entry.added_at.unix,
            added_by: entry.added_by.clone(),
            login: None,
        }
    }
}

/// Why a server cannot be used now.
#[derive(Clone, Debug)]
pub struct Unavailable {
    /// The code for it.
    pub code: &'static str,
    /// What happened, and what to do about it.
    pub message: String,
    /// How the server stands.
    pub status: Status,
    /// Which attempt is next.
    pub attempt: Option<u32>,
    /// How long until then.
    pub next_retry: Option<Duration>,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// The login that is needed first.
    pub login: Option<Box<LoginNeeded>>,
}

impl Unavailable {
    /// As the error of a call.
    pub fn to_body(&self) -> ErrorBody {
        let reason = match self.code {
            "TOOL_ERR_TIMEOUT" => "timeout",
            "LIMIT_EXCEEDED" => "limit_exceeded",
            "LOGIN_NEEDED" => "login_needed",
            "LOGIN_FAILED" => "login_failed",
            _ => "unavailable",
        };
        let data = compose::Object::new()
            .text("reason", reason)
            .text("status", self.status.as_str())
            .maybe("attempt", self.attempt.map(|attempt| Raw::value(&attempt)).as_ref())
            .maybe("nextRetryMs", self.next_retry.map(|wait| Raw::value(&wait.as_millis())).as_ref())
            .maybe_text("lastError", self.last_error.as_deref().filter(|_| self.login.is_none()))
            .maybe_text("url", self.login.as_ref().map(|login| login.url.as_str()))
            .finish();
        let body = ErrorBody::new(lb_wire::revision::code::INTERNAL_ERROR, &self.message, Some(&data));
        match &self.login {
            Some(login) => body.needing((**login).clone()),
            None => body,
        }
    }
}

/// Why a request of ours got no result.
#[derive(Debug)]
pub enum CallError {
    /// The server cannot be used now.
    Unavailable(Unavailable),
    /// It said no.
    Refused(ErrorBody),
    /// It cannot do that.
    NotSupported(String),
}

/// Why a server was not removed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// There is none of this name.
    #[error(transparent)]
    NoServer(#[from] NoServer),
    /// It is there for others, too.
    #[error(
        "the server '{0}' is there for others too: its operator removes it, with DELETE /servers/{0} or in the config file"
    )]
    Others(String),
}

/// Why a server was not connected again.
#[derive(Debug)]
pub enum ReconnectError {
    /// There is none of this name.
    NoServer(NoServer),
    /// It could not be reached.
    Failed(Unavailable),
}
