//! The official examples and every message shape of every revision: scanned, spliced, and passed on byte for byte.

mod sample;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use lb_wire::revision::{Era, Revision, method};
use lb_wire::splice::{self, Splice};
use lb_wire::{Id, Message, Raw, Shape, compose};
use serde_json::Value;

fn schema_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/schema")
}

fn raw(text: &str) -> Raw {
    Raw::parse(Bytes::copy_from_slice(text.as_bytes())).expect("JSON")
}

/// Names and texts of the official examples.
fn examples() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for folder in std::fs::read_dir(schema_folder().join("2026-07-28/examples")).expect("the examples are here") {
        for file in std::fs::read_dir(folder.expect("a folder").path()).expect("a folder of examples") {
            let path = file.expect("a file").path();
            all.push((path.display().to_string(), std::fs::read_to_string(&path).expect("text")));
        }
    }
    all.sort();
    all
}

/// The whole schema of a revision, and the names of its definitions.
fn schema(revision: Revision) -> (Value, Vec<String>) {
    let path = schema_folder().join(revision.as_str()).join("schema.json");
    let schema: Value = serde_json::from_slice(&std::fs::read(path).expect("the schema is here")).expect("JSON");
    let names = sample::definitions(&schema).keys().cloned().collect();
    (schema, names)
}

/// Writes the message again from its parts, in an envelope of ours.
fn again(message: &Message) -> Raw {
    let body = message.body();
    match (message.shape(), message.id(), &body) {
        (Shape::Request, Some(id), params) => compose::request(id, message.method(), params.as_ref()),
        (Shape::Notification, _, params) => compose::notification(message.method(), params.as_ref()),
        (Shape::Result, Some(id), Some(result)) => compose::result(id, result),
        (Shape::Error, Some(id), Some(error)) => compose::error(id, error),
        (Shape::Error, None, Some(error)) => compose::error_without_id(error, false),
        other => panic!("no such message: {other:?}"),
    }
}

/// A message of which everything arrives as it was written.
fn check_message(what: &str, text: &str) -> Message {
    let message = Message::scan(Bytes::copy_from_slice(text.as_bytes())).unwrap_or_else(|e| panic!("{what}: {e}"));
    let value: Value = serde_json::from_str(text).expect("JSON");
    let written = again(&message);
    assert_eq!(written.read::<Value>().expect("JSON"), value, "{what}: says the same");
    let read = Message::scan(written.bytes().clone()).expect("what we write, we read");
    assert_eq!(read.body(), message.body(), "{what}: the body, byte for byte");
    assert_eq!(read.id().map(Id::as_bytes), message.id().map(Id::as_bytes), "{what}: the id, byte for byte");
    assert_eq!(value.get("method").and_then(Value::as_str).unwrap_or_default(), message.method(), "{what}");
    if let Some(body) = message.body() {
        check_body(what, &message, &body);
    }
    message
}

/// Edits at the places that the scan names leave every other byte alone.
fn check_body(what: &str, message: &Message, body: &Raw) {
    let value: Value = body.read().expect("JSON");
    for (name, member) in value.as_object().into_iter().flatten() {
        let found = message.member(name).unwrap_or_else(|| panic!("{what}: {name} is not found"));
        assert_eq!(found.read::<Value>().expect("JSON"), *member, "{what}: {name}");
        let at = message.member_span_in_body(name).expect("it has a place");
        assert_eq!(Splice::new(body.clone()).replace(at, &found).apply(), *body, "{what}: {name} for itself");
        assert_eq!(splice::replace(body, name, &found), *body, "{what}: {name} for itself");
        let other = splice::replace(body, name, &Raw::from_static("[null]"));
        assert_eq!(splice::replace(&other, name, &found), *body, "{what}: {name} there and back");
        let rest: Value = splice::without(body, &[name]).read().expect("JSON");
        let mut want = value.clone();
        want.as_object_mut().map(|object| object.shift_remove(name));
        assert_eq!(rest, want, "{what}: without {name}");
    }
    for (name, member) in value.get("_meta").and_then(Value::as_object).into_iter().flatten() {
        let found = message.meta(name).unwrap_or_else(|| panic!("{what}: _meta {name} is not found"));
        assert_eq!(found.read::<Value>().expect("JSON"), *member, "{what}: _meta {name}");
        let at = message.meta_span_in_body(name).expect("it has a place");
        assert_eq!(Splice::new(body.clone()).replace(at, &found).apply(), *body, "{what}: _meta {name} for itself");
    }
    let line = body.clone().into_line();
    assert_eq!(line.as_bytes().len(), body.as_bytes().len(), "{what}: as one line");
    assert_eq!(serde_json::from_slice::<Value>(line.as_bytes()).expect("JSON"), value, "{what}: as one line");
}

#[test]
fn every_official_example_is_passed_on_byte_for_byte() {
    let all = examples();
    let mut messages = 0;
    for (name, text) in &all {
        let value: Value = serde_json::from_str(text).expect("JSON");
        if value.get("jsonrpc").is_some() {
            check_message(name, text);
            messages += 1;
        }
        // Whatever it is: as a part of a result, and where it can be, as params and error.
        let example = raw(text);
        for message in [
            compose::result(&Id::number(1), &example),
            compose::request(&Id::number(1), "x", Some(&example)),
            compose::error(&Id::number(1), &example),
        ] {
            let read = check_message(name, message.as_str());
            assert_eq!(read.body().as_ref().map(Raw::as_str), Some(text.trim()), "{name}");
        }
    }
    assert!(100 <= all.len() && 30 <= messages, "{} examples, {messages} of them messages", all.len());
}

#[test]
fn every_request_and_result_of_every_revision_is_passed_on() {
    for revision in Revision::ALL {
        let (schema, names) = schema(revision);
        let mut checked = 0;
        for name in &names {
            let kinds = ["Request", "Notification", "Result", "Response", "Error", "Params"];
            if !kinds.iter().any(|kind| name.ends_with(kind)) {
                continue;
            }
            for full in [false, true] {
                let value = sample::instance(&schema, name, full);
                let what = format!("{revision} {name}");
                match (value.get("method"), value.get("jsonrpc")) {
                    (_, Some(_)) if value.get("result").or(value.get("error")).or(value.get("method")).is_some() => {
                        check_message(&what, &value.to_string());
                    }
                    // The older schemas leave the envelope out.
                    (Some(method), _) => {
                        let method = method.as_str().expect("a name");
                        let params = value.get("params").map(|params| raw(&params.to_string()));
                        let message = compose::request(&Id::number(1), method, params.as_ref());
                        check_message(&what, message.as_str());
                    }
                    _ => {
                        let message = compose::result(&Id::number(1), &raw(&value.to_string()));
                        check_message(&what, message.as_str());
                    }
                }
            }
            checked += 1;
        }
        assert!(40 <= checked, "{revision}: only {checked} shapes");
    }
}

#[test]
fn every_method_of_every_revision_is_known() {
    for revision in Revision::ALL {
        let (schema, names) = schema(revision);
        let mut found = 0;
        for name in names.iter().filter(|name| name.ends_with("Request") || name.ends_with("Notification")) {
            let value = sample::instance(&schema, name, false);
            // Only what names its method is a message of its own.
            let fixed = sample::definitions(&schema)[name].pointer("/properties/method/const").is_some();
            let Some(name) = value.get("method").and_then(Value::as_str).filter(|_| fixed) else { continue };
            let facts = method::facts(name.as_bytes()).unwrap_or_else(|| panic!("{revision}: {name} is not known"));
            assert!(facts.first <= revision, "{name} is in {revision}, before {}", facts.first);
            found += 1;
        }
        let least = if revision.era() == Era::Modern { 15 } else { 20 };
        assert!(least <= found, "{revision}: only {found} methods");
    }
}
