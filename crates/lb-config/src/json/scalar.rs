//! Strings and numbers.

use super::{Fault, Parsed, Parser, SyntaxError};

impl Parser<'_> {
    /// Reads a string from its opening to its closing quote.
    pub(super) fn string(&mut self) -> Parsed<String> {
        let open = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            let plain = self.rest().iter().take_while(|byte| !matches!(byte, b'"' | b'\\' | 0..0x20)).count();
            text.push_str(self.text.get(self.at..self.at + plain).unwrap_or_default());
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => text.push(self.escape()?),
                Some(_) => return Err(self.fail(Fault::Control)),
                None => return Err(SyntaxError { at: open, fault: Fault::OpenString }),
            }
        }
    }

    /// Reads one escape from its backslash on.
    fn escape(&mut self) -> Parsed<char> {
        let &[_, kind, ..] = self.rest() else {
            return Err(self.fail(Fault::Escape));
        };
        let character = match kind {
            b'"' | b'\\' | b'/' => char::from(kind),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(),
            _ => return Err(self.fail(Fault::Escape)),
        };
        self.at += 2;
        Ok(character)
    }

    /// Reads `\uXXXX`, or two of them that make a pair.
    fn unicode(&mut self) -> Parsed<char> {
        let first = self.unit(0)?;
        let (code, length) = match first {
            0xD800..0xDC00 => match self.unit(6) {
                Ok(second @ 0xDC00..0xE000) => (0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00), 12),
                _ => return Err(self.fail(Fault::Surrogate)),
            },
            _ => (first, 6),
        };
        let character = char::from_u32(code).ok_or_else(|| self.fail(Fault::Surrogate))?;
        self.at += length;
        Ok(character)
    }

    /// The four digits of a `\uXXXX` that starts `ahead` bytes from here.
    fn unit(&self, ahead: usize) -> Parsed<u32> {
        let digits = match self.rest().get(ahead..) {
            Some([b'\\', b'u', digits @ ..]) => digits.get(..4),
            _ => None,
        };
        digits
            .and_then(|digits| {
                digits.iter().try_fold(0, |code, digit| Some(code * 16 + char::from(*digit).to_digit(16)?))
            })
            .ok_or_else(|| self.fail(Fault::Escape))
    }

    /// Reads a number; JSON knows no leading zeros, plus signs, bare dots, infinities.
    pub(super) fn number(&mut self) -> Parsed<f64> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        } else if self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Err(self.fail(Fault::Number));
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            if !self.take(b'+') {
                self.take(b'-');
            }
            self.digits()?;
        }
        match self.text.get(start..self.at).and_then(|text| text.parse::<f64>().ok()) {
            Some(number) if number.is_finite() => Ok(number),
            _ => Err(SyntaxError { at: start, fault: Fault::NumberRange }),
        }
    }

    fn digits(&mut self) -> Parsed<()> {
        let count = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return Err(self.fail(Fault::Number));
        }
        self.at += count;
        Ok(())
    }
}
