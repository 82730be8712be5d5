//! Messages of D-Bus as bytes: as much of them as a keyring needs.
//!
//! Everything is aligned to its own size, counted from the beginning of the message; its body begins at a multiple of 8,
//! so that it can be written and read by itself.

/// Writes values, each where it must begin. Numbers are little-endian, which the first byte of a message says.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    pub fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    pub fn byte(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    pub fn number(&mut self, value: u32) -> &mut Self {
        self.align(4);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// A text, or the path of an object.
    pub fn text(&mut self, value: &str) -> &mut Self {
        self.bytes(value.as_bytes()).byte(0)
    }

    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.number(length(value.len()));
        self.0.extend_from_slice(value);
        self
    }

    pub fn signature(&mut self, value: &str) -> &mut Self {
        // No signature of ours has more than a few letters.
        self.byte(value.len() as u8);
        self.0.extend_from_slice(value.as_bytes());
        self.byte(0)
    }

    /// Several values that each begin at a multiple of 8, as pairs and structs do.
    pub fn array(&mut self, write: impl FnOnce(&mut Self)) -> &mut Self {
        self.number(0);
        let at = self.0.len();
        self.align(8);
        let begin = self.0.len();
        write(self);
        let written = length(self.0.len() - begin).to_le_bytes();
        if let Some(place) = self.0.get_mut(at - 4..at) {
            place.copy_from_slice(&written);
        }
        self
    }

    /// Texts under texts.
    pub fn attributes(&mut self, pairs: &[(&str, &str)]) -> &mut Self {
        self.array(|all| {
            for (name, value) in pairs {
                all.align(8);
                all.text(name).text(value);
            }
        })
    }

    pub fn finish(self) -> Vec<u8> {
        self.0
    }
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// A method to be called.
#[derive(Clone, Copy, Debug)]
pub struct Method<'a> {
    pub service: &'a str,
    pub path: &'a str,
    pub interface: &'a str,
    pub name: &'a str,
    /// What its body holds.
    pub signature: &'a str,
}

/// A call, as it is sent.
pub fn call(method: Method<'_>, serial: u32, body: &[u8]) -> Vec<u8> {
    let mut message = Writer::default();
    // Little-endian, a call without flags, version 1.
    message.byte(b'l').byte(1).byte(0).byte(1).number(length(body.len())).number(serial);
    message.array(|fields| {
        for (code, kind, value) in
            [(1, "o", method.path), (2, "s", method.interface), (3, "s", method.name), (6, "s", method.service)]
        {
            fields.align(8);
            fields.byte(code).signature(kind).text(value);
        }
        if !method.signature.is_empty() {
            fields.align(8);
            fields.byte(8).signature("g").signature(method.signature);
        }
    });
    message.align(8);
    let mut message = message.finish();
    message.extend_from_slice(body);
    message
}

/// What every message begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    is_big: bool,
    kind: u8,
    pub fields_bytes: usize,
    pub body_bytes: usize,
}

impl Head {
    pub const BYTES: usize = 16;

    pub fn read(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let is_big = match bytes.first()? {
            b'l' => false,
            b'B' => true,
            _ => return None,
        };
        let mut rest = Reader { bytes, at: 4, is_big };
        let (body, _serial, fields) = (rest.number()?, rest.number()?, rest.number()?);
        let fields_bytes = usize::try_from(fields).ok()?.checked_next_multiple_of(8)?;
        Some(Self { is_big, kind: *bytes.get(1)?, fields_bytes, body_bytes: usize::try_from(body).ok()? })
    }

    /// How many bytes follow.
    pub fn rest(&self) -> Option<usize> {
        self.fields_bytes.checked_add(self.body_bytes)
    }
}

/// What was answered to a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// This.
    Returned(Reader<'a>),
    /// An error of this name.
    Failed(&'a str),
}

/// The answer to the call of this number, if a message is that.
pub fn answer<'a>(head: &Head, rest: &'a [u8], serial: u32) -> Option<Answer<'a>> {
    let (fields, body) = rest.split_at_checked(head.fields_bytes)?;
    let mut fields = Reader { bytes: fields, at: 0, is_big: head.is_big };
    let (mut answers, mut error) = (None, "");
    while !fields.is_at_end() {
        fields.align(8)?;
        let code = fields.byte()?;
        let value = match fields.signature()? {
            "u" => Field::Number(fields.number()?),
            "s" | "o" => Field::Text(fields.text()?),
            "g" => Field::Text(fields.signature()?),
            _ => return None,
        };
        match (code, value) {
            (5, Field::Number(number)) => answers = Some(number),
            (4, Field::Text(name)) => error = name,
            _ => {}
        }
        // What is left may be padding.
        if fields.bytes.len() - fields.at < 8 {
            break;
        }
    }
    match (answers == Some(serial), head.kind) {
        (true, 2) => Some(Answer::Returned(Reader { bytes: body, at: 0, is_big: head.is_big })),
        (true, 3) => Some(Answer::Failed(error)),
        _ => None,
    }
}

enum Field<'a> {
    Number(u32),
    Text(&'a str),
}

/// Reads values; `None` where there is none of that kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    is_big: bool,
}

impl<'a> Reader<'a> {
    fn is_at_end(&self) -> bool {
        self.bytes.len() <= self.at
    }

    pub fn align(&mut self, to: usize) -> Option<()> {
        self.at = self.at.next_multiple_of(to);
        (self.at <= self.bytes.len()).then_some(())
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    pub fn number(&mut self) -> Option<u32> {
        self.align(4)?;
        let bytes = self.take(4)?.try_into().ok()?;
        Some(if self.is_big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.number()?;
        self.take(usize::try_from(count).ok()?)
    }

    /// A text, or the path of an object.
    pub fn text(&mut self) -> Option<&'a str> {
        let text = self.bytes()?;
        (self.byte()? == 0).then_some(())?;
        std::str::from_utf8(text).ok()
    }

    pub fn signature(&mut self) -> Option<&'a str> {
        let count = self.byte()?;
        let text = self.take(usize::from(count))?;
        (self.byte()? == 0).then_some(())?;
        std::str::from_utf8(text).ok()
    }

    /// Several texts.
    pub fn texts(&mut self) -> Option<Vec<&'a str>> {
        let count = usize::try_from(self.number()?).ok()?;
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len())?;
        let mut all = Vec::new();
        while self.at < end {
            all.push(self.text()?);
        }
        (self.at == end).then_some(all)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const METHOD: Method<'_> =
        Method { service: "org.a", path: "/a", interface: "org.a.B", name: "Go", signature: "a{ss}" };

    /// A message of another who answers: the same bytes with another kind and the number that is answered.
    fn answered(kind: u8, serial: u32, body: &[u8]) -> Vec<u8> {
        let mut message = Writer::default();
        message.byte(b'l').byte(kind).byte(0).byte(1).number(length(body.len())).number(7);
        message.array(|fields| {
            fields.byte(5).signature("u").number(serial);
            fields.align(8);
            fields.byte(4).signature("s").text("org.a.Error");
        });
        message.align(8);
        let mut message = message.finish();
        message.extend_from_slice(body);
        message
    }

    fn read(message: &[u8], serial: u32) -> Option<Answer<'_>> {
        let (head, rest) = message.split_first_chunk()?;
        let head = Head::read(head)?;
        assert_eq!(head.rest(), Some(rest.len()));
        answer(&head, rest, serial)
    }

    #[test]
    fn what_is_written_can_be_read() {
        let mut body = Writer::default();
        body.attributes(&[("application", "landbridge"), ("id", "x")]).number(1).bytes(b"secret").text("end");
        let body = body.finish();
        let message = answered(2, 3, &body);
        let Some(Answer::Returned(mut values)) = read(&message, 3) else { panic!("no answer") };
        let bytes = values.number().expect("a length");
        assert_eq!(bytes, 46, "two pairs, the second at a multiple of 8");
        values.align(8).expect("a pair");
        let pair = (values.text(), values.text());
        assert_eq!(pair, (Some("application"), Some("landbridge")));
        values.align(8).expect("a pair");
        assert_eq!((values.text(), values.text()), (Some("id"), Some("x")));
        assert_eq!((values.number(), values.bytes(), values.text()), (Some(1), Some(&b"secret"[..]), Some("end")));
        assert_eq!(values.byte(), None);
        assert_eq!(read(&message, 4), None, "the answer to another call");
        assert_eq!(read(&answered(3, 3, &[]), 3), Some(Answer::Failed("org.a.Error")));
        assert_eq!(read(&call(METHOD, 3, &body), 3), None, "a call is no answer");
    }

    proptest! {
        #[test]
        fn whatever_comes_is_no_reason_to_panic(head in any::<[u8; 16]>(), rest in any::<Vec<u8>>(), good in any::<bool>()) {
            let mut head = head;
            if good {
                head[0] = b'l';
                head[12..].copy_from_slice(&length(rest.len()).to_le_bytes());
            }
            let read = Head::read(&head).map(|head| answer(&head, &rest, 1).is_some());
            prop_assert!(read != Some(true) || good);
            let mut values = Reader { bytes: &rest, at: 0, is_big: good };
            drop((values.texts(), values.signature(), values.bytes(), values.text()));
        }
    }
}
