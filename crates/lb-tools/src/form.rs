//! Whether the values of a form fit what a server asks for.
//!
//! The protocol lets a server ask for a flat object of texts, numbers, truth values and choices, and for no other schema;
//! so that is all that is read here. What is not understood says nothing, and the server checks for itself.

use serde_json::{Map, Value};

use crate::pattern;

/// Problems that are told at once.
const PROBLEMS_MAX: usize = 5;

/// Everything that does not fit, in words; empty when all does.
pub(crate) fn problems(schema: &Value, content: &Value) -> Vec<String> {
    let Some(content) = content.as_object() else { return vec!["it must be an object".into()] };
    let empty = Map::new();
    let fields = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let missing = required.filter(|name| !content.contains_key(*name)).map(|name| format!("'{name}' is required"));
    let wrong = content.iter().filter_map(|(name, value)| {
        let field = fields.get(name)?;
        problem(field, value).map(|problem| format!("'{name}' {problem}"))
    });
    missing.chain(wrong).take(PROBLEMS_MAX).collect()
}

/// What is wrong with one value.
fn problem(field: &Value, value: &Value) -> Option<String> {
    let kind = field.get("type").and_then(Value::as_str).unwrap_or_default();
    match (kind, value) {
        ("string", Value::String(text)) => choice(field, value).or_else(|| text_problem(field, text)),
        ("string", _) => Some("must be a text".into()),
        ("integer", value) if !is_whole(value) => Some("must be a whole number".into()),
        ("number", value) if !value.is_number() => Some("must be a number".into()),
        ("integer" | "number", value) => range(field, value.as_f64().unwrap_or_default(), "be", "minimum", "maximum"),
        ("boolean", value) if !value.is_boolean() => Some("must be true or false".into()),
        ("array", Value::Array(items)) => {
            let count = range(field, items.len() as f64, "have a length of", "minItems", "maxItems");
            let one = || items.iter().find_map(|item| problem_of_item(field.get("items"), item));
            count.or_else(one)
        }
        ("array", _) => Some("must be a list".into()),
        _ => choice(field, value),
    }
}

fn problem_of_item(items: Option<&Value>, item: &Value) -> Option<String> {
    if !item.is_string() {
        return Some("must be a list of texts".into());
    }
    items.and_then(|items| choice(items, item))
}

fn is_whole(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

/// A value that is none of those to choose from.
fn choice(field: &Value, value: &Value) -> Option<String> {
    let plain = field.get("enum").and_then(Value::as_array).map(|all| all.iter().collect::<Vec<_>>());
    let titled = || {
        let all = field.get("oneOf").or_else(|| field.get("anyOf")).and_then(Value::as_array)?;
        Some(all.iter().filter_map(|one| one.get("const")).collect::<Vec<_>>())
    };
    let allowed = plain.or_else(titled).filter(|allowed| !allowed.is_empty())?;
    if allowed.contains(&value) {
        return None;
    }
    let shown: Vec<String> = allowed.iter().map(ToString::to_string).collect();
    Some(format!("must be one of {}", shown.join(", ")))
}

fn text_problem(field: &Value, text: &str) -> Option<String> {
    let long = range(field, text.chars().count() as f64, "have a length of", "minLength", "maxLength");
    long.or_else(|| {
        let pattern = field.get("pattern").and_then(Value::as_str)?;
        let pattern = pattern::compile(pattern).ok()?;
        (!pattern.is_match(text)).then(|| format!("must match {}", pattern.as_str()))
    })
    .or_else(|| {
        let format = field.get("format").and_then(Value::as_str)?;
        (!is_format(format, text)).then(|| format!("must be a valid {format}"))
    })
}

fn range(field: &Value, number: f64, must: &str, low: &str, high: &str) -> Option<String> {
    let bound = |name: &str| field.get(name).and_then(Value::as_f64);
    match (bound(low), bound(high)) {
        (Some(least), _) if number < least => Some(format!("must {must} at least {least}")),
        (_, Some(most)) if most < number => Some(format!("must {must} at most {most}")),
        _ => None,
    }
}

/// The formats that the protocol names; others say nothing.
fn is_format(format: &str, text: &str) -> bool {
    match format {
        "email" => text.split_once('@').is_some_and(|(name, host)| {
            let plain = |part: &str| !part.is_empty() && !part.contains(|c: char| c.is_whitespace() || c == '@');
            plain(name) && plain(host) && !host.starts_with('.') && !host.ends_with('.')
        }),
        "uri" => text.split_once(':').is_some_and(|(scheme, rest)| {
            let letters = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
            scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(letters)
                && !rest.is_empty()
                && !text.contains(char::is_whitespace)
        }),
        "date" => is_date(text),
        "date-time" => text.split_once(['T', 't']).is_some_and(|(date, time)| is_date(date) && is_time(time)),
        _ => true,
    }
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    let (Some(year), Some(month), Some(day)) = (digits(year, 4), digits(month, 2), digits(day, 2)) else {
        return false;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

fn is_time(text: &str) -> bool {
    let Some(at) = text.find(['Z', 'z', '+', '-']) else { return false };
    let (clock, zone) = text.split_at(at);
    let zone_is_good = match zone.strip_prefix(['+', '-']) {
        Some(offset) => is_clock(offset, 2),
        None => zone.len() == 1,
    };
    let whole = match clock.split_once('.') {
        Some((whole, part)) if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) => whole,
        Some(_) => return false,
        None => clock,
    };
    zone_is_good && is_clock(whole, 3)
}

/// Two-digit numbers between colons: hours, minutes, and perhaps seconds, which may be a leap second.
fn is_clock(text: &str, parts: usize) -> bool {
    let numbers: Option<Vec<u32>> = text.split(':').map(|part| digits(part, 2)).collect();
    numbers.is_some_and(|numbers| {
        numbers.len() == parts && numbers.iter().zip([23, 59, 60]).all(|(number, most)| *number <= most)
    })
}

fn digits(text: &str, count: usize) -> Option<u32> {
    (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(field: Value, value: Value) -> String {
        problems(&json!({ "type": "object", "properties": { "x": field } }), &json!({ "x": value })).join("; ")
    }

    #[test]
    fn values_fit_their_kind_and_bounds() {
        for (field, good, bad, says) in [
            (json!({"type": "string"}), json!("a"), json!(5), "'x' must be a text"),
            (
                json!({"type": "string", "minLength": 2}),
                json!("ää"),
                json!("ä"),
                "'x' must have a length of at least 2",
            ),
            (
                json!({"type": "string", "maxLength": 2}),
                json!("ää"),
                json!("äää"),
                "'x' must have a length of at most 2",
            ),
            (json!({"type": "string", "pattern": "^a+$"}), json!("aa"), json!("ab"), "'x' must match ^a+$"),
            (json!({"type": "string", "enum": ["a", "b"]}), json!("b"), json!("c"), "'x' must be one of \"a\", \"b\""),
            (
                json!({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}),
                json!("a"),
                json!("A"),
                "'x' must be one of \"a\"",
            ),
            (json!({"type": "integer"}), json!(3.0), json!(3.5), "'x' must be a whole number"),
            (json!({"type": "integer", "minimum": 1}), json!(1), json!(0), "'x' must be at least 1"),
            (json!({"type": "number", "maximum": 1.5}), json!(1.5), json!(1.6), "'x' must be at most 1.5"),
            (json!({"type": "number"}), json!(1), json!("1"), "'x' must be a number"),
            (json!({"type": "boolean"}), json!(false), json!("false"), "'x' must be true or false"),
            (
                json!({"type": "array", "items": {"type": "string", "enum": ["a"]}}),
                json!(["a"]),
                json!(["b"]),
                "'x' must be one of \"a\"",
            ),
            (
                json!({"type": "array", "items": {"anyOf": [{"const": "a"}]}}),
                json!(["a"]),
                json!(["b"]),
                "'x' must be one of \"a\"",
            ),
            (json!({"type": "array", "minItems": 1}), json!(["a"]), json!([]), "'x' must have a length of at least 1"),
            (json!({"type": "array"}), json!([]), json!([1]), "'x' must be a list of texts"),
            (json!({"type": "array"}), json!([]), json!("a"), "'x' must be a list"),
        ] {
            assert_eq!(told(field.clone(), good), "", "{field}");
            assert_eq!(told(field.clone(), bad), says, "{field}");
        }
    }

    #[test]
    fn formats_are_those_of_the_protocol() {
        for (format, good, bad) in [
            ("email", vec!["a@b.example", "a+b@c"], vec!["", "a", "@b", "a@", "a b@c", "a@b@c", "a@.b"]),
            ("uri", vec!["https://a/b", "mailto:x"], vec!["", "a", ":x", "1a:x", "a: x", "https:"]),
            ("date", vec!["2024-02-29", "2026-12-31"], vec!["", "2023-02-29", "2026-13-01", "2026-1-01", "2026-04-31"]),
            (
                "date-time",
                vec!["2026-01-01T00:00:00Z", "2026-01-01t23:59:60.5+01:00"],
                vec![
                    "2026-01-01",
                    "2026-01-01T00:00Z",
                    "2026-01-01T24:00:00Z",
                    "2026-01-01T00:00:00",
                    "2026-01-01T00:00:00.Z",
                ],
            ),
            ("unknown", vec!["anything"], vec![]),
        ] {
            for text in good {
                assert!(is_format(format, text), "{format} {text:?}");
            }
            for text in bad {
                assert!(!is_format(format, text), "{format} {text:?}");
            }
        }
    }

    #[test]
    fn what_is_missing_is_told_and_what_nobody_asked_for_is_not() {
        let schema = json!({ "required": ["a", "b"], "properties": { "a": { "type": "string" } } });
        assert_eq!(problems(&schema, &json!({ "a": "x", "c": 1 })), ["'b' is required"]);
        assert_eq!(problems(&schema, &json!([])), ["it must be an object"]);
        assert_eq!(problems(&json!(3), &json!({ "x": 1 })), [""; 0]);
        assert_eq!(problems(&json!({ "properties": { "x": { "type": "odd" } } }), &json!({ "x": 1 })), [""; 0]);
    }
}
