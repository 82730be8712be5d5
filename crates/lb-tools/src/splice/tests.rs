use proptest::prelude::*;

use super::*;

fn raw(text: &'static str) -> Raw {
    Raw::from_static(text)
}

#[test]
fn the_context_is_the_last_block_or_stands_in_meta() {
    let context = raw(r#"{"n":1}"#);
    let block = r#"{"type":"text","text":"{\"n\":1}"}"#;
    for (result, want) in [
        (r#"{"content":[]}"#, format!(r#"{{"content":[{block}]}}"#)),
        (r#"{"content":[ ] }"#, format!(r#"{{"content":[ {block}] }}"#)),
        (
            r#"{"x":1.0,"content":[{"a":"]"} , 3 ],"y":[2]}"#,
            format!(r#"{{"x":1.0,"content":[{{"a":"]"}} , 3 ,{block}],"y":[2]}}"#),
        ),
        (r#"{"c\u006fntent":[1]}"#, format!(r#"{{"c\u006fntent":[1,{block}]}}"#)),
        ("{}", r#"{"_meta":{"landbridge/context":{"n":1}}}"#.into()),
        (r#"{ "a":1}"#, r#"{"_meta":{"landbridge/context":{"n":1}}, "a":1}"#.into()),
        (r#"{"content":"text"}"#, r#"{"_meta":{"landbridge/context":{"n":1}},"content":"text"}"#.into()),
        (r#"{"content":null,"_meta":{}}"#, r#"{"content":null,"_meta":{"landbridge/context":{"n":1}}}"#.into()),
        (r#"{"_meta":{"a":1.50}}"#, r#"{"_meta":{"landbridge/context":{"n":1},"a":1.50}}"#.into()),
    ] {
        assert_eq!(add_context(&raw(result), &context).unwrap().as_str(), want, "result {result}");
    }
    for result in ["3", "null", "[1]", r#"{"_meta":7}"#] {
        assert!(add_context(&raw(result), &context).is_none(), "result {result}");
    }
}

#[test]
fn a_sentence_comes_first() {
    let block = raw("0");
    for (result, want) in [
        (r#"{"content":[1, 2]}"#, Some(r#"{"content":[0,1, 2]}"#)),
        (r#"{"content":[]}"#, Some(r#"{"content":[0]}"#)),
        ("{}", None),
    ] {
        assert_eq!(unshift_block(&raw(result), &block).as_ref().map(Raw::as_str), want, "result {result}");
    }
}

#[test]
fn elements_are_as_written() {
    let found = elements(&raw(r#"[1.0, {"a": [2]} ,"x"]"#));
    assert_eq!(found.iter().map(Raw::as_str).collect::<Vec<_>>(), ["1.0", r#"{"a": [2]}"#, r#""x""#]);
    assert!(elements(&raw("{}")).is_empty());
}

/// JSON values of any shape, with the spellings that a reader would lose.
fn any_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("1.50".to_owned()),
        Just("-0".to_owned()),
        Just("1e400".to_owned()),
        Just("null".to_owned()),
        Just(r#""a\/\u0041\"]},""#.to_owned()),
        "[a-z ]{0,8}".prop_map(|text| format!("\"{text}\"")),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[ {} ]", items.join(" , "))),
            prop::collection::vec(inner, 0..4).prop_map(|items| {
                let members: Vec<_> = items.iter().enumerate().map(|(n, item)| format!("\"k{n}\" : {item}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

proptest! {
    /// Cutting the block out again gives the bytes that the server wrote.
    #[test]
    fn every_other_byte_stays(items in prop::collection::vec(any_json(), 0..4), other in any_json()) {
        let text = format!(r#"{{"a":{other}, "content" :[{}],"z":{other}}}"#, items.join(","));
        let result = Raw::parse(text.clone().into()).unwrap();
        let context = raw(r#"{"events_remaining":3}"#);
        let done = add_context(&result, &context).unwrap();
        let block = text_block(context.as_str());
        let added = if items.is_empty() { block.as_str().to_owned() } else { format!(",{}", block.as_str()) };
        prop_assert_eq!(done.as_str().len(), text.len() + added.len());
        let at = done.as_str().rfind(&added).unwrap();
        let mut cut = done.as_str().to_owned();
        cut.replace_range(at..at + added.len(), "");
        prop_assert_eq!(cut, text);
    }
}
