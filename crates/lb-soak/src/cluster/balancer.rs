//! One public address in front of several nodes: every request goes to the next node in turn, whatever connection it
//! came on, so that no session can rely on where its requests land.
//!
//! HTTP/1.1 only. A response is passed on piece by piece as it comes, and when either side closes, the other is closed.
//! A node that refuses the connection is skipped, since nothing of the request has left by then; once a byte has left,
//! the request is that node's and is never sent again.

use std::collections::HashMap;
use std::io::{ErrorKind, Result};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lb_peers::raw::http1::{Conn, Head, LAST_CHUNK, response};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// How long a node may take to accept.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// Sessions whose first node is remembered.
const SESSIONS_MAX: usize = 100_000;

/// The balancer. Dropping it ends it and every connection through it.
#[derive(Debug)]
pub struct Balancer {
    /// Where clients go.
    pub address: SocketAddr,
    desk: Arc<Desk>,
    _serving: JoinSet<()>,
}

/// What was dealt to whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dealt {
    /// Requests per node.
    pub requests: Vec<u64>,
    /// Times a node refused the connection, per node.
    pub skipped: Vec<u64>,
    /// Requests that no node was there for.
    pub nowhere: u64,
    /// Those of them that only the node can answer which has the session, per node: they name one, or use the tools as
    /// modern clients do.
    pub of_sessions: Vec<u64>,
}

#[derive(Debug, Default)]
struct Desk {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    nodes: Vec<SocketAddr>,
    next: usize,
    dealt: Dealt,
    /// Which node opened a session.
    opened: HashMap<String, usize>,
}

impl Balancer {
    /// In front of these nodes.
    ///
    /// # Panics
    /// Without a free port.
    pub async fn start(nodes: Vec<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let count = nodes.len();
        let zeros = || vec![0; count];
        let dealt = Dealt { requests: zeros(), skipped: zeros(), of_sessions: zeros(), nowhere: 0 };
        let desk = Arc::new(Desk { state: Mutex::new(State { nodes, dealt, ..State::default() }) });
        let (mut serving, shared) = (JoinSet::new(), desk.clone());
        serving.spawn(async move {
            let mut clients = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                while clients.try_join_next().is_some() {}
                let desk = shared.clone();
                clients.spawn(async move {
                    // Whatever went wrong, the client sees the end of its connection.
                    drop(serve(&desk, Conn::new(client)).await);
                });
            }
        });
        Self { address, desk, _serving: serving }
    }

    /// Where a node is from now on.
    pub fn moved(&self, node: usize, address: SocketAddr) {
        if let Some(known) = self.desk.lock().nodes.get_mut(node) {
            *known = address;
        }
    }

    /// The node that opened a session.
    pub fn opener(&self, session: &str) -> Option<usize> {
        self.desk.lock().opened.get(session).copied()
    }

    /// What was dealt so far.
    pub fn dealt(&self) -> Dealt {
        self.desk.lock().dealt.clone()
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection to the next node that accepts one, and which it is.
    async fn connect(&self) -> Option<(usize, TcpStream)> {
        let (first, nodes) = {
            let mut state = self.lock();
            state.next = (state.next + 1).checked_rem(state.nodes.len())?;
            (state.next, state.nodes.clone())
        };
        for turn in 0..nodes.len() {
            let node = (first + turn) % nodes.len();
            let Some(address) = nodes.get(node) else { continue };
            if let Ok(Ok(stream)) = tokio::time::timeout(CONNECT_MAX, TcpStream::connect(address)).await {
                return Some((node, stream));
            }
            if let Some(count) = self.lock().dealt.skipped.get_mut(node) {
                *count += 1;
            }
        }
        self.lock().dealt.nowhere += 1;
        None
    }

    fn count(&self, node: usize, request: &Head) {
        let mut state = self.lock();
        if let Some(count) = state.dealt.requests.get_mut(node) {
            *count += 1;
        }
        let uses_tools = request.path() == "/mcp" && request.header("mcp-method") == Some("tools/call");
        let of_session = request.header("mcp-session-id").is_some() || uses_tools;
        if let Some(count) = state.dealt.of_sessions.get_mut(node) {
            *count += u64::from(of_session);
        }
    }

    fn learn(&self, node: usize, request: &Head, answer: &Head) {
        let is_new = request.header("mcp-session-id").is_none();
        if let Some(session) = answer.header("mcp-session-id").filter(|_| is_new) {
            let mut state = self.lock();
            if state.opened.len() < SESSIONS_MAX {
                state.opened.insert(session.to_owned(), node);
            }
        }
    }
}

/// Deals the requests of one connection until it ends.
async fn serve(desk: &Desk, mut client: Conn) -> Result<()> {
    while let Some(request) = client.request_head().await? {
        let (body, whole) = client.rest().await?;
        if !whole {
            return Ok(()); // the client left in the middle of its request
        }
        let Some((node, stream)) = desk.connect().await else {
            client.write(&response(503, &[("Retry-After", "1")], b"no node is there")).await?;
            continue;
        };
        desk.count(node, &request);
        let mut behind = Conn::new(stream);
        behind.write(&request.raw).await?;
        behind.write(&encoded(&request, body)).await?;
        let Some(answer) = first(&mut client, &mut behind, request.method()).await? else { return Ok(()) };
        desk.learn(node, &request, &answer);
        if !pass(&mut client, &mut behind, &answer).await? {
            return Ok(());
        }
    }
    Ok(())
}

/// The body as the request's head announces it.
fn encoded(request: &Head, body: Vec<u8>) -> Vec<u8> {
    if !is_chunked(request) || body.is_empty() {
        return if is_chunked(request) { LAST_CHUNK.to_vec() } else { body };
    }
    [&chunk(&body), LAST_CHUNK].concat()
}

fn is_chunked(head: &Head) -> bool {
    head.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
}

fn chunk(piece: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()
}

/// The head of the response; `None` when one of the two closed first.
async fn first(client: &mut Conn, behind: &mut Conn, method: &str) -> Result<Option<Head>> {
    loop {
        tokio::select! {
            head = behind.response_head(method) => return head,
            closed = client.peer_closed() => if closed { return Ok(None) },
        }
    }
}

/// Passes a response on as it comes; whether the client's connection can be used again.
async fn pass(client: &mut Conn, behind: &mut Conn, answer: &Head) -> Result<bool> {
    client.write(&answer.raw).await?;
    let chunked = is_chunked(answer);
    loop {
        let piece = tokio::select! {
            piece = behind.piece() => piece?,
            closed = client.peer_closed() => {
                if closed { return Err(ErrorKind::BrokenPipe.into()) }
                continue;
            }
        };
        match piece {
            Some(piece) if chunked => client.write(&chunk(&piece)).await?,
            Some(piece) => client.write(&piece).await?,
            None if chunked => break client.write(LAST_CHUNK).await?,
            None => break,
        }
    }
    let closes = answer.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    let framed = chunked || answer.header("content-length").is_some() || matches!(answer.status(), 204 | 304);
    Ok(framed && !closes)
}

#[cfg(test)]
mod tests;
