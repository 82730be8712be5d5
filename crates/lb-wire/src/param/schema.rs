//! Finds and judges the `x-mcp-header` annotations of an input schema.

use serde_json::{Map, Value};

use super::{Node, ParamIndex};
use crate::header;

pub(super) const ANNOTATION: &str = "x-mcp-header";

/// Keywords whose value is a schema or a list of schemas that does not lie on a chain of `properties`.
const SCHEMAS: &[&str] = &[
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "oneOf",
    "anyOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "contentSchema",
];

/// Keywords whose value maps names to such schemas. `$ref` leads into these.
const SCHEMA_MAPS: &[&str] = &["$defs", "definitions", "dependentSchemas", "dependencies", "patternProperties"];

/// Why a tool's annotations cannot be used. Properties are named by their dotted path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationError {
    /// The header name is not a non-empty token of RFC 9110.
    #[error("{ANNOTATION} of property {0} is not a header token")]
    Token(String),
    /// Two properties name the same header; case does not tell them apart.
    #[error("{ANNOTATION} of property {0} is already taken")]
    Taken(String),
    /// The property is not of type string, integer or boolean.
    #[error("{ANNOTATION} on property {0}, which is not a string, integer or boolean")]
    Type(String),
    /// Not on a property that `properties` alone lead to.
    #[error("{ANNOTATION} under {0}, where no argument can be told")]
    Place(String),
    /// The schema is nested too deeply to be read.
    #[error("input schema cannot be read")]
    Schema,
}

/// The index of a schema, empty when it has no annotation.
pub(super) fn index(input_schema: &[u8]) -> Result<ParamIndex, AnnotationError> {
    let schema: Value = serde_json::from_slice(input_schema).map_err(|_| AnnotationError::Schema)?;
    let mut index = ParamIndex::default();
    let Value::Object(root) = &schema else { return Ok(index) };
    if root.contains_key(ANNOTATION) {
        return Err(AnnotationError::Place("the root".to_owned()));
    }
    index.roots = nodes(root, &mut Vec::new(), &mut index.headers)?;
    Ok(index)
}

/// The nodes below an object schema that lead to an annotation. Refuses annotations elsewhere in it.
fn nodes<'a>(
    schema: &'a Map<String, Value>,
    path: &mut Vec<&'a str>,
    headers: &mut Vec<Box<str>>,
) -> Result<Vec<Node>, AnnotationError> {
    refuse_elsewhere(schema)?;
    let mut nodes = Vec::new();
    for (key, property) in properties(schema) {
        path.push(key);
        let header = match property.get(ANNOTATION) {
            None => None,
            Some(name) => Some(annotation(name, property, path, headers)?),
        };
        let children = self::nodes(property, path, headers)?;
        if header.is_some() || !children.is_empty() {
            nodes.push(Node { key: key.as_str().into(), header, children });
        }
        path.pop();
    }
    Ok(nodes)
}

fn properties(schema: &Map<String, Value>) -> impl Iterator<Item = (&String, &Map<String, Value>)> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().filter_map(|(key, value)| Some((key, value.as_object()?)))
}

/// Judges one annotation and gives it its place among the headers.
fn annotation(
    name: &Value,
    property: &Map<String, Value>,
    path: &[&str],
    headers: &mut Vec<Box<str>>,
) -> Result<usize, AnnotationError> {
    let name = name.as_str().filter(|name| is_token(name)).ok_or_else(|| AnnotationError::Token(path.join(".")))?;
    if !matches!(property.get("type").and_then(Value::as_str), Some("string" | "integer" | "boolean")) {
        return Err(AnnotationError::Type(path.join(".")));
    }
    let header = format!("{}{}", header::PARAM_PREFIX, name.to_ascii_lowercase()).into_boxed_str();
    if headers.contains(&header) {
        return Err(AnnotationError::Taken(path.join(".")));
    }
    headers.push(header);
    Ok(headers.len() - 1)
}

fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// Errs if an annotation stands in a subschema of `schema` other than its properties.
fn refuse_elsewhere(schema: &Map<String, Value>) -> Result<(), AnnotationError> {
    match subschemas(schema).find(|(_, inner)| is_annotated(inner)) {
        Some((keyword, _)) => Err(AnnotationError::Place(keyword.to_owned())),
        None => Ok(()),
    }
}

/// The subschemas of a schema except its properties, each with the keyword it stands under.
fn subschemas(schema: &Map<String, Value>) -> impl Iterator<Item = (&str, &Map<String, Value>)> {
    schema.iter().flat_map(|(keyword, value)| {
        let single = SCHEMAS.contains(&keyword.as_str()).then_some(value);
        let map = SCHEMA_MAPS.contains(&keyword.as_str()).then(|| value.as_object()).flatten();
        let list = single.and_then(Value::as_array);
        let all = single.into_iter().chain(list.into_iter().flatten()).chain(map.into_iter().flat_map(Map::values));
        all.filter_map(move |value| Some((keyword.as_str(), value.as_object()?)))
    })
}

/// Whether a schema or anything in it is annotated. The nesting is bounded by the JSON reader.
fn is_annotated(schema: &Map<String, Value>) -> bool {
    schema.contains_key(ANNOTATION)
        || properties(schema).any(|(_, inner)| is_annotated(inner))
        || subschemas(schema).any(|(_, inner)| is_annotated(inner))
}
