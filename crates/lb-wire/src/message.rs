//! One JSON-RPC message: its envelope and the members of `params`, `result`, `error` and `_meta`, as spans.

use bytes::Bytes;
use smallvec::SmallVec;

use crate::raw::{Id, Raw, Span};
use crate::scan::{Cursor, Kind, Member, ScanError};
use crate::text::{self, Text};

/// Why a text is not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Not JSON that we take in: answered with -32700.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// JSON, but not a JSON-RPC 2.0 message: answered with -32600 and the id, if one was readable.
    #[error("not a JSON-RPC message: {why}")]
    Shape {
        /// What is wrong with it.
        why: &'static str,
        /// The id that an answer can carry.
        id: Option<Id>,
    },
}

/// The four kinds of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `method` and `id`.
    Request,
    /// `method` without `id`.
    Notification,
    /// `result`.
    Result,
    /// `error`.
    Error,
}

/// A scanned message. Cheap to clone: the bytes are shared.
#[derive(Clone)]
pub struct Message {
    bytes: Bytes,
    shape: Shape,
    id: Option<Id>,
    /// Set for requests and notifications.
    method: Option<Method>,
    /// `params`, `result` or `error`.
    body: Option<(Span, Kind)>,
    members: Members,
    meta: Option<(Span, Kind)>,
    meta_members: Members,
}

type Members = SmallVec<[Member; 8]>;

#[derive(Clone)]
enum Method {
    /// As written, no escapes.
    Plain(Span),
    Unescaped(Box<str>),
}

impl Message {
    /// Scans one message in one pass.
    ///
    /// # Errors
    /// The text is not JSON, names a member twice at a level we read, or is not JSON-RPC 2.0.
    pub fn scan(bytes: Bytes) -> Result<Self, MessageError> {
        let mut parts = Parts::default();
        let mut cursor = Cursor::new(&bytes);
        if cursor.peek()? != b'{' {
            cursor.skip(0)?;
            cursor.end()?;
            return Err(MessageError::Shape { why: "it is not an object", id: None });
        }
        parts.envelope(&bytes, &mut cursor)?;
        cursor.end()?;
        parts.assemble(bytes)
    }

    /// Splits a batch into its members, unscanned; `None` when the text is not an array.
    ///
    /// # Errors
    /// The text is not JSON.
    pub fn batch(bytes: &Bytes) -> Result<Option<Vec<Bytes>>, ScanError> {
        let mut cursor = Cursor::new(bytes);
        if cursor.peek()? != b'[' {
            return Ok(None);
        }
        let mut parts = Vec::new();
        cursor.elements(0, |span, _| parts.push(bytes.slice(span.start()..span.end())))?;
        cursor.end()?;
        Ok(Some(parts))
    }

    /// The id of a message of which only the start is there; for telling whom a message that was too long concerned.
    pub fn id_in_prefix(prefix: &[u8]) -> Option<Id> {
        let mut id = None;
        let mut cursor = Cursor::new(prefix);
        let walk = cursor.members(0, |cursor, key, escaped| {
            let is_id = text::same_key(key.of(prefix), escaped, b"id");
            let (value, _) = cursor.skip(1)?;
            if is_id && id.is_none() {
                id = Raw::parse(Bytes::copy_from_slice(value.of(prefix))).ok().and_then(|raw| Id::from_raw(&raw));
            }
            Ok(())
        });
        match walk {
            // Ends with an error where the prefix does; what came before it was read.
            Ok(()) | Err(_) => id,
        }
    }

    /// Which kind of message this is.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The id; absent in notifications, and in errors whose sender could not read one.
    pub fn id(&self) -> Option<&Id> {
        self.id.as_ref()
    }

    /// The method of a request or notification; empty for the others.
    pub fn method(&self) -> &str {
        match &self.method {
            Some(Method::Plain(span)) => std::str::from_utf8(span.of(&self.bytes)).unwrap_or_default(),
            Some(Method::Unescaped(text)) => text,
            None => "",
        }
    }

    /// The method, shared.
    pub fn method_text(&self) -> Text {
        match &self.method {
            Some(Method::Plain(span)) => Text::scanned(self.bytes.slice(span.start()..span.end())),
            Some(Method::Unescaped(text)) => Text::from(text.as_ref()),
            None => Text::from_static(""),
        }
    }

    /// `params`, `result` or `error`, whichever this message has.
    pub fn body(&self) -> Option<Raw> {
        self.body.map(|(span, _)| self.cut(span))
    }

    /// A member of the body.
    pub fn member(&self, name: &str) -> Option<Raw> {
        self.span(name).map(|span| self.cut(span))
    }

    /// The bytes of a member of the body, without sharing them.
    pub fn member_bytes(&self, name: &str) -> Option<&[u8]> {
        self.span(name).map(|span| span.of(&self.bytes))
    }

    /// The `_meta` of the body.
    pub fn meta_object(&self) -> Option<Raw> {
        self.meta.filter(|(_, kind)| *kind == Kind::Object).map(|(span, _)| self.cut(span))
    }

    /// A member of the body's `_meta`.
    pub fn meta(&self, name: &str) -> Option<Raw> {
        self.find(&self.meta_members, name).map(|member| self.cut(member.value))
    }

    /// Where a member of `_meta` stands inside [`Message::body`].
    pub fn meta_span_in_body(&self, name: &str) -> Option<Span> {
        let (body, _) = self.body?;
        self.find(&self.meta_members, name).map(|member| member.value.relative_to(body.start()))
    }

    /// Where a member of the body stands inside [`Message::body`].
    pub fn member_span_in_body(&self, name: &str) -> Option<Span> {
        let (body, _) = self.body?;
        self.find(&self.members, name).map(|member| member.value.relative_to(body.start()))
    }

    /// Where `_meta` stands inside [`Message::body`].
    pub fn meta_object_span_in_body(&self) -> Option<Span> {
        let (body, _) = self.body?;
        self.meta.map(|(span, _)| span.relative_to(body.start()))
    }

    /// Whether the body has any member, so that a further one needs a comma.
    pub fn body_is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether `_meta` has any member.
    pub fn meta_is_empty(&self) -> bool {
        self.meta_members.is_empty()
    }

    /// How many bytes the whole message takes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Never true: a message has at least its braces.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn span(&self, name: &str) -> Option<Span> {
        self.find(&self.members, name).map(|member| member.value)
    }

    fn find<'m>(&self, members: &'m Members, name: &str) -> Option<&'m Member> {
        members.iter().find(|m| text::same_key(m.key.of(&self.bytes), m.key_escaped, name.as_bytes()))
    }

    fn cut(&self, span: Span) -> Raw {
        Raw::scanned(self.bytes.slice(span.start()..span.end()))
    }
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}({:?} {}, {} bytes)", self.shape, self.id, self.method(), self.bytes.len())
    }
}

/// What the pass over the envelope collects.
#[derive(Default)]
struct Parts {
    seen: Members,
    version: Option<Span>,
    id: Option<(Span, Kind)>,
    method: Option<(Span, Kind)>,
    params: Option<(Span, Kind)>,
    result: Option<(Span, Kind)>,
    error: Option<(Span, Kind)>,
    members: Members,
    meta: Option<(Span, Kind)>,
    meta_members: Members,
}

impl Parts {
    fn envelope(&mut self, bytes: &Bytes, cursor: &mut Cursor<'_>) -> Result<(), ScanError> {
        cursor.members(0, |cursor, key, key_escaped| {
            let name = key.of(bytes);
            let is = |want: &[u8]| text::same_key(name, key_escaped, want);
            let body = is(b"params") || is(b"result") || is(b"error");
            let (value, kind) =
                if body && cursor.peek()? == b'{' { self.body(bytes, cursor)? } else { cursor.skip(1)? };
            let slot = match () {
                () if is(b"jsonrpc") => {
                    self.version = Some(value);
                    None
                }
                () if is(b"id") => Some(&mut self.id),
                () if is(b"method") => Some(&mut self.method),
                () if is(b"params") => Some(&mut self.params),
                () if is(b"result") => Some(&mut self.result),
                () if is(b"error") => Some(&mut self.error),
                () => None,
            };
            if let Some(slot) = slot {
                *slot = Some((value, kind));
            }
            self.seen.push(Member { key, key_escaped, value, kind });
            Ok(())
        })?;
        refuse_duplicates(bytes, &self.seen)
    }

    /// The object behind `params`, `result` or `error`. A message has one of them; with two, it is refused later.
    fn body(&mut self, bytes: &Bytes, cursor: &mut Cursor<'_>) -> Result<(Span, Kind), ScanError> {
        let start = cursor.position();
        let mut members = Members::new();
        cursor.members(1, |cursor, key, key_escaped| {
            let is_meta = text::same_key(key.of(bytes), key_escaped, b"_meta");
            let (value, kind) =
                if is_meta && cursor.peek()? == b'{' { self.meta(bytes, cursor)? } else { cursor.skip(2)? };
            if is_meta {
                self.meta = Some((value, kind));
            }
            members.push(Member { key, key_escaped, value, kind });
            Ok(())
        })?;
        refuse_duplicates(bytes, &members)?;
        self.members = members;
        Ok((Span::new(start, cursor.position()), Kind::Object))
    }

    fn meta(&mut self, bytes: &Bytes, cursor: &mut Cursor<'_>) -> Result<(Span, Kind), ScanError> {
        let start = cursor.position();
        let mut members = Members::new();
        cursor.members(2, |cursor, key, key_escaped| {
            let (value, kind) = cursor.skip(3)?;
            members.push(Member { key, key_escaped, value, kind });
            Ok(())
        })?;
        refuse_duplicates(bytes, &members)?;
        self.meta_members = members;
        Ok((Span::new(start, cursor.position()), Kind::Object))
    }

    fn assemble(self, bytes: Bytes) -> Result<Message, MessageError> {
        let id = match self.id {
            Some((span, Kind::String | Kind::Number)) => {
                Id::from_raw(&Raw::scanned(bytes.slice(span.start()..span.end())))
            }
            _ => None,
        };
        let refuse = |why| Err(MessageError::Shape { why, id: id.clone() });
        if self.version.map(|span| span.of(&bytes)) != Some(b"\"2.0\"") {
            return refuse("\"jsonrpc\" must be \"2.0\"");
        }
        let id_null = matches!(self.id, Some((_, Kind::Null)));
        if self.id.is_some() && id.is_none() && !(id_null && self.error.is_some()) {
            return refuse("\"id\" must be a string or a number of at most 1024 bytes");
        }
        let (shape, body) = match (self.method, self.result, self.error) {
            (Some((_, Kind::String)), None, None) => {
                if matches!(self.params, Some((_, kind)) if kind != Kind::Object) {
                    return refuse("\"params\" must be an object");
                }
                (if id.is_some() { Shape::Request } else { Shape::Notification }, self.params)
            }
            (None, result @ Some(_), None) if id.is_some() && self.params.is_none() => (Shape::Result, result),
            (None, None, error @ Some((_, Kind::Object))) if self.params.is_none() => (Shape::Error, error),
            (Some(_), None, None) => return refuse("\"method\" must be a string"),
            (None, None, None) => return refuse("it has neither \"method\" nor \"result\" nor \"error\""),
            _ => return refuse("it mixes the members of a request and a response"),
        };
        let method = self.method.map(|(span, _)| method_of(&bytes, span));
        let (members, meta, meta_members) = (self.members, self.meta, self.meta_members);
        Ok(Message { bytes, shape, id, method, body, members, meta, meta_members })
    }
}

/// `span` includes the quotes.
fn method_of(bytes: &Bytes, span: Span) -> Method {
    let inner = Span::new(span.start() + 1, span.end() - 1);
    let written = inner.of(bytes);
    if memchr::memchr(b'\\', written).is_none() {
        return Method::Plain(inner);
    }
    Method::Unescaped(String::from_utf8_lossy(&text::unescape(written)).into())
}

fn refuse_duplicates(bytes: &[u8], members: &[Member]) -> Result<(), ScanError> {
    if 16 < members.len() || members.iter().any(|m| m.key_escaped) {
        return refuse_duplicates_sorted(bytes, members);
    }
    for (n, member) in members.iter().enumerate() {
        let key = member.key.of(bytes);
        if members.iter().take(n).any(|earlier| earlier.key.of(bytes) == key) {
            return Err(ScanError::Duplicate(member.key.start()));
        }
    }
    Ok(())
}

fn refuse_duplicates_sorted(bytes: &[u8], members: &[Member]) -> Result<(), ScanError> {
    let mut keys: Vec<(std::borrow::Cow<'_, [u8]>, usize)> = members
        .iter()
        .map(|m| {
            let key = m.key.of(bytes);
            (if m.key_escaped { text::unescape(key).into() } else { key.into() }, m.key.start())
        })
        .collect();
    keys.sort_unstable();
    match keys.windows(2).find(|pair| matches!(pair, [(a, _), (b, _)] if a == b)) {
        Some([_, (_, at)]) => Err(ScanError::Duplicate(*at)),
        _ => Ok(()),
    }
}
