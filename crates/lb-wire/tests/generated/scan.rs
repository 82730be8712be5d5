//! The scan, against `&RawValue` of serde_json. Ours refuses two things that serde_json takes: nesting beyond
//! [`DEPTH_MAX`], and repeated names at the levels that we read.

use bytes::Bytes;
use lb_wire::{DEPTH_MAX, Id, Message, MessageError, Raw, ScanError, Shape, compose, splice};
use serde_json::value::RawValue;

use crate::envelope::{Expected, members_of};

/// True when the input is a message.
pub fn check(input: &[u8]) -> bool {
    let bytes = Bytes::copy_from_slice(input);
    let oracle = serde_json::from_slice::<&RawValue>(input).ok();
    let deep = DEPTH_MAX < depth(input);
    let raw = Raw::parse(bytes.clone());
    match (&raw, oracle) {
        (Ok(raw), Some(oracle)) => {
            assert_eq!(raw.as_str(), oracle.get(), "another stretch of the text");
            assert!(!deep, "too deep");
        }
        (Err(ScanError::Depth), _) => assert!(deep, "not so deep"),
        (Err(_), None) => {}
        (got, want) => panic!("{got:?}, but serde_json says {want:?}"),
    }
    check_batch(&bytes, oracle.filter(|_| raw.is_ok()));
    let message = Message::scan(bytes.clone());
    let expected = match (&raw, oracle) {
        (Ok(_), Some(oracle)) => Expected::of(oracle.get()),
        _ => Expected::Refused,
    };
    match (&message, &expected) {
        (Err(MessageError::Scan(_)), Expected::Refused) => false,
        (Err(MessageError::Shape { id, .. }), Expected::NoMessage { id: want }) => {
            assert_eq!(id.as_ref().map(Id::as_bytes), want.map(str::as_bytes), "the id to answer to");
            false
        }
        (Ok(message), Expected::Message { shape, id, method, body }) => {
            assert_eq!(message.shape(), *shape);
            assert_eq!(message.id().map(Id::as_bytes), id.map(str::as_bytes));
            assert_eq!(message.method(), method);
            assert_eq!(message.body().as_ref().map(Raw::as_str), *body);
            assert_eq!(Message::id_in_prefix(input).as_ref(), message.id().filter(|_| id.is_some()));
            check_members(message);
            check_round_trip(message);
            true
        }
        (got, want) => panic!("{got:?}, but the rules say {want:?}"),
    }
}

fn check_batch(bytes: &Bytes, oracle: Option<&RawValue>) {
    let got = Message::batch(bytes);
    let want = oracle.filter(|raw| raw.get().starts_with('['));
    let want: Option<Vec<&RawValue>> = want.map(|raw| serde_json::from_str(raw.get()).expect("an array"));
    match (got, want) {
        (Ok(Some(got)), Some(want)) => {
            assert!(got.iter().map(|part| &part[..]).eq(want.iter().map(|part| part.get().as_bytes())));
        }
        (Ok(None) | Err(_), None) => {}
        (got, want) => panic!("batch: {got:?}, but serde_json says {want:?}"),
    }
}

/// What is found by name is what serde_json finds there.
fn check_members(message: &Message) {
    let Some(body) = message.body() else { return };
    let Some(members) = members_of(body.as_str()) else { return };
    for (name, value) in &members {
        assert_eq!(message.member(name).as_ref().map(Raw::as_str), Some(value.get()), "member {name:?}");
        let span = message.member_span_in_body(name).expect("it has a place");
        assert_eq!(span.of(body.as_bytes()), value.get().as_bytes());
    }
    assert_eq!(message.body_is_empty(), members.is_empty());
    let meta = members.iter().find(|(name, _)| name == "_meta").and_then(|(_, value)| members_of(value.get()));
    for (name, value) in meta.iter().flatten() {
        assert_eq!(message.meta(name).as_ref().map(Raw::as_str), Some(value.get()), "_meta member {name:?}");
    }
    assert_eq!(message.meta_is_empty(), meta.is_none_or(|meta| meta.is_empty()));
    check_splices(&body, &members);
}

/// Edits leave valid JSON, and everything else alone.
fn check_splices(body: &Raw, members: &[(String, &RawValue)]) {
    assert_eq!(splice::without(body, &["no such member"]), *body);
    let first = members.first().map(|(name, value)| (name.as_str(), value.get()));
    if let Some((name, value)) = first {
        let same = Raw::parse(Bytes::copy_from_slice(value.as_bytes())).expect("it was scanned");
        assert_eq!(splice::replace(body, name, &same), *body, "replaced by itself");
        let rest = splice::without(body, &[name]);
        let left = members_of(rest.as_str()).expect("still an object");
        let want = members.iter().filter(|(other, _)| other != name).map(|(name, value)| (name, value.get()));
        assert!(left.iter().map(|(name, value)| (name, value.get())).eq(want), "without {name:?}");
    }
    let grown = splice::with(body, &[("x y", Raw::from_static("[]"))]);
    let found = members_of(grown.as_str()).expect("still an object");
    if members.iter().any(|(name, _)| name == "x y") {
        assert_eq!(grown, *body, "it was there already");
    } else {
        assert_eq!(found.first().map(|(name, value)| (name.as_str(), value.get())), Some(("x y", "[]")));
        let rest = found.iter().skip(1).map(|(name, value)| (name, value.get()));
        assert!(rest.eq(members.iter().map(|(name, value)| (name, value.get()))), "the others are as they were");
    }
}

/// An envelope of ours around the same parts says the same, also as one line.
fn check_round_trip(message: &Message) {
    let body = message.body();
    let again = match (message.shape(), message.id(), &body) {
        (Shape::Request, Some(id), params) => compose::request(id, message.method(), params.as_ref()),
        (Shape::Notification, _, params) => compose::notification(message.method(), params.as_ref()),
        (Shape::Result, Some(id), Some(result)) => compose::result(id, result),
        (Shape::Error, Some(id), Some(error)) => compose::error(id, error),
        (Shape::Error, None, Some(error)) => compose::error_without_id(error, true),
        other => panic!("no such message: {other:?}"),
    };
    let line = again.clone().into_line();
    assert!(!line.as_bytes().iter().any(|byte| matches!(byte, b'\r' | b'\n')));
    let read = Message::scan(again.bytes().clone()).expect("what we write, we read");
    assert_eq!((read.shape(), read.id(), read.method()), (message.shape(), message.id(), message.method()));
    assert_eq!(read.body(), body, "the body is passed on byte for byte");
    let flat = Message::scan(line.into_bytes()).expect("a line is the same message");
    assert_eq!(
        flat.body().map(|raw| raw.as_str().to_owned()),
        body.map(|raw| raw.as_str().replace(['\r', '\n'], " ")),
        "only line breaks differ"
    );
}

/// Deepest nesting that brackets outside of strings reach, whatever else is wrong.
fn depth(input: &[u8]) -> usize {
    let (mut now, mut most, mut string, mut escaped) = (0_usize, 0, false, false);
    for byte in input {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if string => escaped = true,
            b'"' => string = !string,
            b'{' | b'[' if !string => now += 1,
            b'}' | b']' if !string => now = now.saturating_sub(1),
            _ => {}
        }
        most = most.max(now);
    }
    most
}
