//! Pages for operators: who may see them, and how they are sent.
//!
//! What is on them comes from outside. An operator is whoever has the operator token. Without a login and a public URL
//! it is also whoever sits at this machine; behind a proxy everybody would seem to.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue};
use http::{Request, Response, StatusCode};
use serde_json::json;

use crate::body::Body;
use crate::guard::{is_loopback, without_port};
use crate::peer::Reach;
use crate::reply::{document, page};
use crate::settings::Settings;

/// What a source of pages says at a path.
#[derive(Clone, Debug)]
pub struct Page {
    /// The HTTP status.
    pub status: u16,
    /// What the body is.
    pub content_type: &'static str,
    /// The page itself.
    pub body: Bytes,
    /// What a browser may do with it; empty for nothing at all.
    pub content_security_policy: String,
}

impl Page {
    /// A good page that is data and nothing for a browser to run, such as figures for a monitor.
    #[must_use]
    pub fn data(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self { status: 200, content_type, body: body.into(), content_security_policy: String::new() }
    }

    /// A good page that is a JSON document.
    #[must_use]
    pub fn document(document: &serde_json::Value) -> Self {
        Self::data("application/json", document.to_string())
    }
}

/// From a path and its query to what is there.
pub type PageSource = Arc<dyn Fn(&str, Option<&str>) -> Option<Page> + Send + Sync>;

/// Pages at a path and below it, for operators only.
#[derive(Clone)]
pub struct Pages {
    /// Where they are, such as `/waterfall`.
    pub path: &'static str,
    /// What is on them.
    pub source: PageSource,
}

impl Pages {
    /// Whether a path is for these pages.
    pub(crate) fn own(&self, path: &str) -> bool {
        path.strip_prefix(self.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The page at a path.
    pub(crate) fn at(&self, path: &str, query: Option<&str>) -> Option<Response<Body>> {
        let found = (self.source)(path, query)?;
        let status = StatusCode::from_u16(found.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let kind = HeaderValue::from_static(found.content_type);
        let mut response = page(status, kind, Body::bytes(found.body, None));
        let policy = HeaderValue::from_str(&found.content_security_policy).ok();
        if let Some(policy) = policy.filter(|policy| !policy.is_empty()) {
            response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
        }
        Some(response)
    }
}

/// Why somebody is no operator, in words for them; `None` for an operator.
pub(crate) fn stranger<B>(request: &Request<B>, reach: Reach, settings: &Settings) -> Option<String> {
    match (bearer(request), &settings.operator_token) {
        (Some(given), Some(token)) if is_same(given, token.expose().as_bytes()) => return None,
        (Some(_), Some(_)) => return Some(refusal("the token is not the operator's", settings)),
        _ => {}
    }
    let why = match reach {
        Reach::Remote => "you come from another machine",
        Reach::Open => "landbridge listens on an address that others can reach",
        Reach::Loopback if settings.login => "landbridge has a login",
        Reach::Loopback if settings.public_url.is_some() => {
            "landbridge has a public URL, so that a proxy may stand between"
        }
        Reach::Loopback => match forwarded(request) {
            Some(header) => return Some(refusal(&format!("the request came through a proxy ({header})"), settings)),
            None if !named_loopback(request) => "it is asked for under a name that is not loopback",
            None => return None,
        },
    };
    Some(refusal(why, settings))
}

/// Whether a request has the operator token, wherever it comes from.
///
/// # Errors
/// Why it does not count, in words for whoever sent it.
pub(crate) fn sends_operator_token<B>(request: &Request<B>, settings: &Settings) -> Result<(), String> {
    match (bearer(request), &settings.operator_token) {
        (Some(given), Some(token)) if is_same(given, token.expose().as_bytes()) => Ok(()),
        (_, Some(_)) => Err("Forbidden - this is for the operator only: send the operator token as `Authorization: \
                             Bearer TOKEN`"
            .to_owned()),
        (_, None) => Err("Forbidden - this is for the operator only: start landbridge with LANDBRIDGE_OPERATOR_TOKEN \
                          set and send it as `Authorization: Bearer TOKEN`"
            .to_owned()),
    }
}

/// What stands behind `Bearer`.
fn bearer<B>(request: &Request<B>) -> Option<&[u8]> {
    let mut values = request.headers().get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next()?.as_bytes(), values.next()) else { return None };
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

/// Compares all of both, so that the time it takes says nothing about where they differ.
fn is_same(given: &[u8], token: &[u8]) -> bool {
    let differences = given.iter().zip(token).fold(0_u8, |found, (a, b)| std::hint::black_box(found | (a ^ b)));
    given.len() == token.len() && !token.is_empty() && differences == 0
}

/// The response to somebody who is no operator.
pub(crate) fn turn_away(why: &str) -> Response<Body> {
    document(StatusCode::FORBIDDEN, Bytes::from(json!({ "error": why }).to_string()))
}

fn refusal(why: &str, settings: &Settings) -> String {
    let token = match settings.operator_token {
        Some(_) => "Send the operator token as `Authorization: Bearer TOKEN`",
        None => "Start landbridge with LANDBRIDGE_OPERATOR_TOKEN set and send it as `Authorization: Bearer TOKEN`",
    };
    let here = if settings.login || settings.public_url.is_some() {
        ""
    } else {
        ", or open it on the machine that runs landbridge, at 127.0.0.1 or localhost, with landbridge listening on a \
         loopback address"
    };
    format!("Forbidden - this page is for the operator only, and {why}. {token}{here}")
}

/// The header by which a proxy says that it stands between.
fn forwarded<B>(request: &Request<B>) -> Option<&HeaderName> {
    let tells = |name: &&HeaderName| {
        let name = name.as_str();
        name.starts_with("x-forwarded-") || matches!(name, "forwarded" | "x-real-ip" | "via")
    };
    request.headers().keys().find(tells)
}

fn named_loopback<B>(request: &Request<B>) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let named = host.to_str().is_ok_and(|host| is_loopback(without_port(host)));
    named && request.uri().host().is_none_or(is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_sits_at_this_machine_is_an_operator() {
        use Reach::{Loopback, Open, Remote};
        for (reach, uri, headers, want) in [
            (Loopback, "/waterfall", vec![("host", "localhost:8080")], None),
            (Loopback, "/waterfall", vec![("host", "127.0.0.1")], None),
            (Loopback, "/waterfall", vec![("host", "[::1]:9")], None),
            (Loopback, "http://localhost/waterfall", vec![("host", "localhost")], None),
            (Remote, "/waterfall", vec![("host", "localhost")], Some("another machine")),
            (Open, "/waterfall", vec![("host", "localhost")], Some("others can reach")),
            (Loopback, "/waterfall", vec![("host", "gateway.example")], Some("not loopback")),
            (Loopback, "/waterfall", vec![("host", "localhost.evil.example")], Some("not loopback")),
            (Loopback, "/waterfall", vec![], Some("not loopback")),
            (Loopback, "/waterfall", vec![("host", "localhost"), ("host", "localhost")], Some("not loopback")),
            (Loopback, "http://evil.example/waterfall", vec![("host", "localhost")], Some("not loopback")),
            (Loopback, "/waterfall", vec![("host", "localhost"), ("forwarded", "for=1")], Some("(forwarded)")),
            (Loopback, "/", vec![("host", "localhost"), ("x-forwarded-for", "::1")], Some("(x-forwarded-for)")),
            (Loopback, "/", vec![("host", "localhost"), ("x-forwarded-proto", "")], Some("(x-forwarded-proto)")),
            (Loopback, "/", vec![("host", "localhost"), ("x-real-ip", "::1")], Some("(x-real-ip)")),
        ] {
            let mut request = Request::builder().uri(uri);
            for (name, value) in &headers {
                request = request.header(*name, *value);
            }
            let told = stranger(&request.body(()).unwrap(), reach, &Settings::default());
            match want {
                None => assert_eq!(told, None, "{reach:?} {headers:?}"),
                Some(part) => assert!(told.is_some_and(|told| told.contains(part)), "{reach:?} {uri} {headers:?}"),
            }
        }
    }

    #[test]
    fn pages_own_their_path_and_what_is_below() {
        let pages = Pages { path: "/waterfall", source: Arc::new(|_, _| None) };
        for (path, want) in [
            ("/waterfall", true),
            ("/waterfall/", true),
            ("/waterfall/json", true),
            ("/waterfallx", false),
            ("/", false),
        ] {
            assert_eq!(pages.own(path), want, "path {path:?}");
        }
    }
}
