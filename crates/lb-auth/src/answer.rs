//! Answers, with the headers that all of them have.

use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
};
use http::{Response, StatusCode};
use serde_json::{Value, json};

/// What browsers must not do with a page of ours. `form-action` is left out: browsers apply it to every redirect that
/// follows a form, and those lead to the provider and to the client.
pub(crate) const PAGE_POLICY: &str = "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'";

const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

pub(crate) type Answer = Response<Bytes>;

/// An answer with nothing in it.
pub(crate) fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Bytes::new());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    answer
}

/// JSON that nobody keeps.
pub(crate) fn json(status: StatusCode, body: &Value) -> Answer {
    let mut answer = empty(status);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer.headers_mut().insert(HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));
    *answer.body_mut() = body.to_string().into();
    answer
}

/// An error as OAuth writes it.
pub(crate) fn error(status: StatusCode, code: &str, why: &str) -> Answer {
    json(status, &json!({"error": code, "error_description": why}))
}

/// A document that everybody may read and keep for five minutes.
pub(crate) fn public(body: &Value) -> Answer {
    let mut answer = json(StatusCode::OK, body);
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    answer
}

/// Sends a browser elsewhere, with a GET whatever it came with.
pub(crate) fn redirect(to: &str) -> Answer {
    let mut answer = guarded(StatusCode::SEE_OTHER);
    match HeaderValue::from_str(to) {
        Ok(to) => {
            answer.headers_mut().insert(LOCATION, to);
            answer
        }
        Err(_) => empty(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

/// A page for people.
pub(crate) fn page(status: StatusCode, html: String) -> Answer {
    let mut answer = guarded(status);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    *answer.body_mut() = html.into();
    answer
}

/// What every step of a login has.
fn guarded(status: StatusCode) -> Answer {
    let mut answer = empty(status);
    for (name, value) in [
        ("content-security-policy", PAGE_POLICY),
        ("x-frame-options", "DENY"),
        // The page's own form must tell where it comes from.
        ("referrer-policy", "same-origin"),
        // A client may have opened us in a window that it waits for.
        ("cross-origin-opener-policy", "unsafe-none"),
        ("x-content-type-options", "nosniff"),
    ] {
        answer.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    answer
}

/// Tells when to come back.
pub(crate) fn later(mut answer: Answer, wait: Duration) -> Answer {
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
    answer
}

/// What is said while the store is away.
pub(crate) fn away() -> Answer {
    let why = "the gateway cannot reach its store: try again";
    later(error(StatusCode::SERVICE_UNAVAILABLE, "temporarily_unavailable", why), Duration::from_secs(1))
}

/// Another method would have been right.
pub(crate) fn not_allowed(methods: &'static str) -> Answer {
    let mut answer = error(StatusCode::METHOD_NOT_ALLOWED, "invalid_request", "the method is not allowed here");
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    answer
}
