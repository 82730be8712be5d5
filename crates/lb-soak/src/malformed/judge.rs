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
/// # Errors
/// With what a client could not understand of it.
pub fn judge(body: &[u8], response: &Response) -> Result<Kind, String> {
    if !response.complete {
        return Err(format!("the body broke off: {}", response.text()));
    }
    match response.head.status() {
        400..=499 => Ok(Kind::Refused),
        202 if response.body.is_empty() => Ok(Kind::Quiet),
        200 if response.head.is_sse() => {
            let events = response.events();
            let last = events.iter().rfind(|event| event.data.as_ref().is_some_and(|data| !data.is_empty()));
            let last = last.ok_or_else(|| format!("no event with an answer: {}", response.text()))?;
            answer(last.text().as_bytes(), id_of(body).as_deref())
        }
        200 if response.body.starts_with(b"[") => {
            let all: Vec<&RawValue> = serde_json::from_slice(&response.body).map_err(|error| error.to_string())?;
            let kinds = all.iter().map(|one| answer(one.get().as_bytes(), None));
            kinds
                .reduce(|one, next| one.and_then(|one| Ok(one.max(next?))))
                .unwrap_or_else(|| Err("no answer".to_owned()))
        }
        200 => answer(&response.body, id_of(body).as_deref()),
        other => Err(format!("status {other}: {}", response.text())),
    }
}

/// Judges one answer; its id is that of the request, where both can be read.
///
/// # Errors
/// With what a client could not understand of it.
pub fn answer(text: &[u8], id: Option<&str>) -> Result<Kind, String> {
    let shown = String::from_utf8_lossy(text);
    let answer: Answer<'_> = serde_json::from_slice(text).map_err(|error| format!("{error} in {shown}"))?;
    if answer.jsonrpc != "2.0" || id.is_some_and(|id| answer.id.is_some_and(|got| got.get() != id)) {
        return Err(format!("an answer to another request: {shown}"));
    }
    match (answer.result, answer.error) {
        (Some(_), None) => Ok(Kind::Result),
        (None, Some(error)) if error.code < 0 && !error.message.is_empty() => Ok(Kind::Error),
        _ => Err(format!("neither result nor error: {shown}")),
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
