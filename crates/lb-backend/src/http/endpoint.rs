//! Where a server is: its address, TLS, the headers of every request, and the connections that are open to it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::Full;
use lb_exchange::{Bounds, ErrorBody, Secret, ServerSpec, Tasks};
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use super::conn::{Conn, Outgoing, Stream, Unanswered, chain};
use super::pool::{IDLE_FOR, Pool};
use super::reply::{Reply, Rest};
use super::tls;
use crate::breaker::Failure;
use crate::breaker::gate::{Gate, Permit};
use crate::error::{self, ConnectError};
use crate::names::{Names, NoWay};

/// How much is shown of an origin that a server names.
const ORIGIN_CHARS_MAX: usize = 200;

/// How long a TCP and TLS connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long the other end of a connection may be gone before that is noticed.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// One server's endpoint, shared by all connections to it.
pub struct Endpoint {
    /// What the server is called in messages: its name, host and port.
    called: String,
    /// The URL as it may be shown.
    shown: String,
    url: Url,
    host: String,
    port: u16,
    /// Whether addresses that are out of bounds for clients are not connected to.
    bounds: Bounds,
    names: Names,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// Path and query, as they stand in the request line.
    uri: Uri,
    headers: HeaderMap,
    last_length: Mutex<(usize, HeaderValue)>,
    pool: Pool,
    tasks: Tasks,
    gate: Arc<Gate>,
    handshake_max: Duration,
}

/// Why a request got no response.
#[derive(Debug)]
pub enum SendError {
    /// No connection could be made, so nothing was sent.
    Unreachable(ConnectError),
    /// The connection broke after the request may have reached the server.
    Broken(String),
    /// There is nothing to prove ourselves with: the request was not sent, or the server did not run it.
    Login(ConnectError),
}

impl Endpoint {
    /// An endpoint that nothing has been sent to yet.
    ///
    /// # Errors
    /// The URL or a header cannot be used.
    pub fn new(name: &str, url: &str, headers: &[(String, Secret)], tasks: Tasks) -> Result<Self, ConnectError> {
        let shown = shown(url);
        let refuse = |why: String| ConnectError::Unreachable { url: shown.clone(), why };
        let parsed = Url::parse(url).map_err(|error| refuse(error.to_string()))?;
        let host = parsed.host().ok_or_else(|| refuse("it names no host".to_owned()))?;
        let port = parsed.port_or_known_default().ok_or_else(|| refuse("it names no port".to_owned()))?;
        let tls = match parsed.scheme() {
            "http" => None,
            "https" => {
                let connector = tls::connector().map_err(|error| refuse(error.to_string()))?;
                Some((connector, tls_name(&host).map_err(&refuse)?))
            }
            other => return Err(refuse(format!("{other} is not http or https"))),
        };
        let authority = match parsed.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_string(),
        };
        let path = match parsed.query() {
            Some(query) => format!("{}?{query}", parsed.path()),
            None => parsed.path().to_owned(),
        };
        let uri = path.parse().map_err(|error: http::uri::InvalidUri| refuse(error.to_string()))?;
        let headers = template(&authority, headers).map_err(refuse)?;
        let host = match host {
            Host::Domain(name) => name.to_owned(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        let url = parsed;
        let last_length = Mutex::new((0, HeaderValue::from_static("0")));
        let pool = Pool::default();
        let called = format!("server {name:?} ({authority})");
        let (bounds, names) = Default::default();
        let gate = Arc::new(Gate::new(called.clone()));
        let handshake_max = ServerSpec::INIT_TIMEOUT;
        Ok(Self {
            called,
            shown,
            url,
            host,
            port,
            bounds,
            names,
            tls,
            uri,
            headers,
            last_length,
            pool,
            tasks,
            gate,
            handshake_max,
        })
    }

    /// Gives the server so long to answer the first request of a connection.
    #[must_use]
    pub fn answering_within(mut self, handshake_max: Duration) -> Self {
        self.handshake_max = handshake_max;
        self
    }

    /// How long the server may take to answer the first request of a connection.
    pub fn handshake_max(&self) -> Duration {
        self.handshake_max
    }

    /// Keeps away from addresses that are out of bounds for clients.
    #[must_use]
    pub fn within(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// Looks its host up with these.
    #[must_use]
    pub fn named_by(mut self, names: Names) -> Self {
        self.names = names;
        self
    }

    /// What the server is called in messages.
    pub fn called(&self) -> &str {
        &self.called
    }

    /// The owner of all tasks.
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// The headers of every POST, with a length that [`Endpoint::post`] fills in.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// A POST of one message. `headers` were made from [`Endpoint::headers`].
    pub fn post(&self, mut headers: HeaderMap, body: Bytes) -> Outgoing {
        // Replacing a value is cheaper than letting one be added: the map does not grow.
        if let Some(length) = headers.get_mut(CONTENT_LENGTH) {
            *length = self.length(body.len());
        }
        self.request(Method::POST, headers, Full::new(body))
    }

    /// The header of a length. Bodies in a row are often of the same one, and a header costs two allocations.
    fn length(&self, bytes: usize) -> HeaderValue {
        let mut last = self.last_length.lock();
        if last.0 != bytes {
            *last = (bytes, HeaderValue::from(bytes));
        }
        last.1.clone()
    }

    /// A request without a body. `headers` were made from [`Endpoint::headers`].
    pub fn bare(&self, method: Method, mut headers: HeaderMap) -> Outgoing {
        headers.remove(CONTENT_LENGTH);
        headers.remove(CONTENT_TYPE);
        self.request(method, headers, Full::default())
    }

    fn request(&self, method: Method, headers: HeaderMap, body: Full<Bytes>) -> Outgoing {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = headers;
        request
    }

    /// What stands in the request line for a URL that the server itself names, which may be relative to its own.
    ///
    /// # Errors
    /// It is none, or it is of another origin: what goes with every request is meant for this one.
    pub fn beside(&self, named: &str) -> Result<Uri, String> {
        let url =
            self.url.join(named.trim()).map_err(|error| format!("it names no URL to post messages to: {error}"))?;
        if url.origin() != self.url.origin() {
            let origin: String = url.origin().ascii_serialization().chars().take(ORIGIN_CHARS_MAX).collect();
            let own = self.url.origin().ascii_serialization();
            return Err(format!("it wants messages posted to {origin}, which is not where it is itself, {own}"));
        }
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        path.parse().map_err(|error: http::uri::InvalidUri| format!("it names no URL to post messages to: {error}"))
    }

    /// The breaker of the server.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Sends a request, unless the server is left alone; what becomes of it counts for that.
    ///
    /// Cancel safe: as [`Endpoint::send`], and then it does not count.
    pub async fn send_by(self: &Arc<Self>, request: Outgoing) -> Result<Reply, SendError> {
        let permit = self.gate.admit().map_err(SendError::Unreachable)?;
        let sent = self.send_as(request, Some(&permit)).await;
        match &sent {
            Ok(_) => permit.answered(),
            Err(SendError::Unreachable(error)) => permit.failed(Failure::Unreached, &error.to_string()),
            Err(SendError::Login(_)) => drop(permit),
            Err(SendError::Broken(why)) => permit.failed(Failure::Lost, why),
        }
        sent
    }

    /// Sends a request on an idle connection, or on a new one, and gives the head of the response.
    ///
    /// What may have reached the server is never sent again.
    ///
    /// Cancel safe: dropping it closes the connection.
    pub async fn send(self: &Arc<Self>, request: Outgoing) -> Result<Reply, SendError> {
        self.send_as(request, None).await
    }

    async fn send_as(self: &Arc<Self>, request: Outgoing, permit: Option<&Permit<'_>>) -> Result<Reply, SendError> {
        let mut request = request;
        while let Some(conn) = self.pool.take() {
            request = match self.send_on(conn, request).await? {
                Ok(reply) => return Ok(reply),
                Err(unsent) => unsent,
            };
        }
        // Boxed: a warm call shall not carry the room that connecting needs.
        Box::pin(self.send_anew(request, permit)).await
    }

    /// Sends a request on a new connection.
    async fn send_anew(self: &Arc<Self>, request: Outgoing, permit: Option<&Permit<'_>>) -> Result<Reply, SendError> {
        let mut request = request;
        // A server that restarts refuses for a moment or resets what is new: one more attempt, as nothing was sent.
        for last in [false, true] {
            let conn = match self.connect().await {
                Ok(conn) => conn,
                Err(error) if last => return Err(SendError::Unreachable(error)),
                Err(_) => continue,
            };
            if let Some(permit) = permit {
                permit.reached();
            }
            request = match self.send_on(conn, request).await? {
                Ok(reply) => return Ok(reply),
                Err(unsent) => unsent,
            };
        }
        Err(SendError::Unreachable(self.unreachable("it closes new connections at once".to_owned())))
    }

    async fn send_on(
        self: &Arc<Self>,
        conn: Box<Conn>,
        request: Outgoing,
    ) -> Result<Result<Reply, Outgoing>, SendError> {
        match conn.send(request).await {
            Ok((conn, response)) => Ok(Ok(Reply::new(self.clone(), conn, response))),
            Err(Unanswered::Unsent(request)) => Ok(Err(*request)),
            Err(Unanswered::Broken(why)) => Err(SendError::Broken(why)),
        }
    }

    /// A connection to one of its addresses that are within bounds.
    async fn reach(&self) -> Result<TcpStream, String> {
        let connected = self.names.connect(&self.host, self.port, |address| self.bounds.allow(address)).await;
        connected.map_err(|why| match why {
            NoWay::Forbidden => format!("its address {}", self.bounds.why_not()),
            NoWay::Unknown(error) | NoWay::Failed(error) => chain(&error),
        })
    }

    async fn connect(&self) -> Result<Box<Conn>, ConnectError> {
        let connected = tokio::time::timeout(CONNECT_MAX, self.open()).await;
        let why = format!("no connection within {} s", CONNECT_MAX.as_secs());
        connected.unwrap_or(Err(why)).map_err(|why| self.unreachable(why))
    }

    async fn open(&self) -> Result<Box<Conn>, String> {
        let stream = self.reach().await?;
        stream.set_nodelay(true).map_err(|error| chain(&error))?;
        notices_its_end(&stream).map_err(|error| chain(&error))?;
        let stream = match &self.tls {
            None => Stream::Plain(stream),
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await.map_err(|error| tls::explain(&error))?;
                Stream::Tls(Box::new(stream))
            }
        };
        Conn::open(stream).await.map_err(|error| chain(&error))
    }

    /// The error for a server that cannot be spoken to.
    pub fn unreachable(&self, why: String) -> ConnectError {
        ConnectError::Unreachable { url: self.shown.clone(), why }
    }

    /// Takes a connection back whose response has been read, or whose rest nobody needs.
    pub fn put_back(self: &Arc<Self>, conn: Box<Conn>, rest: Option<Rest>, for_time: Option<Duration>) {
        if !self.pool.put(conn, rest, for_time.unwrap_or(IDLE_FOR).min(IDLE_FOR)) {
            return;
        }
        let (weak, tasks) = (Arc::downgrade(self), self.tasks.clone());
        self.tasks.spawn(async move {
            loop {
                tokio::select! {
                    () = tokio::time::sleep(IDLE_FOR) => {}
                    () = tasks.stopping() => break,
                }
                let Some(endpoint) = weak.upgrade() else { return };
                if !endpoint.pool.sweep() {
                    return;
                }
            }
            if let Some(endpoint) = weak.upgrade() {
                endpoint.pool.clear();
            }
        });
    }
}

impl SendError {
    /// What the client is told.
    pub fn to_body(&self, endpoint: &Endpoint) -> ErrorBody {
        match self {
            Self::Unreachable(error) | Self::Login(error) => error.to_body_of(endpoint.called()),
            Self::Broken(_) => ErrorBody::from_server(error::closed(endpoint.called(), None, None)),
        }
    }
}

/// A URL without its query and user, which may hold secrets.
fn shown(url: &str) -> String {
    let bare = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = bare.split_once("://").unwrap_or(("", bare));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{host}/{path}"),
        None => bare.to_owned(),
    }
}

/// A server that is gone without a word, or behind something that has forgotten us, says nothing: a stream from it would
/// wait for ever.
fn notices_its_end(stream: &TcpStream) -> std::io::Result<()> {
    use rustix::net::sockopt;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, SILENCE_MAX / 2)?;
    sockopt::set_tcp_keepintvl(stream, SILENCE_MAX / 6)?;
    sockopt::set_tcp_keepcnt(stream, 3)?;
    Ok(())
}

fn tls_name(host: &Host<&str>) -> Result<ServerName<'static>, String> {
    match host {
        Host::Domain(name) => ServerName::try_from((*name).to_owned()).map_err(|error| error.to_string()),
        Host::Ipv4(address) => Ok(ServerName::IpAddress((*address).into())),
        Host::Ipv6(address) => Ok(ServerName::IpAddress((*address).into())),
    }
}

/// The configured headers, and over them those that the protocol fixes.
fn template(authority: &str, configured: &[(String, Secret)]) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::with_capacity(configured.len() + 16);
    let value = |text: &str| HeaderValue::from_str(text).map_err(|error| error.to_string());
    headers.insert(HOST, value(authority)?);
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("landbridge/", env!("CARGO_PKG_VERSION"))));
    for (name, secret) in configured {
        let key: HeaderName = name.parse().map_err(|_| format!("{name:?} is not a header name"))?;
        let mut value = HeaderValue::from_str(secret.expose())
            .map_err(|_| format!("the value of header {name} has characters that no header can hold"))?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    headers.remove(http::header::TRANSFER_ENCODING);
    headers.remove(http::header::CONNECTION);
    Ok(headers)
}
