//! Other nodes: where they are, and connections to them, kept for a while after their use.

mod clock;
mod conn;
mod tls;
mod url;

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Uri};
use hyper::body::Incoming;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

pub use self::clock::NodeClock;
pub(crate) use conn::Conn;
use conn::{Line, Unanswered, Whole, chain};
pub use url::{NodeUrl, NodeUrlError};

use crate::settings::NodeSettings;
use crate::told::Told;

/// How long a connection and its handshake may take.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// How long an unused connection is kept: less than the other side does, so that it is not closed under a request.
const IDLE_FOR: Duration = Duration::from_secs(60);
/// How often those are looked for that were kept too long.
const SWEEP_EVERY: Duration = Duration::from_secs(15);
/// Unused connections that are kept for each node; beyond, the oldest is closed.
const IDLE_MAX: usize = 64;
/// A node that takes nothing, or is not heard of, for so long is gone.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// Why a request got no answer from a node.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// Nothing of it was sent.
    #[error("{0}")]
    Unreached(String),
    /// It may have reached the node.
    #[error("{0}")]
    Lost(String),
}

/// A request to be sent on, as often as it takes to find a connection.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    pub(crate) method: Method,
    pub(crate) target: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Letter {
    fn into_request(self) -> Request<Whole> {
        let mut request = Request::new(Whole::new(self.body));
        *request.method_mut() = self.method;
        *request.uri_mut() = self.target;
        *request.headers_mut() = self.headers;
        request
    }
}

/// All nodes that something was sent to.
#[derive(Default)]
pub(crate) struct Nodes {
    by_url: Mutex<HashMap<Arc<str>, Arc<Node>>>,
    /// What https needs, and the authorities it was made with.
    tls: Mutex<Option<(Option<PathBuf>, TlsConnector)>>,
    pub(crate) failed: Told,
    pub(crate) lost: Told,
    /// Requests that another node has answered.
    pub(crate) forwarded: Arc<AtomicU64>,
}

/// One node.
pub(crate) struct Node {
    url: NodeUrl,
    tls: Option<TlsConnector>,
    /// Oldest first.
    idle: Mutex<Vec<(Box<Conn>, Instant)>>,
}

impl Nodes {
    /// The node at this URL.
    pub(crate) fn at(&self, url: &Arc<str>, settings: &NodeSettings) -> Result<Arc<Node>, SendError> {
        // Before anything that is kept: what is allowed may have changed.
        let parsed = NodeUrl::parse(url, settings.insecure).map_err(|error| SendError::Unreached(error.to_string()))?;
        if let Some(node) = lock(&self.by_url).get(url) {
            return Ok(node.clone());
        }
        let tls = if parsed.is_secure() { Some(self.connector(settings)?) } else { None };
        let node = Arc::new(Node { url: parsed, tls, idle: Mutex::default() });
        Ok(lock(&self.by_url).entry(url.clone()).or_insert(node).clone())
    }

    fn connector(&self, settings: &NodeSettings) -> Result<TlsConnector, SendError> {
        let mut tls = lock(&self.tls);
        match &*tls {
            Some((authorities, connector)) if *authorities == settings.authorities => Ok(connector.clone()),
            _ => {
                let made = tls::connector(settings.authorities.as_deref()).map_err(SendError::Unreached)?;
                *tls = Some((settings.authorities.clone(), made.clone()));
                Ok(made)
            }
        }
    }

    /// Closes what is left unused, for ever.
    ///
    /// Cancel safe: yes.
    pub(crate) async fn tend(&self) {
        loop {
            tokio::time::sleep(SWEEP_EVERY).await;
            self.sweep(Instant::now());
        }
    }

    fn sweep(&self, now: Instant) {
        lock(&self.by_url).retain(|_, node| {
            let mut idle = lock(&node.idle);
            idle.retain(|(_, until)| now < *until);
            !idle.is_empty()
        });
    }
}

impl Node {
    /// What it is called in a request's `Host`.
    pub(crate) fn authority(&self) -> &http::HeaderValue {
        self.url.authority()
    }

    /// Sends a request on a connection that is there, or on a new one, and gives the head of the response.
    ///
    /// What may have reached the node is not sent again.
    ///
    /// Cancel safe: dropping it closes the connection.
    pub(crate) async fn send(&self, letter: Letter) -> Result<(Box<Conn>, Response<Incoming>), SendError> {
        let mut request = letter.into_request();
        while let Some(conn) = self.take() {
            request = match conn.send(request).await {
                Ok(answered) => return Ok(answered),
                Err(Unanswered::Unsent(request)) => *request,
                Err(Unanswered::Broken(why)) => return Err(SendError::Lost(why)),
            };
        }
        let conn = self.connect().await.map_err(SendError::Unreached)?;
        match conn.send(request).await {
            Ok(answered) => Ok(answered),
            Err(Unanswered::Unsent(_)) => Err(SendError::Unreached("it closes new connections at once".to_owned())),
            Err(Unanswered::Broken(why)) => Err(SendError::Lost(why)),
        }
    }

    /// Keeps a connection whose response has been read.
    pub(crate) fn put_back(&self, conn: Box<Conn>) {
        let mut idle = lock(&self.idle);
        let oldest = (IDLE_MAX <= idle.len()).then(|| idle.remove(0));
        idle.push((conn, Instant::now() + IDLE_FOR));
        drop(idle);
        drop(oldest);
    }

    /// The connection used last, unless it was kept too long.
    fn take(&self) -> Option<Box<Conn>> {
        let (conn, until) = lock(&self.idle).pop()?;
        (Instant::now() < until).then_some(conn)
    }

    async fn connect(&self) -> Result<Box<Conn>, String> {
        let connected = tokio::time::timeout(CONNECT_MAX, self.open()).await;
        connected.unwrap_or_else(|_| Err(format!("no connection within {} s", CONNECT_MAX.as_secs())))
    }

    async fn open(&self) -> Result<Box<Conn>, String> {
        let stream = TcpStream::connect(self.url.address()).await.map_err(|error| chain(&error))?;
        stream.set_nodelay(true).and_then(|()| notice_silence(&stream)).map_err(|error| chain(&error))?;
        let line = match &self.tls {
            None => Line::Plain(stream),
            Some(connector) => {
                let name = self.url.server_name()?;
                Line::Tls(Box::new(connector.connect(name, stream).await.map_err(|error| chain(&error))?))
            }
        };
        Conn::open(line).await.map_err(|error| chain(&error))
    }
}

/// A machine that is gone says nothing; without this a stream from it would wait for ever.
fn notice_silence(socket: impl AsFd) -> io::Result<()> {
    use rustix::net::sockopt;
    let every = SILENCE_MAX / 4;
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, every)?;
    sockopt::set_tcp_keepintvl(&socket, every)?;
    sockopt::set_tcp_keepcnt(&socket, 3)?;
    #[cfg(target_os = "linux")]
    sockopt::set_tcp_user_timeout(&socket, u32::try_from(SILENCE_MAX.as_millis()).unwrap_or(u32::MAX))?;
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;

    use super::*;
    use crate::hop::NodeKeys;
    use crate::listen::Place;

    #[tokio::test]
    async fn a_connection_that_nobody_uses_is_closed_after_a_minute() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url: Arc<str> = format!("http://{}", listener.local_addr().unwrap()).into();
        let settings = NodeSettings {
            listen: Place::Tcp("127.0.0.1:0".into()),
            url: None,
            keys: NodeKeys::derive(b"key", None),
            insecure: false,
            authorities: None,
            together: None,
            clock: Arc::default(),
        };
        let nodes = Nodes::default();
        let node = nodes.at(&url, &settings).unwrap();
        let (conn, accepted) = tokio::join!(node.connect(), listener.accept());
        node.put_back(conn.unwrap());
        drop(node);
        let start = Instant::now();
        nodes.sweep(start + Duration::from_secs(59));
        assert_eq!(lock(&nodes.by_url).len(), 1);
        nodes.sweep(start + Duration::from_secs(61));
        assert_eq!(lock(&nodes.by_url).len(), 0, "nothing is kept of a node that is not used");
        let (mut far, mut byte) = (accepted.unwrap().0, [0]);
        let read = tokio::time::timeout(Duration::from_secs(20), far.read(&mut byte)).await;
        assert_eq!(read.unwrap().unwrap(), 0, "it is closed");
    }
}
