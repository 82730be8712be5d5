//! What a server may ask the user through a model, and what fits as an answer.

use jsonschema::PatternOptions;
use lb_wire::Raw;
use serde_json::Value;

/// Memory that one compiled pattern of a server's schema may take.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// Problems that are told at once.
const PROBLEMS_MAX: usize = 5;

/// Checks the values of a form. A schema that cannot be used says nothing, and the server will check for itself.
///
/// # Errors
/// What does not fit, in words.
pub(crate) fn check(schema: &Raw, content: &Raw) -> Result<(), String> {
    let Ok(content) = content.read::<Value>() else { return Err("it is no JSON object".into()) };
    let Ok(schema) = schema.read::<Value>() else { return Ok(()) };
    let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES_MAX);
    let options = jsonschema::options().with_pattern_options(patterns).should_validate_formats(true);
    let Ok(validator) = options.build(&schema) else { return Ok(()) };
    let problems: Vec<String> = validator.iter_errors(&content).take(PROBLEMS_MAX).map(|error| told(&error)).collect();
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

fn told(error: &jsonschema::ValidationError<'_>) -> String {
    let path = error.instance_path().to_string();
    match path.strip_prefix('/') {
        Some(field) => format!("'{field}': {error}"),
        None => error.to_string(),
    }
}

/// Whether a model must not be given this question: a form that asks for something secret, or a link that is not safe
/// to open. A model remembers what passes through it, and so does its provider.
pub(crate) fn is_unsafe(params: &Raw) -> bool {
    let mode = params.member("mode");
    if mode.as_ref().and_then(Raw::to_text).as_deref() == Some("url") {
        let url = params.member("url");
        return !url.as_ref().and_then(Raw::to_text).is_some_and(|url| is_safe_link(&url));
    }
    let Some(schema) = params.member("requestedSchema").and_then(|raw| raw.read::<Value>().ok()) else { return false };
    let Some(fields) = schema.get("properties").and_then(Value::as_object) else { return false };
    fields.iter().any(|(name, field)| asks_for_secret(name, field))
}

fn is_safe_link(url: &str) -> bool {
    let loopback = ["http://127.0.0.1", "http://localhost", "http://[::1]"];
    let after_host = |rest: &str| rest.is_empty() || rest.starts_with([':', '/', '?']);
    lb_exchange::check_url(url).is_ok()
        && (url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"))
            || loopback.iter().any(|start| url.strip_prefix(start).is_some_and(after_host)))
}

/// A choice between given values holds no secret, and a number only what its name says.
fn asks_for_secret(name: &str, field: &Value) -> bool {
    let text = |key: &str| field.get(key).and_then(Value::as_str).unwrap_or_default();
    let named = || names_secret(&words(name)) || names_secret(&words(text("title")));
    match text("type") {
        "boolean" => false,
        _ if field.get("enum").is_some() || field.get("oneOf").is_some() => false,
        "number" | "integer" => named(),
        _ => text("format") == "password" || named() || speaks_of_secret(&words(text("description"))),
    }
}

/// A name or a title that is one of a secret.
fn names_secret(words: &[String]) -> bool {
    const ALONE: [&str; 12] =
        ["pwd", "secret", "secrets", "credential", "credentials", "cvv", "cvc", "ssn", "otp", "pin", "iban", "apikey"];
    let last_is_token = words.last().is_some_and(|word| word == "token");
    last_is_token || words.iter().any(|word| ALONE.contains(&word.as_str())) || speaks_of_secret(words)
}

/// Words that hardly stand in a description for another reason.
fn speaks_of_secret(words: &[String]) -> bool {
    const ALONE: [&str; 6] = ["password", "passwords", "passwd", "passphrase", "passcode", "apikey"];
    const PAIRS: [(&str, &str); 10] = [
        ("api", "key"),
        ("access", "key"),
        ("access", "token"),
        ("private", "key"),
        ("secret", "key"),
        ("credit", "card"),
        ("card", "number"),
        ("security", "code"),
        ("social", "security"),
        ("recovery", "phrase"),
    ];
    let pair = |pair: &[String]| matches!(pair, [a, b] if PAIRS.contains(&(a.as_str(), b.as_str())));
    words.iter().any(|word| ALONE.contains(&word.as_str())) || words.windows(2).any(pair)
}

/// The words of a name in any of the usual spellings, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let mut before_lower = false;
    for c in name.chars() {
        let starts = !c.is_alphanumeric() || (c.is_uppercase() && before_lower);
        if starts {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        before_lower = c.is_lowercase() || c.is_ascii_digit();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests;
