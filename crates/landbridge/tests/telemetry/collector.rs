//! A collector: takes OTLP over http/protobuf and keeps what it got. Reads protobuf with a reader of its own.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use lb_peers::raw::endpoint;
use lb_peers::raw::http1::{Conn, response};
use tokio::net::TcpListener;

/// What arrived so far.
#[derive(Default)]
pub struct Arrived {
    /// Path and headers of every request, as text.
    pub requests: Vec<String>,
    pub spans: Vec<Span>,
    /// Names of metrics.
    pub metrics: Vec<String>,
    /// Every byte of all bodies.
    pub bytes: Vec<u8>,
}

/// A span, as far as tests look at it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Span {
    pub service: String,
    pub trace: String,
    pub id: String,
    pub parent: String,
    pub state: String,
    pub name: String,
    /// 2 for what was received, 3 for what was sent.
    pub kind: u64,
    pub attributes: Vec<(String, String)>,
    /// 2 for an error.
    pub status: u64,
}

impl Span {
    pub fn attribute(&self, key: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }
}

/// How a collector behaves.
#[derive(Clone, Copy, PartialEq)]
pub enum Manner {
    Takes,
    /// Says 503 to everything.
    Refuses,
    /// Never answers.
    Silent,
}

pub struct Collector {
    pub address: SocketAddr,
    arrived: Arc<Mutex<Arrived>>,
}

impl Collector {
    pub async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let arrived = Arc::<Mutex<Arrived>>::default();
        let kept = arrived.clone();
        spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let kept = kept.clone();
                spawn(async move {
                    let mut conn = Conn::new(stream);
                    while let Ok(Some((head, body))) = endpoint::read(&mut conn).await {
                        let request = format!("{} {head:?}", head.path());
                        kept.lock().expect("no panic holds it").take(request, head.path(), &body);
                        let status = match manner {
                            Manner::Takes => 200,
                            Manner::Refuses => 503,
                            Manner::Silent => return std::future::pending().await,
                        };
                        if conn.write(&response(status, &[], b"")).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, arrived }
    }

    /// The variables that lead a gateway here, under this name.
    pub fn env<'a>(&self, service: &'a str) -> Vec<(&'static str, String)> {
        let service: &'a str = service;
        vec![
            ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", self.address)),
            ("OTEL_SERVICE_NAME", service.to_owned()),
            ("OTEL_BSP_SCHEDULE_DELAY", "50".to_owned()),
        ]
    }

    pub fn with<T>(&self, look: impl FnOnce(&Arrived) -> T) -> T {
        look(&self.arrived.lock().expect("no panic holds it"))
    }

    /// The spans of one trace.
    pub fn spans(&self, trace: &str) -> Vec<Span> {
        self.with(|arrived| arrived.spans.iter().filter(|span| span.trace == trace).cloned().collect())
    }
}

#[expect(clippy::disallowed_methods, reason = "tests have no task owner; the runtime of the test is one")]
fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    tokio::task::spawn(task);
}

impl Arrived {
    fn take(&mut self, request: String, path: &str, body: &[u8]) {
        self.requests.push(request);
        self.bytes.extend_from_slice(body);
        for resource in fields(body).messages(1) {
            let named = fields(resource).messages(1).next().map(|resource| attributes(&fields(resource), 1));
            let service = named.into_iter().flatten().find(|(key, _)| key == "service.name");
            let service = service.map(|(_, value)| value).unwrap_or_default();
            for scope in fields(resource).messages(2) {
                for item in fields(scope).messages(2) {
                    match path {
                        "/v1/traces" => self.spans.push(span(&service, &fields(item))),
                        "/v1/metrics" => self.metrics.push(fields(item).text(1)),
                        other => panic!("nothing is sent to {other}"),
                    }
                }
            }
        }
    }
}

fn span(service: &str, of: &Fields<'_>) -> Span {
    let status = of.messages(15).next().map(|status| fields(status).number(3)).unwrap_or_default();
    Span {
        service: service.to_owned(),
        trace: of.hex(1),
        id: of.hex(2),
        state: of.text(3),
        parent: of.hex(4),
        name: of.text(5),
        kind: of.number(6),
        attributes: attributes(of, 9),
        status,
    }
}

fn attributes(of: &Fields<'_>, field: u64) -> Vec<(String, String)> {
    let pairs = of.messages(field).map(fields);
    pairs
        .map(|pair| (pair.text(1), pair.messages(2).next().map(|any| fields(any).text(1)).unwrap_or_default()))
        .collect()
}

/// The fields of one message: numbers, and bytes of everything else.
struct Fields<'a>(Vec<(u64, u64, &'a [u8])>);

impl<'a> Fields<'a> {
    fn messages(&self, field: u64) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter(move |(known, ..)| *known == field).map(|(_, _, bytes)| *bytes)
    }

    fn text(&self, field: u64) -> String {
        self.messages(field).next().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
    }

    fn hex(&self, field: u64) -> String {
        let bytes = self.messages(field).next().unwrap_or_default();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn number(&self, field: u64) -> u64 {
        self.0.iter().find(|(known, ..)| *known == field).map(|(_, number, _)| *number).unwrap_or_default()
    }
}

fn fields(mut bytes: &[u8]) -> Fields<'_> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let (number, body) = match tag & 7 {
            0 => (varint(&mut bytes), &bytes[..0]),
            1 => (0, take(&mut bytes, 8)),
            2 => {
                let length = usize::try_from(varint(&mut bytes)).expect("a length");
                (0, take(&mut bytes, length))
            }
            5 => (0, take(&mut bytes, 4)),
            wire => panic!("no such wire type: {wire}"),
        };
        all.push((tag >> 3, number, body));
    }
    Fields(all)
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at_checked(count).expect("as long as it says");
    *bytes = rest;
    taken
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    panic!("a number that does not end");
}
