//! The content of JSON strings.

use bytes::Bytes;

/// A short shared string, often a slice of the message that brought it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text(Bytes);

impl Text {
    /// A constant of ours.
    pub fn from_static(text: &'static str) -> Self {
        Self(Bytes::from_static(text.as_bytes()))
    }

    /// Bytes that a scan has checked.
    pub(crate) fn scanned(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// The string.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl std::ops::Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl std::fmt::Display for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Whether a member name, as written between its quotes, spells `name`.
pub fn same_key(written: &[u8], escaped: bool, name: &[u8]) -> bool {
    if escaped { unescape(written) == name } else { written == name }
}

/// The bytes that an escaped string stands for; the text was checked before. Lone surrogates become U+FFFD, as in any
/// reader that hands out UTF-8.
pub fn unescape(written: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(written.len());
    let mut at = 0;
    while let Some(&byte) = written.get(at) {
        if byte != b'\\' {
            out.push(byte);
            at += 1;
            continue;
        }
        let code = written.get(at + 1).copied().unwrap_or(b'\\');
        at += 2;
        match code {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                let (scalar, used) = unicode(written, at);
                at += used;
                out.extend_from_slice(scalar.encode_utf8(&mut [0; 4]).as_bytes());
            }
            other => out.push(other),
        }
    }
    out
}

/// The scalar whose hex digits start at `at`, and how many bytes it takes (a pair takes two escapes).
fn unicode(written: &[u8], at: usize) -> (char, usize) {
    let hex = |at: usize| {
        let digits = std::str::from_utf8(written.get(at..at + 4)?).ok()?;
        u32::from_str_radix(digits, 16).ok()
    };
    let first = hex(at).unwrap_or(0xFFFD);
    if !(0xD800..0xDC00).contains(&first) {
        return (char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), 4);
    }
    let second = (written.get(at + 4..at + 6) == Some(b"\\u")).then(|| hex(at + 6)).flatten();
    match second {
        Some(low) if (0xDC00..0xE000).contains(&low) => {
            let code = 0x10000 + ((first - 0xD800) << 10) + (low - 0xDC00);
            (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 10)
        }
        _ => (char::REPLACEMENT_CHARACTER, 4),
    }
}
