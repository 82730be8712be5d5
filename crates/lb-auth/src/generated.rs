//! Addresses, forms and documents that strangers send us, as nobody should.

use lb_testkit::generate::{self, Campaign, Rng};
use url::Url;
use url::form_urlencoded::Serializer;

use crate::form::Form;
use crate::redirect;

const ADDRESSES: u64 = 100_000;
const FORMS: u64 = 200_000;

const ADDRESS_WORDS: &[&[u8]] = &[
    b"https://",
    b"http://",
    b"HTTPS://",
    b"cursor://",
    b"javascript:",
    b"//",
    b"/",
    b"\\",
    b"..",
    b"%2e",
    b"%2E%2e",
    b"%00",
    b"@",
    b":",
    b":443",
    b":0",
    b":99999",
    b"?",
    b"#",
    b"*",
    b"localhost",
    b"localhost.",
    b"127.0.0.1",
    b"127.1",
    b"0x7f.1",
    b"[::1]",
    b"[::ffff:127.0.0.1]",
    b"app.example.com",
    b"xn--",
    b"\t",
    b"\r\n",
    b"\0",
    b"\xc2\xad",
    b"\xe3\x80\x82",
    b"\xff",
];

/// Whether it may be registered. What may is read in one way by everybody who reads it, and is nobody else's.
fn check_address(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    let schemes = ["cursor".to_owned()];
    drop((redirect::shown_host(&text), redirect::stays_local(&text)));
    if redirect::check(&text, &schemes).is_err() {
        assert!(!redirect::is_registered(&text, [&*text], &schemes), "refused, and registered");
        return false;
    }
    assert!(text.len() <= redirect::URI_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic()));
    let url = Url::parse(&text).expect("an address");
    assert!(matches!(url.scheme(), "https" | "http" | "cursor"), "{url}");
    assert!(url.scheme() != "http" || redirect::stays_local(&text), "{url}");
    assert!(url.username().is_empty() && url.password().is_none() && url.fragment().is_none(), "{url}");
    assert!(!redirect::shown_host(&text).is_empty(), "a person must see where it leads: {url}");
    assert!(redirect::is_registered(&text, [&*text], &schemes));
    for other in ["https://app.example.com/cb", "http://127.0.0.1:9/cb", "cursor://x/y"] {
        let same = Url::parse(other).is_ok_and(|mut other| {
            let is_loopback = url.scheme() == "http" && other.scheme() == "http";
            is_loopback && other.set_port(url.port()).is_ok() && other == url
        });
        assert_eq!(redirect::is_registered(&text, [other], &schemes), same || text == other, "{url} for {other}");
    }
    true
}

fn address(rng: &mut Rng) -> Vec<u8> {
    if rng.one_in(4) {
        return generate::soup(rng, ADDRESS_WORDS);
    }
    let scheme = rng.pick(&["https://", "https://", "http://", "cursor://", "HTTP://"]);
    let host = rng.pick(&["app.example.com", "127.0.0.1", "localhost", "[::1]", "a.test", "127.0.0.1.evil.test"]);
    let port = rng.pick(&["", "", ":8443", ":443", ":1"]);
    let path = rng.pick(&["/cb", "", "/", "/a/b?x=1", "/a%20b", "/../x", "/%2e%2e/x", "?x=#y"]);
    format!("{scheme}{host}{port}{path}").into_bytes()
}

#[test]
fn addresses_to_be_sent_back_to_are_read_in_one_way_or_refused() {
    let corpus: Vec<Vec<u8>> = [
        "https://app.example.com/cb",
        "https://app.example.com:8443/cb?x=1",
        "http://127.0.0.1/cb",
        "http://127.0.0.1:33418",
        "http://localhost:1234/oauth/callback",
        "http://[::1]:5/cb",
        "cursor://anysphere.cursor-mcp/oauth/callback",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    let campaign = Campaign { name: "redirect", count: ADDRESSES, seed: 0x4ED1, corpus: &corpus, words: ADDRESS_WORDS };
    campaign.run(address, check_address);
}

/// Whether it can be read. What can holds no more than was sent, and says the same when it is written again.
fn check_form(input: &[u8]) -> bool {
    let Some(form) = Form::parse(input) else { return false };
    let names = ["a", "state", "resource", "client_id", "redirect_uri", ""];
    let values: Vec<(&str, &str)> =
        names.iter().flat_map(|name| form.all(name).into_iter().map(move |value| (*name, value))).collect();
    let held: usize = values.iter().map(|(_, value)| value.len()).sum();
    assert!(held <= input.len(), "{held} of {}", input.len());
    for name in names {
        assert_eq!(form.get(name), form.all(name).first().copied(), "{name}");
        assert!(form.all(name).iter().all(|value| !value.is_empty()), "{name}");
        assert!(name == "resource" || form.all(name).len() < 2 || form.repeats(), "{name}");
    }
    let written = Serializer::new(String::new()).extend_pairs(&values).finish();
    let again = Form::parse(written.as_bytes()).expect("what we wrote");
    for name in names {
        assert_eq!(again.all(name), form.all(name), "{name}");
    }
    true
}

#[test]
fn forms_are_read_or_refused() {
    const WORDS: &[&[u8]] = &[
        b"&",
        b"=",
        b"%",
        b"+",
        b"a=1",
        b"&a=2",
        b"&resource=https://x",
        b"&state=",
        b"%00",
        b"%0d%0a",
        b"%ff",
        b"%C3%A4",
        b"%EF%BF%BD",
        b"%zz",
        b";",
        b"\0",
        b"\xc3\xa4",
        b"\xff",
    ];
    let corpus: Vec<Vec<u8>> = [
        "a=1+2&b=%C3%A4&empty=&resource=x&resource=y",
        "grant_type=authorization_code&code=abc&client_id=mcp_1&redirect_uri=http%3A%2F%2F127.0.0.1%2Fcb",
        "response_type=code&state=%7B%22x%22%3A1%7D&scope=mcp%3Aread+mcp%3Acall",
        "",
        "a",
        "=b",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    let fresh = |rng: &mut Rng| {
        let mut pairs = Serializer::new(String::new());
        for _ in 0..rng.below(6) {
            let name = rng.pick(&["a", "state", "resource", "client_id", "é"]);
            pairs.append_pair(name, rng.pick(&["1", "x y", "ä", "", "a&b=c", "\u{0}", "%41"]));
        }
        if rng.one_in(4) { generate::soup(rng, WORDS) } else { pairs.finish().into_bytes() }
    };
    let campaign = Campaign { name: "form", count: FORMS, seed: 0xF04, corpus: &corpus, words: WORDS };
    campaign.run(fresh, check_form);
}
