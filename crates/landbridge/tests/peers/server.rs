//! The servers behind the gateway, and the gateway before them.

use std::process::Stdio;
use std::time::Duration;

use lb_peers::harness::{Gateway, HttpPeer, config, peer};
use lb_peers::installed;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::beside;
use crate::client::Era;

const LANDBRIDGE: &str = env!("CARGO_BIN_EXE_landbridge");
const START_MAX: Duration = Duration::from_secs(40);

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// The reference server, which is legacy.
    Everything,
    /// Our fixture with this `--era`.
    Fixture(&'static str),
}

/// How the server is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// As a child.
    Stdio,
    /// By its URL.
    Http,
    /// By its URL, where it speaks only HTTP+SSE.
    Sse,
}

impl Behind {
    /// Whether a client of this era and the server have no era in common.
    pub fn is_bridged(self, era: Era) -> bool {
        match self {
            Self::Everything | Self::Fixture("legacy") => era == Era::Modern,
            Self::Fixture("modern") => era == Era::Legacy,
            Self::Fixture(_) => false,
        }
    }

    /// What the client can reach directly to compare with: a legacy client cannot reach a server that is modern only,
    /// but the fixture says the same in both eras.
    fn direct(self, era: Era) -> Self {
        match self {
            Self::Fixture(_) if era == Era::Legacy => Self::Fixture("dual"),
            behind => behind,
        }
    }
}

/// A server and the three ways to it. Dropping it ends all processes.
pub struct Reach {
    /// The server itself.
    pub direct: Value,
    /// `landbridge serve` before a server of the same kind.
    pub served: Value,
    /// `landbridge stdio` before one.
    pub piped: Value,
    /// The one that serves, for what it said.
    pub gateway: Gateway,
    _processes: Vec<Running>,
    _config: tempfile::TempDir,
}

/// A process that dies with the test.
#[expect(dead_code, reason = "held to be dropped")]
enum Running {
    Fixture(HttpPeer),
    Everything(Child),
}

impl Reach {
    /// Starts servers and a gateway. Each way has a server of its own, so that none sees what another did.
    pub async fn start(era: Era, behind: Behind, link: Link) -> Self {
        let mut processes = Vec::new();
        // Not every client speaks what was before streamable HTTP.
        let direct_link = if link == Link::Sse { Link::Http } else { link };
        let direct = target(behind.direct(era), direct_link, &mut processes).await;
        let at_serve = target(behind, link, &mut processes).await;
        let at_stdio = target(behind, link, &mut processes).await;
        let gateway = Gateway::serve(LANDBRIDGE, json!({ "it": at_serve })).await;
        let (folder, file) = config(&json!({ "it": at_stdio }));
        let served = json!({ "url": gateway.url("it") });
        let piped = json!({ "command": LANDBRIDGE, "args": ["stdio", "--surface", "server", "--config", file] });
        Self { direct, served, piped, gateway, _processes: processes, _config: folder }
    }
}

/// A server as a client or a config file names it; started, if it has a URL.
async fn target(behind: Behind, link: Link, processes: &mut Vec<Running>) -> Value {
    let everything =
        || installed::file("everything", "node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    match (behind, link) {
        (Behind::Everything, Link::Stdio) => json!({ "command": installed::node(), "args": [everything(), "stdio"] }),
        (Behind::Everything, Link::Http) => {
            let (child, url) = everything_on_http(&everything(), "streamableHttp").await;
            processes.push(Running::Everything(child));
            json!({ "url": url })
        }
        (Behind::Everything, Link::Sse) => {
            let (child, url) = everything_on_http(&everything(), "sse").await;
            processes.push(Running::Everything(child));
            json!({ "url": url.replace("/mcp", "/sse") })
        }
        (Behind::Fixture(_), Link::Sse) => panic!("the fixture does not speak HTTP+SSE"),
        (Behind::Fixture(era), Link::Stdio) => {
            json!({ "command": peer(LANDBRIDGE, "fixture"), "args": ["--era", era] })
        }
        (Behind::Fixture(era), Link::Http) => {
            let fixture = HttpPeer::start(&peer(LANDBRIDGE, "fixture"), &["--era", era]).await;
            let url = fixture.url();
            processes.push(Running::Fixture(fixture));
            json!({ "url": url })
        }
    }
}

async fn everything_on_http(program: &str, transport: &str) -> (Child, String) {
    let mut child = Command::new(installed::node())
        .args(["--import", &beside("loopback.mjs"), program, transport])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("node starts");
    let mut lines = BufReader::new(child.stderr.take().expect("stderr is piped")).lines();
    let listening = async {
        while let Ok(Some(line)) = lines.next_line().await {
            if let Some(url) = line.strip_prefix("listening on ") {
                return Some(url.to_owned());
            }
        }
        None
    };
    let url = tokio::time::timeout(START_MAX, listening).await.ok().flatten().expect("server-everything listens");
    drain(lines.into_inner());
    (child, url)
}

/// Reads to the end, so that the writer never has to wait.
#[expect(clippy::disallowed_methods, reason = "tests have no task owner; the process that is read from is one")]
fn drain(mut stderr: impl AsyncRead + Unpin + Send + 'static) {
    tokio::task::spawn(async move {
        let mut buffer = [0; 4096];
        while stderr.read(&mut buffer).await.is_ok_and(|count| count != 0) {}
    });
}
