//! Shapes of JSON, written as JSON.
//!
//! A string names what stands there: `text`, `word` (a text that is not empty), `number`, `flag`, `object`, `list`,
//! `any`, `id` (26 characters of Crockford base32), `time` (RFC 3339, UTC, milliseconds), `=x` (the text x),
//! `a|b` (one of these texts). A list of one shape fits a list of such values; `["+", shape]` must not be empty. An
//! object lists all members there may be; a name that ends in `?` may be absent.

use serde_json::Value;

/// Why a value does not fit a shape; `None` when it does.
#[must_use]
pub fn misfit(shape: &Value, value: &Value) -> Option<String> {
    at("$", shape, value)
}

fn at(path: &str, shape: &Value, value: &Value) -> Option<String> {
    match shape {
        Value::String(name) => (!is(name, value)).then(|| format!("{path} is no {name}: {value}")),
        Value::Array(shapes) => {
            let Some(items) = value.as_array() else { return Some(format!("{path} is no list: {value}")) };
            if shapes.len() == 2 && items.is_empty() {
                return Some(format!("{path} is empty"));
            }
            let shape = shapes.last()?;
            items.iter().enumerate().find_map(|(i, item)| at(&format!("{path}[{i}]"), shape, item))
        }
        Value::Object(members) => {
            let Some(object) = value.as_object() else { return Some(format!("{path} is no object: {value}")) };
            let known = |name: &String| members.contains_key(name) || members.contains_key(&format!("{name}?"));
            if let Some(name) = object.keys().find(|name| !known(name)) {
                return Some(format!("{path}.{name} is not documented: {value}"));
            }
            members.iter().find_map(|(name, shape)| {
                let plain = name.trim_end_matches('?');
                match object.get(plain) {
                    Some(member) => at(&format!("{path}.{plain}"), shape, member),
                    None => (plain == name).then(|| format!("{path}.{plain} is missing: {value}")),
                }
            })
        }
        other => (other != value).then(|| format!("{path} is {value} instead of {other}")),
    }
}

/// What of a value a JSON schema of an object does not allow, as far as types and required members go.
#[must_use]
pub(super) fn breach(schema: &Value, value: &Value) -> Option<String> {
    let Some(members) = value.as_object() else { return Some(format!("no object: {value}")) };
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(missing) = required.into_iter().find(|name| !members.contains_key(*name)) {
        return Some(format!("{missing} is required: {value}"));
    }
    let wrong = |(name, member): (&String, &Value)| {
        let kind = schema["properties"][name]["type"].as_str()?;
        let fits = match kind {
            "string" => member.is_string(),
            "integer" => member.is_i64() || member.is_u64(),
            "number" => member.is_number(),
            "boolean" => member.is_boolean(),
            "array" => member.is_array(),
            _ => member.is_object(),
        };
        (!fits).then(|| format!("{name} is no {kind}: {value}"))
    };
    members.iter().find_map(wrong)
}

fn is(name: &str, value: &Value) -> bool {
    let text = value.as_str();
    match name {
        "any" => true,
        "text" => text.is_some(),
        "word" => text.is_some_and(|text| !text.is_empty()),
        "number" => value.is_number(),
        "flag" => value.is_boolean(),
        "object" => value.is_object(),
        "list" => value.is_array(),
        "id" => text.is_some_and(|text| {
            text.len() == 26 && text.chars().all(|c| "0123456789ABCDEFGHJKMNPQRSTVWXYZ".contains(c))
        }),
        "time" => text.is_some_and(is_time),
        _ => match name.strip_prefix('=') {
            Some(want) => text == Some(want),
            None => text.is_some_and(|text| name.split('|').any(|want| want == text)),
        },
    }
}

/// `2026-01-31T23:59:59.123Z`
fn is_time(text: &str) -> bool {
    let form = "0000-00-00T00:00:00.000Z";
    text.len() == form.len()
        && text.chars().zip(form.chars()).all(|(c, f)| if f == '0' { c.is_ascii_digit() } else { c == f })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn shapes_tell_good_from_bad() {
        let shape =
            json!({ "id": "id", "at?": "time", "state": "on|off", "rows": ["+", { "n": "number" }], "flag": true });
        let good = json!({ "id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "state": "on", "rows": [{ "n": 1 }], "flag": true });
        assert_eq!(misfit(&shape, &good), None);
        for (member, value) in [
            ("id", json!("01ARZ3NDEKTSV4RRFFQ69G5FAI")),
            ("at", json!("2026-01-31T23:59:59Z")),
            ("state", json!("dim")),
            ("rows", json!([])),
            ("rows", json!([{ "n": "1" }])),
            ("flag", json!(false)),
            ("other", json!(1)),
        ] {
            let mut bad = good.clone();
            bad[member] = value;
            assert!(misfit(&shape, &bad).is_some(), "{bad}");
        }
        assert!(misfit(&shape, &json!({})).is_some());
    }
}
