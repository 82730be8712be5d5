//! What browsers are told: security headers for everybody, CORS for pages that may call us.

use http::Request;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::guard::{is_loopback, without_port};

/// Headers of every response.
const SECURITY: [(HeaderName, HeaderValue); 7] = [
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'")),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
];

/// Request headers that pages may send, beside `mcp-param-*`.
const SENDABLE: [&str; 11] = [
    "content-type",
    "accept",
    "authorization",
    "mcp-session-id",
    "mcp-protocol-version",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "traceparent",
    "tracestate",
    "baggage",
];

/// Says what browsers must know, unless a page has said it in a way of its own.
pub(crate) fn secure(headers: &mut HeaderMap) {
    for (name, value) in &SECURITY {
        headers.entry(name).or_insert_with(|| value.clone());
    }
}

/// For how long browsers shall use TLS alone. Under the name of this machine not at all: other programs have other
/// ports under it, and most of them no TLS.
pub(crate) fn strict_transport<B>(request: &Request<B>) -> HeaderValue {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).map(without_port);
    HeaderValue::from_static(if host.is_some_and(is_loopback) { "max-age=0" } else { "max-age=31536000" })
}

/// Lets the page read the response; its origin has been checked.
pub(crate) fn allow(origin: HeaderValue, headers: &mut HeaderMap) {
    const EXPOSED: HeaderValue = HeaderValue::from_static(
        "Mcp-Session-Id, Mcp-Protocol-Version, Last-Event-Id, WWW-Authenticate, X-Request-Id, Retry-After, \
         RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset",
    );
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    headers.insert(header::VARY, HeaderValue::from_static("Origin"));
}

/// Answers a preflight request.
pub(crate) fn preflight(request: &HeaderMap, response: &mut HeaderMap) {
    const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE, OPTIONS");
    response.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    response.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    let asked = request.get(header::ACCESS_CONTROL_REQUEST_HEADERS).and_then(|value| value.to_str().ok());
    let allowed: Vec<&str> =
        asked.unwrap_or_default().split(',').map(str::trim).filter(|name| may_send(name)).collect();
    let list = if asked.is_none() { SENDABLE.join(", ") } else { allowed.join(", ") };
    if let Ok(value) = HeaderValue::from_str(&list) {
        response.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, value);
    }
}

fn may_send(name: &str) -> bool {
    let param = name.get(..10).is_some_and(|prefix| prefix.eq_ignore_ascii_case("mcp-param-"));
    param || SENDABLE.iter().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preflight_allows_what_clients_need_and_nothing_else() {
        let mut request = HeaderMap::new();
        let asked = "Content-Type, mcp-method, Mcp-Param-City, x-evil, cookie";
        request.insert(header::ACCESS_CONTROL_REQUEST_HEADERS, HeaderValue::from_static(asked));
        let mut response = HeaderMap::new();
        preflight(&request, &mut response);
        let allowed = response.get(header::ACCESS_CONTROL_ALLOW_HEADERS).unwrap();
        assert_eq!(allowed, "Content-Type, mcp-method, Mcp-Param-City");
    }
}
