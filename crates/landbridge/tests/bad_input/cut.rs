//! Event streams cut at every byte: by the client that reads ours, and by the server whose we read.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lb_peers::harness::Gateway;
use lb_peers::raw::endpoint::{self, Endpoint, Verdict};
use lb_peers::raw::handshake::{COMPLETE, Era, Eras, Hello, UNCACHED};
use lb_peers::raw::http::{Headers, modern_headers, modern_meta};
use lb_peers::raw::http1::{Conn, LAST_CHUNK, response, sse_chunk, sse_head};
use lb_peers::raw::{RawHttp, message};
use lb_soak::malformed::judge::{Kind, judge};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::world::{LANDBRIDGE, PATH, PATIENCE, World, assert_calm};

/// Streams that are open at the same time.
const AT_ONCE: usize = 8;
/// Beyond the end of every stream: nothing is cut.
const WHOLE: usize = 1_000_000;
/// A cut is noticed when it happens, not when a deadline passes.
const NOTICED_MAX: Duration = Duration::from_secs(5);

/// A call that is answered with a stream, as bytes.
fn streamed(address: SocketAddr, headers: &Headers, meta: &str, number: usize) -> Vec<u8> {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":"{number:06}","method":"tools/call","params":{{"name":"progress_burst","arguments":{{"count":3}},"_meta":{meta}}}}}"#
    );
    let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    format!("POST {PATH} HTTP/1.1\r\nHost: {address}\r\n{lines}Content-Length: {length}\r\n\r\n{body}").into_bytes()
}

/// Reads so many bytes of the answer, or all of it up to its last chunk, and goes away.
async fn read_and_leave(address: SocketAddr, request: Vec<u8>, bytes: usize) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).await.expect("it listens");
    socket.write_all(&request).await.expect("sent");
    let mut read = Vec::new();
    while read.len() < bytes && !read.ends_with(b"\r\n0\r\n\r\n") {
        let left = bytes - read.len();
        let mut buffer = vec![0; left.min(16 * 1024)];
        let some = tokio::time::timeout(PATIENCE, socket.read(&mut buffer)).await.expect("an answer").expect("bytes");
        assert_ne!(some, 0, "it closed after {} bytes", read.len());
        read.extend_from_slice(&buffer[..some]);
    }
    read
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_may_leave_a_stream_after_any_byte() {
    let world = World::start().await;
    let address = world.gateway.address;
    let mut http = world.connect().await;
    let session = http.initialize(PATH, "2025-11-25").await.expect("a session");
    let headers = modern_headers("tools/call", Some("progress_burst"));
    let eras =
        [(session.headers(), r#"{"progressToken":"p"}"#.to_owned()), (headers, modern_meta(r#","progressToken":"p""#))];
    for (headers, meta) in eras {
        let request = |number| streamed(address, &headers, &meta, number);
        let whole = read_and_leave(address, request(999_999), usize::MAX >> 1).await;
        let text = String::from_utf8_lossy(&whole);
        assert!(text.contains("text/event-stream") && text.contains("\"result\""), "{text}");
        let mut open = JoinSet::new();
        // Ids and dates may differ in length by a few bytes; an answer that ends earlier has simply been read whole.
        for bytes in 0..whole.len() {
            open.spawn(read_and_leave(address, request(bytes), bytes));
            if AT_ONCE <= open.len() {
                open.join_next().await.expect("some are open").expect("no client fails");
            }
        }
        while let Some(left) = open.join_next().await {
            left.expect("no client fails");
        }
        eprintln!("left after each of {} bytes", whole.len());
    }
    crate::world::echo(&mut http, &session, "after all").await;
    world.end().await;
}

/// A server whose tool answers with a stream that ends after so many bytes.
struct Cutter {
    endpoint: Endpoint<()>,
}

impl Cutter {
    async fn start(eras: Eras, tasks: &mut JoinSet<()>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it has one");
        let cutter = Arc::new(Self { endpoint: Endpoint::new(Hello { name: "cutter", eras }) });
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let cutter = cutter.clone();
                connections.spawn(async move { cutter.serve(Conn::new(socket)).await });
                while connections.try_join_next().is_some() {}
            }
        });
        address
    }

    async fn serve(&self, mut conn: Conn) {
        while let Ok(Some((head, body))) = endpoint::read(&mut conn).await {
            let reply = match self.endpoint.admit(&head, &body) {
                Verdict::Reply(bytes) => bytes,
                Verdict::OneWay(_) => endpoint::accepted(),
                Verdict::Stream(_) => response(405, &[("Allow", "POST, DELETE")], b""),
                Verdict::Request { message, era, session } => {
                    let id = message.id.clone().unwrap_or_default();
                    let cut = message.arguments().get("cut").and_then(|raw| raw.get().parse::<usize>().ok());
                    if let Some(cut) = cut {
                        let stream = stream(&id, era);
                        let sent = conn.write(&stream[..cut.min(stream.len())]).await;
                        // The connection ends here, whether or not anybody still listens.
                        return drop(sent);
                    }
                    let hints = if era == Era::Modern { [COMPLETE, UNCACHED].concat() } else { String::new() };
                    let result = match message.method() {
                        "initialize" => self.hello().initialize(&message),
                        "server/discover" => self.hello().discover(),
                        "tools/list" => {
                            format!(r#"{{{hints}"tools":[{{"name":"cut","inputSchema":{{"type":"object"}}}}]}}"#)
                        }
                        _ => "{}".to_owned(),
                    };
                    endpoint::json(200, session.as_deref(), message::result(&id, &result).as_bytes())
                }
            };
            if conn.write(&reply).await.is_err() {
                return;
            }
        }
    }

    fn hello(&self) -> Hello {
        Hello { name: "cutter", eras: Eras::Dual }
    }
}

/// The whole stream: a log message and the answer.
fn stream(id: &str, era: Era) -> Vec<u8> {
    let complete = if era == Era::Modern { COMPLETE } else { "" };
    let note = message::notification("notifications/message", r#"{"level":"error","data":"x"}"#);
    let answer = message::result(id, &format!(r#"{{{complete}"content":[{{"type":"text","text":"whole"}}]}}"#));
    [sse_head(), sse_chunk(&note), sse_chunk(&answer), LAST_CHUNK.to_vec()].concat()
}

/// From how many bytes on the answer has arrived: with the blank line behind it.
fn answered_from(id: &str, era: Era) -> usize {
    stream(id, era).len() - LAST_CHUNK.len() - 2
}

async fn call(address: SocketAddr, headers: Headers, meta: String, cut: usize) -> (usize, Kind, String) {
    let mut http = RawHttp::connect(address).await.expect("it listens");
    http.patience = PATIENCE;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{cut},"method":"tools/call","params":{{"name":"cut","arguments":{{"cut":{cut}}},"_meta":{meta}}}}}"#
    );
    let started = Instant::now();
    let answer = http.post(PATH, &headers, body.as_bytes()).await.unwrap_or_else(|e| panic!("{e}, cut after {cut}"));
    assert!(started.elapsed() < NOTICED_MAX, "cut after {cut}: {:?}, {}", started.elapsed(), answer.text());
    let kind = judge(body.as_bytes(), &answer).unwrap_or_else(|problem| panic!("cut after {cut}: {problem}"));
    (cut, kind, answer.text())
}

async fn cut_everywhere(era: Era) {
    let mut tasks = JoinSet::new();
    let eras = if era == Era::Modern { Eras::Modern } else { Eras::Legacy };
    let address = Cutter::start(eras, &mut tasks).await;
    let gateway = Gateway::serve(LANDBRIDGE, json!({ "it": { "url": format!("http://{address}/mcp") } })).await;
    let (headers, meta) = if era == Era::Modern {
        (modern_headers("tools/call", Some("cut")), modern_meta(""))
    } else {
        let mut http = RawHttp::connect(gateway.address).await.expect("it listens");
        (http.initialize(PATH, "2025-11-25").await.expect("a session").headers(), "{}".to_owned())
    };
    // Our ids are numbers that grow, and with them the stream: the few bytes around the end are left out.
    let (shortest, longest) = (answered_from("1", era), answered_from("100000", era));
    let mut judged = Vec::new();
    for cut in 0..stream("100000", era).len() {
        judged.push(call(gateway.address, headers.clone(), meta.clone(), cut).await);
        // A server that failed five times in a row would be left alone.
        if cut % 4 == 3 {
            let (_, kind, text) = call(gateway.address, headers.clone(), meta.clone(), WHOLE).await;
            assert_eq!(kind, Kind::Result, "after {cut}: {text}");
        }
    }
    eprintln!("{era:?}: cut after each of {} bytes", judged.len());
    for (cut, kind, text) in judged {
        if cut < shortest {
            assert_eq!(kind, Kind::Error, "cut after {cut}: {text}");
        } else if longest <= cut {
            assert_eq!(kind, Kind::Result, "cut after {cut}: {text}");
            assert!(text.contains("whole"), "cut after {cut}: {text}");
        }
    }
    assert_calm(&gateway.said());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_legacy_server_may_cut_its_stream_after_any_byte() {
    cut_everywhere(Era::Legacy).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_modern_server_may_cut_its_stream_after_any_byte() {
    cut_everywhere(Era::Modern).await;
}
