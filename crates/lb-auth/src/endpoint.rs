//! The paths of OAuth: at the root, where the oldest clients look, and below `/oauth`, the same.

mod authorize;
mod callback;
mod consent;
mod cookies;
mod exchange;
mod metadata;
mod operator;
mod room;
mod stats;
mod transaction;

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, CONTENT_TYPE, HeaderValue,
    ORIGIN, VARY,
};
use http::{HeaderMap, Method, Request, StatusCode};

pub(crate) use self::cookies::{Bound, cookie};
pub(crate) use self::transaction::LIFE as LOGIN_LIFE;
use crate::answer::{self, Answer};
use crate::auth::Auth;
use crate::pages;
use crate::redirect::is_loopback;

/// The longest body, in bytes.
const BODY_BYTES_MAX: usize = 16 * 1_024;
/// The longest query, in bytes.
const QUERY_BYTES_MAX: usize = 8 * 1_024;

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// What we say of ourselves.
    Server,
    /// What we say of a resource, by its path.
    Resource(String),
    /// A document of others that we do not have.
    Nothing,
    Authorize,
    Consent,
    Callback,
    Token,
    Register,
    Revoke,
    Stats,
    Style,
    /// An operator logs in, for pages.
    Login,
    /// And out again.
    Logout,
}

impl Route {
    pub fn of(path: &str) -> Option<Self> {
        if let Some(rest) = path.strip_prefix("/.well-known/") {
            return Self::well_known(rest);
        }
        match path {
            "/oauth/callback" | "/oauth/auth0-callback" => return Some(Self::Callback),
            "/oauth/stats" => return Some(Self::Stats),
            "/oauth/style.css" => return Some(Self::Style),
            "/login" => return Some(Self::Login),
            "/logout" => return Some(Self::Logout),
            _ => {}
        }
        match path.strip_prefix("/oauth").unwrap_or(path) {
            "/authorize" => Some(Self::Authorize),
            "/consent" => Some(Self::Consent),
            "/token" => Some(Self::Token),
            "/register" => Some(Self::Register),
            "/revoke" => Some(Self::Revoke),
            _ => None,
        }
    }

    fn well_known(rest: &str) -> Option<Self> {
        if rest == "oauth-authorization-server" {
            return Some(Self::Server);
        }
        if let Some(path) = rest.strip_prefix("oauth-protected-resource") {
            return (path.is_empty() || path.starts_with('/')).then(|| Self::Resource(path.to_owned()));
        }
        // A document at another address would name another issuer than that address does.
        let others = ["oauth-authorization-server/", "openid-configuration"];
        others.iter().any(|other| rest.starts_with(other)).then_some(Self::Nothing)
    }

    fn is_public(&self) -> bool {
        matches!(self, Self::Server | Self::Resource(_))
    }

    /// Whether pages of other origins may use it, if the operator says so.
    fn is_for_pages(&self) -> bool {
        matches!(self, Self::Token | Self::Register | Self::Revoke)
    }
}

/// Answers one request.
pub(crate) async fn answer(auth: &Auth, request: &Request<Bytes>, from: IpAddr, now: SystemTime) -> Answer {
    let Some(route) = Route::of(request.uri().path()) else { return missing() };
    // Without a provider nobody can log in here, and only an operator has anything to ask.
    if auth.idp.is_none() && route != Route::Stats {
        return missing();
    }
    if BODY_BYTES_MAX < request.body().len() {
        return answer::error(StatusCode::PAYLOAD_TOO_LARGE, "invalid_request", "the body has more than 16 KiB");
    }
    if request.uri().query().is_some_and(|query| QUERY_BYTES_MAX < query.len()) {
        return answer::error(StatusCode::URI_TOO_LONG, "invalid_request", "the query has more than 8 KiB");
    }
    if request.method() == Method::OPTIONS {
        return preflight(auth, &route, request.headers());
    }
    let mut answer = routed(auth, &route, request, from, now).await;
    if let Some(origin) = allowed_origin(auth, &route, request.headers()) {
        answer.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        answer.headers_mut().insert(VARY, HeaderValue::from_static("origin"));
    }
    answer
}

async fn routed(auth: &Auth, route: &Route, request: &Request<Bytes>, from: IpAddr, now: SystemTime) -> Answer {
    let (get, post) = (request.method() == Method::GET, request.method() == Method::POST);
    let read = get || request.method() == Method::HEAD;
    match route {
        Route::Server if read => auth.server_metadata(),
        Route::Resource(path) if read => auth.resource_metadata(path),
        Route::Nothing if read => missing(),
        Route::Authorize if get => auth.authorize(request.uri().query().unwrap_or_default(), from, now).await,
        Route::Consent if get => auth.show_consent(request, now).await,
        Route::Consent if post => auth.take_consent(request, now).await,
        Route::Callback if get => auth.callback(request, now).await,
        Route::Token if post => auth.token(request, from, now).await,
        Route::Register if post && auth.settings.registration => auth.register(request, from, now).await,
        Route::Register if post => missing(),
        Route::Revoke if post => auth.revoke(request, from, now).await,
        Route::Stats if get => auth.stats(request, now).await,
        Route::Style if read => style(),
        Route::Login if get => auth.open_login(request, from, now).await,
        Route::Logout if get => auth.logout(request.headers()).await,
        Route::Consent => answer::not_allowed("GET, POST"),
        Route::Token | Route::Register | Route::Revoke => answer::not_allowed("POST"),
        Route::Server
        | Route::Resource(_)
        | Route::Nothing
        | Route::Authorize
        | Route::Callback
        | Route::Stats
        | Route::Style
        | Route::Login
        | Route::Logout => answer::not_allowed("GET"),
    }
}

pub(crate) fn style() -> Answer {
    let mut answer = answer::empty(StatusCode::OK);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/css; charset=utf-8"));
    *answer.body_mut() = Bytes::from_static(pages::STYLE.as_bytes());
    answer
}

pub(crate) fn missing() -> Answer {
    answer::json(StatusCode::NOT_FOUND, &serde_json::json!({"error": "not_found"}))
}

/// A page that says what went wrong.
pub(crate) fn failed(status: StatusCode, title: &str, what: &str) -> Answer {
    answer::page(status, pages::failure(title, what))
}

/// The same while the store is away.
pub(crate) fn failed_for_now(what: &str) -> Answer {
    answer::later(failed(StatusCode::SERVICE_UNAVAILABLE, "Try again in a moment", what), Duration::from_secs(1))
}

/// The same while so many log in that nobody else can begin.
pub(crate) fn full() -> Answer {
    let what = "Too many logins are under way at this gateway. Wait a few minutes and try again.";
    answer::later(failed(StatusCode::SERVICE_UNAVAILABLE, "Too many logins", what), Duration::from_secs(60))
}

fn allowed_origin(auth: &Auth, route: &Route, headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(ORIGIN).filter(|_| route.is_for_pages())?;
    let text = origin.to_str().ok()?;
    // As everywhere else, pages of this machine may.
    let is_local =
        || url::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && is_loopback(&url));
    (auth.is_origin(text) || is_local()).then(|| origin.clone())
}

fn preflight(auth: &Auth, route: &Route, headers: &HeaderMap) -> Answer {
    let origin =
        if route.is_public() { Some(HeaderValue::from_static("*")) } else { allowed_origin(auth, route, headers) };
    let mut answer = answer::empty(StatusCode::NO_CONTENT);
    if let Some(origin) = origin {
        let methods = if route.is_public() { "GET" } else { "POST" };
        let headers = answer.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
        let allowed = "authorization, content-type, mcp-protocol-version";
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(allowed));
    }
    answer
}

/// Whether a body is a form.
pub(crate) fn is_form(headers: &HeaderMap) -> bool {
    is_of_kind(headers, "application/x-www-form-urlencoded")
}

/// Whether a body is JSON.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    is_of_kind(headers, "application/json")
}

fn is_of_kind(headers: &HeaderMap, wanted: &str) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(wanted)
}

#[cfg(test)]
mod tests;
