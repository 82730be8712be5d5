//! Floods, storms and answers without end: what is harmless arrives, what is too much is refused, and memory stays flat.

use std::time::Duration;

use lb_peers::evil::{Transport, payload};
use lb_peers::harness::{Gateway, HttpPeer};
use lb_peers::raw::handshake::Era;
use serde_json::json;

use crate::crowd::Crowd;
use crate::desk::{Answer, Client, LANDBRIDGE, evil, find, mark, member};
use crate::{procs, signals};

/// By how much the gateway may grow at its highest point.
const GROWTH_KIB_MAX: u64 = 64 << 10;

const TRANSPORTS: [Transport; 2] = [Transport::Stdio, Transport::Http];
const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_megabytes_of_logs_of_a_child_reach_a_legacy_client() {
    flood(Transport::Stdio, Era::Legacy).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_megabytes_of_logs_of_a_child_reach_a_modern_client() {
    flood(Transport::Stdio, Era::Modern).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_megabytes_of_logs_over_http_reach_a_legacy_client() {
    flood(Transport::Http, Era::Legacy).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_megabytes_of_logs_over_http_reach_a_modern_client() {
    flood(Transport::Http, Era::Modern).await;
}

async fn flood(transport: Transport, era: Era) {
    let stage = Stage::set("flood", transport).await;
    let mut client = stage.client(era).await;
    let answer = client.call("strike", json!({ "message": "dry" })).await;
    assert_eq!(answer.text().as_deref(), Some("dry"));
    let numbers: Vec<u64> = answer.notes.iter().map(|note| log_number(note)).collect();
    assert!(numbers.is_sorted(), "logs out of order");
    if transport == Transport::Http {
        // The response of a call is read no faster than its client reads, so nothing is lost.
        assert_eq!(numbers.len(), payload::FLOOD_BYTES / 1000);
    }
    stage.end(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_of_forty_megabytes_is_refused() {
    for transport in TRANSPORTS {
        for era in ERAS {
            let stage = Stage::set("huge-line", transport).await;
            let mut client = stage.client(era).await;
            let answer = client.call("strike", json!({})).await;
            let error = answer.value()["error"].clone();
            let message = error["message"].as_str().unwrap_or_default();
            assert_eq!(error["code"], -32603, "{}", answer.shown());
            assert!(message.contains("16 MiB"), "it says what is wrong: {message:?}");
            client.calm("the next one is fine").await;
            stage.end(client).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_progress_keeps_its_order_and_its_last() {
    for transport in TRANSPORTS {
        for era in ERAS {
            let stage = Stage::set("progress-storm", transport).await;
            let mut client = stage.client(era).await;
            let answer = client.call_with_progress("strike", json!({ "message": "calm again" })).await;
            check_storm(&answer, transport, era);
            stage.end(client).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_the_logs_of_a_child_costs_no_memory() {
    deaf("flood", Transport::Stdio).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_logs_over_http_costs_no_memory() {
    deaf("flood", Transport::Http).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_progress_costs_no_memory() {
    deaf("progress-storm", Transport::Stdio).await;
}

/// A client that does not read must not make the gateway keep everything for it.
async fn deaf(fault: &str, transport: Transport) {
    let stage = Stage::set(fault, transport).await;
    let mut deaf = stage.client(Era::Legacy).await;
    let mut other = stage.client(Era::Legacy).await;
    let id = deaf.send_call("strike", json!({ "message": "late" }), r#","progressToken":"storm""#).await;
    if transport == Transport::Stdio {
        // The other session's flood passes through the same gateway to its end, with the first one still unread.
        let answer = other.call_with_progress("strike", json!({ "message": "in time" })).await;
        assert_eq!(answer.text().as_deref(), Some("in time"));
    } else {
        // Nobody reads on, so the server is held up; it has time to fill whatever can be filled.
        for number in 0..50 {
            other.calm(&format!("meanwhile {number}")).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let answer = deaf.read_answer(id).await;
    assert_eq!(answer.text().as_deref(), Some("late"));
    other.end().await;
    stage.end(deaf).await;
}

/// The number that a log message of a flood begins with; found without parsing, because there are so many.
fn log_number(note: &[u8]) -> u64 {
    let shown = || String::from_utf8_lossy(note).into_owned();
    assert!(find(note, br#""method":"notifications/message""#).is_some(), "{}", shown());
    let start = find(note, br#""data":""#).unwrap_or_else(|| panic!("{}", shown())) + 8;
    let number = note.get(start..start + 6).and_then(|digits| std::str::from_utf8(digits).ok());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{}", shown()))
}

fn check_storm(answer: &Answer, transport: Transport, era: Era) {
    assert_eq!(answer.text().as_deref(), Some("calm again"), "{transport:?} {era:?}");
    let steps: Vec<usize> = answer.notes.iter().map(|note| step(note)).collect();
    assert!(steps.is_sorted_by(|a, b| a < b), "{transport:?} {era:?}: progress goes back");
    assert_eq!(steps.last(), Some(&payload::PROGRESS_COUNT), "{transport:?} {era:?}: the newest is kept");
    if transport == Transport::Http {
        assert_eq!(steps.len(), payload::PROGRESS_COUNT, "{era:?}");
    }
}

fn step(note: &[u8]) -> usize {
    let params = member(note, "params").expect("params");
    let token = member(params.as_bytes(), "progressToken");
    assert_eq!(token.as_deref(), Some(r#""storm""#), "{params}");
    member(params.as_bytes(), "progress").and_then(|step| step.parse().ok()).expect("a whole number")
}

/// A gateway with one server that floods and one that others use meanwhile.
struct Stage {
    gateway: Gateway,
    crowd: Crowd,
    before_kib: u64,
    mark: String,
    _peer: Option<HttpPeer>,
}

impl Stage {
    async fn set(fault: &str, transport: Transport) -> Self {
        let mark = mark(&format!("memory-{fault}-{}", transport.name()));
        let args = ["--fault", fault];
        let env = json!({ "EVIL_MARK": mark });
        let other = json!({ "command": evil(), "args": ["--fault", "hang"], "env": env });
        let (it, peer) = match transport {
            Transport::Stdio => (json!({ "command": evil(), "args": args, "env": env }), None),
            Transport::Http => {
                let peer = HttpPeer::start(&evil(), &args).await;
                (json!({ "url": peer.url() }), Some(peer))
            }
        };
        let gateway = Gateway::serve(LANDBRIDGE, json!({ "it": it, "other": other })).await;
        let neighbours = [("other", Era::Legacy), ("other", Era::Modern), ("it", Era::Legacy), ("other", Era::Legacy)];
        let crowd = Crowd::gather(&gateway, &neighbours).await;
        let before_kib = procs::memory_kib(gateway.pid(), "VmRSS");
        Self { gateway, crowd, before_kib, mark, _peer: peer }
    }

    async fn client(&self, era: Era) -> Client {
        let mut client = Client::open(&self.gateway, "it", era).await;
        client.calm("before").await;
        client
    }

    async fn end(mut self, client: Client) {
        client.end().await;
        self.crowd.leave().await;
        let highest = procs::memory_kib(self.gateway.pid(), "VmHWM");
        let growth = highest.saturating_sub(self.before_kib);
        eprintln!("{}: from {} KiB by {growth} KiB", self.mark, self.before_kib);
        assert!(growth < GROWTH_KIB_MAX, "{}: grew by {growth} KiB", self.mark);
        signals::stop(&mut self.gateway, Duration::from_secs(15)).await;
        procs::gone(Duration::from_secs(1), || procs::marked(&self.mark)).await;
    }
}
