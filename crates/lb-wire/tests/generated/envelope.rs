//! What a JSON text is by the rules of JSON-RPC 2.0 and our own, read with serde_json.

use std::fmt;

use lb_wire::{Id, Shape};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// What the scan should make of a text.
#[derive(Debug)]
pub enum Expected<'a> {
    /// Not JSON for us.
    Refused,
    /// JSON, but no message.
    NoMessage { id: Option<&'a str> },
    /// A message with these parts, as written; the method is decoded.
    Message { shape: Shape, id: Option<&'a str>, method: String, body: Option<&'a str> },
}

impl<'a> Expected<'a> {
    /// `text` is valid JSON without white space around it.
    pub fn of(text: &'a str) -> Self {
        let Some(members) = members_of(text) else { return Self::NoMessage { id: None } };
        let part = |name: &str| members.iter().find(|(other, _)| other == name).map(|(_, value)| value.get());
        let bodies = ["params", "result", "error"].map(part);
        if repeats(&members) || bodies.iter().flatten().any(|body| repeats_in_body(body)) {
            return Self::Refused;
        }
        let is_id = |id: &&str| id.starts_with(['"', '-']) || id.starts_with(|c: char| c.is_ascii_digit());
        let id = part("id").filter(|id| is_id(id) && id.len() <= Id::BYTES_MAX);
        let no_message = Self::NoMessage { id };
        let [params, result, error] = bodies;
        let null_for_error = part("id") == Some("null") && error.is_some();
        if part("jsonrpc") != Some("\"2.0\"") || (part("id").is_some() && id.is_none() && !null_for_error) {
            return no_message;
        }
        let is_object = |text: &str| text.starts_with('{');
        match (part("method"), params, result, error) {
            (Some(method), params, None, None) if params.is_none_or(is_object) => match text_of(method) {
                Some(method) if id.is_some() => Self::Message { shape: Shape::Request, id, method, body: params },
                Some(method) => Self::Message { shape: Shape::Notification, id, method, body: params },
                None => no_message,
            },
            (None, None, Some(_), None) if id.is_some() => {
                Self::Message { shape: Shape::Result, id, method: String::new(), body: result }
            }
            (None, None, None, Some(error)) if is_object(error) => {
                Self::Message { shape: Shape::Error, id, method: String::new(), body: Some(error) }
            }
            _ => no_message,
        }
    }
}

fn repeats_in_body(body: &str) -> bool {
    let Some(members) = members_of(body) else { return false };
    let mut metas = members.iter().filter(|(name, _)| name == "_meta");
    repeats(&members) || metas.any(|(_, meta)| members_of(meta.get()).is_some_and(|meta| repeats(&meta)))
}

fn repeats(members: &[(String, &RawValue)]) -> bool {
    let mut names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}

/// The members of an object, in order, repeated ones too; `None` for other kinds.
pub fn members_of(text: &str) -> Option<Vec<(String, &RawValue)>> {
    if !text.starts_with('{') {
        return None;
    }
    let members: Members<'_> = serde_json::from_str(text).expect("it was read as a whole before");
    Some(members.0)
}

/// The content of a string; `None` for other kinds.
pub fn text_of(text: &str) -> Option<String> {
    if !text.starts_with('"') {
        return None;
    }
    let name: Name = serde_json::from_str(text).expect("it was read as a whole before");
    Some(name.0)
}

struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Vec<(String, &'de RawValue)>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((Name(name), value)) = map.next_entry()? {
                    members.push((name, value));
                }
                Ok(members)
            }
        }
        from.deserialize_map(Visit).map(Members)
    }
}

/// The content of a string. Half of a surrogate pair, which serde_json hands out only as bytes, is U+FFFD.
struct Name(String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visit;
        impl Visitor<'_> for Visit {
            type Value = Name;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Name, E> {
                let mut whole = Vec::with_capacity(bytes.len());
                let mut rest = bytes;
                while let [first, after @ ..] = rest {
                    rest = after;
                    match (first, after) {
                        (0xED, [0xA0..=0xBF, _, after @ ..]) => {
                            rest = after;
                            whole.extend_from_slice("\u{FFFD}".as_bytes());
                        }
                        _ => whole.push(*first),
                    }
                }
                Ok(Name(String::from_utf8(whole).expect("nothing else was out of order")))
            }
        }
        from.deserialize_bytes(Visit)
    }
}
