//! What a tool says when it cannot do what it was asked.

use lb_exchange::ErrorBody;
use lb_gateway::{NoServer, Unavailable};
use lb_wire::Raw;
use lb_wire::compose::Object;

pub(crate) const SESSION_NOT_FOUND: &str = "TOOL_ERR_SESSION_NOT_FOUND";
pub(crate) const SERVER_NOT_FOUND: &str = "TOOL_ERR_SERVER_NOT_FOUND";
pub(crate) const EXECUTION_FAILED: &str = "TOOL_ERR_EXECUTION_FAILED";
pub(crate) const NOT_FOUND: &str = "TOOL_ERR_NOT_FOUND";
pub(crate) const SERVER_DISCONNECTED: &str = "TOOL_ERR_SERVER_DISCONNECTED";
pub(crate) const TIMEOUT: &str = "TOOL_ERR_TIMEOUT";
pub(crate) const INVALID_ARGUMENT: &str = "INVALID_ARGUMENT";
pub(crate) const TASK_NOT_FOUND: &str = "TASK_NOT_FOUND";
pub(crate) const REQUEST_NOT_FOUND: &str = "REQUEST_NOT_FOUND";
pub(crate) const TIMER_NOT_FOUND: &str = "TIMER_NOT_FOUND";
pub(crate) const LIMIT_EXCEEDED: &str = "LIMIT_EXCEEDED";
pub(crate) const NOT_SUPPORTED: &str = "NOT_SUPPORTED";
pub(crate) const FORBIDDEN: &str = "FORBIDDEN";

/// A failure: a code for programs, a message for whoever reads it, and facts that help.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) details: Option<Raw>,
}

impl Failure {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: None }
    }

    /// With facts: an object.
    pub(crate) fn with(mut self, details: Raw) -> Self {
        self.details = Some(details);
        self
    }

    /// A server that nobody defined.
    pub(crate) fn no_server(error: &NoServer) -> Self {
        let details = Object::new().text("server", &error.name).raw("servers", &Raw::value(&error.servers)).finish();
        Self::new(SERVER_NOT_FOUND, error.to_string()).with(details)
    }

    /// What nobody of this client's principal may do.
    pub(crate) fn denied(server: &str, tool: Option<&str>) -> Self {
        let what = tool.map_or_else(|| format!("server '{server}'"), |tool| format!("'{tool}' of server '{server}'"));
        let message = format!("you may not use {what} in this way; ask the operator of the gateway");
        let details = Object::new().text("reason", "access_denied").text("server", server).maybe_text("tool", tool);
        Self::new(FORBIDDEN, message).with(details.finish())
    }

    /// What a token with further scopes may do.
    pub(crate) fn lacks_scope(server: &str, scopes: &str) -> Self {
        let message = format!("the token lacks the scope {scopes}; log in again and ask for it");
        let details = Object::new().text("reason", "insufficient_scope").text("scope", scopes).text("server", server);
        Self::new(FORBIDDEN, message).with(details.finish())
    }

    /// A server that cannot be reached at the moment.
    pub(crate) fn unavailable(server: &str, why: &Unavailable) -> Self {
        let details = Object::new().text("server", server).text("status", why.status.as_str());
        let details = match why.attempt {
            Some(attempt) => details.number("attempt", attempt),
            None => details,
        };
        let details = match why.next_retry {
            Some(wait) => details.number("nextRetryMs", millis(wait)),
            None => details,
        };
        let details = match &why.login {
            Some(login) => details.text("url", &login.url),
            None => details.maybe_text("lastError", why.last_error.as_deref()),
        };
        let details = details.finish();
        Self::new(why.code, why.message.clone()).with(details)
    }

    /// What a server, or the way to it, answered instead of a result.
    pub(crate) fn refused(error: &ErrorBody) -> Self {
        let message = error.raw.member("message").and_then(|text| text.to_text().map(|text| text.into_owned()));
        let message = message.unwrap_or_else(|| "the server answered with an error".into());
        let details = Object::new().number("code", error.code).maybe("data", error.raw.member("data").as_ref());
        Self::new(lb_gateway::error_code(error), message).with(details.finish())
    }
}

/// A time as programs read it.
pub(crate) fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
