//! Nodes for one test, and headers as a node writes them, made by hand.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use lb_exchange::{Place, Tasks};
use lb_front::Front;
use lb_http::{Http, Listener, NodeKeys, NodeSettings, Settings, Tls};
use lb_session::streams::SharedStreams;
use lb_testkit::ScriptedMiddle;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::peer::*;

pub const KEY: &[u8] = b"a key of 32 bytes for one cluster";

/// A node: a listener for clients, and one for other nodes.
pub struct Node {
    pub server: Server,
    /// Where other nodes connect.
    pub inner: SocketAddr,
    /// What they call it.
    pub url: Arc<str>,
}

impl Node {
    /// One that knows of no other.
    pub async fn start() -> Self {
        Self::with(Settings::default(), KEY, None).await
    }

    pub async fn with(settings: Settings, key: &[u8], tls: Option<(Tls, std::path::PathBuf)>) -> Self {
        let public = Listener::bind(&"127.0.0.1:0".parse().expect("as it should be")).await.expect("as it should be");
        let scheme = if tls.is_some() { "https" } else { "http" };
        let mut node = NodeSettings {
            listen: "127.0.0.1:0".parse().expect("as it should be"),
            url: None,
            keys: NodeKeys::derive(key, None),
            insecure: false,
            authorities: tls.as_ref().map(|(_, authorities)| authorities.clone()),
            together: None,
            clock: Arc::default(),
        };
        let mut private = Listener::bind_for_nodes(&node).await.expect("as it should be");
        if let Some((tls, _)) = tls {
            private = private.with_tls(tls);
        }
        let (addr, inner) = (public.address().expect("as it should be"), private.address().expect("as it should be"));
        let url: Arc<str> = format!("{scheme}://{inner}").into();
        node.url = Some(url.to_string());
        let middle = ScriptedMiddle::new(|| Arc::new(SharedStreams::default()));
        let front = Arc::new(Front::new(middle.clone(), lb_front::Settings::default()));
        let http = Http::new(front, Settings { node: Some(node), ..settings });
        let handle = http.handle();
        let (tasks, stop, stopped) = (Tasks::default(), CancellationToken::new(), CancellationToken::new());
        let serving = {
            let (tasks, stop, stopped) = (tasks.clone(), stop.clone(), stopped.clone());
            async move {
                http.serve(vec![public, private], tasks, stop.cancelled()).await;
                stopped.cancel();
            }
        };
        tasks.spawn(serving);
        Self { server: Server { addr, middle, stop, stopped, handle }, inner, url }
    }

    /// Everything that is not here is there.
    pub fn knows(&self, other: &Self) {
        self.says(Place::Node(other.url.clone()));
    }

    /// Everything that is not here is at this place.
    pub fn says(&self, place: Place) {
        self.server.middle.elsewhere(move |_| place.clone());
    }

    /// A connection to the listener for nodes.
    pub async fn enter(&self) -> Peer {
        Peer::over(TcpStream::connect(self.inner).await.expect("as it should be"), &self.inner.to_string())
    }

    /// How many requests it sent on that were answered.
    pub fn forwarded(&self) -> u64 {
        self.server.handle.forwarded().load(Ordering::Relaxed)
    }

    /// How often it asked where something is.
    pub fn located(&self) -> usize {
        self.server.middle.log().iter().filter(|line| *line == "locate").count()
    }
}

/// Two nodes, of which the first sends everything on to the second.
pub async fn two() -> (Node, Node) {
    let (first, second) = (Node::start().await, Node::start().await);
    first.knows(&second);
    second.says(Place::Here);
    (first, second)
}

/// A header as a node writes it, to be changed.
#[derive(Clone)]
pub struct Hop {
    pub key: &'static [u8],
    pub time: u64,
    pub nonce: [u8; 16],
    pub method: &'static str,
    pub target: &'static str,
    pub claims: Value,
}

impl Hop {
    /// For a POST of this body to this node.
    pub fn new(node: &Node, body: &str) -> Self {
        Self {
            key: KEY,
            time: SystemTime::now().duration_since(UNIX_EPOCH).expect("as it should be").as_secs(),
            nonce: rand::random(),
            method: "POST",
            target: "/mcp",
            claims: json!({
                "principal": "local",
                "ip": "203.0.113.7",
                "id": "from-afar.1",
                "host": "mcp.example.com",
                "scheme": "https",
                "to": *node.url,
                "body": URL_SAFE_NO_PAD.encode(Sha256::digest(body)),
            }),
        }
    }

    pub fn header(&self) -> String {
        let mac = |key: &[u8], text: &[u8]| {
            let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("as it should be");
            mac.update(text);
            mac.finalize().into_bytes()
        };
        let derived = mac(&mac(&[0; 32], self.key), b"hop\x01");
        let claims = URL_SAFE_NO_PAD.encode(self.claims.to_string());
        let nonce = u128::from_be_bytes(self.nonce);
        let Self { time, method, target, .. } = self;
        let covered = format!("landbridge-hop v1\n{time}\n{nonce:032x}\n{method}\n{target}\n{claims}");
        let mac = URL_SAFE_NO_PAD.encode(mac(&derived, covered.as_bytes()));
        format!("v1 {time} {} {claims} {mac}", URL_SAFE_NO_PAD.encode(self.nonce))
    }
}
