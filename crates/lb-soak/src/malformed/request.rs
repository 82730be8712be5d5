//! Damaged requests over HTTP: bodies, headers, paths and methods.

use lb_peers::raw::RawHttp;
use lb_peers::raw::http::{Headers, Response, Session, headers, modern_headers, post_headers};
use lb_testkit::generate::{self, Rng, damage};

use super::corpus::WORDS;
use super::judge::{Kind, judge, mirrored};

/// One request, before it is written down.
#[derive(Debug)]
pub struct Input {
    method: &'static str,
    path: Vec<u8>,
    headers: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
}

impl Input {
    /// A damaged one, most of the time, in the words of this session.
    #[must_use]
    pub fn new(rng: &mut Rng, path: &str, session: &Session, corpus: &[Vec<u8>]) -> Self {
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
        let mut input = Self { method, path: path.into(), headers, body };
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
    #[must_use]
    pub fn wire(&self, host: &str) -> Vec<u8> {
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

/// The answer to one input, its status, and whether the connection is over.
///
/// # Errors
/// When there is none, or none that a client can understand.
pub async fn exchange(http: &mut RawHttp, input: &Input, wire: &[u8]) -> Result<(Kind, u16, bool), String> {
    let unanswered = |error: std::io::Error| format!("no answer: {error}");
    http.send_raw(wire).await.map_err(unanswered)?;
    let head = http.head().await.map_err(unanswered)?;
    let closes = head.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    if input.method == "GET" && head.is_sse() && head.status() == 200 {
        return Ok((Kind::Result, 200, true));
    }
    let (body, complete) = http.body().await.map_err(unanswered)?;
    let response = Response { head, body, complete };
    // A path that leads to a page is answered with that page.
    if response.head.status() == 200 && !input.path.starts_with(b"/mcp") {
        return Ok((Kind::Result, 200, closes));
    }
    let kind = judge(&input.body, &response)?;
    Ok((kind, response.head.status(), closes))
}
