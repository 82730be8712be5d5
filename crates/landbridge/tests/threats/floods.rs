//! More than anybody should send: how much, how slowly, how compressed, in which protocol.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lb_peers::harness::Gateway;
use lb_peers::procs::{memory_kib, ticks, until};
use lb_peers::raw::http1::{Conn, response};
use lb_peers::tools::ToolClient;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::world::*;

const MIB: u64 = 1024;

/// Streams a body in chunks until it is refused or `bytes` were taken; the status, and how much was taken.
async fn stream(address: SocketAddr, head: &str, bytes: usize) -> (Option<u16>, usize) {
    let socket = TcpStream::connect(address).await.expect("it listens");
    let (mut reading, mut writing) = socket.into_split();
    let head = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
    writing.write_all(head.as_bytes()).await.expect("the head is taken");
    let chunk = [&b"10000\r\n"[..], &[b' '; 0x10000], b"\r\n"].concat();
    let mut sent = 0;
    let mut answer = [0; 64];
    loop {
        tokio::select! {
            biased;
            got = reading.read(&mut answer) => {
                let text = String::from_utf8_lossy(answer.get(..got.unwrap_or(0)).unwrap_or_default()).into_owned();
                return (text.split(' ').nth(1).and_then(|status| status.parse().ok()), sent);
            }
            done = writing.write_all(&chunk), if sent < bytes => match done {
                Ok(()) => sent += 0x10000,
                Err(_) => return (None, sent),
            },
        }
    }
}

fn post_head(more: &str) -> String {
    format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\n{more}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_bodies_without_end_are_cut_off_and_take_little_memory() {
    let world = World::start(&[]).await;
    let client = world.client().await;
    let (address, pid) = (world.gateway.address, world.gateway.pid());
    let before = memory_kib(pid, "VmRSS");
    let places = Arc::new(Semaphore::new(16));
    let mut floods = JoinSet::new();
    for _ in 0..200 {
        let places = places.clone();
        floods.spawn(async move {
            let _place = places.acquire().await.expect("open");
            stream(address, &post_head(""), 1 << 30).await
        });
    }
    for (status, sent) in floods.join_all().await {
        // Whoever goes on sending may find the connection closed before the answer is read.
        // Too large by itself, or too much together with the others.
        assert!(status.is_none_or(|status| [413, 503].contains(&status)), "{status:?} after {sent}");
        assert!(sent < 64 << 20, "{sent} bytes were taken");
    }
    works(&client).await;
    // Connections that were cut off are closed a little later.
    let what = "less than 64 MiB more than before";
    until(PATIENCE, what, || memory_kib(pid, "VmRSS").saturating_sub(before) < 64 * MIB).await;
}

/// A length that is announced and too large is refused before a byte of the body comes.
#[tokio::test]
async fn a_body_that_is_announced_as_too_large_is_not_waited_for() {
    let world = World::start(&[]).await;
    for length in ["4194305", "1073741824", "18446744073709551615", "99999999999999999999999", "-1", "0x10", "1e3"] {
        let mut http = connect(world.gateway.address).await;
        let head = post_head(&format!("Content-Length: {length}\r\n\r\n"));
        http.send_raw(head.as_bytes()).await.expect("it reads");
        let start = Instant::now();
        let status = http.head().await.expect("an answer").status();
        assert!([400, 413, 431].contains(&status), "{length}: {status}");
        assert!(start.elapsed() < Duration::from_secs(5), "{length}: {:?}", start.elapsed());
    }
    world.client().await;
}

/// Ten mebibytes that unpack to more than ten gibibytes: members of zeros, one after the other.
async fn bomb() -> Vec<u8> {
    let script = "import gzip,sys;one=gzip.compress(bytes(64<<20),9);sys.stdout.buffer.write(one*((10<<20)//len(one)))";
    let made = Command::new("python3").args(["-c", script]).stderr(Stdio::inherit()).output().await.expect("it runs");
    assert!(made.stdout.len() > 9 << 20, "{}", made.stdout.len());
    made.stdout
}

#[tokio::test]
async fn nothing_that_a_client_packs_is_unpacked() {
    let world = World::start(&[]).await;
    let client = world.client().await;
    let (pid, heard) = (world.gateway.pid(), world.heard());
    let before = memory_kib(pid, "VmRSS");
    let bomb = bomb().await;
    let bomb = bomb.get(..4 << 20).expect("long enough");
    for encoding in ["gzip", "deflate", "br", "zstd", "gzip, gzip"] {
        let mut http = connect(world.gateway.address).await;
        let head = post_head(&format!("Content-Encoding: {encoding}\r\nContent-Length: {}\r\n\r\n", bomb.len()));
        http.send_raw(&[head.as_bytes(), bomb].concat()).await.expect("it reads");
        let status = http.head().await.expect("an answer").status();
        assert!((400..500).contains(&status), "{encoding}: {status}");
    }
    works(&client).await;
    assert_eq!(world.heard(), heard + 1);
    let grown = memory_kib(pid, "VmHWM").saturating_sub(before);
    assert!(grown < 32 * MIB, "{grown} KiB more");
}

#[tokio::test]
async fn a_server_that_answers_with_a_bomb_is_an_error_and_takes_little_memory() {
    let bomb = bomb().await;
    let gateway = Gateway::serve_tools(LANDBRIDGE, json!({}), &[]).await;
    let client = ToolClient::http(&gateway).await;
    let before = memory_kib(gateway.pid(), "VmRSS");
    for kind in ["application/json", "text/event-stream"] {
        let packed = [("Content-Type", kind), ("Content-Encoding", "gzip")];
        let server = Always::answers(response(200, &packed, &bomb)).await;
        let url = format!("http://{}/mcp", server.address);
        let reply = client.call("add_server", json!({ "name": "bomb", "url": url })).await;
        assert!(reply.is_error() && server.asked() > 0, "{kind}: {reply}");
    }
    let reply = client.call("list_servers", json!({})).await;
    assert_eq!(reply.json(), json!([]));
    let grown = memory_kib(gateway.pid(), "VmHWM").saturating_sub(before);
    assert!(grown < 32 * MIB, "{grown} KiB more");
}

/// HTTP/2 is not offered, so what is known to harm its servers is refused with the first line.
#[tokio::test]
async fn http_2_is_refused_with_its_first_line() {
    let world = World::start(&[]).await;
    let client = world.client().await;
    let (address, pid) = (world.gateway.address, world.gateway.pid());
    let mut attack = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for stream in (1..20_000_u32).step_by(2) {
        // A request, and its reset at once.
        attack.extend([0, 0, 3, 1, 5].into_iter().chain(stream.to_be_bytes()).chain([0x82, 0x84, 0x86]));
        attack.extend([0, 0, 4, 3, 0].into_iter().chain(stream.to_be_bytes()).chain([0, 0, 0, 8]));
    }
    let used = ticks(pid);
    for _ in 0..20 {
        let mut socket = TcpStream::connect(address).await.expect("it listens");
        // It may be closed before everything was sent.
        let _sent = socket.write_all(&attack).await;
        let mut answer = Vec::new();
        let closed = tokio::time::timeout(PATIENCE, socket.read_to_end(&mut answer)).await;
        assert!(closed.is_ok(), "the connection stays open");
        assert!(!answer.starts_with(b"\0\0"), "a frame of HTTP/2 came back: {answer:?}");
    }
    let used = ticks(pid) - used;
    assert!(used < 500, "{used} ticks of 10 ms");
    // Asking to change over is no reason to.
    let mut conn = Conn::new(TcpStream::connect(address).await.expect("it listens"));
    let upgrade = "GET /ping HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\n\
                   Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n";
    conn.write(upgrade.as_bytes()).await.expect("sent");
    let head = conn.response_head("GET").await.expect("a head").expect("an answer");
    assert_eq!(head.status(), 200);
    works(&client).await;
}

/// All that clients have sent of bodies that are not complete has a limit together, not only each by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_bodies_held_open_just_below_the_limit_take_little_memory() {
    let world = World::start(&[]).await;
    let (address, pid) = (world.gateway.address, world.gateway.pid());
    let before = memory_kib(pid, "VmRSS");
    let chunk = [&b"10000\r\n"[..], &[b' '; 0x10000], b"\r\n"].concat();
    let head = post_head("Transfer-Encoding: chunked\r\n\r\n");
    let mut held = Vec::new();
    for _ in 0..200 {
        let mut socket = TcpStream::connect(address).await.expect("it listens");
        socket.write_all(head.as_bytes()).await.expect("the head is taken");
        for _ in 0..63 {
            let sent = tokio::time::timeout(Duration::from_millis(500), socket.write_all(&chunk)).await;
            if !matches!(sent, Ok(Ok(()))) {
                break; // refused, or not read on
            }
        }
        held.push(socket);
    }
    let grown = memory_kib(pid, "VmHWM").saturating_sub(before);
    assert!(grown < 64 * MIB, "{grown} KiB more than before");
}
