//! Thousands of damaged requests over HTTP: bodies, headers, paths and methods.

use std::collections::BTreeMap;

use lb_peers::raw::RawHttp;
use lb_peers::raw::http::{Headers, Session, headers, modern_headers, post_headers};
use lb_testkit::generate::{self, Rng, damage};
use tokio::task::JoinSet;

use crate::judge::{Kind, judge, mirrored};
use crate::world::{PATH, WORDS, World, corpus, echo, times};

const REQUESTS: u64 = 7_000;
const CLIENTS: u64 = 4;
const SEED: u64 = 0xBAD0;

/// One request, before it is written down.
#[derive(Debug)]
struct Input {
    method: &'static str,
    path: Vec<u8>,
    headers: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
}

impl Input {
    fn new(rng: &mut Rng, session: &Session, corpus: &[Vec<u8>]) -> Self {
        let mut body = rng.pick(corpus);
        match rng.below(8) {
            0 => body = generate::message(rng).into_bytes(),
            1 => body = (0..rng.below(64)).map(|_| rng.byte()).collect(),
            2 => {}
            _ => damage(rng, &mut body, corpus, WORDS),
        }
        let (method, all) = match rng.below(16) {
            0 => ("GET", without_session(session, rng)),
            1 => ("DELETE", without_session(session, rng)),
            2 => ("GET", [session.headers(), headers(&[("Last-Event-ID", "no-such-event")])].concat()),
            3 => ("POST", post_headers()),
            4 => ("PUT", session.headers()),
            // Now and then in the words of the other era.
            choice => {
                let is_modern = body.windows(10).any(|part| part == b"2026-07-28");
                ("POST", if is_modern == (choice != 5) { modern(&body) } else { session.headers() })
            }
        };
        if method != "POST" {
            body.clear();
        }
        let headers = all.into_iter().map(|(name, value)| (name.into_bytes(), value.into_bytes())).collect();
        let mut input = Self { method, path: PATH.into(), headers, body };
        input.damage_head(rng);
        input
    }

    /// Now and then the head is damaged too, or alone.
    fn damage_head(&mut self, rng: &mut Rng) {
        const HEAD_WORDS: &[&[u8]] = &[
            b",",
            b";q=0",
            b"*/*",
            b"text/event-stream",
            b"application/json",
            b"2025-03-26",
            b"2026-07-28",
            b"=?base64?",
            b"?=",
            b"\t",
            b" ",
            b"\xff",
            b"%00",
            b"/../",
            b"..",
            b"server",
            b"X-Forwarded-For",
            b"null",
        ];
        let at = rng.below(self.headers.len() * 8);
        let others = [b"Mcp-Session-Id: 1".to_vec(), b"http://localhost/".to_vec()];
        if let Some((name, value)) = self.headers.get_mut(at) {
            let part = if rng.one_in(5) { name } else { value };
            damage(rng, part, &others, HEAD_WORDS);
            part.retain(|byte| !matches!(byte, b'\r' | b'\n'));
        }
        if rng.one_in(20) {
            damage(rng, &mut self.path, &others, HEAD_WORDS);
            self.path.retain(|byte| !byte.is_ascii_whitespace());
        }
        if rng.one_in(20) {
            let again = rng.pick(&self.headers);
            self.headers.push(again);
        }
    }

    /// The bytes, with a length that is right.
    fn wire(&self, host: &str) -> Vec<u8> {
        let mut bytes = [self.method.as_bytes(), b" ", &self.path, b" HTTP/1.1\r\n"].concat();
        bytes.extend_from_slice(format!("Host: {host}\r\nContent-Length: {}\r\n", self.body.len()).as_bytes());
        for (name, value) in &self.headers {
            bytes.extend_from_slice(&[name, &b": "[..], value, b"\r\n"].concat());
        }
        [bytes, b"\r\n".to_vec(), self.body.clone()].concat()
    }
}

/// The headers of a session that does not exist, but nearly does.
fn without_session(session: &Session, rng: &mut Rng) -> Headers {
    let mut all = session.headers();
    for (name, value) in &mut all {
        if name == "Mcp-Session-Id" {
            value.insert(rng.below(value.len()), 'x');
        }
    }
    all
}

/// Modern headers that fit the body, if it says what would.
fn modern(body: &[u8]) -> Headers {
    let plain = |text: &String| text.bytes().all(|byte| byte.is_ascii_graphic());
    match mirrored(body).filter(|(method, _)| plain(method)) {
        Some((method, name)) => modern_headers(&method, name.as_deref().filter(|name| plain(&(*name).to_owned()))),
        None => modern_headers("tools/list", None),
    }
}

/// Sends inputs one after the other, each followed by a good request, and counts the answers.
async fn client(world: &World, number: u64, count: u64) -> BTreeMap<(Kind, u16), u64> {
    let corpus = corpus();
    let mut http = world.connect().await;
    let version = if number.is_multiple_of(2) { "2025-11-25" } else { "2025-03-26" };
    let session = http.initialize(PATH, version).await.expect("a session");
    let mut kinds = BTreeMap::new();
    for n in (number..count).step_by(usize::try_from(CLIENTS).unwrap_or(1)) {
        let mut rng = Rng::new(SEED + n);
        let input = Input::new(&mut rng, &session, &corpus);
        let wire = input.wire(&world.gateway.address.to_string());
        let shown = format!("seed {SEED:#x}, input {n}: b\"{}\"", wire.escape_ascii());
        let (kind, status, closed) = exchange(&mut http, &input, &wire, &shown).await;
        *kinds.entry((kind, status)).or_default() += 1;
        if closed {
            http = world.connect().await;
        }
        if n.is_multiple_of(8) {
            echo(&mut http, &session, "next").await;
        } else {
            let ping = br#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
            let answer = http.post(PATH, &session.headers(), ping).await;
            let answer = answer.unwrap_or_else(|error| panic!("{error} on the request after {shown}"));
            assert_eq!(answer.text(), r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, "after {shown}");
        }
    }
    kinds
}

/// The answer to one input, its status, and whether the connection is over.
async fn exchange(http: &mut RawHttp, input: &Input, wire: &[u8], shown: &str) -> (Kind, u16, bool) {
    let unanswered = format!("no answer to {shown}");
    http.send_raw(wire).await.expect(&unanswered);
    let head = http.head().await.expect(&unanswered);
    let closes = head.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    if input.method == "GET" && head.is_sse() {
        assert_eq!(head.status(), 200, "{shown}");
        return (Kind::Result, 200, true);
    }
    let (body, complete) = http.body().await.expect(&unanswered);
    let response = lb_peers::raw::http::Response { head, body, complete };
    // A path that leads to a page is answered with that page.
    if response.head.status() == 200 && !input.path.starts_with(b"/mcp") {
        return (Kind::Result, 200, closes);
    }
    match std::panic::catch_unwind(|| judge(&input.body, &response)) {
        Ok(kind) => (kind, response.head.status(), closes),
        Err(_) => panic!("{} {:?} for {shown}", response.head.start, response.text()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_requests_are_answered_and_the_next_good_one_works() {
    let world = std::sync::Arc::new(World::start().await);
    let count = times(REQUESTS);
    let started = std::time::Instant::now();
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let world = world.clone();
        clients.spawn(async move { client(&world, number, count).await });
    }
    let mut kinds: BTreeMap<(Kind, u16), u64> = BTreeMap::new();
    while let Some(counted) = clients.join_next().await {
        for (kind, count) in counted.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())) {
            *kinds.entry(kind).or_default() += count;
        }
    }
    eprintln!("{count} requests, seed {SEED:#x}: {kinds:?} in {:.1?}", started.elapsed());
    assert_eq!(kinds.values().sum::<u64>(), count);
    let refused: u64 = kinds.iter().filter(|((kind, _), _)| *kind == Kind::Refused).map(|(_, count)| count).sum();
    let good = count - refused;
    assert!(count / 10 <= good, "only {good} of {count} came through to the protocol");
    std::sync::Arc::into_inner(world).expect("all clients are done").end().await;
}
