//! Headers that no node wrote, and good ones that were changed on their way.

use lb_testkit::generate::{self, Campaign, Rng};

use super::*;

const HOPS: u64 = 100_000;

const WORDS: &[&[u8]] = &[
    b" ",
    b"v1",
    b"v2",
    b"v1 ",
    b"0",
    b"-1",
    b"+1",
    b"18446744073709551615",
    b"18446744073709551616",
    b"AAAAAAAAAAAAAAAAAAAAAA",
    b"e30",
    b"eyJhIjoxfQ",
    b"=",
    b"+",
    b"/",
    b"\t",
    b"\xff",
];

fn claims(rng: &mut Rng) -> Claims {
    let text = |rng: &mut Rng| rng.pick(&["someone", "é", "a\nb", "", "https://b:1", "\u{0}"]).to_owned();
    Claims {
        principal: text(rng),
        grant: None,
        ip: rng.one_in(2).then(|| [192, 0, 2, rng.byte()].into()),
        id: text(rng),
        host: rng.one_in(2).then(|| text(rng)),
        scheme: rng.pick(&["http", "https"]).to_owned(),
        to: text(rng),
        body: digest(&[rng.byte()]),
    }
}

/// A header with a good MAC, of another key than the one that is asked for.
fn header(rng: &mut Rng) -> Vec<u8> {
    let target = "/mcp?x=1".parse().unwrap();
    let (time, nonce) = (rng.number() >> rng.below(64), u128::from(rng.number()));
    let keys = NodeKeys::derive(b"another key", None);
    sign_at(&keys, &Method::POST, &target, &claims(rng), time, nonce).unwrap().as_bytes().to_vec()
}

/// Whether it can be read. What can is the same when it is written again; and without the key nothing is believed.
fn check(input: &[u8]) -> bool {
    let Ok(value) = HeaderValue::from_bytes(input) else { return false };
    let request = Request::builder().method("POST").uri("/mcp?x=1").header(HOP, value.clone()).body(()).unwrap();
    let admitted = Hops::default().admit(&request, Some(&super::tests::node(b"key")));
    let Some(said) = Said::read(&value) else {
        assert_eq!(admitted, Err(Unproven::Malformed));
        return false;
    };
    assert_eq!(admitted, Err(Unproven::Forged));
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let (nonce, mac) = (encode(&said.nonce.to_be_bytes()), encode(&said.mac));
    let again = HeaderValue::from_str(&format!("v1 {} {nonce} {} {mac}", said.time, said.claims)).unwrap();
    let again = Said::read(&again).expect("what we wrote");
    assert_eq!((again.time, again.nonce, again.claims, again.mac), (said.time, said.nonce, said.claims, said.mac));
    if let Some(claims) = Claims::read(said.claims) {
        assert_eq!(Claims::read(&claims.write()), Some(claims));
    }
    true
}

#[test]
fn headers_of_nodes_are_read_or_refused_and_never_believed_without_the_key() {
    let mut rng = Rng::new(0x40B);
    let corpus: Vec<Vec<u8>> = (0..24).map(|_| header(&mut rng)).collect();
    let fresh = |rng: &mut Rng| match rng.one_in(4) {
        true => generate::soup(rng, WORDS),
        false => header(rng),
    };
    Campaign { name: "hop header", count: HOPS, seed: 0x40B, corpus: &corpus, words: WORDS }.run(fresh, check);
}

/// With the key: each byte that is changed is noticed, unless it is written otherwise and says the same.
#[test]
fn no_changed_byte_of_a_good_header_goes_unnoticed() {
    let node = super::tests::node(b"key");
    let (target, claims) = ("/mcp?x=1".parse().unwrap(), super::tests::claims());
    let good = sign(&node, &Method::POST, &target, &claims).unwrap().as_bytes().to_vec();
    for at in 0..good.len() {
        for bit in 0..7 {
            let mut changed = good.clone();
            changed[at] ^= 1 << bit;
            let Ok(value) = HeaderValue::from_bytes(&changed) else { continue };
            let request = Request::builder().method("POST").uri("/mcp?x=1").header(HOP, value).body(()).unwrap();
            let refused = Hops::default().admit(&request, Some(&node));
            assert!(refused.is_err(), "{}", changed.escape_ascii());
        }
    }
}
