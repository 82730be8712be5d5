//! [`Line`]: the only thing that may enter a line-framed writer.

use bytes::{Bytes, BytesMut};

use crate::raw::Raw;

/// Bytes that hold neither CR nor LF, so that nothing inside can end a frame on stdio or SSE.
///
/// There is no way to make one that skips the check.
#[derive(Clone, PartialEq, Eq)]
pub struct Line(Bytes);

impl Line {
    /// From a JSON value: breaks between tokens become spaces, which changes no value.
    pub fn from_value(raw: Raw) -> Self {
        let bytes = raw.bytes().clone();
        drop(raw);
        if !has_break(&bytes) {
            return Self(bytes);
        }
        let mut copy = match bytes.try_into_mut() {
            Ok(owned) => owned,
            Err(shared) => BytesMut::from(shared.as_ref()),
        };
        for byte in copy.iter_mut() {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        Self(copy.freeze())
    }

    /// The bytes, without a line end.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, shared.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }
}

fn has_break(bytes: &[u8]) -> bool {
    memchr::memchr2(b'\r', b'\n', bytes).is_some()
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Line({} bytes)", self.0.len())
    }
}
