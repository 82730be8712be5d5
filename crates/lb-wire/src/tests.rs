use bytes::Bytes;
use proptest::prelude::*;

use super::*;

fn scan(text: &str) -> Result<Message, MessageError> {
    Message::scan(Bytes::copy_from_slice(text.as_bytes()))
}

#[test]
fn a_request_gives_its_parts_as_written() {
    let m = scan(r#" {"params":{"name":"a\/b","_meta":{"progressToken": 1e400}},"method":"tools\/call","id" : "x\u0041","jsonrpc":"2.0"} "#)
        .unwrap();
    assert_eq!(m.shape(), Shape::Request);
    assert_eq!(m.method(), "tools/call");
    assert_eq!(m.id().unwrap().as_bytes(), br#""x\u0041""#);
    assert_eq!(m.member("name").unwrap().as_str(), r#""a\/b""#);
    assert_eq!(m.member("name").unwrap().to_text().unwrap(), "a/b");
    assert_eq!(m.meta("progressToken").unwrap().as_str(), "1e400");
}

#[test]
fn shapes_and_refusals() {
    let cases: &[(&str, Result<Shape, &str>)] = &[
        (r#"{"jsonrpc":"2.0","method":"x"}"#, Ok(Shape::Notification)),
        (r#"{"jsonrpc":"2.0","id":1,"result":[]}"#, Ok(Shape::Result)),
        (r#"{"jsonrpc":"2.0","id":null,"error":{"code":1}}"#, Ok(Shape::Error)),
        (r#"{"jsonrpc":"2.0","error":{"code":1}}"#, Ok(Shape::Error)),
        (r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, Err("id")),
        (r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#, Err("id")),
        (r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#, Err("jsonrpc")),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","result":1}"#, Err("mixes")),
        (r#"{"jsonrpc":"2.0","id":1,"method":3}"#, Err("method")),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}"#, Err("params")),
        (r#"{"jsonrpc":"2.0","id":1}"#, Err("neither")),
        (r#"[1]"#, Err("object")),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","m\u0065thod":"y"}"#, Err("duplicate")),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"name":1,"name":2}}"#, Err("duplicate")),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"a":1,"\u0061":2}}}"#, Err("duplicate")),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"arguments":{"a":1,"a":2}}}"#, Ok(Shape::Request)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x"} x"#, Err("not JSON")),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x""#, Err("ends early")),
    ];
    for (text, want) in cases {
        match (scan(text), want) {
            (Ok(m), Ok(shape)) => assert_eq!(m.shape(), *shape, "input {text}"),
            (Err(e), Err(part)) => assert!(e.to_string().contains(part), "input {text}: {e}"),
            (got, want) => panic!("input {text}: {got:?}, wanted {want:?}"),
        }
    }
}

#[test]
fn many_members_with_one_duplicate_are_refused_and_without_are_not() {
    let body = |last: &str| {
        let members: String = (0..500).map(|n| format!("\"k{n}\":{n},")).collect();
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{{members}"{last}":0}}}}"#)
    };
    assert!(scan(&body("other")).is_ok());
    assert!(matches!(scan(&body("k77")), Err(MessageError::Scan(ScanError::Duplicate(_)))));
}

#[test]
fn depth_is_bounded_at_256() {
    let nested = |depth: usize| Bytes::from("[".repeat(depth) + &"]".repeat(depth));
    assert!(Raw::parse(nested(256)).is_ok());
    assert_eq!(Raw::parse(nested(257)).err(), Some(ScanError::Depth));
    assert_eq!(Raw::parse(Bytes::from("[".repeat(2_000_000))).err(), Some(ScanError::Depth));
}

#[test]
fn a_smuggled_line_break_cannot_survive_in_a_line() {
    let text = "{\"x\":\n{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/call\"}\r\n}";
    let line = Raw::parse(Bytes::from_static(text.as_bytes())).unwrap().into_line();
    assert_eq!(line.as_bytes(), text.replace(['\r', '\n'], " ").as_bytes());
}

#[test]
fn splices_touch_nothing_else() {
    let m = scan(r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{ "a" : 1 ,"_meta":{"progressToken":"t", "z":0}}}"#)
        .unwrap();
    let at = m.meta_span_in_body("progressToken").unwrap();
    let out = splice::Splice::new(m.body().unwrap()).replace(at, &Raw::from_static("7")).insert(
        0,
        false,
        "n",
        &Raw::from_static("[]"),
    );
    assert_eq!(out.apply().as_str(), r#"{"n":[], "a" : 1 ,"_meta":{"progressToken":7, "z":0}}"#);
}

#[test]
fn batches_split_into_their_members() {
    let parts = Message::batch(&Bytes::from_static(b" [ {\"a\":1} , 2,[]]")).unwrap().unwrap();
    assert_eq!(parts, [&b"{\"a\":1}"[..], b"2", b"[]"]);
    assert_eq!(Message::batch(&Bytes::from_static(b"{}")).unwrap(), None);
    assert_eq!(Message::batch(&Bytes::from_static(b"[]")).unwrap(), Some(vec![]));
}

#[test]
fn numbers_of_ours_are_read_back_only_in_our_own_spelling() {
    for (text, want) in [("7", Some(7)), ("0", Some(0)), ("70", Some(70)), ("7.0", None), ("\"7\"", None), ("-1", None)]
    {
        let id = Id::from_raw(&Raw::from_static(text)).unwrap();
        assert_eq!(id.to_number(), want, "input {text}");
    }
}

fn json() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("-0".to_owned()),
        Just("1e400".to_owned()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(|n| n.to_string()),
        ".{0,80}".prop_map(|s| serde_json::to_string(&s).unwrap()),
    ];
    scalar.prop_recursive(6, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(|v| format!("[{}]", v.join(" ,\n"))),
            prop::collection::vec(("[a-z]{0,4}", inner), 0..6).prop_map(|v| {
                let members: Vec<_> = v.into_iter().map(|(k, v)| format!("\"{k}\" :{v}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn the_scan_agrees_with_serde_json_on_valid_and_damaged_text(
        text in json(), cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4)
    ) {
        let mut bytes = text.into_bytes();
        for (at, byte) in cuts {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let oracle = serde_json::from_slice::<&serde_json::value::RawValue>(&bytes);
        let ours = Raw::parse(Bytes::copy_from_slice(&bytes));
        prop_assert_eq!(ours.is_ok(), oracle.is_ok(), "text {:?}", String::from_utf8_lossy(&bytes));
        if let (Ok(ours), Ok(oracle)) = (ours, oracle) {
            prop_assert_eq!(ours.as_bytes(), oracle.get().as_bytes());
        }
    }

    #[test]
    fn unescape_agrees_with_serde_json(text in ".*") {
        let written: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        prop_assert_eq!(text::unescape(written.as_bytes()), text.as_bytes());
    }
}
