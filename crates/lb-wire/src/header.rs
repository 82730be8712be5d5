//! Names of the MCP headers, and the value codec of `Mcp-Name` and `Mcp-Param-*`.
//!
//! A value travels as it is when it is visible ASCII with inner spaces and tabs, else as `=?base64?…?=` over its
//! UTF-8. Nothing here knows which header a request needs: see [`crate::revision::method`] and [`crate::param`].

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// Revision of the request.
pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// Session of a legacy request.
pub const SESSION_ID: &str = "mcp-session-id";
/// Repeats `method` of a modern body.
pub const METHOD: &str = "mcp-method";
/// Repeats `params.name`, `params.uri` or `params.taskId` of a modern body.
pub const NAME: &str = "mcp-name";
/// Start of the headers that repeat annotated tool arguments.
pub const PARAM_PREFIX: &str = "mcp-param-";
/// Cursor of a client that resumes a stream.
pub const LAST_EVENT_ID: &str = "last-event-id";

const OPEN: &[u8] = b"=?base64?";
const CLOSE: &[u8] = b"?=";

/// Why a header value has no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// A byte outside visible ASCII, space and tab.
    #[error("header value holds byte {0:#04x}")]
    Byte(u8),
    /// Wrong alphabet, padding or spare bits between the base64 markers.
    #[error("header value is not valid base64")]
    Base64,
    /// The decoded bytes are not UTF-8.
    #[error("decoded header value is not UTF-8")]
    Utf8,
}

/// The header value for a text. Never holds CR, LF, NUL or any byte outside visible ASCII, space and tab.
#[must_use]
pub fn encode(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let padded = trim(bytes).len() != bytes.len();
    if !padded && bytes.iter().all(|byte| is_plain(*byte)) && encoded_part(bytes).is_none() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("=?base64?{}?=", STANDARD.encode(bytes)))
}

/// The text of a header value; white space around it does not count. Plain values are borrowed.
///
/// # Errors
/// A byte that no encoder writes, or markers around something that is not base64 of UTF-8. A value that lacks one of
/// the markers is taken literally.
pub fn decode(value: &[u8]) -> Result<Cow<'_, str>, HeaderError> {
    let value = trim(value);
    if let Some(byte) = value.iter().copied().find(|byte| !is_plain(*byte)) {
        return Err(HeaderError::Byte(byte));
    }
    match encoded_part(value) {
        None => std::str::from_utf8(value).map(Cow::Borrowed).map_err(|_| HeaderError::Utf8),
        Some(part) => {
            let bytes = STANDARD.decode(part).map_err(|_| HeaderError::Base64)?;
            String::from_utf8(bytes).map(Cow::Owned).map_err(|_| HeaderError::Utf8)
        }
    }
}

/// Whether a header value says the same as a raw JSON string, number or boolean.
///
/// Numbers compare by value (`42.0` is `42`) and exactly, without rounding. `null`, objects and arrays match nothing.
/// Allocates only for encoded headers and strings with escapes.
#[must_use]
pub fn matches(header_value: &[u8], json_raw: &[u8]) -> bool {
    let Ok(text) = decode(header_value) else { return false };
    let raw = json_raw.trim_ascii();
    match raw.first() {
        Some(b'"') => same_string(&text, raw),
        Some(b't' | b'f') => text.as_bytes() == raw && matches!(raw, b"true" | b"false"),
        Some(b'-' | b'0'..=b'9') => {
            let number = Decimal::parse(raw);
            number.is_some() && number == Decimal::parse(text.as_bytes())
        }
        _ => false,
    }
}

fn same_string(text: &str, raw: &[u8]) -> bool {
    let Some(inner) = raw.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) else { return false };
    if memchr::memchr(b'\\', inner).is_none() {
        return inner == text.as_bytes();
    }
    serde_json::from_slice::<String>(raw).is_ok_and(|value| value == text)
}

/// What stands between the base64 markers, when both are there and do not overlap.
fn encoded_part(value: &[u8]) -> Option<&[u8]> {
    value.strip_prefix(OPEN)?.strip_suffix(CLOSE)
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~')
}

/// Without the white space that HTTP allows around a value.
fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// A JSON number as its digits without zeros at either end: `0.d₁d₂… × 10^scale`.
#[derive(Clone, Copy, Debug)]
struct Decimal<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    scale: i64,
}

impl<'a> Decimal<'a> {
    /// By the JSON grammar; an exponent of more than nine digits is refused.
    fn parse(text: &'a [u8]) -> Option<Self> {
        let (negative, rest) = match text {
            [b'-', rest @ ..] => (true, rest),
            _ => (false, text),
        };
        let (whole, rest) = digits(rest)?;
        if whole.len() > 1 && whole.first() == Some(&b'0') {
            return None;
        }
        let (fraction, rest) = match rest {
            [b'.', rest @ ..] => digits(rest)?,
            _ => (&[][..], rest),
        };
        let exponent = match rest {
            [] => 0,
            [b'e' | b'E', b'-', rest @ ..] => -exponent(rest)?,
            [b'e' | b'E', b'+', rest @ ..] | [b'e' | b'E', rest @ ..] => exponent(rest)?,
            _ => return None,
        };
        Some(Self::normal(negative, whole, fraction, exponent))
    }

    fn normal(negative: bool, whole: &'a [u8], fraction: &'a [u8], exponent: i64) -> Self {
        let whole = skip_zeros(whole);
        let mut scale = length(whole) + exponent;
        let mut fraction = fraction;
        if whole.is_empty() {
            let significant = skip_zeros(fraction);
            scale -= length(fraction) - length(significant);
            fraction = significant;
        }
        while let [rest @ .., b'0'] = fraction {
            fraction = rest;
        }
        let mut whole = whole;
        if fraction.is_empty() {
            while let [rest @ .., b'0'] = whole {
                whole = rest;
            }
        }
        let zero = whole.is_empty() && fraction.is_empty();
        Self { negative: negative && !zero, whole, fraction, scale: if zero { 0 } else { scale } }
    }
}

impl PartialEq for Decimal<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.negative == other.negative
            && self.scale == other.scale
            && self.whole.iter().chain(self.fraction).eq(other.whole.iter().chain(other.fraction))
    }
}

/// At least one digit, and what follows.
fn digits(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    if end == 0 { None } else { text.split_at_checked(end) }
}

fn exponent(text: &[u8]) -> Option<i64> {
    let (all, rest) = digits(text)?;
    let significant = skip_zeros(all);
    if !rest.is_empty() || significant.len() > 9 {
        return None;
    }
    Some(significant.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))
}

fn skip_zeros(mut digits: &[u8]) -> &[u8] {
    while let [b'0', rest @ ..] = digits {
        digits = rest;
    }
    digits
}

fn length(digits: &[u8]) -> i64 {
    i64::try_from(digits.len()).unwrap_or(i64::MAX)
}
