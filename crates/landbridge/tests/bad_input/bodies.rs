//! Bodies at and beyond every limit, one by one, with the answer that each must get.

use lb_peers::raw::RawHttp;
use lb_peers::raw::http::{Headers, Response, Session, headers};
use serde_json::Value;

use crate::world::{PATH, World};

/// 4 MiB, the largest body.
const BODY_BYTES_MAX: usize = 4 << 20;

async fn post(http: &mut RawHttp, headers: &Headers, body: &[u8]) -> Response {
    let shown = String::from_utf8_lossy(body.get(..body.len().min(120)).unwrap_or_default()).into_owned();
    http.post(PATH, headers, body).await.unwrap_or_else(|error| panic!("{error} for {shown}"))
}

fn code_of(response: &Response) -> i64 {
    let value: Value = serde_json::from_slice(&response.body).unwrap_or_default();
    value.pointer("/error/code").and_then(Value::as_i64).unwrap_or_default()
}

/// Everything that is refused, with its status and code.
fn refused() -> Vec<(Vec<u8>, u16, i64)> {
    let mut table: Vec<(Vec<u8>, u16, i64)> = Vec::new();
    let texts: &[(&str, u16, i64)] = &[
        ("", 400, -32700),
        ("  ", 400, -32700),
        ("{", 400, -32700),
        ("nonsense", 400, -32700),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\0", 400, -32700),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\0ng\"}", 400, -32700),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\nng\"}", 400, -32700),
        ("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", 400, -32700),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}{}"#, 400, -32700),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping",}"#, 400, -32700),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}"#, 400, -32700),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","m\u0065thod":"tools/list"}"#, 400, -32700),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}"#, 400, -32700),
        ("{}", 400, -32600),
        ("3", 400, -32600),
        ("null", 400, -32600),
        (r#""ping""#, 400, -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#, 400, -32600),
        (r#"{"id":1,"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":1}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":null}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":["ping"]}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1}"#, 400, -32600),
    ];
    table.extend(texts.iter().map(|(text, status, code)| (text.as_bytes().to_vec(), *status, *code)));
    let long_id = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "x".repeat(10_000));
    table.push((long_id.into_bytes(), 400, -32600));
    for bytes in [&b"\xff"[..], b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82"] {
        table.push(([b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"", bytes, b"\"}"].concat(), 400, -32700));
    }
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = |levels: usize| format!("{}1{}", open.repeat(levels), close.repeat(levels));
        let message = |levels| {
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":{}}}}}"#, deep(levels)).into_bytes()
        };
        table.push((message(255), 400, -32700));
        table.push((message(100_000), 400, -32700));
    }
    table.push(("[".repeat(2_000_000).into_bytes(), 400, -32700));
    table.push(("{\"a\":".repeat(500_000).into_bytes(), 400, -32700));
    table
}

#[tokio::test]
async fn what_is_no_message_is_refused_with_the_right_code() {
    let world = World::start().await;
    let mut http = world.connect().await;
    let session = http.initialize(PATH, "2025-11-25").await.expect("a session");
    for (body, status, code) in refused() {
        let answer = post(&mut http, &session.headers(), &body).await;
        let shown = body.get(..body.len().min(200)).unwrap_or_default().escape_ascii().to_string();
        assert_eq!((answer.head.status(), code_of(&answer)), (status, code), "{shown}: {}", answer.text());
    }
    world.end().await;
}

#[tokio::test]
async fn ids_of_every_allowed_kind_come_back_as_written() {
    let world = World::start().await;
    let mut http = world.connect().await;
    let session = http.initialize(PATH, "2025-11-25").await.expect("a session");
    let longest = format!("\"{}\"", "x".repeat(1022));
    for id in ["0", "-0", "1e400", "1.0", "9007199254740993", "\"\"", "\"\\ud800\"", "\"\\u0041\"", "\"é\"", &longest]
    {
        for method in ["ping", "tools/list", "no/such/method"] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#);
            let answer = post(&mut http, &session.headers(), body.as_bytes()).await;
            assert_eq!(answer.head.status(), 200, "{id}: {}", answer.text());
            let start = format!(r#"{{"jsonrpc":"2.0","id":{id},"#);
            assert!(answer.text().starts_with(&start), "{id}: {}", answer.text());
        }
    }
    world.end().await;
}

#[tokio::test]
async fn batches_are_bounded_and_answered_member_by_member() {
    let world = World::start().await;
    let mut http = world.connect().await;
    let newer = http.initialize(PATH, "2025-11-25").await.expect("a session");
    let older = http.initialize(PATH, "2025-03-26").await.expect("a session");
    let ping = |id: usize| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
    let batch = |count: usize| format!("[{}]", (0..count).map(ping).collect::<Vec<_>>().join(","));
    let notes = r#"[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":5,"result":{}}]"#;
    let initialize = r#"[{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}]"#;
    let nested = format!("[[{}],[],3,null,\"x\",{{}}]", ping(1));
    // The session, the body, the status, and how many answers and errors come back.
    let table: &[(&Session, &str, u16, usize, usize)] = &[
        (&newer, "[]", 400, 0, 1),
        (&newer, &batch(1), 400, 0, 1),
        (&older, "[]", 400, 0, 1),
        (&older, &batch(1), 200, 1, 0),
        (&older, &batch(64), 200, 64, 0),
        (&older, &batch(65), 400, 0, 1),
        (&older, &batch(10_000), 400, 0, 1),
        (&older, &nested, 200, 0, 6),
        (&older, notes, 202, 0, 0),
        (&older, initialize, 200, 0, 1),
        (&older, "[1", 400, 0, 1),
    ];
    for (session, body, status, results, errors) in table {
        let answer = post(&mut http, &session.headers(), body.as_bytes()).await;
        let value: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let all = match value {
            Value::Array(all) => all,
            Value::Null => Vec::new(),
            one => vec![one],
        };
        let count = |key: &str| all.iter().filter(|one| one.get(key).is_some()).count();
        let got = (answer.head.status(), count("result"), count("error"));
        let shown = body.get(..body.len().min(100)).unwrap_or_default();
        assert_eq!(got, (*status, *results, *errors), "{shown}: {}", answer.text());
    }
    world.end().await;
}

/// A good request, filled up with spaces.
fn sized(bytes: usize) -> Vec<u8> {
    let mut body = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.to_vec();
    body.resize(bytes, b' ');
    body
}

#[tokio::test]
async fn bodies_over_four_mebibytes_are_refused_however_they_come() {
    let world = World::start().await;
    let mut http = world.connect().await;
    let session = http.initialize(PATH, "2025-11-25").await.expect("a session");
    let largest = post(&mut http, &session.headers(), &sized(BODY_BYTES_MAX)).await;
    assert_eq!(largest.head.status(), 200, "{}", largest.text());
    for bytes in [BODY_BYTES_MAX + 1, 3 * BODY_BYTES_MAX] {
        let mut http = world.connect().await;
        announced(&mut http, &session, bytes).await;
        let head = http.head().await.expect("an answer");
        assert_eq!((head.status(), head.header("connection")), (413, Some("close")), "{bytes} announced");
    }
    // Without a length, the body is cut off as it grows.
    for _ in 0..20 {
        let mut http = world.connect().await;
        let all = [session.headers(), headers(&[("Transfer-Encoding", "chunked"), ("Host", "localhost")])].concat();
        let lines: String = all.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        http.send_raw(format!("POST {PATH} HTTP/1.1\r\n{lines}\r\n").as_bytes()).await.expect("sent");
        let chunk = [b"10000\r\n".to_vec(), vec![b' '; 0x10000], b"\r\n".to_vec()].concat();
        let mut sent = 0;
        // It stops reading; what it does not read cannot be sent for ever.
        while sent < 256 && http.send_raw(&chunk).await.is_ok() {
            sent += 1;
        }
        if let Ok(head) = http.head().await {
            assert_eq!(head.status(), 413);
        } else {
            assert!(sent < 256, "all of it was taken, and nothing said");
        }
    }
    world.end().await;
}

/// Sends the head of a large body and the first bytes of it.
async fn announced(http: &mut RawHttp, session: &Session, bytes: usize) {
    let length = bytes.to_string();
    let all = [session.headers(), headers(&[("Content-Length", &length), ("Host", "localhost")])].concat();
    let lines: String = all.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    http.send_raw(format!("POST {PATH} HTTP/1.1\r\n{lines}\r\n{{").as_bytes()).await.expect("sent");
}
