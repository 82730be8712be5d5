//! Questions that nobody is asked on behalf of a server: whoever gets one takes it for ours.

use lb_wire::{Raw, splice};
use serde_json::Value;

/// Whether nobody is to be asked this: a form that asks for something secret, or a link that is not safe to open. A model
/// remembers what passes through it, and so does its provider; a person cannot see who will read the answer. A link to
/// this machine is for servers that are on it.
pub fn is_unsafe(params: &Raw, from_here: bool) -> bool {
    if let Some(url) = link(params) {
        return !is_safe_link(&url, from_here);
    }
    let Some(schema) = params.member("requestedSchema").and_then(|raw| raw.read::<Value>().ok()) else { return false };
    let Some(fields) = schema.get("properties").and_then(Value::as_object) else { return false };
    fields.iter().any(|(name, field)| asks_for_secret(name, field))
}

/// Who asks, and for a link where it leads to, before what the server says: a person sees a question as that of the client.
pub fn shown(server: &str, params: &Raw) -> Raw {
    let said = params.member("message");
    let said = said.as_ref().and_then(Raw::to_text).unwrap_or_default();
    let text = match link(params).as_deref().map(host) {
        Some(host) => format!("Server '{server}' asks you to open a page at {host}: {said}"),
        None => format!("Server '{server}' asks: {said}"),
    };
    let message = ("message", Raw::string(&text));
    match params.member("message") {
        Some(_) => splice::replace(params, "message", &message.1),
        None => splice::with(params, &[message]),
    }
}

/// The link of a question that is one; empty if it has none.
fn link(params: &Raw) -> Option<String> {
    let mode = params.member("mode");
    (mode.as_ref().and_then(Raw::to_text).as_deref() == Some("url")).then(|| {
        let url = params.member("url");
        url.as_ref().and_then(Raw::to_text).unwrap_or_default().into_owned()
    })
}

fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

fn is_safe_link(url: &str, from_here: bool) -> bool {
    let loopback = ["http://127.0.0.1", "http://localhost", "http://[::1]"];
    let after_host = |rest: &str| rest.is_empty() || rest.starts_with([':', '/', '?']);
    lb_exchange::check_url(url).is_ok()
        && (url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"))
            || from_here && loopback.iter().any(|start| url.strip_prefix(start).is_some_and(after_host)))
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
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::parse(text.to_owned().into()).unwrap()
    }

    #[test]
    fn nobody_is_asked_for_secrets() {
        let form = |name: &str, field: &str| {
            raw(&format!(
                r#"{{"message":"m","requestedSchema":{{"type":"object","properties":{{"{name}":{field}}}}}}}"#
            ))
        };
        for (name, field, want) in [
            ("password", r#"{"type":"string"}"#, true),
            ("userPassword", r#"{"type":"string"}"#, true),
            ("api_key", r#"{"type":"string"}"#, true),
            ("apiKey", r#"{"type":"string"}"#, true),
            ("github_token", r#"{"type":"string"}"#, true),
            ("client-secret", r#"{"type":"string"}"#, true),
            ("value", r#"{"type":"string","title":"Passphrase"}"#, true),
            ("value", r#"{"type":"string","description":"Enter your account password"}"#, true),
            ("value", r#"{"type":"string","format":"password"}"#, true),
            ("pin", r#"{"type":"integer"}"#, true),
            ("cvv", r#"{"type":"number"}"#, true),
            ("name", r#"{"type":"string"}"#, false),
            ("max_tokens", r#"{"type":"integer"}"#, false),
            ("tokenizer", r#"{"type":"string"}"#, false),
            ("reset_password", r#"{"type":"boolean"}"#, false),
            ("secret_level", r#"{"type":"string","enum":["low","high"]}"#, false),
            ("spin", r#"{"type":"integer"}"#, false),
            ("keyboard", r#"{"type":"string","description":"Layout of the keys"}"#, false),
        ] {
            assert_eq!(is_unsafe(&form(name, field), true), want, "{name} {field}");
        }
    }

    #[test]
    fn only_safe_links_are_shown() {
        for (url, want) in [
            ("https://example.org/login", false),
            ("HTTPS://example.org/", false),
            ("http://127.0.0.1:8080/x", false),
            ("http://localhost/x", false),
            ("http://example.org/", true),
            ("http://localhost.example.org/", true),
            ("javascript:alert(1)", true),
            ("file:///etc/passwd", true),
            ("https://user@example.org/", true),
        ] {
            let params = raw(&format!(r#"{{"mode":"url","message":"m","url":"{url}"}}"#));
            assert_eq!(is_unsafe(&params, true), want, "{url}");
        }
        assert!(is_unsafe(&raw(r#"{"mode":"url","message":"m"}"#), true));
    }

    #[test]
    fn a_link_to_this_machine_is_for_servers_that_are_on_it() {
        let params = raw(r#"{"mode":"url","message":"m","url":"http://127.0.0.1:1/x"}"#);
        assert!(is_unsafe(&params, false) && !is_unsafe(&params, true));
    }

    #[test]
    fn a_question_says_who_asks_and_where_a_link_leads() {
        for (params, want) in [
            (r#"{"message":"Your name?","x":1}"#, r#"{"message":"Server 'it' asks: Your name?","x":1}"#),
            (r#"{"x":1}"#, r#"{"message":"Server 'it' asks: ","x":1}"#),
            (
                r#"{"mode":"url","message":"m","url":"https://a.example:8/b?c"}"#,
                r#"{"mode":"url","message":"Server 'it' asks you to open a page at a.example:8: m","url":"https://a.example:8/b?c"}"#,
            ),
        ] {
            assert_eq!(shown("it", &raw(params)).as_str(), want);
        }
    }
}
