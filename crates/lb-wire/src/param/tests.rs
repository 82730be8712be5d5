use proptest::prelude::*;
use serde_json::{Value, json};

use super::{AnnotationError, Mismatch, ParamIndex, ToolParams};

type Headers<'a> = &'a [(&'a str, &'a str)];

fn index(schema: &Value) -> Result<Option<ParamIndex>, AnnotationError> {
    ParamIndex::from_schema(schema.to_string().as_bytes())
}

/// A schema with these properties.
fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

/// One tool `t` with a string, an integer, a boolean and a nested string.
fn tools() -> ToolParams {
    let schema = object(json!({
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry-Run"},
        "deep": object(json!({"er": object(json!({"id": {"type": "string", "x-mcp-header": "Id"}}))})),
        "free": {"type": "string"},
    }));
    let list =
        json!({"tools": [{"name": "t", "inputSchema": schema}, {"name": "plain", "inputSchema": object(json!({}))}]});
    let tools = ToolParams::from_tools_list(list.to_string().as_bytes());
    assert!(tools.invalid.is_empty() && tools.tool("plain").is_none());
    tools
}

#[test]
fn annotations_are_judged() {
    let on = |property: Value| object(json!({"a": property}));
    let text = json!({"type": "string", "x-mcp-header": "A"});
    let place = |keyword: &str| Err(AnnotationError::Place(keyword.into()));
    let type_a = || Err(AnnotationError::Type("a".into()));
    let token_a = || Err(AnnotationError::Token("a".into()));
    let table: Vec<(Value, Result<usize, AnnotationError>)> = vec![
        (on(text.clone()), Ok(1)),
        (on(json!({"type": "integer", "x-mcp-header": "a!#$%&'*+-.^_`|~9"})), Ok(1)),
        (on(json!({"type": "boolean", "x-mcp-header": "A"})), Ok(1)),
        (on(json!({"type": "number", "x-mcp-header": "A"})), type_a()),
        (on(json!({"type": "object", "x-mcp-header": "A"})), type_a()),
        (on(json!({"type": ["string", "null"], "x-mcp-header": "A"})), type_a()),
        (on(json!({"$ref": "#/$defs/x", "x-mcp-header": "A"})), type_a()),
        (on(json!({"type": "string", "x-mcp-header": ""})), token_a()),
        (on(json!({"type": "string", "x-mcp-header": "a b"})), token_a()),
        (on(json!({"type": "string", "x-mcp-header": "a\r\nb"})), token_a()),
        (on(json!({"type": "string", "x-mcp-header": "é"})), token_a()),
        (on(json!({"type": "string", "x-mcp-header": 1})), token_a()),
        (
            object(json!({"a": text, "b": object(json!({"c": {"type": "string", "x-mcp-header": "a"}}))})),
            Err(AnnotationError::Taken("b.c".into())),
        ),
        (on(json!({"type": "array", "items": text})), place("items")),
        (on(json!({"type": "array", "prefixItems": [text]})), place("prefixItems")),
        (on(json!({"anyOf": [{"type": "null"}, text]})), place("anyOf")),
        (on(json!({"type": "object", "additionalProperties": text})), place("additionalProperties")),
        (json!({"oneOf": [on(text.clone())]}), place("oneOf")),
        (json!({"allOf": [on(text.clone())]}), place("allOf")),
        (json!({"not": text}), place("not")),
        (json!({"if": on(text.clone())}), place("if")),
        (json!({"then": on(text.clone())}), place("then")),
        (json!({"patternProperties": {"^x": text}}), place("patternProperties")),
        (json!({"$defs": {"x": text}, "properties": {"a": {"$ref": "#/$defs/x"}}}), place("$defs")),
        (json!({"type": "object", "x-mcp-header": "A"}), place("the root")),
        // The word as a property's name, or inside instance data, annotates nothing.
        (on(json!({"type": "object", "default": {"x-mcp-header": "A"}, "enum": [{"x-mcp-header": 1}]})), Ok(0)),
        (object(json!({"x-mcp-header": {"type": "number"}})), Ok(0)),
        (object(json!({"x-mcp-header": {"type": "string", "x-mcp-header": "X"}})), Ok(1)),
        (json!(true), Ok(0)),
        (object(json!({"a": true, "b": text})), Ok(1)),
    ];
    for (schema, want) in table {
        let got = index(&schema).map(|index| index.map_or(0, |index| index.headers.len()));
        assert_eq!(got, want, "schema {schema}");
    }
}

#[test]
fn a_key_spelled_with_escapes_is_found() {
    let schema = br#"{"properties":{"a":{"type":"string","x\u002dmcp-header":"A"}}}"#;
    assert!(ParamIndex::from_schema(schema).expect("valid").is_some());
}

#[test]
fn a_schema_too_deep_to_read_is_not_trusted() {
    let schema = format!(r#"{{"x-mcp-header":{}1{}}}"#, "[".repeat(200), "]".repeat(200));
    assert_eq!(ParamIndex::from_schema(schema.as_bytes()), Err(AnnotationError::Schema));
}

#[test]
fn one_odd_tool_does_not_spoil_the_list() {
    let good = object(json!({"a": {"type": "string", "x-mcp-header": "A"}}));
    let bad = object(json!({"a": {"type": "number", "x-mcp-header": "A"}}));
    let list = json!({"nextCursor": "2", "tools": [
        7, {"name": 1}, {"name": "no schema"},
        {"name": "bad", "inputSchema": bad}, {"name": "good", "inputSchema": good, "icons": [{}]},
    ]});
    let mut tools = ToolParams::from_tools_list(list.to_string().as_bytes());
    assert!(tools.tool("good").is_some() && tools.tool("bad").is_none());
    assert_eq!(tools.invalid, [("bad".to_owned(), AnnotationError::Type("a".into()))]);

    let page = json!({"tools": [{"name": "later", "inputSchema": good}]});
    tools.merge(ToolParams::from_tools_list(page.to_string().as_bytes()));
    assert!(tools.tool("good").is_some() && tools.tool("later").is_some());
    for odd in ["", "[]", "{}", r#"{"tools":"x-mcp-header"}"#, r#"{"tools":[1,"\u0000"]}"#] {
        assert!(ToolParams::from_tools_list(odd.as_bytes()).is_empty(), "result {odd:?}");
    }
}

#[test]
fn headers_and_arguments_must_agree() {
    let missing = |name: &str| Err(Mismatch::Missing(name.into()));
    let unexpected = |name: &str| Err(Mismatch::Unexpected(name.into()));
    let differs = |name: &str| Err(Mismatch::Differs(name.into()));
    let table: Vec<(Option<&str>, Headers, Result<(), Mismatch>)> = vec![
        (None, &[], Ok(())),
        (Some("null"), &[], Ok(())),
        (Some("{}"), &[], Ok(())),
        (Some(r#"{"region":null,"free":"x"}"#), &[("unknown", "1")], Ok(())),
        (Some(r#"{"region":"eu"}"#), &[("region", "eu")], Ok(())),
        (Some(r#"{"region":"eu"}"#), &[("REGION", " eu ")], Ok(())),
        (Some(r#"{"region":"eu"}"#), &[("Region", "=?base64?ZXU=?=")], Ok(())),
        (Some(r#"{"reg\u0069on":"eu"}"#), &[("region", "eu")], Ok(())),
        (Some(r#"{"count":42.0,"dry":true}"#), &[("count", "42"), ("dry-run", "true")], Ok(())),
        (Some(r#"{"deep":{"er":{"id":"x"}}}"#), &[("id", "x")], Ok(())),
        (Some(r#"{"deep":{"er":{"id":"x"}}}"#), &[], missing("mcp-param-id")),
        (Some(r#"{"deep":{"er":7}}"#), &[], Ok(())),
        (Some(r#"{"id":"x"}"#), &[("id", "x")], unexpected("mcp-param-id")),
        (Some(r#"{"region":"eu"}"#), &[], missing("mcp-param-region")),
        (Some(r#"{"region":{}}"#), &[], missing("mcp-param-region")),
        (Some(r#"{"region":{}}"#), &[("region", "{}")], differs("mcp-param-region")),
        (Some(r#"{"region":null}"#), &[("region", "null")], unexpected("mcp-param-region")),
        (None, &[("region", "eu")], unexpected("mcp-param-region")),
        (Some(r#"{"region":"eu"}"#), &[("region", "us")], differs("mcp-param-region")),
        (Some(r#"{"region":"eu"}"#), &[("region", "=?base64?ZXU?=")], differs("mcp-param-region")),
        (
            Some(r#"{"region":"eu"}"#),
            &[("region", "eu"), ("Region", "eu")],
            Err(Mismatch::Repeated("mcp-param-region".into())),
        ),
    ];
    let tools = tools();
    for (arguments, headers, want) in table {
        let sent = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
        let got = tools.check("t", arguments.map(str::as_bytes), sent.clone());
        assert_eq!(got, want, "arguments {arguments:?}, headers {headers:?}");
        assert_eq!(tools.check("plain", arguments.map(str::as_bytes), sent), Ok(()));
    }
}

#[test]
fn an_argument_named_twice_is_refused() {
    // The header was compared with one value while the server acted on the other.
    for arguments in [
        r#"{"region":"eu","region":"us"}"#,
        r#"{"region":null,"region":"eu"}"#,
        r#"{"region":"eu","reg\u0069on":null}"#,
        r#"{"deep":{"er":{"id":"x"}},"region":"eu","deep":{}}"#,
    ] {
        let got = tools().check("t", Some(arguments.as_bytes()), [("region", &b"eu"[..])]);
        assert!(matches!(got, Err(Mismatch::Arguments(_))), "{arguments}: {got:?}");
    }
}

#[test]
fn headers_to_send() {
    let table: &[(Option<&str>, Headers)] = &[
        (None, &[]),
        (Some(r#"{"region":null,"free":"x"}"#), &[]),
        (Some(r#"{"region":"eu","count":7,"dry":false}"#), &[("region", "eu"), ("count", "7"), ("dry-run", "false")]),
        (Some(r#"{"region":"é","count":42.0}"#), &[("region", "=?base64?w6k=?="), ("count", "42")]),
        (Some(r#"{"count":1e2}"#), &[("count", "100")]),
        (Some(r#"{"count":9007199254740993}"#), &[("count", "9007199254740993")]),
        (Some(r#"{"count":1.5}"#), &[("count", "1.5")]),
        (Some(r#"{"region":"a\nb"}"#), &[("region", "=?base64?YQpi?=")]),
        (Some(r#"{"region":["eu"]}"#), &[]),
        (Some(r#"{"deep":{"er":{"id":""}}}"#), &[("id", "")]),
        (Some("[1]"), &[]),
    ];
    for (arguments, want) in table {
        let got = tools().headers_for("t", arguments.map(str::as_bytes));
        let want: Vec<_> =
            want.iter().map(|(name, value)| (format!("mcp-param-{name}"), (*value).to_owned())).collect();
        assert_eq!(got, want, "arguments {arguments:?}");
        assert!(tools().headers_for("plain", arguments.map(str::as_bytes)).is_empty());
    }
}

fn arguments() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<String>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9f64..1e9).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
    ];
    (leaf.clone(), leaf.clone(), leaf.clone(), leaf).prop_map(|(region, count, dry, id)| {
        json!({"region": region, "free": [1, {"region": 2}], "count": count, "dry": dry, "deep": {"er": {"id": id}}})
    })
}

fn suffix(name: &str) -> &str {
    name.strip_prefix("mcp-param-").expect("full name")
}

proptest! {
    #[test]
    fn what_the_client_sends_the_server_accepts(arguments in arguments()) {
        let body = arguments.to_string();
        let tools = tools();
        let headers = tools.headers_for("t", Some(body.as_bytes()));
        let sent = || headers.iter().map(|(name, value)| (suffix(name), value.as_bytes()));
        prop_assert_eq!(tools.check("t", Some(body.as_bytes()), sent()), Ok(()));
        for left_out in 0..headers.len() {
            let rest = sent().enumerate().filter(|(at, _)| *at != left_out).map(|(_, header)| header);
            prop_assert!(matches!(tools.check("t", Some(body.as_bytes()), rest), Err(Mismatch::Missing(_))));
        }
    }

    #[test]
    fn odd_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), text in r#"[{}\[\]:,"a-z\\u0]{0,30}"#) {
        for input in [&bytes[..], text.as_bytes()] {
            prop_assert!(ToolParams::from_tools_list(input).is_empty());
            prop_assert!(tools().headers_for("t", Some(input)).len() <= 4);
            prop_assert!(tools().check("t", Some(input), [("region", input)]).is_err());
        }
    }
}
