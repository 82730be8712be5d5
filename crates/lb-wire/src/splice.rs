//! Edits to a JSON object that leave every other byte as it was.

use bytes::{BufMut, BytesMut};
use smallvec::SmallVec;

use crate::raw::{Raw, Span};

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
