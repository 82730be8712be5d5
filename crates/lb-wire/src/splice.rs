//! Edits to a JSON object that leave every other byte as it was.

use bytes::{BufMut, BytesMut};
use smallvec::SmallVec;

use crate::raw::{Raw, Span};
use crate::scan::{Cursor, Member};
use crate::text;

/// A set of edits to one value, applied in one copy.
pub struct Splice {
    base: Raw,
    edits: SmallVec<[Edit; 4]>,
}

struct Edit {
    at: Span,
    text: BytesMut,
}

impl Splice {
    /// Edits to come; spans are relative to the start of `base`.
    pub fn new(base: Raw) -> Self {
        Self { base, edits: SmallVec::new() }
    }

    /// Puts another value where one stands.
    #[must_use]
    pub fn replace(mut self, at: Span, value: &Raw) -> Self {
        self.edits.push(Edit { at, text: BytesMut::from(value.as_bytes()) });
        self
    }

    /// Adds a member as the first of the object that starts at `object`; `empty` tells whether it has others.
    #[must_use]
    pub fn insert(mut self, object: usize, empty: bool, name: &str, value: &Raw) -> Self {
        let mut text = BytesMut::with_capacity(name.len() + value.as_bytes().len() + 4);
        text.put_u8(b'"');
        text.put_slice(name.as_bytes());
        text.put_slice(b"\":");
        text.put_slice(value.as_bytes());
        if !empty {
            text.put_u8(b',');
        }
        self.edits.push(Edit { at: Span::new(object + 1, object + 1), text });
        self
    }

    /// The edited value.
    pub fn apply(mut self) -> Raw {
        if self.edits.is_empty() {
            return self.base;
        }
        self.edits.sort_by_key(|edit| edit.at.start());
        let bytes = self.base.as_bytes();
        let grown: usize = self.edits.iter().map(|edit| edit.text.len()).sum();
        let mut out = BytesMut::with_capacity(bytes.len() + grown);
        let mut done = 0;
        for edit in &self.edits {
            out.put_slice(bytes.get(done..edit.at.start()).unwrap_or_default());
            out.put_slice(&edit.text);
            done = edit.at.end();
        }
        out.put_slice(bytes.get(done..).unwrap_or_default());
        Raw::scanned(out.freeze())
    }
}

/// The object without these members; the same bytes when it has none of them.
#[must_use]
pub fn without(object: &Raw, names: &[&str]) -> Raw {
    let Some(members) = members_of(object) else { return object.clone() };
    let bytes = object.as_bytes();
    let gone = |member: &Member| {
        names.iter().any(|name| text::same_key(member.key.of(bytes), member.key_escaped, name.as_bytes()))
    };
    if !members.iter().any(gone) {
        return object.clone();
    }
    let mut out = BytesMut::with_capacity(bytes.len());
    for member in members.iter().filter(|member| !gone(member)) {
        out.put_u8(if out.is_empty() { b'{' } else { b',' });
        // From the quote before the name to the end of the value.
        out.put_slice(Span::new(member.key.start() - 1, member.value.end()).of(bytes));
    }
    if out.is_empty() {
        out.put_u8(b'{');
    }
    out.put_u8(b'}');
    Raw::scanned(out.freeze())
}

/// The object with this value in place of the member's own.
#[must_use]
pub fn replace(object: &Raw, name: &str, value: &Raw) -> Raw {
    match find(object, name) {
        Some(at) => Splice::new(object.clone()).replace(at, value).apply(),
        None => object.clone(),
    }
}

/// The object with these members, as far as it has none of that name.
#[must_use]
pub fn with(object: &Raw, additions: &[(&str, Raw)]) -> Raw {
    let Some(members) = members_of(object) else { return object.clone() };
    let bytes = object.as_bytes();
    let has = |name: &str| members.iter().any(|m| text::same_key(m.key.of(bytes), m.key_escaped, name.as_bytes()));
    let mut splice = Splice::new(object.clone());
    let mut empty = members.is_empty();
    // All go to the front of the object, the last one first, so that each but the first of them needs its comma.
    for (name, value) in additions.iter().rev().filter(|(name, _)| !has(name)) {
        splice = splice.insert(0, empty, name, value);
        empty = false;
    }
    splice.edits.reverse();
    splice.apply()
}

fn find(object: &Raw, name: &str) -> Option<Span> {
    let bytes = object.as_bytes();
    let members = members_of(object)?;
    members.iter().find(|m| text::same_key(m.key.of(bytes), m.key_escaped, name.as_bytes())).map(|m| m.value)
}

/// `None` when the value is not an object.
fn members_of(object: &Raw) -> Option<SmallVec<[Member; 8]>> {
    let mut members = SmallVec::new();
    let walk = Cursor::new(object.as_bytes()).members(0, |cursor, key, key_escaped| {
        let (value, kind) = cursor.skip(1)?;
        members.push(Member { key, key_escaped, value, kind });
        Ok(())
    });
    walk.is_ok().then_some(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &'static str) -> Raw {
        Raw::from_static(text)
    }

    #[test]
    fn without_cuts_members_wherever_they_stand() {
        for (input, want) in [
            (r#"{"a":1,"x":2,"b":3}"#, r#"{"a":1,"b":3}"#),
            (r#"{"x":2 , "a": [1, 2]}"#, r#"{"a": [1, 2]}"#),
            (r#"{"a":1,"y":{},"x":null}"#, r#"{"a":1}"#),
            (r#"{"x":1}"#, "{}"),
            (r#"{"\u0078":1,"a":2}"#, r#"{"a":2}"#),
            (r#"{ "a" : 1 }"#, r#"{ "a" : 1 }"#),
            ("{}", "{}"),
            ("[1]", "[1]"),
        ] {
            assert_eq!(without(&raw(input), &["x", "y"]).as_str(), want, "input {input}");
        }
    }

    #[test]
    fn with_adds_what_is_not_there() {
        let additions = [("x", raw("1")), ("y", raw("2"))];
        for (input, want) in [
            ("{}", r#"{"x":1,"y":2}"#),
            (r#"{"a":0}"#, r#"{"x":1,"y":2,"a":0}"#),
            (r#"{"x":0}"#, r#"{"y":2,"x":0}"#),
            (r#"{"y":0,"x":0}"#, r#"{"y":0,"x":0}"#),
            ("3", "3"),
        ] {
            assert_eq!(with(&raw(input), &additions).as_str(), want, "input {input}");
        }
    }

    #[test]
    fn replace_changes_one_value() {
        assert_eq!(replace(&raw(r#"{"code": -1,"m":2}"#), "code", &raw("5")).as_str(), r#"{"code": 5,"m":2}"#);
        assert_eq!(replace(&raw(r#"{"m":2}"#), "code", &raw("5")).as_str(), r#"{"m":2}"#);
    }
}
