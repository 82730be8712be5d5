//! Replies of the front as HTTP responses.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Response, StatusCode};
use lb_exchange::SessionId;
use lb_front::{Reply, error_body};
use lb_wire::header::SESSION_ID;
use lb_wire::revision::{Era, code};

use crate::body::Body;
use crate::phase::Phase;

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub(crate) const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
/// What a response has at most, for a map that need not grow.
const HEADERS: usize = 12;
const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The response that carries a reply, in an empty map: that of the request goes from one to the other and, kept by
/// hyper, back again for the life of the connection.
pub(crate) fn response(reply: Reply, map: HeaderMap, phase: &Arc<Phase>, retry_after: Duration) -> Response<Body> {
    match reply {
        Reply::Json { status, body, session, receipt } => {
            let mut response = page_in(map, status_of(status), JSON, Body::bytes(body, receipt));
            name_session(&mut response, session.as_ref());
            if matches!(status, 429 | 503) {
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            response
        }
        Reply::Empty { status } => bare_in(map, status_of(status)),
        Reply::NotAllowed { allow, body } => {
            let mut response = page_in(map, StatusCode::METHOD_NOT_ALLOWED, JSON, Body::bytes(body, None));
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
            response
        }
        Reply::Forbidden { body, .. } => page_in(map, StatusCode::FORBIDDEN, JSON, Body::bytes(body, None)),
        Reply::Stream { frames, session } => {
            let body = Body::stream(frames, phase.clone(), retry_after);
            let mut response = page_in(map, StatusCode::OK, EVENTS, body);
            response.headers_mut().insert(UNBUFFERED, HeaderValue::from_static("no"));
            name_session(&mut response, session.as_ref());
            response
        }
    }
}

/// A response of our own with a JSON-RPC error, in the words of an era.
pub(crate) fn refuse(status: StatusCode, era: Era, message: &str) -> Response<Body> {
    let code = match era {
        Era::Legacy => code::SERVER_ERROR,
        Era::Modern if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => code::INTERNAL_ERROR,
        Era::Modern => code::INVALID_REQUEST,
    };
    document(status, error_body(era, code, message))
}

/// A response with a JSON document.
pub(crate) fn document(status: StatusCode, body: Bytes) -> Response<Body> {
    page(status, JSON, Body::bytes(body, None))
}

pub(crate) fn page(status: StatusCode, kind: HeaderValue, body: Body) -> Response<Body> {
    page_in(HeaderMap::new(), status, kind, body)
}

fn page_in(map: HeaderMap, status: StatusCode, kind: HeaderValue, body: Body) -> Response<Body> {
    let mut response = bare_in(map, status);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    *response.body_mut() = body;
    response
}

pub(crate) fn bare(status: StatusCode) -> Response<Body> {
    bare_in(HeaderMap::new(), status)
}

fn bare_in(map: HeaderMap, status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    *response.headers_mut() = map;
    response.headers_mut().reserve(HEADERS);
    response
}

fn status_of(status: u16) -> StatusCode {
    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn name_session(response: &mut Response<Body>, session: Option<&SessionId>) {
    if let Some(value) = session.and_then(|session| HeaderValue::from_str(session.as_str()).ok()) {
        response.headers_mut().insert(HeaderName::from_static(SESSION_ID), value);
    }
}
