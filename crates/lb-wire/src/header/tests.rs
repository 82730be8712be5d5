use proptest::prelude::*;
use serde_json::{Value, json};

use super::{HeaderError, decode, encode, matches};

#[test]
fn values_as_they_travel() {
    for (text, want) in [
        ("get_weather", "get_weather"),
        ("two words\tand a tab", "two words\tand a tab"),
        ("", ""),
        (" lead", "=?base64?IGxlYWQ=?="),
        ("trail\t", "=?base64?dHJhaWwJ?="),
        ("é", "=?base64?w6k=?="),
        ("a\nb", "=?base64?YQpi?="),
        ("\0", "=?base64?AA==?="),
        ("\u{7f}", "=?base64?fw==?="),
        ("=?base64?SGVsbG8=?=", "=?base64?PT9iYXNlNjQ/U0dWc2JHOD0/PQ==?="),
        ("=?base64??=", "=?base64?PT9iYXNlNjQ/Pz0=?="),
        ("=?base64?=", "=?base64?="),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
        ("SGVsbG8=", "SGVsbG8="),
    ] {
        assert_eq!(encode(text), want, "text {text:?}");
        assert_eq!(decode(want.as_bytes()).as_deref(), Ok(text), "value {want:?}");
    }
}

#[test]
fn values_that_are_refused_or_trimmed() {
    let table: &[(&[u8], Result<&str, HeaderError>)] = &[
        (b"  padded  ", Ok("padded")),
        (b"\t =?base64?SGVsbG8=?= ", Ok("Hello")),
        (b"=?base64??=", Ok("")),
        (b"=?base64?SGVsbG8?=", Err(HeaderError::Base64)),
        (b"=?base64?SGVs!!!bG8=?=", Err(HeaderError::Base64)),
        (b"=?base64?SGVsbG9=?=", Err(HeaderError::Base64)),
        (b"=?base64?SGVs bG8=?=", Err(HeaderError::Base64)),
        (b"=?base64?_-8=?=", Err(HeaderError::Base64)),
        (b"=?base64?/w==?=", Err(HeaderError::Utf8)),
        ("é".as_bytes(), Err(HeaderError::Byte(0xC3))),
        (b"a\x00b", Err(HeaderError::Byte(0))),
        (b"a\x7fb", Err(HeaderError::Byte(0x7f))),
        (b"   ", Ok("")),
    ];
    for (value, want) in table {
        assert_eq!(decode(value).as_deref(), want.as_ref().copied(), "value {:?}", String::from_utf8_lossy(value));
    }
}

#[test]
fn header_against_body() {
    for (header, body, want) in [
        ("Hello", r#""Hello""#, true),
        ("=?base64?SGVsbG8=?=", r#""Hello""#, true),
        ("=?base64?SGVsbG8?=", r#""Hello""#, false),
        ("=?base64?SGVs!!!bG8=?=", r#""Hello""#, false),
        ("SGVsbG8=", r#""SGVsbG8=""#, true),
        ("=?base64?SGVsbG8=", r#""=?base64?SGVsbG8=""#, true),
        ("hello", r#""Hello""#, false),
        (" Hello ", r#""Hello""#, true),
        ("Hello", r#""\u0048ello""#, true),
        (r"\u0048ello", r#""\u0048ello""#, false),
        (r"a\b", r#""a\\b""#, true),
        ("=?base64?w6k=?=", r#""é""#, true),
        ("=?base64?w6k=?=", r#""\u00e9""#, true),
        ("é", r#""é""#, false),
        ("=?base64?8J+YgA==?=", r#""\ud83d\ude00""#, true),
        ("=?base64?77+9?=", r#""\ud800""#, false),
        ("", r#""""#, true),
        ("", r#"""#, false),
        ("42", "42", true),
        ("42.0", "42", true),
        ("42", "42.0", true),
        ("4.2e1", "42", true),
        ("420e-1", "42", true),
        ("42", "43", false),
        ("042", "42", false),
        ("+42", "42", false),
        ("42.", "42", false),
        ("0x2a", "42", false),
        ("-0", "0", true),
        ("0e5", "0.000", true),
        ("-1", "1", false),
        ("0.05", "0.5", false),
        ("50e-3", "0.05", true),
        ("0.00120", "12E-4", true),
        ("9007199254740993", "9007199254740993", true),
        ("9007199254740992", "9007199254740993", false),
        ("1e999999999", "1e999999999", true),
        ("1e9999999999", "1e9999999999", false),
        ("42", r#""42""#, true),
        ("true", "true", true),
        ("false", "true", false),
        ("True", "true", false),
        ("1", "true", false),
        ("true", r#""true""#, true),
        ("null", "null", false),
        ("{}", "{}", false),
        ("[]", "[]", false),
        ("", "", false),
    ] {
        assert_eq!(matches(header.as_bytes(), body.as_bytes()), want, "header {header:?}, body {body}");
    }
}

/// Scalars with their equals and near misses.
fn scalars() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<String>().prop_map(Value::from),
        "[ -~]{0,6}".prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-50i64..50).prop_map(Value::from),
        (-50i64..50).prop_map(|n| json!(n as f64 / 4.0)),
        any::<bool>().prop_map(Value::from),
    ]
}

/// The text a client mirrors for a scalar.
fn mirrored(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

proptest! {
    #[test]
    fn the_codec_round_trips_and_stays_clean(text in any::<String>()) {
        let value = encode(&text);
        prop_assert!(value.bytes().all(|b| b == b'\t' || (b' '..=b'~').contains(&b)), "{value:?}");
        prop_assert_eq!(value.trim(), &*value);
        let back = decode(value.as_bytes());
        prop_assert_eq!(back.as_deref(), Ok(text.as_str()));
    }

    #[test]
    fn decode_never_panics(value in prop::collection::vec(any::<u8>(), 0..40), body in prop::collection::vec(any::<u8>(), 0..20)) {
        let text = decode(&value).map(|text| text.into_owned());
        if let Ok(text) = text {
            let body = serde_json::to_vec(&text).expect("a string");
            prop_assert!(matches(&value, &body));
        }
        prop_assert!(!matches(&value, &body) || decode(&value).is_ok());
    }

    #[test]
    fn matching_agrees_with_serde(left in scalars(), right in scalars()) {
        let header = encode(&mirrored(&left)).into_owned();
        prop_assert!(matches(header.as_bytes(), left.to_string().as_bytes()), "{header:?} against itself");
        let equal = match (&right, mirrored(&left)) {
            (Value::Number(number), text) => serde_json::from_str::<serde_json::Number>(&text).is_ok_and(|other| {
                number.as_i64().zip(other.as_i64()).map_or_else(|| number.as_f64() == other.as_f64(), |(a, b)| a == b)
            }),
            (_, text) => mirrored(&right) == text,
        };
        prop_assert_eq!(matches(header.as_bytes(), right.to_string().as_bytes()), equal, "{} against {}", header, right);
    }

    #[test]
    fn numbers_compare_by_value(digits in "-?(0|[1-9][0-9]{0,8})", fraction in "0{0,4}", shift in 0i32..6) {
        let shifted = format!("{digits}{}e-{shift}", "0".repeat(shift as usize));
        let pointed = if fraction.is_empty() { digits.clone() } else { format!("{digits}.{fraction}") };
        // `0` followed by zeros is no JSON number.
        if digits.trim_start_matches('-') != "0" || shift == 0 {
            prop_assert!(matches(shifted.as_bytes(), digits.as_bytes()), "{shifted} and {digits}");
        }
        prop_assert!(matches(digits.as_bytes(), pointed.as_bytes()), "{digits} and {pointed}");
    }
}
