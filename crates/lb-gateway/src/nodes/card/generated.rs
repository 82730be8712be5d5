//! Cards that no node wrote.

use lb_testkit::generate::{self, Campaign, Rng};

use super::*;

const CARDS: u64 = 100_000;

const WORDS: &[&[u8]] = &[
    b"{",
    b"}",
    b",",
    b":",
    b"\"",
    b"null",
    b"true",
    b"false",
    b"-1",
    b"1e400",
    b"18446744073709551615",
    b"\"id\":\"gone\",",
    b"\"id\":\"-\",",
    b"\"boot\":\"b 2\",",
    b"\"url\":7,",
    b"\"place\":\"\\u0000\",",
    b"\"store\":{},",
    b"\"seenAt\":0,",
    b"\\ud800",
    b"\xc3\xa9",
    b"\xff",
];

fn card(rng: &mut Rng) -> NodeInfo {
    let number = |rng: &mut Rng| rng.number() >> rng.below(64);
    let time = |rng: &mut Rng| Duration::from_millis(number(rng));
    let text = |rng: &mut Rng| rng.pick(&["n1", "a.b-c_d", "é", "", "a b", "\u{0}", "0123456789abcdef"]).to_owned();
    NodeInfo {
        id: rng.pick(&["n1", "a.b", "9"]).into(),
        boot: rng.pick(&["b1", "0f", "x_y-z"]).into(),
        url: rng.one_in(2).then(|| text(rng)),
        version: text(rng),
        started: time(rng),
        seen: time(rng),
        draining: rng.one_in(2),
        sessions: number(rng),
        streams: number(rng),
        lag: time(rng),
        store: NodeStore { kind: text(rng), ok: rng.one_in(2), rtt: time(rng) },
        place: rng.one_in(2).then(|| text(rng).into()),
    }
}

/// Whether it is a card: of a node that can be named, and the same when it is written and read again.
fn check(input: &[u8]) -> bool {
    let Some(read) = NodeInfo::read(Bytes::copy_from_slice(input)) else { return false };
    let name = NodeName { id: read.id.clone(), boot: read.boot.clone() };
    assert_eq!(NodeName::parse(&name.to_string()), Some(name));
    let written = read.written();
    assert!(written.len() <= 6 * input.len() + 512, "{} of {}", written.len(), input.len());
    assert_eq!(NodeInfo::read(written), Some(read.clone()));
    let shown = read.view(Duration::from_millis(u64::MAX / 2));
    assert!(shown.read::<serde_json::Value>().is_ok(), "{}", shown.as_str());
    true
}

#[test]
fn cards_of_nodes_are_read_or_left_out() {
    let mut rng = Rng::new(0xCA4D);
    let corpus: Vec<Vec<u8>> = (0..24).map(|_| card(&mut rng).written().to_vec()).collect();
    let fresh = |rng: &mut Rng| match rng.one_in(4) {
        true => generate::soup(rng, WORDS),
        false => card(rng).written().to_vec(),
    };
    Campaign { name: "node card", count: CARDS, seed: 0xCA4D, corpus: &corpus, words: WORDS }.run(fresh, check);
}

#[test]
fn a_card_of_nobody_that_can_be_named_is_none() {
    let mut rng = Rng::new(1);
    let good = card(&mut rng);
    assert_eq!(NodeInfo::read(good.written()), Some(good.clone()));
    for (id, boot) in [("gone", "b"), ("-", "b"), ("", "b"), ("a b", "b"), ("a", ""), ("a", "b\nc"), ("é", "b")] {
        let bad = NodeInfo { id: id.into(), boot: boot.into(), ..good.clone() };
        assert_eq!(NodeInfo::read(bad.written()), None, "{id:?} {boot:?}");
    }
}
