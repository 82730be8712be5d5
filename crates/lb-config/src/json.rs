//! JSON with comments and trailing commas, as people write it, to a tree that knows its positions.
//!
//! Accepts plain JSON (RFC 8259), `//` and `/* */` comments, one comma before a closing bracket and a byte order mark;
//! nothing else. Stops at the first syntax error, since what follows one is guesswork. Duplicate keys are collected,
//! because they are a mistake of meaning and the rest of the file can still be checked.

mod scalar;

use std::collections::HashSet;

/// Deepest nesting of arrays and objects.
pub(crate) const DEPTH_MAX: usize = 128;

/// Most duplicates that are collected; whoever has so many is helped by the first ones.
const DUPLICATES_MAX: usize = 1_000;

/// A whole text, read.
#[derive(Debug)]
pub(crate) struct Document {
    pub root: Node,
    /// Keys that an object has already, in file order.
    pub duplicates: Vec<Duplicate>,
    /// No comment, trailing comma or byte order mark was needed.
    #[cfg_attr(not(test), expect(dead_code, reason = "the comparison with a strict parser needs it"))]
    pub plain: bool,
}

/// One value and where it starts, as a byte offset.
#[derive(Debug)]
pub(crate) struct Node {
    pub at: usize,
    pub value: Value,
}

#[derive(Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(f64),
    String(String),
    Array(Vec<Node>),
    Object(Vec<Member>),
}

impl Value {
    /// The kind, with its article.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

/// One `key: value` of an object.
#[derive(Debug)]
pub(crate) struct Member {
    /// Where the key starts.
    pub at: usize,
    pub key: String,
    pub node: Node,
}

/// A key that the same object has already.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Duplicate {
    pub at: usize,
    /// The way to it from the root, itself included.
    pub trail: Vec<Step>,
}

/// One step down the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

/// Where and why the text is no JSON.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub at: usize,
    pub fault: Fault,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("the text ends too early, {0} is missing")]
    End(&'static str),
    #[error("expected {want}, found {found:?}")]
    Unexpected { want: &'static str, found: char },
    #[error("more text after the end of the value")]
    Trailing,
    #[error("a comment is not closed")]
    OpenComment,
    #[error("a string is not closed")]
    OpenString,
    #[error("a control character inside a string")]
    Control,
    #[error("an unknown escape inside a string")]
    Escape,
    #[error("half of a surrogate pair inside a string")]
    Surrogate,
    #[error("not a number")]
    Number,
    #[error("the number is too large")]
    NumberRange,
    #[error("nested deeper than {DEPTH_MAX} levels")]
    Depth,
}

impl Fault {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unexpected { found: '\'', .. } => Some("strings and keys take double quotes"),
            Self::Unexpected { found: '=', .. } => Some("a key and its value are separated by a colon"),
            Self::Unexpected { want: "\",\" or \"}\"" | "\",\" or \"]\"", found: '"' | '{' | '[' } => {
                Some("is a comma missing before this?")
            }
            Self::Unexpected { want: "a key in double quotes", found } if found.is_alphabetic() => {
                Some("keys take double quotes")
            }
            Self::Unexpected { want: "a value", found: ',' | ']' | '}' } => Some("is there a comma too many?"),
            Self::Control => Some("write a line break as \\n and a tab as \\t"),
            Self::Escape => Some("write a backslash as \\\\"),
            _ => None,
        }
    }
}

/// Reads one text as one value.
pub(crate) fn parse(text: &str) -> Result<Document, SyntaxError> {
    let mut parser = Parser { text, at: 0, trail: Vec::new(), plain: true, duplicates: Vec::new() };
    if text.starts_with('\u{FEFF}') {
        parser.at = '\u{FEFF}'.len_utf8();
        parser.plain = false;
    }
    let root = parser.value()?;
    parser.skip()?;
    if parser.peek().is_some() {
        return Err(parser.fail(Fault::Trailing));
    }
    Ok(Document { root, duplicates: parser.duplicates, plain: parser.plain })
}

struct Parser<'a> {
    text: &'a str,
    /// Always on a character boundary when a node begins or ends.
    at: usize,
    /// Where in the tree the next value goes.
    trail: Vec<Step>,
    plain: bool,
    duplicates: Vec<Duplicate>,
}

type Parsed<T> = Result<T, SyntaxError>;

impl<'a> Parser<'a> {
    fn value(&mut self) -> Parsed<Node> {
        self.skip()?;
        let at = self.at;
        let value = match self.peek() {
            Some(b'{') => self.nested(Self::object)?,
            Some(b'[') => self.nested(Self::array)?,
            Some(b'"') => Value::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => Value::Number(self.number()?),
            Some(b't') => self.word("true", Value::Bool(true))?,
            Some(b'f') => self.word("false", Value::Bool(false))?,
            Some(b'n') => self.word("null", Value::Null)?,
            _ => return Err(self.unexpected("a value")),
        };
        Ok(Node { at, value })
    }

    /// Recursion is bounded here and nowhere else.
    fn nested(&mut self, read: fn(&mut Self) -> Parsed<Value>) -> Parsed<Value> {
        if self.trail.len() == DEPTH_MAX {
            return Err(self.fail(Fault::Depth));
        }
        self.at += 1;
        read(self)
    }

    fn object(&mut self) -> Parsed<Value> {
        let mut members: Vec<Member> = Vec::new();
        let mut seen = HashSet::new();
        while !self.closes(b'}', members.is_empty())? {
            let at = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("a key in double quotes"));
            }
            let key = self.string()?;
            self.skip()?;
            if !self.take(b':') {
                return Err(self.unexpected("\":\""));
            }
            self.trail.push(Step::Key(key.clone()));
            if !seen.insert(key.clone()) && self.duplicates.len() < DUPLICATES_MAX {
                self.duplicates.push(Duplicate { at, trail: self.trail.clone() });
            }
            let node = self.value()?;
            self.trail.pop();
            members.push(Member { at, key, node });
        }
        Ok(Value::Object(members))
    }

    fn array(&mut self) -> Parsed<Value> {
        let mut elements = Vec::new();
        while !self.closes(b']', elements.is_empty())? {
            self.trail.push(Step::Index(elements.len()));
            elements.push(self.value()?);
            self.trail.pop();
        }
        Ok(Value::Array(elements))
    }

    /// Takes the closing bracket, or what must stand before the next element.
    fn closes(&mut self, bracket: u8, first: bool) -> Parsed<bool> {
        self.skip()?;
        if self.take(bracket) {
            return Ok(true);
        }
        if first {
            return Ok(false);
        }
        if !self.take(b',') {
            let want = if bracket == b'}' { "\",\" or \"}\"" } else { "\",\" or \"]\"" };
            return Err(self.unexpected(want));
        }
        self.skip()?;
        let closed = self.take(bracket);
        self.plain &= !closed;
        Ok(closed)
    }

    fn word(&mut self, word: &'static str, value: Value) -> Parsed<Value> {
        if self.rest().starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(value);
        }
        Err(self.unexpected("a value"))
    }

    /// Skips white space and comments.
    fn skip(&mut self) -> Parsed<()> {
        loop {
            match self.rest() {
                [b' ' | b'\t' | b'\n' | b'\r', ..] => self.at += 1,
                [b'/', b'/', rest @ ..] => {
                    self.plain = false;
                    self.at += 2 + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                }
                [b'/', b'*', rest @ ..] => {
                    let Some(length) = rest.windows(2).position(|pair| pair == b"*/") else {
                        return Err(self.fail(Fault::OpenComment));
                    };
                    self.plain = false;
                    self.at += length + 4;
                }
                _ => return Ok(()),
            }
        }
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let taken = self.peek() == Some(byte);
        self.at += usize::from(taken);
        taken
    }

    fn unexpected(&self, want: &'static str) -> SyntaxError {
        match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(found) => self.fail(Fault::Unexpected { want, found }),
            None => self.fail(Fault::End(want)),
        }
    }

    fn fail(&self, fault: Fault) -> SyntaxError {
        SyntaxError { at: self.at, fault }
    }
}

#[cfg(test)]
mod tests;
