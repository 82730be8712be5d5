//! Bytes on a socket that are no HTTP, or only nearly.

use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use lb_peers::raw::http1::Conn;
use lb_testkit::generate::{Rng, damage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::near_http::{cases, request, sized};
use crate::world::{PATH, PATIENCE, World, times};

const DAMAGED: u64 = 500;
const SEED: u64 = 0x7C9;
/// Connections that are open at the same time.
const AT_ONCE: usize = 16;
/// A connection on which nothing comes for so long is done.
const QUIET: Duration = Duration::from_millis(150);

/// Sends bytes and reads what comes, until the connection is closed or quiet for so long: the statuses in order.
async fn statuses(address: SocketAddr, bytes: &[u8], first: Duration) -> Result<Vec<u16>, Error> {
    let mut conn = Conn::new(TcpStream::connect(address).await?);
    match conn.write(bytes).await {
        // It may have closed before it had everything.
        Err(error) if !is_closed(&error) => return Err(error),
        _ => {}
    }
    let mut found = Vec::new();
    loop {
        // What was hidden behind the first request would be answered at once.
        let patience = if found.is_empty() { first } else { first.min(QUIET) };
        let Ok(Ok(Some(head))) = tokio::time::timeout(patience, conn.response_head("POST")).await else {
            return Ok(found);
        };
        found.push(head.status());
        if head.is_sse() || tokio::time::timeout(PATIENCE, conn.rest()).await.is_err() {
            return Ok(found);
        }
    }
}

fn is_closed(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_quite_http_is_refused() {
    let world = World::start().await;
    let address = world.gateway.address;
    let mut http = world.connect().await;
    let session = http.initialize(PATH, "2025-11-25").await.expect("a session").id.expect("an id");
    let mut wrong = Vec::new();
    for (name, bytes, want) in cases(&session) {
        let patience = if want.is_empty() { QUIET } else { PATIENCE };
        let got = statuses(address, &bytes, patience).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        // One answer, and nothing behind it: bytes that were hidden in a body are never a request of their own.
        let right = match got.as_slice() {
            [] => want.is_empty(),
            [one] => want.contains(one),
            _ => false,
        };
        if !right {
            wrong.push(format!("{name}: {got:?}, not one of {want:?}"));
        }
        works(address, &session, name).await;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    world.end().await;
}

/// A good request is answered.
async fn works(address: SocketAddr, session: &str, after: &str) {
    let mut conn = Conn::new(TcpStream::connect(address).await.expect("it listens"));
    conn.write(&sized(session, "")).await.expect("sent");
    let head = tokio::time::timeout(PATIENCE, conn.response_head("POST")).await.expect("an answer in time");
    let status = head.expect("a head").map(|head| head.status());
    assert_eq!(status, Some(200), "after {after}");
}

/// Whether one damaged request was answered.
async fn damaged(address: SocketAddr, session: String, n: u64, bytes: Vec<u8>) -> bool {
    let shown = format!("seed {SEED:#x}, input {n}: b\"{}\"", bytes.escape_ascii());
    let got = statuses(address, &bytes, QUIET).await.unwrap_or_else(|error| panic!("{error} for {shown}"));
    let allowed = |status: &u16| *status < 500 || matches!(status, 501 | 505);
    assert!(got.iter().all(allowed), "{got:?} for {shown}");
    works(address, &session, &shown).await;
    !got.is_empty()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_bytes_are_refused_or_cut_off() {
    const WORDS: &[&[u8]] = &[
        b"\r\n",
        b"\n",
        b"\r",
        b":",
        b" ",
        b"\0",
        b"HTTP/1.1",
        b"Content-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"0\r\n\r\n",
        b"Mcp-Session-Id: x\r\n",
        b"Host: localhost\r\n",
        b"POST ",
        b"\xff",
        b"Connection: close\r\n",
    ];
    let world = World::start().await;
    let mut http = world.connect().await;
    let session = http.initialize(PATH, "2025-11-25").await.expect("a session").id.expect("an id");
    let good: Vec<Vec<u8>> =
        cases(&session).into_iter().map(|(_, bytes, _)| bytes).filter(|bytes| bytes.len() < 4096).collect();
    let mut answered = 0;
    let mut open = JoinSet::new();
    for n in 0..times(DAMAGED) {
        let mut rng = Rng::new(SEED + n);
        let mut bytes = rng.pick(&good);
        damage(&mut rng, &mut bytes, &good, WORDS);
        open.spawn(damaged(world.gateway.address, session.clone(), n, bytes));
        if AT_ONCE <= open.len() {
            answered += u64::from(open.join_next().await.expect("some are open").expect("none fails"));
        }
    }
    while let Some(one) = open.join_next().await {
        answered += u64::from(one.expect("none fails"));
    }
    eprintln!("{} damaged requests, seed {SEED:#x}, {answered} of them answered", times(DAMAGED));
    assert!(times(DAMAGED) / 10 < answered, "only {answered} were answered");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelined_requests_are_answered_in_order() {
    let world = World::start().await;
    let mut http = world.connect().await;
    let session = http.initialize(PATH, "2025-11-25").await.expect("a session").id.expect("an id");
    let mut bytes = Vec::new();
    for id in 0..100 {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        bytes.extend(request(&session, &format!("Content-Length: {}\r\n", body.len()), &body));
    }
    // Bad JSON does not disturb what follows, bad HTTP ends it.
    bytes.extend(request(&session, "Content-Length: 1\r\n", "{"));
    bytes.extend(sized(&session, ""));
    bytes.extend(b"nonsense\r\n\r\n");
    bytes.extend(sized(&session, ""));
    let mut conn = Conn::new(TcpStream::connect(world.gateway.address).await.expect("it listens"));
    conn.write(&bytes).await.expect("sent");
    for id in 0..100 {
        let head = conn.response_head("POST").await.expect("a head").expect("an answer");
        let (body, complete) = conn.rest().await.expect("a body");
        assert_eq!((head.status(), complete), (200, true));
        assert_eq!(String::from_utf8_lossy(&body), format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    }
    let mut rest = Vec::new();
    while let Ok(Some(head)) = conn.response_head("POST").await {
        rest.push(head.status());
        conn.rest().await.expect("a body");
    }
    assert_eq!(rest, [400, 200, 400]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_opened_and_left_harm_nobody() {
    let world = World::start().await;
    let head = format!("POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n");
    let body = format!("{head}Content-Length: 1000\r\n\r\n{{\"jsonrpc\"");
    let mut open = Vec::new();
    for n in 0..400 {
        let mut socket = TcpStream::connect(world.gateway.address).await.expect("it listens");
        let part = [&b""[..], b"P", head.as_bytes(), body.as_bytes()][n % 4];
        socket.write_all(part).await.expect("sent");
        open.push(socket);
    }
    world.works().await;
    drop(open);
    // Half a request and gone, at every byte of it.
    for end in 0..body.len() {
        let mut socket = TcpStream::connect(world.gateway.address).await.expect("it listens");
        socket.write_all(&body.as_bytes()[..end]).await.expect("sent");
    }
    world.end().await;
}

/// When a client that sends one byte a second is cut off.
async fn drip(address: SocketAddr, first: &[u8]) -> (Duration, Vec<u8>) {
    let mut socket = TcpStream::connect(address).await.expect("it listens");
    socket.write_all(first).await.expect("sent");
    let started = Instant::now();
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    let mut read = Vec::new();
    loop {
        let mut buffer = [0; 1024];
        tokio::select! {
            some = socket.read(&mut buffer) => match some {
                Ok(0) | Err(_) => return (started.elapsed(), read),
                Ok(some) => read.extend_from_slice(&buffer[..some]),
            },
            _ = ticks.tick() => {
                if socket.write_all(b"x").await.is_err() {
                    return (started.elapsed(), read);
                }
            }
        }
        assert!(started.elapsed() < Duration::from_secs(50), "it is never cut off");
    }
}

/// A head may take 10 s. A body may take 30 s, which only the long run waits for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_drips_its_request_is_cut_off() {
    let world = World::start().await;
    let address = world.gateway.address;
    let (took, _) = drip(address, format!("POST {PATH} HTTP/1.1\r\nHost: localhost\r\nX-A: ").as_bytes()).await;
    assert!((Duration::from_secs(9)..Duration::from_secs(16)).contains(&took), "cut off after {took:?}");
    if std::env::var_os("LANDBRIDGE_LONG").is_some() {
        let head = format!("POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n");
        let (took, read) = drip(address, format!("{head}Content-Length: 1000\r\n\r\n").as_bytes()).await;
        assert!((Duration::from_secs(29)..Duration::from_secs(40)).contains(&took), "cut off after {took:?}");
        assert!(read.starts_with(b"HTTP/1.1 408 "), "{}", read.escape_ascii());
    }
    world.end().await;
}
