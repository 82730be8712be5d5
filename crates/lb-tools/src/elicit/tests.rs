use super::*;

fn raw(text: &str) -> Raw {
    Raw::parse(text.to_owned().into()).unwrap()
}

#[test]
fn content_must_fit_what_is_asked_for() {
    let schema = raw(r#"{"type":"object","properties":{
            "name":{"type":"string","minLength":2,"pattern":"^[A-Z]"},
            "age":{"type":"integer","minimum":0},
            "mail":{"type":"string","format":"email"},
            "size":{"type":"string","enum":["s","m"]}
        },"required":["name"]}"#);
    for good in [r#"{"name":"Ada"}"#, r#"{"name":"Ada","age":36,"mail":"a@b.org","size":"m"}"#] {
        assert_eq!(check(&schema, &raw(good)), Ok(()), "{good}");
    }
    for (bad, word) in [
        ("{}", "name"),
        (r#"{"name":"A"}"#, "'name'"),
        (r#"{"name":"ada"}"#, "'name'"),
        (r#"{"name":"Ada","age":"x"}"#, "'age'"),
        (r#"{"name":"Ada","age":-1}"#, "'age'"),
        (r#"{"name":"Ada","mail":"x"}"#, "'mail'"),
        (r#"{"name":"Ada","size":"l"}"#, "'size'"),
    ] {
        let problem = check(&schema, &raw(bad)).unwrap_err();
        assert!(problem.contains(word), "{bad}: {problem}");
    }
}

#[test]
fn a_schema_that_cannot_be_used_lets_everything_through() {
    let content = raw(r#"{"a":1}"#);
    for schema in ["3", r#"{"type":"nonsense"}"#, r#"{"$ref":"http://127.0.0.1:1/x"}"#, r#"{"pattern":"(?=x)"}"#] {
        assert_eq!(check(&raw(schema), &content), Ok(()), "{schema}");
    }
}

#[test]
fn a_model_is_not_asked_for_secrets() {
    let form = |name: &str, field: &str| {
        raw(&format!(r#"{{"message":"m","requestedSchema":{{"type":"object","properties":{{"{name}":{field}}}}}}}"#))
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
        assert_eq!(is_unsafe(&form(name, field)), want, "{name} {field}");
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
        assert_eq!(is_unsafe(&params), want, "{url}");
    }
    assert!(is_unsafe(&raw(r#"{"mode":"url","message":"m"}"#)));
}
