use std::collections::HashSet;

use super::*;

fn rows(revision: Revision) -> Vec<Value> {
    let listed: Value = listed(revision).read().unwrap();
    listed["tools"].as_array().unwrap().clone()
}

#[test]
fn there_are_33_tools_each_with_its_own_name() {
    let names: HashSet<_> = TOOLS.iter().map(|tool| tool.name).collect();
    assert_eq!(names.len(), 33);
    assert_eq!(rows(Revision::V2025_11_25).len(), 33);
    for tool in TOOLS {
        assert!(find(tool.name).is_some_and(|found| std::ptr::eq(found, tool)), "{}", tool.name);
    }
    assert!(find("codemode_execute").is_none());
}

#[test]
fn every_schema_is_one_and_describes_every_property() {
    for tool in TOOLS {
        let name = tool.name;
        let own: Map<String, Value> = serde_json::from_str(tool.input).unwrap_or_else(|e| panic!("{name}: {e}"));
        let schema: Value = tool.input_schema().read().unwrap();
        is_schema(name, &schema);
        assert_eq!(schema["properties"]["session"]["type"], "string", "{name}");
        assert_eq!(schema["properties"].as_object().unwrap().len(), own.len() + 1, "{name}");
        described(name, &schema);
        for required in tool.required {
            assert!(own.contains_key(*required), "{name} requires {required}");
        }
        if let Some(output) = tool.output {
            serde_json::from_str::<Map<String, Value>>(output).unwrap_or_else(|e| panic!("{name}: {e}"));
            let schema: Value = tool.output_schema().unwrap().read().unwrap();
            is_schema(name, &schema);
            let error = schema["properties"]["error"]["type"].to_string();
            assert!(error.contains("\"object\""), "{name}: {error}");
        }
    }
}

/// Words that our schemas use, with the kind of value that each must have.
fn is_schema(place: &str, schema: &Value) {
    const KINDS: [&str; 7] = ["string", "number", "integer", "boolean", "array", "object", "null"];
    let schema = schema.as_object().unwrap_or_else(|| panic!("{place} is no object"));
    let is_kind = |value: &Value| value.as_str().is_some_and(|kind| KINDS.contains(&kind));
    for (word, value) in schema {
        let good = match word.as_str() {
            "type" => is_kind(value) || value.as_array().is_some_and(|kinds| kinds.iter().all(is_kind)),
            "description" | "title" | "$schema" | "pattern" | "format" => value.is_string(),
            "minimum" | "maximum" => value.is_number(),
            "minLength" | "maxLength" | "minItems" | "maxItems" => value.is_u64(),
            "enum" | "required" => value.as_array().is_some_and(|all| !all.is_empty() || word == "required"),
            "default" => true,
            "uniqueItems" => value.is_boolean(),
            "items" => {
                is_schema(&format!("{place}.items"), value);
                true
            }
            "additionalProperties" => {
                if !value.is_boolean() {
                    is_schema(&format!("{place}.*"), value);
                }
                true
            }
            "properties" => {
                for (name, property) in value.as_object().into_iter().flatten() {
                    is_schema(&format!("{place}.{name}"), property);
                }
                value.is_object()
            }
            "anyOf" | "oneOf" => {
                for one in value.as_array().into_iter().flatten() {
                    is_schema(place, one);
                }
                value.is_array()
            }
            other => panic!("{place}: {other} is no word of ours"),
        };
        assert!(good, "{place}: {word} cannot be {value}");
    }
}

fn described(place: &str, schema: &Value) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        assert!(property["description"].as_str().is_some_and(|text| !text.is_empty()), "{place}.{name}");
        described(&format!("{place}.{name}"), property);
    }
}

#[test]
fn tools_that_pass_content_on_declare_no_output() {
    let without: Vec<_> = TOOLS.iter().filter(|tool| tool.output.is_none()).map(|tool| tool.name).collect();
    let want = [
        "execute_tool",
        "get_task_result",
        "read_resource",
        "get_prompt",
        "respond_to_elicitation",
        "respond_to_sampling",
    ];
    assert_eq!(without, want);
}

#[test]
fn descriptions_are_short_and_the_list_is_small() {
    for tool in TOOLS {
        let words = tool.description.split_whitespace().count();
        assert!((5..=60).contains(&words), "{}: {words} words", tool.name);
    }
    let bytes = listed(Revision::V2025_11_25).as_bytes().len();
    assert!(bytes < 24 << 10, "{bytes} bytes");
}

#[test]
fn each_revision_is_told_what_it_knows() {
    for (revision, title, output, annotations) in [
        (Revision::V2024_11_05, false, false, false),
        (Revision::V2025_03_26, false, false, true),
        (Revision::V2025_06_18, true, true, true),
        (Revision::V2025_11_25, true, true, true),
        (Revision::V2026_07_28, true, true, true),
    ] {
        let row = &rows(revision)[0];
        let got = ["title", "outputSchema", "annotations"].map(|key| row.get(key).is_some());
        assert_eq!(got, [title, output, annotations], "{revision}");
        assert_eq!(listed(revision).as_bytes().as_ptr(), listed(revision).as_bytes().as_ptr(), "{revision}");
    }
}
