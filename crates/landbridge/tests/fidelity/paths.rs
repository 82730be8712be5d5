//! Every path through the binary, both directions at once: each call carries one generated case there and one back.

use std::path::PathBuf;
use std::sync::Arc;

use lb_peers::harness::{Gateway, HttpPeer, config, peer};
use lb_peers::raw::recorder::{Reply, read_record, write_script};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::LANDBRIDGE;
use crate::case::{self, Era, Request, Wire};
use crate::check::{Seen, check};
use crate::client;

/// Cases per path and direction.
const CASES: usize = 20_000;

/// A recorder with generated answers, and what a gateway must be told to reach it.
pub struct Server {
    pub config: Value,
    pub replies: Vec<Reply>,
    record: PathBuf,
    _http: Option<HttpPeer>,
    _folder: tempfile::TempDir,
}

impl Server {
    /// Starts a recorder that answers with these replies in turn.
    pub async fn start(era: Era, wire: Wire, replies: Vec<Reply>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        write_script(&folder.path().join("replies"), &replies).expect("written");
        let era = if era == Era::Legacy { "legacy" } else { "modern" };
        let args = [
            "--era".to_owned(),
            era.to_owned(),
            "--record".to_owned(),
            path("record"),
            "--replies".to_owned(),
            path("replies"),
        ];
        let program = peer(LANDBRIDGE, "recorder");
        let (http, config) = match wire {
            Wire::Stdio => (None, json!({ "it": { "command": program, "args": args } })),
            Wire::Http => {
                let http = HttpPeer::start(&program, &args.each_ref().map(String::as_str)).await;
                let config = json!({ "it": { "url": http.url() } });
                (Some(http), config)
            }
        };
        Self { config, replies, record: folder.path().join("record"), _http: http, _folder: folder }
    }

    /// The messages that it has received.
    pub fn record(&self) -> Vec<Vec<u8>> {
        read_record(&self.record).expect("a record")
    }
}

/// The seed of this run; `LANDBRIDGE_SEED` sets another one.
pub fn seed() -> u64 {
    let seed = std::env::var("LANDBRIDGE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_260_728);
    eprintln!("LANDBRIDGE_SEED={seed}");
    seed
}

pub fn requests(seed: u64, cases: usize, era: Era, wire: Wire) -> Arc<Vec<Request>> {
    Arc::new((0..cases).map(|case| case::request(seed, case, era, wire)).collect())
}

pub fn replies(seed: u64, cases: usize, era: Era, wire: Wire) -> Vec<Reply> {
    (0..cases).map(|turn| case::reply(seed, turn, era, wire)).collect()
}

async fn run(front: Wire, behind: Wire, era: Era, quarter: u64) {
    let long = std::env::var_os("LANDBRIDGE_LONG").is_some_and(|value| value == "1");
    let (seed, cases) = (seed() + quarter, if long { CASES } else { CASES / 4 });
    let requests = requests(seed, cases, era, front);
    let server = Server::start(era, behind, replies(seed, cases, era, behind)).await;
    let (answers, loose) = match front {
        Wire::Http => {
            let gateway = Gateway::serve(LANDBRIDGE, server.config.clone()).await;
            (client::over_http(gateway.address, "/mcp/server/it", era, &requests).await, None)
        }
        Wire::Stdio => {
            let (_folder, file) = config(&server.config);
            let mut command = Command::new(LANDBRIDGE);
            command.args(["stdio", "--server", "it", "--config"]).arg(&file);
            let lines = client::over_stdio(command, era, &requests).await;
            (lines.answers, Some(lines.notes))
        }
    };
    let record = server.record();
    let (requests, replies, loose) = (&requests, &server.replies, loose.as_deref());
    let seen = Seen { requests, replies, record: &record, answers: &answers, loose, behind, is_bridged: false };
    if let Err(difference) = check(&seen) {
        panic!("{difference}");
    }
}

/// The cases of one path, in parts, so that each ends well within the time that a test may take on a busy machine.
macro_rules! path {
    ($name:ident: $front:ident to $behind:ident, $era:ident) => {
        mod $name {
            use super::*;

            #[tokio::test]
            async fn first_quarter() {
                run(Wire::$front, Wire::$behind, Era::$era, 0).await;
            }

            #[tokio::test]
            async fn second_quarter() {
                run(Wire::$front, Wire::$behind, Era::$era, 1).await;
            }

            #[tokio::test]
            async fn third_quarter() {
                run(Wire::$front, Wire::$behind, Era::$era, 2).await;
            }

            #[tokio::test]
            async fn fourth_quarter() {
                run(Wire::$front, Wire::$behind, Era::$era, 3).await;
            }
        }
    };
}

path!(http_to_http_legacy: Http to Http, Legacy);
path!(http_to_http_modern: Http to Http, Modern);
path!(http_to_stdio_legacy: Http to Stdio, Legacy);
path!(http_to_stdio_modern: Http to Stdio, Modern);
path!(stdio_to_stdio_legacy: Stdio to Stdio, Legacy);
path!(stdio_to_http_modern: Stdio to Http, Modern);

/// Cases that also cross from one era to the other, where members are added and taken away around the rest.
const BRIDGED_CASES: usize = 4_000;

async fn bridge(front: Era, behind: Era) {
    let seed = seed();
    let requests = requests(seed, BRIDGED_CASES, front, Wire::Http);
    let server = Server::start(behind, Wire::Http, replies(seed, BRIDGED_CASES, behind, Wire::Http)).await;
    let gateway = Gateway::serve(LANDBRIDGE, server.config.clone()).await;
    let answers = client::over_http(gateway.address, "/mcp/server/it", front, &requests).await;
    let (record, replies) = (server.record(), &server.replies);
    let (requests, record, answers) = (&requests, &record, &answers);
    let seen = Seen { requests, replies, record, answers, loose: None, behind: Wire::Http, is_bridged: true };
    if let Err(difference) = check(&seen) {
        panic!("{difference}");
    }
}

#[tokio::test]
async fn legacy_to_modern_over_http() {
    bridge(Era::Legacy, Era::Modern).await;
}

#[tokio::test]
async fn modern_to_legacy_over_http() {
    bridge(Era::Modern, Era::Legacy).await;
}
