use serde_json::{Value, json};

use super::*;
use crate::failure::INVALID_ARGUMENT;

#[test]
fn structured_content_goes_to_revisions_that_know_it() {
    let rows = [splice::text_block("[]")];
    let structured = Raw::from_static(r#"{"tools":[]}"#);
    for (revision, want) in [
        (Revision::V2024_11_05, false),
        (Revision::V2025_03_26, false),
        (Revision::V2025_06_18, true),
        (Revision::V2025_11_25, true),
        (Revision::V2026_07_28, true),
    ] {
        let result: Value = ours(&rows, Some(&structured), false, revision).read().unwrap();
        assert_eq!(result["content"], json!([{"type": "text", "text": "[]"}]));
        assert_eq!(result.get("structuredContent").is_some(), want, "{revision}");
        assert!(result.get("isError").is_none());
    }
}

#[test]
fn a_failure_says_what_failed_why_and_with_which_code() {
    let failure =
        Failure::new(INVALID_ARGUMENT, "argument 'x' is required").with(Raw::from_static(r#"{"argument":"x"}"#));
    let result: Value = failed(&failure, "add server", Revision::V2025_06_18).read().unwrap();
    let message = "Failed to add server: argument 'x' is required";
    assert_eq!(
        result,
        json!({
            "content": [{"type": "text", "text": message}],
            "structuredContent": {
                "error": {"code": "INVALID_ARGUMENT", "message": message, "details": {"argument": "x"}}
            },
            "isError": true
        })
    );
    let old: Value = failed(&failure, "add server", Revision::V2024_11_05).read().unwrap();
    assert_eq!(old, json!({"content": [{"type": "text", "text": message}], "isError": true}));
}

#[test]
fn a_list_is_a_bare_array_for_the_model_and_named_for_programs() {
    let rows = [Raw::from_static(r#"{"a":1.0}"#)];
    let errors = [Raw::from_static(r#"{"server":"s","message":"m"}"#)];
    let Body::Ours { blocks, structured } = Reply::list("tools", &rows, &errors).body else { panic!() };
    assert_eq!(blocks[0].as_str(), r#"{"type":"text","text":"[{\"a\":1.0}]"}"#);
    assert_eq!(structured.unwrap().as_str(), r#"{"tools":[{"a":1.0}],"errors":[{"server":"s","message":"m"}]}"#);
    let Body::Ours { structured, .. } = Reply::list("tools", &[], &[]).body else { panic!() };
    assert_eq!(structured.unwrap().as_str(), r#"{"tools":[]}"#);
}

#[test]
fn an_empty_list_is_a_sentence_only_where_that_is_wanted() {
    for (rows, wanted, want) in [(0, true, "No tools"), (0, false, "[]"), (1, true, "[]")] {
        let Body::Ours { blocks, .. } = Reply::list("tools", &[], &[]).or_sentence(rows, wanted, "No tools").body
        else {
            panic!()
        };
        assert_eq!(blocks[0].as_str(), splice::text_block(want).as_str());
    }
}
