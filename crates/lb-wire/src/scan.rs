//! One forward pass over JSON text: grammar, UTF-8, nesting depth.
//!
//! [`Cursor`] is the only code that walks JSON on the hot path. It builds no tree: callers enter the few
//! objects they read with [`Cursor::members`] and step over everything else with [`Cursor::skip`].

use crate::raw::Span;

/// Deepest nesting that is accepted; a deeper value is refused, not truncated.
pub const DEPTH_MAX: usize = 256;

/// Why a text is not a JSON value that we take in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// Not JSON: the offending byte is at this offset.
    #[error("not JSON at byte {0}")]
    Syntax(usize),
    /// The text ended inside a value.
    #[error("JSON text ends early")]
    Truncated,
    /// A string holds bytes that are not UTF-8.
    #[error("string at byte {0} is not UTF-8")]
    Utf8(usize),
    /// More than [`DEPTH_MAX`] levels of nesting.
    #[error("nested deeper than {DEPTH_MAX} levels")]
    Depth,
    /// An object at a level we read names a member twice, so two readers could disagree about it.
    #[error("duplicate member name at byte {0}")]
    Duplicate(usize),
    /// Longer than the caller allows.
    #[error("longer than {0} bytes")]
    Size(usize),
}

/// What kind of JSON value a span holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the JSON kinds explain themselves")]
pub enum Kind {
    Object,
    Array,
    String,
    Number,
    Bool,
    Null,
}

/// One member of an object that was entered.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// The name, without its quotes, as written.
    pub key: Span,
    /// Whether the name was written with escapes.
    pub key_escaped: bool,
    /// The value, without surrounding white space.
    pub value: Span,
    /// Kind of the value.
    pub kind: Kind,
}

/// Position in a JSON text.
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next byte that is not white space, without taking it.
    ///
    /// # Errors
    /// The text is at its end.
    pub fn peek(&mut self) -> Result<u8, ScanError> {
        self.white();
        self.bytes.get(self.at).copied().ok_or(ScanError::Truncated)
    }

    /// Checks that nothing but white space is left.
    ///
    /// # Errors
    /// Something is left.
    pub fn end(&mut self) -> Result<(), ScanError> {
        self.white();
        if self.at == self.bytes.len() { Ok(()) } else { Err(ScanError::Syntax(self.at)) }
    }

    /// Takes the object at the cursor member by member.
    ///
    /// `value` is called with the cursor on each value and must step over exactly that value; `depth` is the number
    /// of containers around this object.
    ///
    /// # Errors
    /// The text is not an object, or `value` failed.
    pub fn members(
        &mut self,
        depth: usize,
        mut value: impl FnMut(&mut Self, Span, bool) -> Result<(), ScanError>,
    ) -> Result<(), ScanError> {
        self.open(b'{', depth)?;
        if self.peek()? == b'}' {
            self.at += 1;
            return Ok(());
        }
        loop {
            let (key, escaped) = self.key()?;
            value(self, key, escaped)?;
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(ScanError::Syntax(self.at)),
            }
        }
    }

    /// Takes the array at the cursor element by element; `depth` is the number of containers around it.
    ///
    /// # Errors
    /// The text is not an array, or an element is not JSON.
    pub fn elements(&mut self, depth: usize, mut each: impl FnMut(Span, Kind)) -> Result<(), ScanError> {
        self.open(b'[', depth)?;
        if self.peek()? == b']' {
            self.at += 1;
            return Ok(());
        }
        loop {
            let (span, kind) = self.skip(depth + 1)?;
            each(span, kind);
            match self.peek()? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(ScanError::Syntax(self.at)),
            }
        }
    }

    /// Steps over one value of any shape, checking it; `depth` is the number of containers around it.
    ///
    /// # Errors
    /// The value is not JSON or too deep.
    pub fn skip(&mut self, depth: usize) -> Result<(Span, Kind), ScanError> {
        let first = self.peek()?;
        let start = self.at;
        let kind = kind_of(first).ok_or(ScanError::Syntax(start))?;
        match kind {
            Kind::Object | Kind::Array => self.skip_container(depth)?,
            _ => self.scalar(first)?,
        }
        Ok((Span::new(start, self.at), kind))
    }

    /// Where the cursor stands, after any white space that follows.
    pub fn position(&self) -> usize {
        self.at
    }

    fn open(&mut self, bracket: u8, depth: usize) -> Result<(), ScanError> {
        if self.peek()? != bracket {
            return Err(ScanError::Syntax(self.at));
        }
        if DEPTH_MAX <= depth {
            return Err(ScanError::Depth);
        }
        self.at += 1;
        Ok(())
    }

    /// Iterative on purpose: the nesting of a hostile body must not become our stack.
    fn skip_container(&mut self, outer: usize) -> Result<(), ScanError> {
        let mut nest = Nest::default();
        loop {
            let byte = self.peek()?;
            match byte {
                b'{' | b'[' => {
                    if DEPTH_MAX <= outer + nest.depth {
                        return Err(ScanError::Depth);
                    }
                    nest.push(byte == b'{');
                    self.at += 1;
                    let close = if byte == b'{' { b'}' } else { b']' };
                    if self.peek()? != close {
                        if byte == b'{' {
                            self.key()?;
                        }
                        continue;
                    }
                }
                _ => self.scalar(byte)?,
            }
            if self.close(&mut nest)? {
                return Ok(());
            }
        }
    }

    /// After a value: takes closing brackets and one comma. True when the outermost container is closed.
    fn close(&mut self, nest: &mut Nest) -> Result<bool, ScanError> {
        loop {
            let byte = self.peek()?;
            self.at += 1;
            match (byte, nest.in_object()) {
                (b',', true) => {
                    self.key()?;
                    return Ok(false);
                }
                (b',', false) => return Ok(false),
                (b'}', true) | (b']', false) => {
                    nest.pop();
                    if nest.depth == 0 {
                        return Ok(true);
                    }
                }
                _ => return Err(ScanError::Syntax(self.at - 1)),
            }
        }
    }

    /// A member name and its colon.
    fn key(&mut self) -> Result<(Span, bool), ScanError> {
        if self.peek()? != b'"' {
            return Err(ScanError::Syntax(self.at));
        }
        let start = self.at + 1;
        let escaped = self.string()?;
        let key = Span::new(start, self.at - 1);
        if self.peek()? != b':' {
            return Err(ScanError::Syntax(self.at));
        }
        self.at += 1;
        Ok((key, escaped))
    }

    fn scalar(&mut self, first: u8) -> Result<(), ScanError> {
        match first {
            b'"' => self.string().map(drop),
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            b'-' | b'0'..=b'9' => self.number(),
            _ => Err(ScanError::Syntax(self.at)),
        }
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), ScanError> {
        let end = self.at + word.len();
        match self.bytes.get(self.at..end) {
            Some(text) if text == word => {
                self.at = end;
                Ok(())
            }
            Some(_) => Err(ScanError::Syntax(self.at)),
            None => Err(ScanError::Truncated),
        }
    }

    fn number(&mut self) -> Result<(), ScanError> {
        if self.byte() == Some(b'-') {
            self.at += 1;
        }
        match self.byte() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits()?,
            Some(_) => return Err(ScanError::Syntax(self.at)),
            None => return Err(ScanError::Truncated),
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.byte(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.byte(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), ScanError> {
        let start = self.at;
        while self.byte().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        match (self.at == start, self.byte()) {
            (false, _) => Ok(()),
            (true, Some(_)) => Err(ScanError::Syntax(self.at)),
            (true, None) => Err(ScanError::Truncated),
        }
    }

    /// A string, from its opening quote to past its closing one. True when it holds escapes.
    fn string(&mut self) -> Result<bool, ScanError> {
        self.at += 1;
        let start = self.at;
        let (mut escaped, mut high) = (false, false);
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let (plain, plain_high) = plain_prefix(rest);
            high |= plain_high;
            self.at += plain;
            match self.byte() {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) => return Err(ScanError::Syntax(self.at)),
                None => return Err(ScanError::Truncated),
            }
        }
        if high && std::str::from_utf8(self.bytes.get(start..self.at).unwrap_or_default()).is_err() {
            return Err(ScanError::Utf8(start));
        }
        self.at += 1;
        Ok(escaped)
    }

    fn escape(&mut self) -> Result<(), ScanError> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                Ok(())
            }
            Some(b'u') => match self.bytes.get(self.at + 2..self.at + 6) {
                Some(hex) if hex.iter().all(u8::is_ascii_hexdigit) => {
                    self.at += 6;
                    Ok(())
                }
                Some(_) => Err(ScanError::Syntax(self.at)),
                None => Err(ScanError::Truncated),
            },
            Some(_) => Err(ScanError::Syntax(self.at)),
            None => Err(ScanError::Truncated),
        }
    }

    fn white(&mut self) {
        while matches!(self.byte(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn byte(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }
}

fn kind_of(first: u8) -> Option<Kind> {
    Some(match first {
        b'{' => Kind::Object,
        b'[' => Kind::Array,
        b'"' => Kind::String,
        b't' | b'f' => Kind::Bool,
        b'n' => Kind::Null,
        b'-' | b'0'..=b'9' => Kind::Number,
        _ => return None,
    })
}

/// Which of the open containers are objects, one bit each.
#[derive(Default)]
struct Nest {
    bits: [u64; DEPTH_MAX / 64],
    depth: usize,
}

impl Nest {
    fn push(&mut self, object: bool) {
        if let Some(word) = self.bits.get_mut(self.depth / 64) {
            let bit = 1 << (self.depth % 64);
            *word = if object { *word | bit } else { *word & !bit };
        }
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.depth -= 1;
    }

    fn in_object(&self) -> bool {
        let top = self.depth.wrapping_sub(1);
        self.bits.get(top / 64).is_some_and(|word| word & (1 << (top % 64)) != 0)
    }
}

/// How many bytes from the start need no look: no quote, no backslash, no control character. The flag tells whether
/// any of them is outside of ASCII. Blocks of 64 let the compiler use vector instructions without `unsafe`.
fn plain_prefix(bytes: &[u8]) -> (usize, bool) {
    let mut high = 0u8;
    let mut done = 0;
    // Most strings are short: a few bytes one at a time before the blocks pay off.
    for &byte in bytes.iter().take(16) {
        if is_special(byte) {
            return (done, high & 0x80 != 0);
        }
        high |= byte;
        done += 1;
    }
    let rest = bytes.get(done..).unwrap_or_default();
    for block in rest.chunks_exact(64) {
        let (mut special, mut block_high) = (0u8, 0u8);
        for &byte in block {
            special |= u8::from(is_special(byte));
            block_high |= byte;
        }
        if special != 0 {
            break;
        }
        high |= block_high;
        done += 64;
    }
    for &byte in bytes.get(done..).unwrap_or_default() {
        if is_special(byte) {
            break;
        }
        high |= byte;
        done += 1;
    }
    (done, high & 0x80 != 0)
}

fn is_special(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}
