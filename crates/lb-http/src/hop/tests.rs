//! Headers as nodes write them, and as others do.

use std::sync::Arc;

use super::*;

const TIME: u64 = 1_900_000_000;

pub(super) fn node(key: &[u8]) -> NodeSettings {
    NodeSettings {
        listen: crate::listen::Place::Tcp("127.0.0.1:0".into()),
        url: Some("https://b:1".into()),
        keys: NodeKeys::derive(key, None),
        insecure: false,
        authorities: None,
        together: None,
        clock: Arc::default(),
    }
}

pub(super) fn claims() -> Claims {
    Claims {
        grant: None,
        principal: "someone".into(),
        ip: Some([192, 0, 2, 9].into()),
        id: "abc-1".into(),
        host: Some("mcp.example.com".into()),
        scheme: "https".into(),
        to: "https://b:1".into(),
        body: digest(b"{}"),
    }
}

fn request(header: HeaderValue) -> Request<()> {
    Request::builder().method("POST").uri("/mcp?x=1").header(HOP, header).body(()).unwrap()
}

fn signed(key: &[u8], claims: &Claims, time: u64, nonce: u128) -> Request<()> {
    let target = "/mcp?x=1".parse().unwrap();
    request(sign_at(&NodeKeys::derive(key, None), &Method::POST, &target, claims, time, nonce).unwrap())
}

#[test]
fn what_one_node_says_another_believes_once() {
    let (hops, node) = (Hops::default(), node(b"key"));
    let request = signed(b"key", &claims(), node.now(), 1);
    assert_eq!(hops.admit(&request, Some(&node)), Ok(claims()));
    assert_eq!(hops.admit(&request, Some(&node)), Err(Unproven::Replayed));
    let fresh = sign(&node, &Method::POST, &"/mcp?x=1".parse().unwrap(), &claims()).unwrap();
    assert_eq!(hops.admit(&self::request(fresh), Some(&node)), Ok(claims()));
}

#[test]
fn nodes_go_by_one_clock_although_their_own_differ() {
    let (hops, right, wrong) = (Hops::default(), node(b"key"), node(b"key"));
    let target = "/mcp?x=1".parse().unwrap();
    let passed = || request(sign(&right, &Method::POST, &target, &claims()).unwrap());
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(7_200);
    wrong.clock.set(later);
    assert_eq!(hops.admit(&passed(), Some(&wrong)), Err(Unproven::Untimely), "as far apart as that they would be");
    right.clock.set(later);
    assert_eq!(hops.admit(&passed(), Some(&wrong)), Ok(claims()));
}

#[test]
fn everything_that_is_said_is_covered() {
    let hops = Hops::default();
    let node = node(b"key");
    let now = node.now();
    let other = |change: fn(&mut Request<()>)| {
        let mut request = signed(b"key", &claims(), now, 2);
        change(&mut request);
        request
    };
    let part = |at: usize, with: fn(&str) -> String| {
        let request = signed(b"key", &claims(), now, 3);
        let header = request.headers()[HOP].to_str().unwrap();
        let parts = header.split(' ').enumerate().map(|(n, part)| if n == at { with(part) } else { part.to_owned() });
        self::request(HeaderValue::from_str(&parts.collect::<Vec<_>>().join(" ")).unwrap())
    };
    let elsewhere = Claims { to: "https://c:1".into(), ..claims() };
    for (what, request, want) in [
        ("a foreign key", signed(b"other", &claims(), now, 4), Unproven::Forged),
        ("the method", other(|request| *request.method_mut() = Method::GET), Unproven::Forged),
        ("the path", other(|request| *request.uri_mut() = "/mcp/tools?x=1".parse().unwrap()), Unproven::Forged),
        ("the query", other(|request| *request.uri_mut() = "/mcp?x=2".parse().unwrap()), Unproven::Forged),
        ("the version", part(0, |_| "v2".into()), Unproven::Malformed),
        ("the time", part(1, |time| (time.parse::<u64>().unwrap() + 1).to_string()), Unproven::Forged),
        ("the nonce", part(2, |_| URL_SAFE_NO_PAD.encode([7; 16])), Unproven::Forged),
        ("a short nonce", part(2, |_| URL_SAFE_NO_PAD.encode([7; 8])), Unproven::Malformed),
        ("the claims", part(3, |_| Claims { principal: "root".into(), ..claims() }.write()), Unproven::Forged),
        ("the MAC", part(4, |_| URL_SAFE_NO_PAD.encode([0; 32])), Unproven::Forged),
        ("a short MAC", part(4, |mac| mac.chars().take(20).collect()), Unproven::Malformed),
        ("no MAC", part(4, |_| String::new()), Unproven::Malformed),
        ("something more", part(4, |mac| format!("{mac} x")), Unproven::Malformed),
        ("another node", signed(b"key", &elsewhere, now, 5), Unproven::Astray),
        ("the past", signed(b"key", &claims(), now - 32, 6), Unproven::Untimely),
        ("the future", signed(b"key", &claims(), now + 32, 7), Unproven::Untimely),
        ("another time", signed(b"key", &claims(), TIME, 8), Unproven::Untimely),
        ("no header", Request::builder().uri("/mcp").body(()).unwrap(), Unproven::Missing),
        (
            "two",
            other(|request| assert!(request.headers_mut().append(HOP, HeaderValue::from_static("v1")))),
            Unproven::Missing,
        ),
    ] {
        assert_eq!(hops.admit(&request, Some(&node)), Err(want), "{what}");
    }
    assert_eq!(hops.admit(&signed(b"key", &claims(), now, 9), None), Err(Unproven::Keyless));
    assert!(hops.admit(&signed(b"key", &claims(), now - 25, 10), Some(&node)).is_ok());
    assert!(hops.admit(&signed(b"key", &claims(), now + 25, 11), Some(&node)).is_ok());
}
