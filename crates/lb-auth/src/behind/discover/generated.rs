//! Challenges as no server should send them.

use lb_testkit::generate::{self, Campaign, Rng};

use super::*;

const CHALLENGES: u64 = 100_000;

const WORDS: &[&[u8]] = &[
    b"Bearer",
    b"bearer ",
    b"BEARER",
    b"Basic realm=\"x\"",
    b"Digest",
    b" ",
    b",",
    b", ",
    b"=",
    b"\"",
    b"\\",
    b"\\\"",
    b"scope=\"a b\"",
    b"scope=a",
    b"error=\"insufficient_scope\"",
    b"error=invalid_token",
    b"resource_metadata=\"https://x.test/.well-known/oauth-protected-resource\"",
    b"resource_metadata=\"/relative\"",
    b"resource_metadata=\"javascript:1\"",
    b"resource_metadata=",
    b"realm=\"\xc3\xa9\"",
    b"\t",
    b"\0",
    b"\n",
    b"\xc3\xa9",
    b"\xff",
];

/// Whether it says anything to us. Several lines are several headers.
fn check(input: &[u8]) -> bool {
    let server = Url::parse("https://server.test/mcp").unwrap();
    let values: Vec<String> =
        input.split(|byte| *byte == b'\n').map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    let read = Challenge::of(&values, &server);
    assert_eq!(read, Challenge::of(&values, &server));
    let held: usize = read.scopes.iter().map(String::len).sum();
    assert!(held <= 3 * input.len(), "{held} of {}", input.len());
    assert!(read.scopes.iter().all(|scope| !scope.is_empty() && !scope.contains(' ')), "{read:?}");
    match &read.header {
        Some(header) => assert!(values.contains(header), "{header:?}"),
        None => assert_eq!(read, Challenge::default()),
    }
    read.header.is_some()
}

#[test]
fn challenges_are_read_or_say_nothing() {
    let corpus: Vec<Vec<u8>> = [
        r#"Bearer resource_metadata="https://x.test/.well-known/oauth-protected-resource/mcp", scope="mcp:read mcp:call""#,
        r#"Bearer error="insufficient_scope", scope="a b", resource_metadata="https://x.test/p", error_description="more""#,
        r#"bearer error="invalid_token",error_description="expired \"at\" noon""#,
        "Bearer",
        "Basic realm=\"x\"\nBearer scope=a",
        "Bearer a=b\nBearer resource_metadata=\"https://y.test/\"",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    let fresh = |rng: &mut Rng| {
        let mut input = if rng.one_in(4) { Vec::new() } else { b"Bearer ".to_vec() };
        input.extend(generate::soup(rng, WORDS));
        input
    };
    let campaign = Campaign { name: "challenge", count: CHALLENGES, seed: 0xC4A1, corpus: &corpus, words: WORDS };
    campaign.run(fresh, check);
}
