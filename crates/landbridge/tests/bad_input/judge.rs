//! What an answer to bad input may look like.

use std::collections::BTreeMap;

use lb_peers::raw::http::Response;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// How an input was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// 4xx.
    Refused,
    /// A JSON-RPC error.
    Error,
    /// A result: the damage left a good request.
    Result,
    /// 202: nothing was asked.
    Quiet,
}

#[derive(Deserialize)]
struct Answer<'a> {
    jsonrpc: String,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<ErrorObject>,
}

#[derive(Deserialize)]
struct ErrorObject {
    code: i64,
    message: String,
}

/// Judges the response to a POST of `body`.
///
/// # Panics
/// The response is not one that a client can understand.
pub fn judge(body: &[u8], response: &Response) -> Kind {
    assert!(response.complete, "the body broke off: {}", response.text());
    match response.head.status() {
        400..=499 => Kind::Refused,
        202 => {
            assert!(response.body.is_empty(), "202 with a body");
            Kind::Quiet
        }
        200 if response.head.is_sse() => {
            let events = response.events();
            let last = events.iter().rfind(|event| event.data.as_ref().is_some_and(|data| !data.is_empty()));
            answer(last.expect("an event with an answer").text().as_bytes(), id_of(body).as_deref())
        }
        200 if response.text().starts_with('[') => {
            let all: Vec<&RawValue> = serde_json::from_slice(&response.body).expect("an array of answers");
            assert!(!all.is_empty());
            all.iter().map(|one| answer(one.get().as_bytes(), None)).max().unwrap_or(Kind::Error)
        }
        200 => answer(&response.body, id_of(body).as_deref()),
        other => panic!("status {other}: {}", response.text()),
    }
}

/// Judges one answer; its id is that of the request, where both can be read.
pub fn answer(text: &[u8], id: Option<&str>) -> Kind {
    let shown = String::from_utf8_lossy(text);
    let answer: Answer<'_> = serde_json::from_slice(text).unwrap_or_else(|error| panic!("{error} in {shown}"));
    assert_eq!(answer.jsonrpc, "2.0", "{shown}");
    if let (Some(id), Some(got)) = (id, answer.id) {
        assert_eq!(got.get(), id, "{shown}");
    }
    match (answer.result, answer.error) {
        (Some(_), None) => Kind::Result,
        (None, Some(error)) => {
            assert!(error.code < 0 && !error.message.is_empty(), "{shown}");
            Kind::Error
        }
        _ => panic!("neither result nor error: {shown}"),
    }
}

/// The id of a request as written, if it is one that an answer can carry.
pub fn id_of(body: &[u8]) -> Option<String> {
    let id = members(body)?.remove("id")?;
    id.starts_with(|first: char| first == '"' || first == '-' || first.is_ascii_digit()).then_some(id)
}

/// The members of an object as written. Their names may hold halves of surrogate pairs.
pub fn members(body: &[u8]) -> Option<BTreeMap<String, String>> {
    let mended = mended(body);
    let members: BTreeMap<String, &RawValue> = serde_json::from_slice(&mended).ok()?;
    let written = |value: &RawValue| {
        let start = value.get().as_ptr().addr() - mended.as_ptr().addr();
        Some(str::from_utf8(body.get(start..start + value.get().len())?).ok()?.to_owned())
    };
    members.into_iter().map(|(name, value)| Some((name, written(value)?))).collect()
}

/// The same text with every escaped surrogate as another character, in as many bytes.
fn mended(body: &[u8]) -> Vec<u8> {
    let mut mended = body.to_vec();
    let mut at = 0;
    while let Some(escape) = mended.get_mut(at..) {
        match escape {
            [b'\\', b'u', d @ (b'd' | b'D'), ..] => *d = b'0',
            [b'\\', _, ..] => at += 1,
            [] => break,
            _ => {}
        }
        at += 1;
    }
    mended
}

/// The method and the name of a body, for the headers that repeat them.
pub fn mirrored(body: &[u8]) -> Option<(String, Option<String>)> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let method = value.get("method")?.as_str()?.to_owned();
    let name = ["name", "uri"].iter().find_map(|key| value.get("params")?.get(key)?.as_str());
    Some((method, name.map(str::to_owned)))
}
