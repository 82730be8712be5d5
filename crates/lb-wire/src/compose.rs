//! Envelopes of our own around values of others.
//!
//! What we send is always an envelope that we wrote (so nobody can read it another way than we did) around `params`,
//! `result` or `error` as they came.

use bytes::{BufMut, Bytes, BytesMut};

use crate::raw::{Id, Raw};

/// A request.
pub fn request(id: &Id, method: &str, params: Option<&Raw>) -> Raw {
    let mut out = start(method.len() + id.as_bytes().len() + size(params));
    out.put_slice(b",\"id\":");
    out.put_slice(id.as_bytes());
    finish_call(out, method, params)
}

/// A notification.
pub fn notification(method: &str, params: Option<&Raw>) -> Raw {
    finish_call(start(method.len() + size(params)), method, params)
}

/// An answer with a result.
pub fn result(id: &Id, result: &Raw) -> Raw {
    answer(id, b",\"result\":", result)
}

/// An answer with an error object.
pub fn error(id: &Id, error: &Raw) -> Raw {
    answer(id, b",\"error\":", error)
}

/// An error that answers no readable id. The legacy wire says `null`; the modern one has no such member.
pub fn error_without_id(error: &Raw, null: bool) -> Raw {
    let mut out = start(size(Some(error)));
    if null {
        out.put_slice(b",\"id\":null");
    }
    out.put_slice(b",\"error\":");
    out.put_slice(error.as_bytes());
    close(out)
}

/// An error object.
pub fn error_object(code: i64, message: &str, data: Option<&Raw>) -> Raw {
    let text = Raw::string(message);
    let mut out = BytesMut::with_capacity(48 + text.as_bytes().len() + size(data));
    out.put_slice(b"{\"code\":");
    out.put_slice(itoa::Buffer::new().format(code).as_bytes());
    out.put_slice(b",\"message\":");
    out.put_slice(text.as_bytes());
    if let Some(data) = data {
        out.put_slice(b",\"data\":");
        out.put_slice(data.as_bytes());
    }
    close(out)
}

/// An object from member names and values; the names are ours and need no escapes.
pub fn object(members: &[(&str, &Raw)]) -> Raw {
    let mut out =
        BytesMut::with_capacity(2 + members.iter().map(|(k, v)| k.len() + v.as_bytes().len() + 4).sum::<usize>());
    out.put_u8(b'{');
    for (n, (name, value)) in members.iter().enumerate() {
        if n != 0 {
            out.put_u8(b',');
        }
        out.put_u8(b'"');
        out.put_slice(name.as_bytes());
        out.put_slice(b"\":");
        out.put_slice(value.as_bytes());
    }
    close(out)
}

/// An array of values, as the answer to a batch.
pub fn array<'a>(values: impl Iterator<Item = &'a Raw>) -> Raw {
    let mut out = BytesMut::new();
    for value in values {
        out.put_u8(if out.is_empty() { b'[' } else { b',' });
        out.put_slice(value.as_bytes());
    }
    if out.is_empty() {
        out.put_u8(b'[');
    }
    out.put_u8(b']');
    Raw::scanned(out.freeze())
}

fn answer(id: &Id, name: &'static [u8], body: &Raw) -> Raw {
    let mut out = start(id.as_bytes().len() + body.as_bytes().len());
    out.put_slice(b",\"id\":");
    out.put_slice(id.as_bytes());
    out.put_slice(name);
    out.put_slice(body.as_bytes());
    close(out)
}

fn start(room: usize) -> BytesMut {
    let mut out = BytesMut::with_capacity(room + 64);
    out.put_slice(b"{\"jsonrpc\":\"2.0\"");
    out
}

fn finish_call(mut out: BytesMut, method: &str, params: Option<&Raw>) -> Raw {
    out.put_slice(b",\"method\":");
    // Method names almost never need escapes; the check is one pass over a short text.
    if method.bytes().any(|b| b < 0x20 || b == b'"' || b == b'\\') {
        out.put_slice(Raw::string(method).as_bytes());
    } else {
        out.put_u8(b'"');
        out.put_slice(method.as_bytes());
        out.put_u8(b'"');
    }
    if let Some(params) = params {
        out.put_slice(b",\"params\":");
        out.put_slice(params.as_bytes());
    }
    close(out)
}

fn close(mut out: BytesMut) -> Raw {
    out.put_u8(b'}');
    Raw::scanned(Bytes::from(out))
}

fn size(value: Option<&Raw>) -> usize {
    value.map_or(0, |raw| raw.as_bytes().len())
}

/// An object written member by member; the names are ours and need no escapes.
#[derive(Debug)]
pub struct Object(BytesMut);

impl Object {
    /// No members yet.
    #[expect(clippy::new_without_default, reason = "an object that is begun is not a default of anything")]
    pub fn new() -> Self {
        Self(BytesMut::from(&b"{"[..]))
    }

    /// Adds a value.
    #[must_use]
    pub fn raw(mut self, name: &str, value: &Raw) -> Self {
        self.name(name);
        self.0.put_slice(value.as_bytes());
        self
    }

    /// Adds a value, if there is one.
    #[must_use]
    pub fn maybe(self, name: &str, value: Option<&Raw>) -> Self {
        match value {
            Some(value) => self.raw(name, value),
            None => self,
        }
    }

    /// Adds a text.
    #[must_use]
    pub fn text(self, name: &str, text: &str) -> Self {
        self.raw(name, &Raw::string(text))
    }

    /// Adds a text, if there is one.
    #[must_use]
    pub fn maybe_text(self, name: &str, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.text(name, text),
            None => self,
        }
    }

    /// Adds a whole number.
    #[must_use]
    pub fn number(mut self, name: &str, number: impl itoa::Integer) -> Self {
        self.name(name);
        self.0.put_slice(itoa::Buffer::new().format(number).as_bytes());
        self
    }

    /// Adds a truth value.
    #[must_use]
    pub fn flag(mut self, name: &str, value: bool) -> Self {
        self.name(name);
        self.0.put_slice(if value { b"true" } else { b"false" });
        self
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.0.len() == 1
    }

    /// The object.
    pub fn finish(self) -> Raw {
        close(self.0)
    }

    fn name(&mut self, name: &str) {
        if !self.is_empty() {
            self.0.put_u8(b',');
        }
        self.0.put_u8(b'"');
        self.0.put_slice(name.as_bytes());
        self.0.put_slice(b"\":");
    }
}
