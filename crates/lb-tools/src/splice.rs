//! Blocks added to a result that a server wrote, every other byte of which stays as it was.

use bytes::{BufMut, BytesMut};
use lb_wire::compose::Object;
use lb_wire::{Cursor, Kind, Raw, Span};

/// A block of text.
pub(crate) fn text_block(text: &str) -> Raw {
    Object::new().text("type", "text").text("text", text).finish()
}

/// The result with `block` as the last of its content; `None` when it has no list of blocks.
pub(crate) fn push_block(result: &Raw, block: &Raw) -> Option<Raw> {
    let content = content_of(result)?;
    let comma = !is_empty(content, result);
    insert(result, content.end() - 1, if comma { b"," } else { b"" }, block.as_bytes(), b"")
}

/// The result with `block` as the first of its content; `None` when it has no list of blocks.
pub(crate) fn unshift_block(result: &Raw, block: &Raw) -> Option<Raw> {
    let content = content_of(result)?;
    let comma = !is_empty(content, result);
    insert(result, content.start() + 1, b"", block.as_bytes(), if comma { b"," } else { b"" })
}

/// The result with the context: a block where it has blocks, else in `_meta`. `None` when it has room for neither.
pub(crate) fn add_context(result: &Raw, context: &Raw) -> Option<Raw> {
    if let Some(done) = push_block(result, &text_block(context.as_str())) {
        return Some(done);
    }
    let member = Object::new().raw(META_KEY, context).finish();
    match find(result, "_meta")? {
        None => {
            let after = if starts_empty(result, 1) { b"".as_slice() } else { b"," };
            insert(result, 1, b"\"_meta\":", member.as_bytes(), after)
        }
        Some((span, Kind::Object)) => {
            let at = span.start() + 1;
            let after = if starts_empty(result, at) { b"".as_slice() } else { b"," };
            let inner = member.as_str().strip_prefix('{')?.strip_suffix('}')?;
            insert(result, at, b"", inner.as_bytes(), after)
        }
        Some(_) => None,
    }
}

/// Where the context goes when a result has no list of blocks.
const META_KEY: &str = "landbridge/context";

/// Whether an object whose brace stands before `at` has no member.
fn starts_empty(text: &Raw, at: usize) -> bool {
    let rest = text.as_bytes().get(at..).unwrap_or_default();
    rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'}')
}

/// The elements of an array, as they are written; none when it is none.
pub(crate) fn elements(array: &Raw) -> Vec<Raw> {
    let mut spans = Vec::new();
    match Cursor::new(array.as_bytes()).elements(0, |span, _| spans.push(span)) {
        Ok(()) => {}
        Err(_) => return Vec::new(),
    }
    let cut = |span: Span| Raw::parse(array.bytes().slice(span.start()..span.end())).ok();
    spans.into_iter().filter_map(cut).collect()
}

fn content_of(result: &Raw) -> Option<Span> {
    match find(result, "content")? {
        Some((span, Kind::Array)) => Some(span),
        _ => None,
    }
}

fn is_empty(array: Span, text: &Raw) -> bool {
    let inside = Span::new(array.start() + 1, array.end() - 1);
    inside.of(text.as_bytes()).iter().all(u8::is_ascii_whitespace)
}

/// Where a member's value stands; the outer `None` is for what is no object.
#[expect(clippy::option_option, reason = "no object, no such member, and a member are three answers")]
fn find(object: &Raw, name: &str) -> Option<Option<(Span, Kind)>> {
    let bytes = object.as_bytes();
    let mut found = None;
    let walk = Cursor::new(bytes).members(0, |cursor, key, escaped| {
        let value = cursor.skip(1)?;
        let same = if escaped {
            let quoted = Span::new(key.start() - 1, key.end() + 1);
            serde_json::from_slice::<String>(quoted.of(bytes)).is_ok_and(|key| key == name)
        } else {
            key.of(bytes) == name.as_bytes()
        };
        if same && found.is_none() {
            found = Some(value);
        }
        Ok(())
    });
    walk.ok().map(|()| found)
}

fn insert(text: &Raw, at: usize, before: &[u8], value: &[u8], after: &[u8]) -> Option<Raw> {
    let bytes = text.as_bytes();
    let mut out = BytesMut::with_capacity(bytes.len() + before.len() + value.len() + after.len());
    out.put_slice(bytes.get(..at)?);
    out.put_slice(before);
    out.put_slice(value);
    out.put_slice(after);
    out.put_slice(bytes.get(at..)?);
    Raw::parse(out.freeze()).ok()
}

#[cfg(test)]
mod tests;
