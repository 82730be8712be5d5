//! The `x-mcp-header` index: which arguments of which tool a modern HTTP request repeats as `Mcp-Param-*`.
//!
//! Built from a server's `tools/list`, off the hot path. A call of a tool without annotations costs one lookup; only
//! for the others are the arguments entered.

mod schema;

#[cfg(test)]
mod tests;

use std::{borrow::Cow, collections::HashMap};

use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;
use smallvec::{SmallVec, smallvec};

pub use self::schema::AnnotationError;
use crate::{
    header,
    scan::{Cursor, Kind, ScanError},
    text,
};

/// The annotated arguments of one server's tools.
#[derive(Clone, Debug, Default)]
pub struct ToolParams {
    tools: HashMap<Box<str>, ParamIndex>,
    /// Tools whose annotations break the rules: clients over HTTP must not be shown them.
    pub invalid: Vec<(String, AnnotationError)>,
}

/// The annotated arguments of one tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParamIndex {
    /// Full header names, lower case; a [`Node`] refers to them by position.
    headers: Vec<Box<str>>,
    roots: Vec<Node>,
}

/// A property on the way to an annotated one, or the annotated one itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    key: Box<str>,
    header: Option<usize>,
    children: Vec<Node>,
}

/// How headers and arguments of a call contradict each other. Maps to error -32020.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// The body has a value, the header is not there.
    #[error("header {0} is missing")]
    Missing(Box<str>),
    /// The header is there, the body has no value.
    #[error("header {0} repeats an argument that is not given")]
    Unexpected(Box<str>),
    /// The two values differ, or the header's cannot be read.
    #[error("header {0} does not match the argument")]
    Differs(Box<str>),
    /// The header occurs twice.
    #[error("header {0} occurs more than once")]
    Repeated(Box<str>),
    /// The arguments cannot be read, or name a mirrored member twice.
    #[error("arguments cannot be compared with the headers")]
    Arguments(#[source] ScanError),
}

#[derive(Deserialize)]
struct ListResult<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct ListedTool<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, rename = "inputSchema")]
    input_schema: &'a RawValue,
}

impl ToolParams {
    /// Reads a `tools/list` result. Entries that are not tools are passed over.
    #[must_use]
    pub fn from_tools_list(result: &[u8]) -> Self {
        let mut params = Self::default();
        if !may_annotate(result) {
            return params;
        }
        let Ok(list) = serde_json::from_slice::<ListResult<'_>>(result) else { return params };
        for entry in list.tools {
            let Ok(tool) = serde_json::from_str::<ListedTool<'_>>(entry.get()) else { continue };
            match ParamIndex::from_schema(tool.input_schema.get().as_bytes()) {
                Ok(None) => {}
                Ok(Some(index)) => {
                    params.tools.insert(tool.name.into(), index);
                }
                Err(error) => params.invalid.push((tool.name.into_owned(), error)),
            }
        }
        params
    }

    /// Adds the next page of the same list.
    pub fn merge(&mut self, page: Self) {
        self.tools.extend(page.tools);
        self.invalid.extend(page.invalid);
    }

    /// The annotated arguments of a tool, if it has any.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&ParamIndex> {
        self.tools.get(name)
    }

    /// Whether no tool has annotations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Compares the `Mcp-Param-*` headers of a call with its arguments. `headers` gives each header's name behind
    /// `Mcp-Param-`, in any case, and its value; headers that no argument is annotated with do not count.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn check<'h>(
        &self,
        tool: &str,
        arguments: Option<&[u8]>,
        headers: impl IntoIterator<Item = (&'h str, &'h [u8])>,
    ) -> Result<(), Mismatch> {
        self.tools.get(tool).map_or(Ok(()), |index| index.check(arguments, headers))
    }

    /// The headers to send with a call: full lower-case names and encoded values.
    #[must_use]
    pub fn headers_for(&self, tool: &str, arguments: Option<&[u8]>) -> Vec<(String, String)> {
        self.tools.get(tool).map_or_else(Vec::new, |index| index.headers_for(arguments))
    }
}

/// A value found in the arguments.
type Found<'a> = Option<(&'a [u8], Kind)>;

impl ParamIndex {
    /// Reads one tool's `inputSchema`; `None` when it annotates nothing.
    ///
    /// # Errors
    /// An annotation breaks the rules, which makes the tool unusable over modern HTTP.
    pub fn from_schema(input_schema: &[u8]) -> Result<Option<Self>, AnnotationError> {
        if !may_annotate(input_schema) {
            return Ok(None);
        }
        let index = schema::index(input_schema)?;
        Ok(if index.headers.is_empty() { None } else { Some(index) })
    }

    /// As [`ToolParams::check`], for this tool.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn check<'h>(
        &self,
        arguments: Option<&[u8]>,
        headers: impl IntoIterator<Item = (&'h str, &'h [u8])>,
    ) -> Result<(), Mismatch> {
        let found = self.find(arguments).map_err(Mismatch::Arguments)?;
        let mut sent: SmallVec<[Option<&[u8]>; 4]> = smallvec![None; self.headers.len()];
        for (suffix, value) in headers {
            let Some((name, slot)) = self.headers.iter().zip(&mut sent).find(|(name, _)| is_param(name, suffix)) else {
                continue;
            };
            if slot.replace(value).is_some() {
                return Err(Mismatch::Repeated(name.clone()));
            }
        }
        for (name, pair) in self.headers.iter().zip(sent.into_iter().zip(found)) {
            match pair {
                (None, None) => {}
                (None, Some(_)) => return Err(Mismatch::Missing(name.clone())),
                (Some(_), None) => return Err(Mismatch::Unexpected(name.clone())),
                (Some(value), Some((raw, _))) if header::matches(value, raw) => {}
                (Some(_), Some(_)) => return Err(Mismatch::Differs(name.clone())),
            }
        }
        Ok(())
    }

    /// As [`ToolParams::headers_for`], for this tool.
    #[must_use]
    pub fn headers_for(&self, arguments: Option<&[u8]>) -> Vec<(String, String)> {
        // Arguments that cannot be read go out without headers, and the server says what is wrong with them.
        let found = self.find(arguments).unwrap_or_default();
        let pairs = self.headers.iter().zip(found);
        pairs.filter_map(|(name, value)| Some((name.to_string(), mirrored(value?)?))).collect()
    }

    /// The values at the annotated places, by position of their header; `null` counts as absent.
    fn find<'a>(&self, arguments: Option<&'a [u8]>) -> Result<SmallVec<[Found<'a>; 4]>, ScanError> {
        let mut found = smallvec![None; self.headers.len()];
        let Some(text) = arguments else { return Ok(found) };
        let mut cursor = Cursor::new(text);
        if cursor.peek()? == b'{' {
            enter(&mut cursor, text, 0, &self.roots, &mut found)?;
        }
        Ok(found)
    }
}

/// Takes the object at the cursor and notes the values that `nodes` lead to. A name met twice is refused: which of
/// the two values counts depends on the reader.
fn enter<'a>(
    cursor: &mut Cursor<'a>,
    text: &'a [u8],
    depth: usize,
    nodes: &[Node],
    found: &mut [Found<'a>],
) -> Result<(), ScanError> {
    let mut seen: SmallVec<[bool; 8]> = smallvec![false; nodes.len()];
    cursor.members(depth, |cursor, key, escaped| {
        let named = |node: &Node| text::same_key(key.of(text), escaped, node.key.as_bytes());
        let Some((node, seen)) = nodes.iter().zip(&mut seen).find(|(node, _)| named(node)) else {
            return cursor.skip(depth + 1).map(drop);
        };
        if std::mem::replace(seen, true) {
            return Err(ScanError::Duplicate(key.start()));
        }
        if node.header.is_none() && cursor.peek()? == b'{' {
            return enter(cursor, text, depth + 1, &node.children, found);
        }
        let (span, kind) = cursor.skip(depth + 1)?;
        if let Some(slot) = node.header.and_then(|header| found.get_mut(header)) {
            *slot = (kind != Kind::Null).then(|| (span.of(text), kind));
        }
        Ok(())
    })
}

/// The header value for an argument; objects and arrays have none.
fn mirrored((raw, kind): (&[u8], Kind)) -> Option<String> {
    match kind {
        Kind::String => {
            let value: String = serde_json::from_slice(raw).ok()?;
            Some(header::encode(&value).into_owned())
        }
        Kind::Number => Some(integer(raw).unwrap_or_else(|| String::from_utf8_lossy(raw).into_owned())),
        Kind::Bool => Some(String::from_utf8_lossy(raw).into_owned()),
        Kind::Null | Kind::Object | Kind::Array => None,
    }
}

/// A whole number written another way (`42.0`, `1e2`) in plain digits, within the range where that is exact.
fn integer(raw: &[u8]) -> Option<String> {
    const EXACT: f64 = 9_007_199_254_740_991.0;
    if raw.iter().all(|byte| matches!(byte, b'-' | b'0'..=b'9')) {
        return None;
    }
    let number: f64 = serde_json::from_slice(raw).ok()?;
    (number.fract() == 0.0 && number.abs() <= EXACT).then(|| format!("{number:.0}"))
}

fn is_param(name: &str, suffix: &str) -> bool {
    name.strip_prefix(header::PARAM_PREFIX).is_some_and(|own| own.eq_ignore_ascii_case(suffix))
}

/// Quick test before parsing: the annotation is not there, not even spelled with escapes.
fn may_annotate(json: &[u8]) -> bool {
    memmem::find(json, schema::ANNOTATION.as_bytes()).is_some() || memmem::find(json, b"\\u").is_some()
}
