//! An HTTP server that follows the rules until a call tells it not to, and counts what reached it and what it ran.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use lb_peers::raw::endpoint::{self, Endpoint, Verdict};
use lb_peers::raw::handshake::{Era, Eras, Hello};
use lb_peers::raw::http1::{Conn, response};
use lb_peers::raw::message::{self, Message};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A running server; dropping it closes everything.
pub struct Script {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

#[derive(Default)]
struct Counts {
    arrived: Vec<String>,
    ran: Vec<String>,
}

struct Shared {
    endpoint: Endpoint<()>,
    counts: Mutex<Counts>,
    /// Every session is forgotten as soon as it is opened.
    forgetful: AtomicBool,
    connections: Mutex<JoinSet<()>>,
}

impl Script {
    /// Starts it on a free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let endpoint = Endpoint::new(Hello { name: "script", eras: Eras::Dual });
        let (counts, forgetful, connections) = (Mutex::default(), AtomicBool::new(false), Mutex::default());
        let shared = Arc::new(Shared { endpoint, counts, forgetful, connections });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, shared.clone()));
        Self { address, shared, tasks }
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// As after a restart: no session is known and no connection is open.
    pub async fn forget(&self) {
        self.shared.endpoint.with_sessions(std::collections::BTreeMap::clear);
        self.hang_up().await;
    }

    /// Closes every connection and waits until that is done.
    pub async fn hang_up(&self) {
        let mut connections = std::mem::take(&mut *self.shared.connections.lock().expect("lock"));
        connections.shutdown().await;
    }

    /// From now on every session is forgotten at once.
    pub fn be_forgetful(&self) {
        self.shared.forgetful.store(true, Ordering::Relaxed);
    }

    /// How often a message arrived: a method, or the `message` of a call.
    pub fn arrived(&self, what: &str) -> usize {
        count(&self.shared.counts.lock().expect("lock").arrived, what)
    }

    /// How often a call with this `message` was run.
    pub fn ran(&self, what: &str) -> usize {
        count(&self.shared.counts.lock().expect("lock").ran, what)
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.tasks.abort_all();
    }
}

fn count(all: &[String], what: &str) -> usize {
    all.iter().filter(|one| *one == what).count()
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let (stream, _) = listener.accept().await.expect("it accepts");
        let connection = converse(stream, shared.clone());
        shared.connections.lock().expect("lock").spawn(connection);
    }
}

async fn converse(stream: TcpStream, shared: Arc<Shared>) {
    let mut conn = Conn::new(stream);
    while let Ok(Some((head, body))) = endpoint::read(&mut conn).await {
        if let Some(message) = Message::parse(&body) {
            shared.counts.lock().expect("lock").arrived.push(name(&message));
        }
        let reply = match shared.endpoint.admit(&head, &body) {
            Verdict::Reply(bytes) => bytes,
            Verdict::OneWay(_) => endpoint::accepted(),
            Verdict::Stream(_) => response(405, &[("Allow", "POST, DELETE")], b""),
            Verdict::Request { message, era, session } => match shared.answer(&message, era, session.as_deref()) {
                Some(reply) => reply,
                None => return,
            },
        };
        if conn.write(&reply).await.is_err() {
            return;
        }
    }
}

/// The `message` of a call, the method of anything else.
fn name(message: &Message) -> String {
    let text = message.arguments().get("message").and_then(|text| message::text(text));
    text.unwrap_or_else(|| message.method().to_owned())
}

impl Shared {
    /// The response; `None` for the end of the connection.
    fn answer(&self, message: &Message, era: Era, session: Option<&str>) -> Option<Vec<u8>> {
        let id = message.id.as_deref().unwrap_or("null");
        let result = match message.method() {
            "initialize" => self.hello(message),
            "server/discover" => self.endpoint_hello().discover(),
            "tools/call" => {
                let name = name(message);
                self.counts.lock().expect("lock").ran.push(name.clone());
                if name == "cut" {
                    return None;
                }
                let complete = if era == Era::Modern { r#""resultType":"complete","# } else { "" };
                format!(r#"{{{complete}"content":[{{"type":"text","text":{}}}]}}"#, message::quote(&name))
            }
            _ => {
                let status = if era == Era::Modern { 404 } else { 200 };
                let error = message::error(id, -32601, "method not found", None);
                return Some(endpoint::json(status, None, error.as_bytes()));
            }
        };
        let session = session.filter(|_| message.method() == "initialize");
        Some(endpoint::json(200, session, message::result(id, &result).as_bytes()))
    }

    fn hello(&self, message: &Message) -> String {
        if self.forgetful.load(Ordering::Relaxed) {
            self.endpoint.with_sessions(std::collections::BTreeMap::clear);
        }
        self.endpoint_hello().initialize(message)
    }

    fn endpoint_hello(&self) -> Hello {
        Hello { name: "script", eras: Eras::Dual }
    }
}
