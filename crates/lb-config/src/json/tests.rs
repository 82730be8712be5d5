use proptest::prelude::*;
use serde_json::Value as Json;

use super::*;

/// A number without the last digits, which the strict parser rounds its own way.
#[expect(clippy::cast_possible_truncation, reason = "the precision is not wanted")]
fn rough(number: f64) -> Json {
    serde_json::json!(number as f32)
}

/// The tree as the strict parser has it.
fn plain(node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Number(number) => rough(*number),
        Value::String(text) => Json::String(text.clone()),
        Value::Array(elements) => elements.iter().map(plain).collect(),
        Value::Object(members) => {
            Json::Object(members.iter().map(|member| (member.key.clone(), plain(&member.node))).collect())
        }
    }
}

/// The strict parser's value with every number rough.
fn roughly(value: Json) -> Json {
    match value {
        Json::Number(number) => rough(number.as_f64().unwrap()),
        Json::Array(elements) => elements.into_iter().map(roughly).collect(),
        Json::Object(members) => members.into_iter().map(|(key, value)| (key, roughly(value))).collect(),
        other => other,
    }
}

#[test]
fn comments_and_trailing_commas_are_taken() {
    for (text, want) in [
        ("// a\n{ /* b \" */ \"k\" /**/ : [1, 2,], // c\n} // d", r#"{"k":[1.0,2.0]}"#),
        ("[/***/]", "[]"),
        ("{\"url\": \"http://a/*b*/\",}", r#"{"url":"http://a/*b*/"}"#),
        ("\u{FEFF}[]", "[]"),
        ("[] //", "[]"),
        (r#""\u00e4\ud83d\ude00\n\/""#, r#""ä😀\n/""#),
        ("-0.5e+2", "-50.0"),
    ] {
        let document = parse(text).unwrap_or_else(|error| panic!("input {text:?}: {error:?}"));
        assert_eq!(plain(&document.root).to_string(), want, "input {text:?}");
    }
}

#[test]
fn syntax_errors_say_where_and_why() {
    let unexpected = |want, found| Fault::Unexpected { want, found };
    let comma = "\",\" or \"}\"";
    for (text, at, fault) in [
        ("", 0, Fault::End("a value")),
        ("  // x", 6, Fault::End("a value")),
        ("{", 1, Fault::End("a key in double quotes")),
        ("{\"a\"", 4, Fault::End("\":\"")),
        ("[1", 2, Fault::End("\",\" or \"]\"")),
        ("{\"a\":1 \"b\":2}", 7, unexpected(comma, '"')),
        ("{a:1}", 1, unexpected("a key in double quotes", 'a')),
        ("{'a':1}", 1, unexpected("a key in double quotes", '\'')),
        ("{,}", 1, unexpected("a key in double quotes", ',')),
        ("[,]", 1, unexpected("a value", ',')),
        ("[1,,]", 3, unexpected("a value", ',')),
        ("{\"a\":1,,}", 7, unexpected("a key in double quotes", ',')),
        ("tru", 0, unexpected("a value", 't')),
        ("é", 0, unexpected("a value", 'é')),
        ("nullx", 4, Fault::Trailing),
        ("[] []", 3, Fault::Trailing),
        ("[1 /* x", 3, Fault::OpenComment),
        ("[] /*/", 3, Fault::OpenComment),
        ("[] / x", 3, Fault::Trailing),
        ("[\"ab", 1, Fault::OpenString),
        ("\"a\nb\"", 2, Fault::Control),
        (r#""a\x""#, 2, Fault::Escape),
        (r#""\u12g4""#, 1, Fault::Escape),
        (r#""\u123"#, 1, Fault::Escape),
        (r#""\ud800""#, 1, Fault::Surrogate),
        (r#""\ud800\u0041""#, 1, Fault::Surrogate),
        (r#""\ud800\ud800""#, 1, Fault::Surrogate),
        (r#""\ud800\ue000""#, 1, Fault::Surrogate),
        (r#""\ud800\n""#, 1, Fault::Surrogate),
        (r#""\udc00""#, 1, Fault::Surrogate),
        ("01", 1, Fault::Number),
        ("1.", 2, Fault::Number),
        ("1e", 2, Fault::Number),
        ("-", 1, Fault::Number),
        ("1e400", 0, Fault::NumberRange),
    ] {
        let got = parse(text).map(|document| plain(&document.root)).expect_err(text);
        assert_eq!(got, SyntaxError { at, fault }, "input {text:?}");
    }
}

#[test]
fn nesting_has_a_limit() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse(&nested(DEPTH_MAX)).is_ok());
    assert_eq!(parse(&nested(DEPTH_MAX + 1)).unwrap_err(), SyntaxError { at: DEPTH_MAX, fault: Fault::Depth });
    // Far beyond any stack, if the limit were not there.
    assert_eq!(parse(&"[".repeat(1_000_000)).unwrap_err().fault, Fault::Depth);
    assert_eq!(parse(&"{\"a\":".repeat(1_000_000)).unwrap_err().fault, Fault::Depth);
}

#[test]
fn duplicates_are_found_with_their_way() {
    let key = |key: &str| Step::Key(key.into());
    let document = parse(r#"{"a":[{"b":1,"c":2,"\u0062":3}],"a":4,"c":{}}"#).unwrap();
    let want = [
        Duplicate { at: 19, trail: vec![key("a"), Step::Index(0), key("b")] },
        Duplicate { at: 32, trail: vec![key("a")] },
    ];
    assert_eq!(document.duplicates, want);
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        (-1e9..1e9).prop_map(Json::from),
        any::<String>().prop_map(Json::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

/// Pieces that JSON is made of, and some that it is not.
fn near_json() -> impl Strategy<Value = String> {
    const PIECES: [&str; 44] = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ",",
        ":",
        ":",
        "\"",
        "\"a\"",
        "\"b\"",
        "\"\\u00e4\"",
        "\"\\ud83d\\ude00\"",
        "\\",
        "\\u",
        "\\ud800",
        "\"\\n\"",
        "0",
        "1",
        "-",
        "-1",
        "1.5",
        ".",
        "e",
        "E+",
        "1e3",
        "1e999",
        "true",
        "false",
        "null",
        "nul",
        " ",
        "\n",
        "\t",
        "\r",
        "//",
        "/*",
        "*/",
        "/",
        "'",
        "ä",
        "\u{1}",
        "\u{FEFF}",
        "\u{7f}",
    ];
    prop::collection::vec(prop::sample::select(&PIECES[..]), 0..24).prop_map(|pieces| pieces.concat())
}

/// Accepts and refuses what the strict parser does, as far as the text uses nothing of ours.
fn agrees(text: &str) -> Result<(), TestCaseError> {
    let strict = serde_json::from_str::<Json>(text);
    match parse(text) {
        Ok(document) if document.plain => {
            let strict = strict.map_err(|error| TestCaseError::fail(format!("{text:?} refused by: {error}")))?;
            if document.duplicates.is_empty() {
                prop_assert_eq!(plain(&document.root), roughly(strict), "input {:?}", text);
            }
        }
        Ok(_) => prop_assert!(strict.is_err(), "{text:?} is plain JSON"),
        Err(error) => {
            prop_assert!(error.at <= text.len() && text.is_char_boundary(error.at), "{text:?}: {error:?}");
            prop_assert!(strict.is_err() || error.fault == Fault::Depth, "{text:?} refused: {error:?}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn near_json_is_taken_as_the_strict_parser_takes_it(text in near_json()) {
        agrees(&text)?;
    }

    #[test]
    fn a_json_with_one_change_is_taken_as_the_strict_parser_takes_it(
        value in any_json(), at in any::<prop::sample::Index>(), cut in 0..=1usize,
        put in "[\\[\\]{}:,\"\\\\0-9eE.+\\- tfn]?|,|//\n|/\\*\\*/",
    ) {
        let mut text: Vec<char> = value.to_string().chars().collect();
        let at = at.index(text.len());
        text.splice(at..at + cut, put.chars());
        agrees(&text.into_iter().collect::<String>())?;
    }
}

proptest! {
    #[test]
    fn every_json_is_read_as_the_strict_parser_reads_it(value in any_json()) {
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            prop_assert!(parse(&text).is_ok_and(|document| document.plain), "input {text:?}");
            agrees(&text)?;
        }
    }

    #[test]
    fn no_text_panics(text in any::<String>()) {
        agrees(&text)?;
    }
}
