//! Values that follow a schema, as far as the schemas of the protocol go.

use serde_json::{Map, Value, json};

/// The definitions of a schema document.
pub fn definitions(schema: &Value) -> &Map<String, Value> {
    let found = schema.get("$defs").or_else(|| schema.get("definitions"));
    found.and_then(Value::as_object).expect("a schema has definitions")
}

/// A value of a definition, with the required members only or with all of them.
pub fn instance(schema: &Value, name: &str, full: bool) -> Value {
    let definition = definitions(schema).get(name).unwrap_or_else(|| panic!("no definition {name}"));
    Sampler { schema, full }.value(definition, 6)
}

struct Sampler<'a> {
    schema: &'a Value,
    full: bool,
}

impl Sampler<'_> {
    /// `depth` bounds definitions that hold themselves.
    fn value(&self, schema: &Value, depth: usize) -> Value {
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            let name = target.rsplit('/').next().unwrap_or_default();
            return self.value(&definitions(self.schema)[name], depth.saturating_sub(1));
        }
        if let Some(fixed) = schema.get("const") {
            return fixed.clone();
        }
        if let Some(all) = schema.get("allOf").and_then(Value::as_array) {
            let mut whole = self.typed(schema, depth);
            for part in all {
                if let (Value::Object(whole), Value::Object(part)) = (&mut whole, self.value(part, depth)) {
                    whole.extend(part);
                }
            }
            return whole;
        }
        let one = ["enum", "anyOf", "oneOf"].iter().find_map(|key| schema.get(key)).and_then(Value::as_array);
        match one.and_then(|one| if self.full { one.last() } else { one.first() }) {
            Some(fixed) if schema.get("enum").is_some() => fixed.clone(),
            Some(choice) => self.value(choice, depth),
            None => self.typed(schema, depth),
        }
    }

    fn typed(&self, schema: &Value, depth: usize) -> Value {
        let kind = match schema.get("type") {
            Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
            other => other.and_then(Value::as_str),
        };
        match kind {
            Some("string") => json!("\"é\\\n\u{1F600}\""),
            Some("integer") => json!(9_007_199_254_740_993_i64),
            Some("number") => json!(0.25),
            Some("boolean") => json!(true),
            Some("null") => Value::Null,
            Some("array") if depth == 0 => json!([]),
            Some("array") => json!([schema.get("items").map_or(Value::Null, |items| self.value(items, depth - 1))]),
            _ => self.object(schema, depth),
        }
    }

    fn object(&self, schema: &Value, depth: usize) -> Value {
        let mut object = Map::new();
        let required: Vec<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if required.contains(&name.as_str()) || (self.full && depth != 0) {
                object.insert(name.clone(), self.value(property, depth.saturating_sub(1)));
            }
        }
        if self.full && schema.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false)) {
            object.insert("x/unknown".into(), json!({ "kept": [1.0, null] }));
        }
        object.into()
    }
}
