//! The suite can fail: a landbridge with a fault in its middle is caught, in either direction.
//!
//! The fault is planted in this test's own build of the gateway: the real HTTP front, the real backend, and between
//! them a middle that alters what it passes on. Client, server and judgement are those of the other tests. Each fault
//! changes nothing but what it is about: white space stays where it was.

mod middle;

use std::sync::Arc;

use lb_backend::{Children, Environment};
use lb_exchange::Tasks;
use lb_front::Front;
use lb_gateway::{Gateway, Setup};
use lb_peers::harness::config;
use lb_wire::Raw;
use tokio::net::TcpListener;

use self::middle::Faulty;
use crate::case::{Era, Wire};
use crate::check::{Seen, check};
use crate::paths::{self, Server};
use crate::{LANDBRIDGE, client, json};

/// What a gateway may get wrong.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    SortedKeys,
    LastOfTwins,
    FloatNumbers,
    Unescaped,
    Minified,
}

/// Where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    There,
    Back,
}

/// A way through the gateway, from a client over HTTP.
struct Path {
    era: Era,
    behind: Wire,
}

const MODERN_HTTP: Path = Path { era: Era::Modern, behind: Wire::Http };
const MODERN_STDIO: Path = Path { era: Era::Modern, behind: Wire::Stdio };
const LEGACY_HTTP: Path = Path { era: Era::Legacy, behind: Wire::Http };

#[tokio::test]
async fn planted_faults_are_caught_on_the_way_to_a_modern_http_server() {
    caught(&MODERN_HTTP, Way::There).await;
}

#[tokio::test]
async fn planted_faults_are_caught_on_the_way_from_a_modern_http_server() {
    caught(&MODERN_HTTP, Way::Back).await;
}

#[tokio::test]
async fn planted_faults_are_caught_on_the_way_to_a_modern_stdio_server() {
    caught(&MODERN_STDIO, Way::There).await;
}

#[tokio::test]
async fn planted_faults_are_caught_on_the_way_from_a_modern_stdio_server() {
    caught(&MODERN_STDIO, Way::Back).await;
}

#[tokio::test]
async fn planted_faults_are_caught_on_the_way_to_a_legacy_http_server() {
    caught(&LEGACY_HTTP, Way::There).await;
}

#[tokio::test]
async fn planted_faults_are_caught_on_the_way_from_a_legacy_http_server() {
    caught(&LEGACY_HTTP, Way::Back).await;
}

async fn caught(path: &Path, way: Way) {
    let place = if way == Way::There { "params" } else { "answer" };
    for (fault, seen) in FAULTS {
        let verdict = run(path, fault, way).await;
        assert_eq!(verdict.is_err(), seen, "{fault:?}: {verdict:?}");
        assert!(verdict.is_ok() || verdict.as_ref().is_err_and(|why| why.contains(place)), "{verdict:?}");
    }
}

/// The first is the proof that the build as such is sound.
const FAULTS: [(Fault, bool); 6] = [
    (Fault::None, false),
    (Fault::SortedKeys, true),
    (Fault::LastOfTwins, true),
    (Fault::FloatNumbers, true),
    (Fault::Unescaped, true),
    (Fault::Minified, true),
];

async fn run(path: &Path, fault: Fault, way: Way) -> Result<(), String> {
    let (seed, cases, era) = (paths::seed(), 200, path.era);
    let requests = paths::requests(seed, cases, era, Wire::Http);
    let server = Server::start(era, path.behind, paths::replies(seed, cases, era, path.behind)).await;
    let tasks = Tasks::default();
    let (_folder, file) = config(&server.config);
    let specs = lb_config::load(&file).expect("a good config").servers;
    let environment = Environment {
        supervisor: LANDBRIDGE.into(),
        embedded: Arc::default(),
        tasks: tasks.clone(),
        children: Children::new(1),
        logins: None,
        names: lb_backend::Names::default(),
    };
    let gateway = Gateway::new(specs, &environment, Setup::default()).map_err(|_| "no gateway")?;
    let middle = Faulty { gateway: gateway.clone(), fault, way };
    let front = Front::new(Arc::new(middle), lb_front::Settings::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let serve =
        lb_http::serve(listener, Arc::new(front), lb_http::Settings::default(), tasks.clone(), std::future::pending());
    let answers = tokio::select! {
        () = serve => panic!("it serves for ever"),
        answers = client::over_http(address, "/mcp/server/it", era, &requests) => answers,
    };
    gateway.close().await;
    tasks.stop();
    let (record, replies) = (server.record(), &server.replies);
    let seen = Seen {
        requests: &requests,
        replies,
        record: &record,
        answers: &answers,
        loose: None,
        behind: path.behind,
        is_bridged: false,
    };
    check(&seen)
}

impl Fault {
    fn plant(self, raw: &Raw) -> Raw {
        let text = raw.as_bytes();
        let altered = match self {
            Self::None => text.to_vec(),
            Self::SortedKeys => reordered(text, &|names| {
                let mut order: Vec<usize> = (0..names.len()).collect();
                order.sort_by_key(|at| names[*at]);
                order
            }),
            Self::LastOfTwins => {
                reordered(text, &|names| (0..names.len()).filter(|at| !names[at + 1..].contains(&names[*at])).collect())
            }
            Self::FloatNumbers => tokens(text, &|token| match token[0] {
                b'-' | b'0'..=b'9' => float(token),
                _ => token.to_vec(),
            }),
            Self::Unescaped => tokens(text, &|token| match serde_json::from_slice::<String>(token) {
                Ok(string) => serde_json::Value::from(string).to_string().into_bytes(),
                Err(_) => token.to_vec(),
            }),
            Self::Minified => {
                tokens(text, &|token| if token.trim_ascii().is_empty() { Vec::new() } else { token.to_vec() })
            }
        };
        Raw::parse(altered.into()).expect("still JSON")
    }
}

fn float(token: &[u8]) -> Vec<u8> {
    let number: f64 = std::str::from_utf8(token).expect("ASCII").parse().expect("a number");
    serde_json::Number::from_f64(number).map_or_else(|| b"null".to_vec(), |number| number.to_string().into_bytes())
}

/// The text with every token, or stretch of white space, as `alter` leaves it.
fn tokens(text: &[u8], alter: &dyn Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let (mut out, mut at) = (Vec::new(), 0);
    while let Some(byte) = text.get(at) {
        let end = match byte {
            b'"' => json::string(text, at),
            b'{' | b'}' | b'[' | b']' | b',' | b':' => at + 1,
            b' ' | b'\t' | b'\r' | b'\n' => json::white(text, at),
            _ => json::word(text, at),
        };
        out.extend(alter(&text[at..end]));
        at = end;
    }
    out
}

/// The text with the members of every object in the order that `by_names` gives them; what stands between
/// members stays where it was.
fn reordered(text: &[u8], by_names: &dyn Fn(&[&[u8]]) -> Vec<usize>) -> Vec<u8> {
    if !matches!(text[0], b'{' | b'[') {
        return text.to_vec();
    }
    let children = json::children(text);
    let names: Vec<&[u8]> = children.iter().map(|child| &text[child.whole.start..child.value.start]).collect();
    let order = if text[0] == b'{' { by_names(&names) } else { (0..names.len()).collect() };
    let (Some(first), Some(last)) = (children.first(), children.last()) else { return text.to_vec() };
    let mut out = text[..first.whole.start].to_vec();
    for (place, child) in order.iter().enumerate() {
        if place != 0 {
            out.extend_from_slice(&text[children[place - 1].whole.end..children[place].whole.start]);
        }
        out.extend_from_slice(names[*child]);
        out.extend(reordered(&text[children[*child].value.clone()], by_names));
    }
    out.extend_from_slice(&text[last.whole.end..]);
    out
}
