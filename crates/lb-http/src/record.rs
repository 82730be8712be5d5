//! What is known of a request for the logs: its id, whose it is, and how it ended.
//!
//! Whoever looks at the debug level gets one line for each request, and every other line of it within its span.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use http::header::{HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::{Request, Response};
use lb_wire::header::{PROTOCOL_VERSION, SESSION_ID};
use sha2::{Digest as _, Sha256};
use tracing::Span;

use crate::body::Body;
use crate::hop::Claims;
use crate::peer::Peer;
use crate::server::Server;
use crate::settings::Settings;

/// The header of a request's id.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// A request that took longer than this before its response began is pointed out.
const SLOW: Duration = Duration::from_secs(30);

/// The record of one request. Dropped before it is closed, it says that the client went away.
pub(crate) struct Record {
    id: HeaderValue,
    span: Span,
    start: Instant,
    closed: bool,
}

impl Record {
    /// Of a request that another node has sent on, that node says whose it is.
    pub(crate) fn new<B>(
        server: &Server,
        request: &Request<B>,
        peer: Peer,
        settings: &Settings,
        claims: Option<&Claims>,
    ) -> Self {
        let headers = request.headers();
        let told = claims.and_then(|claims| HeaderValue::from_str(&claims.id).ok());
        let id = told.unwrap_or_else(|| request_id(server, headers));
        let client = || match claims {
            Some(claims) => claims.ip,
            None => peer.client(headers, settings),
        };
        // Nothing behind the brace is looked at unless somebody listens.
        let span = tracing::debug_span!(
            "request",
            id = shown(Some(&id)),
            method = %request.method(),
            path = request.uri().path(),
            client = client().map(tracing::field::display),
            session = headers.get(HeaderName::from_static(SESSION_ID)).map(|session| hash(session.as_bytes())),
            version = shown(headers.get(HeaderName::from_static(PROTOCOL_VERSION))),
            agent = shown(headers.get(USER_AGENT)),
        );
        Self { id, span, start: Instant::now(), closed: false }
    }

    pub(crate) fn id(&self) -> &HeaderValue {
        &self.id
    }

    /// What its log lines stand in.
    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Notes how it ended, and gives its id.
    pub(crate) fn close(mut self, response: &Response<Body>) -> HeaderValue {
        self.closed = true;
        let (status, elapsed) = (response.status().as_u16(), self.start.elapsed());
        if SLOW <= elapsed && !response.body().is_stream() {
            tracing::warn!(parent: &self.span, id = shown(Some(&self.id)), status, ?elapsed, "slow request");
        }
        tracing::debug!(parent: &self.span, status, ?elapsed, "answered");
        self.id.clone()
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if !self.closed {
            let elapsed = self.start.elapsed();
            tracing::debug!(parent: &self.span, ?elapsed, "the client went away before it was answered");
        }
    }
}

/// Text of a header for the logs, within bounds.
fn shown(value: Option<&HeaderValue>) -> Option<&str> {
    value.and_then(|value| value.to_str().ok()).filter(|text| text.len() <= 256)
}

/// A session by the first 12 hex digits of its SHA-256: its id is a secret.
fn hash(session: &[u8]) -> String {
    Sha256::digest(session).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// The caller's own id if it is harmless, else one of ours.
fn request_id(server: &Server, headers: &HeaderMap) -> HeaderValue {
    let given = headers.get(REQUEST_ID).filter(|value| {
        let safe = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        (1..=128).contains(&value.len()) && value.as_bytes().iter().all(safe)
    });
    if let Some(given) = given {
        return given.clone();
    }
    let mut count = server.requests.fetch_add(1, Ordering::Relaxed);
    let mut text = [0_u8; 32];
    let mut at = text.len();
    loop {
        at -= 1;
        let digit = u8::try_from(count % 10).unwrap_or_default();
        if let Some(place) = text.get_mut(at) {
            *place = b'0' + digit;
        }
        count /= 10;
        if count == 0 {
            break;
        }
    }
    let from = at.saturating_sub(server.nonce.len());
    if let Some(place) = text.get_mut(from..at) {
        place.copy_from_slice(server.nonce.as_bytes());
    }
    let id = text.get(from..).unwrap_or_default();
    HeaderValue::from_bytes(id).unwrap_or(HeaderValue::from_static("0"))
}
