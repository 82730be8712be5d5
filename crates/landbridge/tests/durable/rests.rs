//! Sessions that nobody uses for a while, in front of a server that has no session with the gateway: they are in the store
//! and nowhere else, and their clients do not notice.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lb_peers::raw::RawHttp;
use lb_peers::raw::http::{headers, post_headers};
use lb_peers::tools::{Settings, ToolClient};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::world::{Keep, PATIENCE, World, headers_of};

/// Sessions rest after a quarter of that.
const LIFE: &[&str] = &["--session-ttl", "24s"];
/// Longer than it takes until all rest, and shorter than a session lives.
const LATE: Duration = Duration::from_secs(12);

/// A server without sessions, and what it has heard.
struct Server {
    url: String,
    heard: Arc<Mutex<Vec<String>>>,
    _serving: JoinSet<()>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        let heard = Arc::<Mutex<Vec<String>>>::default();
        let (mut serving, noted) = (JoinSet::new(), heard.clone());
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, noted.clone()));
            }
        });
        Self { url, heard, _serving: serving }
    }

    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.heard.lock().expect("no panic holds it"))
    }
}

async fn serve(stream: TcpStream, heard: Arc<Mutex<Vec<String>>>) {
    let mut stream = BufReader::new(stream);
    while let Some((verb, message)) = request(&mut stream).await {
        let (about, method) = (&message["params"], message["method"].as_str().unwrap_or_default());
        let about = about["uri"].as_str().or(about["level"].as_str()).unwrap_or_default();
        heard.lock().expect("no panic holds it").push(format!("{method} {about}").trim().to_owned());
        let result = match method {
            "initialize" => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": { "resources": { "subscribe": true }, "logging": {}, "tools": {} },
                "serverInfo": { "name": "one", "version": "1" },
            }),
            "tools/list" => json!({ "tools": [{ "name": "echo", "inputSchema": { "type": "object" } }] }),
            "tools/call" => json!({ "content": [{ "type": "text", "text": "echoed" }] }),
            _ => json!({}),
        };
        let reply = match (verb.as_str(), message.get("id")) {
            ("POST", Some(id)) => {
                let body = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json";
                format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
            }
            ("POST", None) => "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_owned(),
            _ => "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n".to_owned(),
        };
        if stream.get_mut().write_all(reply.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn request(stream: &mut BufReader<TcpStream>) -> Option<(String, Value)> {
    let (mut verb, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        if let Some((_, value)) = line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length")) {
            length = value.trim().parse().ok()?;
        }
        verb = verb.or_else(|| line.split(' ').next().map(str::to_owned));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((verb?, serde_json::from_slice(&body).unwrap_or_default()))
}

/// Waits until so many sessions are in memory, and so many rest.
async fn are(world: &World, awake: usize, resting: usize) {
    let start = Instant::now();
    loop {
        let page = world.page("/sessions").await;
        if page["activeSessions"] == awake && page["restingSessions"] == resting {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "not {awake} awake and {resting} resting: {page}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A session on the one server.
struct Single(String);

impl Single {
    async fn open(world: &World) -> Self {
        let mut http = RawHttp::connect(world.address()).await.expect("it listens");
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } });
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }).to_string();
        let mut sent = post_headers();
        sent.extend(headers(&[("MCP-Protocol-Version", "2025-11-25")]));
        let answer = http.request("POST", "/mcp/server/one", &sent, hello.as_bytes()).await.expect("an answer");
        let session = Self(answer.head.header("mcp-session-id").expect("a session").to_owned());
        assert_eq!(session.send(world, None, "notifications/initialized", json!({})).await.0, 202);
        session
    }

    async fn send(&self, world: &World, id: Option<u64>, method: &str, params: Value) -> (u16, Value) {
        let mut http = RawHttp::connect(world.address()).await.expect("it listens");
        let mut message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        if let Some(id) = id {
            message["id"] = id.into();
        }
        let body = message.to_string();
        let answer = http.request("POST", "/mcp/server/one", &headers_of(&self.0), body.as_bytes()).await;
        let answer = answer.expect("an answer");
        (answer.head.status(), serde_json::from_slice(&answer.body).unwrap_or_default())
    }

    async fn ask(&self, world: &World, id: u64, method: &str, params: Value) -> Value {
        let (status, answer) = self.send(world, Some(id), method, params).await;
        assert!(status == 200 && answer["result"].is_object(), "{status} {answer}");
        answer["result"].clone()
    }
}

async fn nobody_notices(keep: Keep) {
    let server = Server::start().await;
    let world = World::start(keep, json!({ "one": { "url": server.url } }), LIFE).await;
    let (mut desk, mut late) = (world.desk().await, world.desk().await);
    desk.ok("set_log_level", json!({ "server": "one", "level": "warning" })).await;
    desk.ok("set_timer", json!({ "duration_ms": 1_000, "message": "tea" })).await;
    let set = Instant::now();
    late.ok("set_timer", json!({ "duration_ms": LATE.as_millis() as u64, "message": "late" })).await;
    let single = Single::open(&world).await;
    single.ask(&world, 1, "resources/subscribe", json!({ "uri": "file:///a" })).await;
    single.ask(&world, 2, "logging/setLevel", json!({ "level": "error" })).await;
    let ended = ToolClient::at(world.address(), Settings::default()).await;

    // The late timer runs here.
    are(&world, 1, 3).await;
    assert!(set.elapsed() < LATE, "{:?}", set.elapsed());
    server.heard();
    assert_eq!(single.ask(&world, 3, "tools/call", json!({ "name": "echo" })).await["content"][0]["text"], "echoed");
    let heard = server.heard();
    let place = |what: &str| heard.iter().position(|one| one == what);
    let call = place("tools/call").expect("a call");
    for told in ["initialize", "logging/setLevel error", "resources/subscribe file:///a"] {
        assert!(place(told).is_some_and(|told| told < call), "{told} comes first: {heard:?}");
    }
    assert_eq!(ended.end().await, 200, "it rests, and ends");
    assert_eq!(ended.call("list_servers", json!({})).await.status, 404);

    desk.execute("echo", json!({})).await;
    desk.drain().await;
    let kinds: Vec<_> = desk.told.iter().map(|event| event["type"].clone()).collect();
    assert_eq!(kinds, ["timer_expired"], "what waited, and that no server was away: {:#?}", desk.told);
    assert!(server.heard().contains(&"logging/setLevel warning".to_owned()));

    // It was here when its timer was due, and has been written out since.
    let left = (LATE + Duration::from_millis(200)).saturating_sub(set.elapsed());
    tokio::time::sleep(left).await;
    let due = set.elapsed();
    late.drain().await;
    assert_eq!(late.of("timer_expired").len(), 1, "after {due:?}: {:#?}", late.told);
}

#[tokio::test]
async fn a_session_that_rested_goes_on_as_if_it_had_not_on_disk() {
    nobody_notices(Keep::Disk).await;
}

#[tokio::test]
async fn a_session_that_rested_goes_on_as_if_it_had_not_on_valkey() {
    nobody_notices(Keep::Valkey).await;
}
