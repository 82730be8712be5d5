//! Requests that are nearly HTTP, and what each must be answered with.

use crate::world::PATH;

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// What it is, what is sent, and the statuses that may come back; none where the connection may just end.
pub type Case = (&'static str, Vec<u8>, &'static [u16]);

/// A good request of a session, with a place for further header lines.
pub fn request(session: &str, more: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMcp-Session-Id: {session}\r\n{more}\r\n{body}"
    )
    .into_bytes()
}

/// The same with a body that is a ping.
pub fn sized(session: &str, more: &str) -> Vec<u8> {
    request(session, &format!("Content-Length: {}\r\n{more}", PING.len()), PING)
}

/// All of them.
pub fn cases(session: &str) -> Vec<Case> {
    [targets(session), headers(session), framing(session)].concat()
}

fn lines(text: &str) -> Vec<u8> {
    text.replace('\n', "\r\n").into_bytes()
}

const TAIL: &str = "\nContent-Type: application/json\nContent-Length: 0\n\n";

fn targets(session: &str) -> Vec<Case> {
    vec![
        ("good", sized(session, ""), &[200]),
        ("nothing", Vec::new(), &[]),
        ("line ends only", b"\r\n\r\n\r\n\r\n".to_vec(), &[]),
        ("zeros", vec![0; 4096], &[400]),
        ("high bytes", vec![0xff; 4096], &[400]),
        ("a TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), &[400]),
        ("an HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), &[]),
        ("HTTP/0.9", b"GET /\r\n\r\n".to_vec(), &[400]),
        ("HTTP/3.7", lines("GET / HTTP/3.7\nHost: localhost\n\n"), &[400, 505]),
        ("a method in small letters", lines(&format!("post {PATH} HTTP/1.1\nHost: localhost{TAIL}")), &[405]),
        ("a method of its own", lines(&format!("BREW {PATH} HTTP/1.1\nHost: localhost{TAIL}")), &[405]),
        ("a space in the path", lines("GET /mcp x HTTP/1.1\nHost: localhost\n\n"), &[400]),
        ("no path", lines("GET HTTP/1.1\nHost: localhost\n\n"), &[400]),
        (
            "another server in the path",
            lines(&format!("POST http://evil.example{PATH} HTTP/1.1\nHost: localhost{TAIL}")),
            &[403],
        ),
        ("CONNECT", lines("CONNECT evil.example:443 HTTP/1.1\nHost: evil.example:443\n\n"), &[400, 403, 404, 405]),
        ("a long path", lines(&format!("GET /{} HTTP/1.1\nHost: localhost\n\n", "x".repeat(100_000))), &[414, 431]),
        ("a path of 9 KiB", lines(&format!("GET /{} HTTP/1.1\nHost: localhost\n\n", "x".repeat(9_000))), &[414]),
    ]
}

fn headers(session: &str) -> Vec<Case> {
    let many: String = (0..300).map(|n| format!("X-{n}: y\r\n")).collect();
    let large = format!("X-Large: {}\r\n", "x".repeat(100_000));
    vec![
        ("no host", lines(&format!("POST {PATH} HTTP/1.1{TAIL}")), &[400, 403]),
        ("two hosts", sized(session, "Host: localhost\r\n"), &[400]),
        ("another host", lines(&format!("POST {PATH} HTTP/1.1\nHost: evil.example{TAIL}")), &[403]),
        ("a page of another host", sized(session, "Origin: http://evil.example\r\n"), &[403]),
        ("two origins", sized(session, "Origin: http://localhost\r\nOrigin: http://evil.example\r\n"), &[403]),
        ("two sessions", sized(session, "Mcp-Session-Id: other\r\n"), &[400]),
        ("the same session twice", sized(session, &format!("Mcp-Session-Id: {session}\r\n")), &[400]),
        ("the session twice, in other letters", sized(session, &format!("MCP-SESSION-ID: {session}\r\n")), &[400]),
        ("a session on two lines", sized("x\r\n y", ""), &[400, 404]),
        (
            "two versions",
            sized(session, "MCP-Protocol-Version: 2025-11-25\r\nMCP-Protocol-Version: 2026-07-28\r\n"),
            &[400],
        ),
        ("two resume points", sized(session, "Last-Event-ID: 1\r\nLast-Event-ID: 2\r\n"), &[400]),
        ("a folded header", sized(session, "X-A: b\r\n c\r\n"), &[400]),
        ("a space before the colon", sized(session, "X-A : b\r\n"), &[400]),
        ("a header without a colon", sized(session, "nonsense\r\n"), &[400]),
        ("a header without a name", sized(session, ": x\r\n"), &[400]),
        ("a NUL in a header", sized(session, "X-A: b\0c\r\n"), &[400]),
        ("a bare CR in a header", sized(session, "X-A: b\rc\r\n"), &[400]),
        ("many headers", sized(session, &many), &[431]),
        ("large headers", sized(session, &large), &[431]),
        ("headers of 33 KiB", sized(session, &format!("X-Large: {}\r\n", "x".repeat(33_000))), &[431]),
        ("headers of 31 KiB", sized(session, &format!("X-Large: {}\r\n", "x".repeat(31_000))), &[200]),
        (
            "another content type",
            lines(&format!(
                "POST {PATH} HTTP/1.1\nHost: localhost\nContent-Type: text/plain\nContent-Length: 2\n\n{{}}"
            )),
            &[415],
        ),
        (
            "no content type",
            lines(&format!("POST {PATH} HTTP/1.1\nHost: localhost\nContent-Length: 2\n\n{{}}")),
            &[415],
        ),
        (
            "nothing acceptable",
            lines(&format!("POST {PATH} HTTP/1.1\nHost: localhost\nAccept: text/html{TAIL}")),
            &[406],
        ),
        ("an unknown expectation", sized(session, "Expect: 200-maybe\r\n"), &[200, 417]),
        ("an upgrade", sized(session, "Connection: Upgrade\r\nUpgrade: websocket\r\n"), &[200]),
    ]
}

fn framing(session: &str) -> Vec<Case> {
    let chunked = |body: &str| request(session, "Transfer-Encoding: chunked\r\n", body);
    let length = |length: &str| request(session, &format!("Content-Length: {length}\r\n"), PING);
    vec![
        ("two lengths", sized(session, "Content-Length: 3\r\n"), &[400]),
        ("a signed length", length("+40"), &[400]),
        ("a negative length", length("-1"), &[400]),
        ("a length in hex", length("0x28"), &[400]),
        ("an endless length", length("99999999999999999999999"), &[400, 413]),
        ("an empty length", length(""), &[400]),
        (
            "a length and chunks",
            request(
                session,
                "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                "0\r\n\r\nGET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n",
            ),
            &[400],
        ),
        (
            "chunks and a length",
            request(
                session,
                "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
                "0\r\n\r\nGET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n",
            ),
            &[400],
        ),
        (
            "an unknown coding",
            request(session, "Transfer-Encoding: xchunked\r\nContent-Length: 40\r\n", PING),
            &[400, 501],
        ),
        ("a coding behind chunks", request(session, "Transfer-Encoding: chunked, identity\r\n", PING), &[400, 501]),
        ("chunks of another spelling", request(session, "Transfer-Encoding: \x0bchunked\r\n", PING), &[400, 501]),
        ("chunks", chunked(&format!("{:x}\r\n{PING}\r\n0\r\n\r\n", PING.len())), &[200]),
        (
            "chunks with an extension and trailers",
            chunked(&format!("{:x};a=b\r\n{PING}\r\n0\r\nX-T: 1\r\n\r\n", PING.len())),
            &[200],
        ),
        ("a chunk size that is none", chunked("zz\r\nabc\r\n0\r\n\r\n"), &[400]),
        ("a chunk size too large", chunked("fffffffffffffffff\r\nabc\r\n0\r\n\r\n"), &[400, 413]),
        ("a negative chunk size", chunked("-1\r\nabc\r\n0\r\n\r\n"), &[400]),
        ("a chunk longer than its size", chunked("3\r\nabcdef\r\n0\r\n\r\n"), &[400]),
        ("an endless chunk extension", chunked(&format!("1;{}\r\nx\r\n0\r\n\r\n", "a".repeat(100_000))), &[400, 413]),
        ("endless trailers", chunked(&format!("0\r\n{}\r\n", "X-T: y\r\n".repeat(20_000))), &[400, 413, 431]),
    ]
}
