//! What clients are told about HTTP answers that are no MCP answers.

use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderMap, StatusCode};
use lb_exchange::ErrorBody;
use lb_wire::revision::code;
use lb_wire::{Raw, compose};

use crate::error::ConnectError;

/// How much of an error page a client is shown.
const EXCERPT_CHARS: usize = 200;

/// Whether a response has this media type.
pub fn has_type(headers: &HeaderMap, want: &[u8]) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE) else { return false };
    let bare = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    bare.trim_ascii().eq_ignore_ascii_case(want)
}

/// The start of a page, on one line.
pub fn excerpt(page: &[u8]) -> String {
    let text = String::from_utf8_lossy(page.get(..page.len().min(4 * EXCERPT_CHARS)).unwrap_or_default());
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().filter(|c| !c.is_control()).take(EXCERPT_CHARS).collect()
}

/// Where a redirect leads, without its query. Redirects are not followed: headers are meant for one server.
pub fn moved(headers: &HeaderMap) -> Option<String> {
    let to = headers.get(LOCATION)?.to_str().ok()?;
    Some(format!("it moved to {}", to.split(['?', '#']).next().unwrap_or_default()))
}

/// The error for an answer with a status that is none of MCP's.
pub fn status_error(server: &str, status: StatusCode, headers: &HeaderMap, page: &[u8]) -> ErrorBody {
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return ConnectError::Unauthorized { status: status.as_u16() }.to_body_of(server);
    }
    let body = moved(headers).unwrap_or_else(|| excerpt(page));
    let message = ConnectError::Status { status: status.as_u16(), body }.message(server);
    let number = Raw::value(&status.as_u16());
    let data = compose::object(&[("reason", &Raw::from_static("\"http_status\"")), ("status", &number)]);
    ErrorBody::new(code::INTERNAL_ERROR, &message, Some(&data))
}

/// The error for an answer that is no answer.
pub fn no_answer(server: &str, why: &str) -> ErrorBody {
    let data = compose::object(&[("reason", &Raw::from_static("\"no_answer\""))]);
    ErrorBody::new(code::INTERNAL_ERROR, &format!("{server}: {why}"), Some(&data))
}
