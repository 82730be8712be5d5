//! What the store has under the keys of a session, when none of us wrote it.

use lb_exchange::{ServerName, SessionId};
use lb_testkit::generate::{self, Campaign, Rng};

use super::super::owner::{Holder, Owner};
use super::super::record::Record;
use super::*;
use crate::nodes::NodeName;

const HEADS: u64 = 100_000;
const RECORDS: u64 = 100_000;
const OWNERS: u64 = 200_000;

const WORDS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"null",
    b"-1",
    b"1e400",
    b"18446744073709551615",
    b"\"version\":\"1\",",
    b"\"version\":\"2\",",
    b"\"mount\":\"server\",",
    b"\"mount\":\"tools\",",
    b"\"server\":\"it\",",
    b"\"server\":\"a__b\",",
    b"\"revision\":\"2026-07-28\",",
    b"\"principal\":\"\",",
    b"\"hello\":7,",
    b"\"hello\":{\"a\":1,\"a\":2},",
    b"\"events\":0,",
    b"\"session\":{},",
    b"\n",
    b"\\ud800",
    b"\xc3\xa9",
    b"\xff",
];

fn head(rng: &mut Rng) -> Head {
    let params = generate::object(rng, 2);
    let message = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#);
    let fallback = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
    let scanned = Message::scan(Bytes::from(message)).or_else(|_| Message::scan(Bytes::from(fallback)));
    let text = |rng: &mut Rng| rng.pick(&["ann", "é", "a b", "\u{0}", "x\ny", ""]);
    let mount = match rng.below(3) {
        0 => Mount::Default,
        1 => Mount::Tools,
        _ => Mount::Server(ServerName::parse(rng.pick(&["it", "a-b_c"])).expect("a name")),
    };
    let caller = Caller {
        principal: Principal::named(text(rng)),
        client: rng.one_in(2).then(|| text(rng).into()),
        family: rng.one_in(2).then(|| text(rng).into()),
        revision: rng.pick(&[Revision::V2025_11_25, Revision::V2026_07_28]),
        capabilities: Capabilities::none(),
        client_info: rng.one_in(2).then(|| Raw::from_static(r#"{"name":"x","version":"1"}"#)),
    };
    let began = Duration::from_millis(rng.number() >> rng.below(64));
    let handle = rng.one_in(3).then(|| SessionId::from_client(text(rng)));
    Head { hello: Hello { caller, mount, message: scanned.expect("a message") }, began, handle }
}

/// Whether it is a head, which is written again as it was read, and whose login can be another.
fn check_head(input: &[u8]) -> bool {
    let Ok(kept) = Raw::parse(Bytes::copy_from_slice(input)) else { return false };
    let Some(head) = Head::read(&kept) else { return false };
    let written = head.kept();
    let again = Head::read(&written).expect("what we wrote");
    assert_eq!(again.kept().as_str(), written.as_str());
    let renewed = Head::renewed(&kept, "other".into()).expect("a head");
    assert_eq!(Head::read(&renewed).and_then(|head| head.hello.caller.family).as_deref(), Some("other"));
    true
}

fn check_record(input: &[u8]) -> bool {
    let Ok(kept) = Raw::parse(Bytes::copy_from_slice(input)) else { return false };
    let Some(record) = Record::read(&kept) else { return false };
    let written = record.kept();
    let again = Record::read(&written).expect("what we wrote");
    assert_eq!((again.events_base, again.kept().as_str()), (record.events_base, written.as_str()));
    true
}

/// Whether it names an owner. One that does can be compared with others, released and ended.
fn check_owner(input: &[u8]) -> bool {
    let Some(owner) = Owner::read(input) else { return false };
    assert_eq!(Owner::read(&owner.value()).as_ref(), Some(&owner));
    assert!(owner.is_behind(&owner.gone()) && !owner.is_behind(&owner.released()));
    if let Holder::Node(node) = &owner.holder {
        assert_eq!(NodeName::parse(&node.to_string()).as_ref(), Some(node));
    }
    true
}

#[test]
fn heads_of_sessions_are_read_or_refused() {
    let mut rng = Rng::new(0x4EAD5);
    let corpus: Vec<Vec<u8>> = (0..24).map(|_| head(&mut rng).kept().as_bytes().to_vec()).collect();
    let fresh = |rng: &mut Rng| match rng.one_in(4) {
        true => generate::soup(rng, WORDS),
        false => head(rng).kept().as_bytes().to_vec(),
    };
    Campaign { name: "session head", count: HEADS, seed: 0x4EAD5, corpus: &corpus, words: WORDS }
        .run(fresh, check_head);
}

#[test]
fn records_of_sessions_are_read_or_refused() {
    let fresh = |rng: &mut Rng| {
        if rng.one_in(4) {
            return generate::soup(rng, WORDS);
        }
        let part = |rng: &mut Rng| Raw::parse(generate::object(rng, 3).into()).ok().filter(|_| !rng.one_in(3));
        let events_base = rng.number() >> rng.below(64);
        Record { events_base, session: part(rng), told: part(rng) }.kept().as_bytes().to_vec()
    };
    let mut rng = Rng::new(0x4EC0);
    let corpus: Vec<Vec<u8>> = (0..24).map(|_| fresh(&mut rng)).collect();
    Campaign { name: "kept record", count: RECORDS, seed: 0x4EC0, corpus: &corpus, words: WORDS }
        .run(fresh, check_record);
}

#[test]
fn owners_of_sessions_are_read_or_refused() {
    const OWNER_WORDS: &[&[u8]] =
        &[b" ", b"-", b"gone", b"0", b"18446744073709551615", b"+1", b"n1", b"b1", b"- -", b"gone -", b"\n", b"\xff"];
    let corpus: Vec<Vec<u8>> =
        ["3 n1 b7", "0 - -", "4 gone -", "9223372036854775807 a.b x_y"].map(|text| text.into()).to_vec();
    let fresh = |rng: &mut Rng| {
        let epoch = rng.number() >> rng.below(64);
        format!("{epoch} {} {}", rng.pick(&["n1", "-", "gone", "a.b", ""]), rng.pick(&["b1", "-", "x"])).into_bytes()
    };
    Campaign { name: "owner", count: OWNERS, seed: 0x0E4, corpus: &corpus, words: OWNER_WORDS }.run(fresh, check_owner);
}
