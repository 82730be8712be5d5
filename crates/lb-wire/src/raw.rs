//! JSON values as bytes: proved to be one valid value, never rebuilt.

use bytes::Bytes;

use crate::line::Line;
use crate::scan::{Cursor, Kind, ScanError};

/// A stretch of bytes inside a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// From `start` up to, not including, `end`. Offsets are capped by the size limit on messages, far below 4 GiB.
    pub fn new(start: usize, end: usize) -> Self {
        Self { start: u32::try_from(start).unwrap_or(u32::MAX), end: u32::try_from(end).unwrap_or(u32::MAX) }
    }

    /// First byte.
    pub fn start(self) -> usize {
        self.start as usize
    }

    /// One past the last byte.
    pub fn end(self) -> usize {
        self.end as usize
    }

    /// The bytes of this span in the text it was taken from.
    pub fn of(self, text: &[u8]) -> &[u8] {
        text.get(self.start()..self.end()).unwrap_or_default()
    }

    /// This span as seen from a text that starts `offset` bytes later.
    #[must_use]
    pub fn relative_to(self, offset: usize) -> Self {
        Self::new(self.start().saturating_sub(offset), self.end().saturating_sub(offset))
    }
}

/// One JSON value, exactly as somebody wrote it.
#[derive(Clone, PartialEq, Eq)]
pub struct Raw(Bytes);

impl Raw {
    /// Checks a text and keeps it, without the white space around it.
    ///
    /// # Errors
    /// The text is not exactly one JSON value.
    pub fn parse(bytes: Bytes) -> Result<Self, ScanError> {
        let mut cursor = Cursor::new(&bytes);
        let (span, _) = cursor.skip(0)?;
        cursor.end()?;
        Ok(Self(bytes.slice(span.start()..span.end())))
    }

    /// A value that we wrote ourselves.
    pub fn from_static(text: &'static str) -> Self {
        Self(Bytes::from_static(text.as_bytes()))
    }

    /// The empty object.
    pub fn empty_object() -> Self {
        Self::from_static("{}")
    }

    /// A JSON string with this content.
    pub fn string(text: &str) -> Self {
        Self::value(&text)
    }

    /// A value of our own, serialised.
    pub fn value(value: &impl serde::Serialize) -> Self {
        // The types we originate ourselves have string keys and cannot fail to serialise.
        Self(serde_json::to_vec(value).map_or_else(|_| Bytes::from_static(b"null"), Bytes::from))
    }

    /// A value inside a scanned text, or one composed of such values.
    pub(crate) fn scanned(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// The text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, shared.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// The same text in memory of its own: a value shares the message it came in, which shares what was read at once,
    /// so that keeping a few bytes keeps kilobytes. For what outlives its message.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }

    /// The text as a string; JSON is UTF-8 by the check at construction.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// What kind of value this is, from its first byte.
    pub fn kind(&self) -> Kind {
        match self.0.first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'-' | b'0'..=b'9') => Kind::Number,
            _ => Kind::Null,
        }
    }

    /// As one line: CR and LF, which can only stand between tokens, become spaces.
    pub fn into_line(self) -> Line {
        Line::from_value(self)
    }

    /// Reads it into a type; for messages that end with us, not for what is passed on.
    ///
    /// # Errors
    /// The value has another shape.
    pub fn read<'a, T: serde::Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }

    /// The content of a JSON string without escapes; `None` for other kinds and for strings that hold escapes.
    pub fn plain_str(&self) -> Option<&str> {
        let text = self.as_str().strip_prefix('"')?.strip_suffix('"')?;
        (!text.contains('\\')).then_some(text)
    }

    /// The content of a JSON string.
    pub fn to_text(&self) -> Option<std::borrow::Cow<'_, str>> {
        match self.plain_str() {
            Some(text) => Some(text.into()),
            None => serde_json::from_slice::<String>(&self.0).ok().map(Into::into),
        }
    }

    /// The value of one member of this object; first match, for objects that we read off the hot path.
    pub fn member(&self, name: &str) -> Option<Self> {
        let mut found = None;
        let mut cursor = Cursor::new(&self.0);
        let walk = cursor.members(0, |cursor, key, escaped| {
            let (span, _) = cursor.skip(1)?;
            if found.is_none() && crate::text::same_key(key.of(&self.0), escaped, name.as_bytes()) {
                found = Some(span);
            }
            Ok(())
        });
        walk.ok()?;
        found.map(|span| Self(self.0.slice(span.start()..span.end())))
    }
}

impl std::fmt::Debug for Raw {
    /// Sizes only: values hold what users say.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Raw({} bytes)", self.0.len())
    }
}

/// A JSON-RPC id: a string or a number, as its sender wrote it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(Bytes);

impl Id {
    /// Longest id that is accepted.
    pub const BYTES_MAX: usize = 1024;

    /// Takes a string or number; `None` for other kinds and for ids that are too long.
    pub fn from_raw(raw: &Raw) -> Option<Self> {
        let good = matches!(raw.kind(), Kind::String | Kind::Number) && raw.as_bytes().len() <= Self::BYTES_MAX;
        good.then(|| Self(raw.0.clone()))
    }

    /// An id of our own.
    pub fn number(number: u64) -> Self {
        Self(Bytes::copy_from_slice(itoa::Buffer::new().format(number).as_bytes()))
    }

    /// The text, as written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The number, if this is one of those that [`Id::number`] makes.
    pub fn to_number(&self) -> Option<u64> {
        let text = std::str::from_utf8(&self.0).ok()?;
        let canonical = text == "0" || text.starts_with(|c: char| ('1'..='9').contains(&c));
        canonical.then(|| text.parse().ok()).flatten()
    }

    /// The id as a JSON value.
    pub fn to_raw(&self) -> Raw {
        Raw(self.0.clone())
    }
}

impl std::fmt::Debug for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}
