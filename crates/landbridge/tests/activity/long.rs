//! Ten thousand events, eight readers of one session, and connections that break: every event comes once.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lb_peers::raw::http::{Headers, RawHttp, headers};
use lb_peers::tools::{Settings, ToolClient};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::proxy::{Cut, Proxy};
use crate::world;

const READERS: u64 = 8;
/// Below the hundred notifications that wait for a reader.
const BURST: u64 = 20;
const TIME_MAX: Duration = Duration::from_secs(240);

/// How many events; all ten thousand take a while on a busy machine, and are the default.
fn wanted() -> u64 {
    std::env::var("LANDBRIDGE_EVENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

/// A generator of numbers that is the same in every run.
struct Dice(AtomicU64);

impl Dice {
    fn roll(&self, below: u64) -> u64 {
        let next =
            |seed: u64| Some(seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
        let seed = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or_default();
        (seed >> 33) % below
    }
}

/// What the readers have, together.
struct Ledger {
    received: Mutex<HashMap<u64, u32>>,
    ids: Mutex<HashSet<String>>,
    twice: Mutex<Vec<String>>,
    /// In responses that the gateway had written to the last byte, and that no reader got.
    lost: Mutex<HashSet<u64>>,
    dropped: AtomicU64,
    accounted: watch::Sender<u64>,
    cuts: AtomicU64,
    done: AtomicBool,
    request_ids: AtomicU64,
}

impl Ledger {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            received: Mutex::default(),
            ids: Mutex::default(),
            twice: Mutex::default(),
            lost: Mutex::default(),
            dropped: AtomicU64::new(0),
            accounted: watch::Sender::new(0),
            cuts: AtomicU64::new(0),
            done: AtomicBool::new(false),
            request_ids: AtomicU64::new(5_000_000),
        })
    }

    /// A reader has this response.
    fn take(&self, response: &Value) {
        for (id, number) in told(response) {
            if let Some(id) = id
                && !self.ids.lock().expect("no panic holds it").insert(id.clone())
            {
                self.twice.lock().expect("no panic holds it").push(id);
            }
            *self.received.lock().expect("no panic holds it").entry(number).or_default() += 1;
        }
        if response.to_string().contains("events_dropped") {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        self.count();
    }

    /// Nobody has this response, though the gateway had written it.
    fn lose(&self, response: &Value) {
        self.lost.lock().expect("no panic holds it").extend(told(response).into_iter().map(|(_, number)| number));
        self.count();
    }

    fn count(&self) {
        let all =
            self.received.lock().expect("no panic holds it").len() + self.lost.lock().expect("no panic holds it").len();
        self.accounted.send_replace(u64::try_from(all).unwrap_or_default());
    }
}

/// The events of a response: their ids where they have one, and the numbers that the server gave them.
fn told(response: &Value) -> Vec<(Option<String>, u64)> {
    let mut all = Vec::new();
    for block in response["result"]["content"].as_array().into_iter().flatten() {
        let body: Value = block["text"].as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        for event in body["events"].as_array().into_iter().flatten() {
            if let Some(number) = event["data"]["params"]["n"].as_u64() {
                all.push((event["id"].as_str().map(str::to_owned), number));
            }
        }
        for note in body["notifications"].as_array().into_iter().flatten() {
            if let Some(number) = note["params"]["n"].as_u64() {
                all.push((None, number));
            }
        }
    }
    all
}

/// Makes the server say all of them, no faster than they are read.
async fn emit(client: &ToolClient, ledger: &Ledger, wanted: u64) {
    let mut from = 0;
    while from < wanted {
        let count = BURST.min(wanted - from);
        let arguments = json!({ "server": "one", "tool": "burst", "args": { "from": from, "count": count } });
        let reply = client.call("execute_tool", arguments).await;
        assert!(!reply.is_error(), "{reply}");
        ledger.take(&json!({ "result": reply.result() }));
        from += count;
        let mut accounted = ledger.accounted.subscribe();
        let read = accounted.wait_for(|accounted| from <= *accounted + 10);
        let read = tokio::time::timeout(Duration::from_secs(30), read).await;
        assert!(read.is_ok(), "{} of {from} events came or are known to be lost", *ledger.accounted.borrow());
    }
}

/// One connection through the proxy.
async fn connect(proxy: &Proxy) -> (RawHttp, u16) {
    let stream = TcpStream::connect(proxy.address).await.expect("the proxy listens");
    let port = stream.local_addr().expect("an address").port();
    (RawHttp::over(stream, proxy.address), port)
}

fn sent_with(session: &str, accept: &str) -> Headers {
    headers(&[
        ("Content-Type", "application/json"),
        ("Accept", accept),
        ("Mcp-Session-Id", session),
        ("MCP-Protocol-Version", "2025-11-25"),
    ])
}

fn await_activity(ledger: &Ledger) -> (u64, Vec<u8>) {
    let id = ledger.request_ids.fetch_add(1, Ordering::Relaxed);
    let params = json!({ "name": "await_activity", "arguments": { "timeout_ms": 500 } });
    let body = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
    (id, body.to_string().into_bytes())
}

/// Reads a stream until the answer or its end, and has it cut after the first event id if the dice say so.
async fn read(http: &mut RawHttp, proxy: &Proxy, port: u16, cursor: &mut Option<String>, cut: bool) -> Option<Value> {
    let head = http.head().await.ok()?;
    if !head.is_sse() {
        let (body, _) = http.body().await.ok()?;
        return serde_json::from_slice(&body).ok();
    }
    let mut told_to_cut = false;
    while let Ok(Some(event)) = http.event().await {
        if let Some(id) = &event.id {
            *cursor = Some(id.clone());
        }
        let message: Value = serde_json::from_str(&event.text()).unwrap_or_default();
        if message.get("result").is_some() || message.get("error").is_some() {
            return Some(message);
        }
        if cut && cursor.is_some() && !told_to_cut {
            told_to_cut = true;
            proxy.cut(port);
        }
    }
    None
}

/// A reader over SSE, which goes on where it was when its connection breaks.
async fn resuming(proxy: Arc<Proxy>, session: String, ledger: Arc<Ledger>, dice: Arc<Dice>) {
    while !ledger.done.load(Ordering::Relaxed) {
        let (_, body) = await_activity(&ledger);
        let (mut http, port) = connect(&proxy).await;
        http.send("POST", "/mcp", &sent_with(&session, "text/event-stream"), &body).await.expect("the request is sent");
        let mut cursor = None;
        let mut answer = read(&mut http, &proxy, port, &mut cursor, dice.roll(2) == 0).await;
        drop(http);
        for _ in 0..20 {
            if answer.is_some() {
                break;
            }
            ledger.cuts.fetch_add(1, Ordering::Relaxed);
            let last = cursor.clone().expect("cut only after an id was read");
            let mut head = sent_with(&session, "text/event-stream");
            head.push(("Last-Event-ID".to_owned(), last));
            let (mut http, port) = connect(&proxy).await;
            http.send("GET", "/mcp", &head, b"").await.expect("the request is sent");
            answer = read(&mut http, &proxy, port, &mut cursor, dice.roll(4) == 0).await;
        }
        ledger.take(&answer.expect("an answer after some tries"));
    }
}

/// A reader over JSON, which cannot go on where it was.
async fn forgetting(proxy: Arc<Proxy>, session: String, ledger: Arc<Ledger>) {
    while !ledger.done.load(Ordering::Relaxed) {
        let (_, body) = await_activity(&ledger);
        let (mut http, port) = connect(&proxy).await;
        let sent = http.send("POST", "/mcp", &sent_with(&session, "application/json"), &body).await;
        let mut answer = None;
        if sent.is_ok()
            && http.head().await.is_ok()
            && let Ok((body, true)) = http.body().await
        {
            answer = serde_json::from_slice(&body).ok();
        }
        drop(http);
        match answer {
            Some(answer) => ledger.take(&answer),
            None => {
                ledger.cuts.fetch_add(1, Ordering::Relaxed);
                if let Some(response) = whole(&proxy.written(port).await) {
                    ledger.lose(&response);
                }
            }
        }
    }
}

/// The body of a response, if it is there to the last byte.
fn whole(bytes: &[u8]) -> Option<Value> {
    let at = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    serde_json::from_slice(bytes.get(at..)?).ok()
}

/// Runs the readers until all events are accounted for.
async fn run(proxy: Proxy, gateway: &lb_peers::harness::Gateway, resume: bool) -> Arc<Ledger> {
    let first = world::http(gateway).await;
    let session = first.session_id().expect("a session");
    let (proxy, ledger, dice) = (Arc::new(proxy), Ledger::new(), Arc::new(Dice(AtomicU64::new(42))));
    let mut readers = JoinSet::new();
    for _ in 0..READERS {
        let (proxy, session, ledger) = (proxy.clone(), session.clone(), ledger.clone());
        if resume {
            readers.spawn(resuming(proxy, session, ledger, dice.clone()));
        } else {
            readers.spawn(forgetting(proxy, session, ledger));
        }
    }
    let emitter = ToolClient::join(gateway.address, &session, Settings::default());
    let start = Instant::now();
    tokio::time::timeout(TIME_MAX, emit(&emitter, &ledger, wanted())).await.expect("in time");
    ledger.done.store(true, Ordering::Relaxed);
    while let Some(reader) = readers.join_next().await {
        reader.expect("no reader panics");
    }
    // What is left is read by somebody whose connection holds.
    loop {
        let reply = emitter.call("await_activity", json!({ "timeout_ms": 500 })).await;
        ledger.take(&json!({ "result": reply.result() }));
        if world::events(&reply).is_empty() {
            break;
        }
    }
    let (cuts, lost) = (ledger.cuts.load(Ordering::Relaxed), ledger.lost.lock().expect("no panic holds it").len());
    eprintln!("{} events, {cuts} cuts, {lost} lost, {:?}", wanted(), start.elapsed());
    ledger
}

fn judge(ledger: &Ledger) {
    let received = ledger.received.lock().expect("no panic holds it");
    let lost = ledger.lost.lock().expect("no panic holds it");
    let twice: Vec<_> = received.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty() && ledger.twice.lock().expect("no panic holds it").is_empty(), "told twice: {twice:?}");
    let both: Vec<_> = lost.iter().filter(|number| received.contains_key(number)).collect();
    assert!(both.is_empty(), "written to the last byte, and told again: {both:?}");
    let missing: Vec<_> = (0..wanted()).filter(|n| !received.contains_key(n) && !lost.contains(n)).collect();
    assert!(missing.is_empty(), "{} never came, and no response had them: {missing:?}", missing.len());
    assert_eq!(ledger.dropped.load(Ordering::Relaxed), 0, "none was dropped for want of room");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_event_comes_once_to_readers_that_go_on_where_they_were() {
    let gateway = world::gateway().await;
    let proxy = Proxy::start(gateway.address, || Cut::Told).await;
    let ledger = run(proxy, &gateway, true).await;
    judge(&ledger);
    assert!(20 < ledger.cuts.load(Ordering::Relaxed), "connections were cut");
    assert!(ledger.lost.lock().expect("no panic holds it").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_comes_twice_and_only_what_was_written_is_lost() {
    let gateway = world::gateway().await;
    let dice = Dice(AtomicU64::new(7));
    let plan = move || match dice.roll(4) {
        0 => Cut::Bytes(usize::try_from(dice.roll(6_000)).unwrap_or_default()),
        1 => Cut::Time(Duration::from_micros(dice.roll(20_000))),
        _ => Cut::Told,
    };
    let proxy = Proxy::start(gateway.address, plan).await;
    let ledger = run(proxy, &gateway, false).await;
    judge(&ledger);
    assert!(20 < ledger.cuts.load(Ordering::Relaxed), "connections were cut");
}
