//! A small client of Streamable HTTP: one connection per request, and nothing that hides what the server did.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use lb_backend::{Secure, SecureError, Trust};
use lb_exchange::Tasks;
use lb_wire::sse::{Decoder, Event};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// How long the server may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// How long it may take to connect.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How much of an answer is read.
const BODY_BYTES_MAX: usize = 16 << 20;

/// Where a server is.
#[derive(Clone, Debug)]
pub struct Target {
    is_secure: bool,
    host: String,
    authority: String,
    /// Host and port, to connect to.
    address: String,
    path: String,
}

impl Target {
    /// Reads an `http` or `https` URL.
    ///
    /// # Errors
    /// With what to give instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let advice = || "give an http or https URL, as in http://127.0.0.1:8080/mcp".to_owned();
        let uri: Uri = text.parse().map_err(|_| advice())?;
        let Some(authority) = uri.authority().filter(|authority| !authority.as_str().contains('@')) else {
            return Err(advice());
        };
        let (is_secure, usual_port) = match uri.scheme_str() {
            Some("http") => (false, 80),
            Some("https") => (true, 443),
            _ => return Err(advice()),
        };
        let address = format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(usual_port));
        let path = match uri.path_and_query().map(|path| path.as_str()) {
            None | Some("/" | "") => "/mcp".to_owned(),
            Some(path) => path.to_owned(),
        };
        Ok(Self { is_secure, host: authority.host().to_owned(), authority: authority.to_string(), address, path })
    }

    /// Whether it is spoken to over TLS.
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

/// Sends requests to one server.
pub struct Client {
    target: Target,
    tls: Option<Secure>,
    /// What every request has.
    headers: Vec<(String, String)>,
    tasks: Tasks,
}

/// Reads `NAME: VALUE`.
///
/// # Errors
/// With what to give instead.
pub fn header(text: &str) -> Result<(String, String), String> {
    let advice = || "give NAME: VALUE, as in 'Authorization: Bearer KEY'".to_owned();
    let (name, value) = text.split_once(':').ok_or_else(advice)?;
    let (name, value) = (name.trim(), value.trim());
    let good = HeaderName::try_from(name).is_ok() && HeaderValue::try_from(value).is_ok() && !value.is_empty();
    if good { Ok((name.to_owned(), value.to_owned())) } else { Err(advice()) }
}

/// A connection, encrypted or not.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Headers of a request, by name.
pub type Headers<'a> = &'a [(&'a str, &'a str)];

impl Client {
    /// For this server, whose certificate is judged like this, with these headers in every request.
    ///
    /// # Errors
    /// There is nobody to trust.
    pub fn new(target: Target, trust: &Trust, headers: Vec<(String, String)>) -> Result<Self, SecureError> {
        let tls = target.is_secure.then(|| Secure::new(&target.host, trust)).transpose()?;
        Ok(Self { target, tls, headers, tasks: Tasks::default() })
    }

    /// Where the server is.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Whether the server can be connected to at all.
    ///
    /// # Errors
    /// What went wrong, in words.
    pub async fn reach(&self) -> Result<(), String> {
        match tokio::time::timeout(CONNECT_MAX, self.connect()).await {
            Ok(reached) => reached.map(drop),
            Err(_) => Err(format!("cannot connect to {} within {} s", self.target.address, CONNECT_MAX.as_secs())),
        }
    }

    async fn connect(&self) -> Result<Box<dyn Stream>, String> {
        let address = &self.target.address;
        let stream =
            TcpStream::connect(address).await.map_err(|error| format!("cannot connect to {address}: {error}"))?;
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        match tls.connect(stream).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(SecureError::Untrusted) => {
                let way = "give --ca FILE with the certificate of its authority, or --insecure to trust it untested";
                Err(format!("{}; {way}", SecureError::Untrusted))
            }
            Err(error) if error.to_string().contains("CaUsedAsEndEntity") => {
                let way = "make one with `openssl req -x509 -addext basicConstraints=critical,CA:FALSE …`, or give \
                           --insecure to trust it untested";
                Err(format!("the certificate of {address} is that of an authority and not of a server; {way}"))
            }
            Err(error) => Err(format!("no TLS with {address}: {error}")),
        }
    }

    /// A request to the endpoint.
    ///
    /// # Errors
    /// What went wrong, in words.
    pub async fn mcp(&self, method: Method, headers: Headers<'_>, body: Option<&Value>) -> Result<Answer, String> {
        self.send(method, &self.target.path, headers, body).await
    }

    /// A GET of another path of the same host.
    ///
    /// # Errors
    /// What went wrong, in words.
    pub async fn get(&self, path: &str) -> Result<Answer, String> {
        self.send(Method::GET, path, &[], None).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: Headers<'_>,
        body: Option<&Value>,
    ) -> Result<Answer, String> {
        let mut request = Request::builder().method(method).uri(path).header("Host", &self.target.authority);
        let own = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in headers.iter().copied().chain(own) {
            request = request.header(name, value);
        }
        if body.is_some() {
            request = request.header("Content-Type", "application/json");
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| error.to_string())?;
        let sent = async {
            let handshake = http1::handshake(TokioIo::new(self.connect().await?)).await;
            let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
            self.tasks.spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "connection ended");
                }
            });
            sender.send_request(request).await.map_err(|error| format!("no answer: {error}"))
        };
        match tokio::time::timeout(SILENCE_MAX, sent).await {
            Ok(response) => response.map(|response| Answer { response, decoder: Decoder::new(BODY_BYTES_MAX) }),
            Err(_) => Err(format!("no answer within {} s", SILENCE_MAX.as_secs())),
        }
    }
}

/// What the server answers: its head, and a body that is read as it comes.
pub struct Answer {
    response: Response<Incoming>,
    decoder: Decoder,
}

impl Answer {
    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// One of its headers.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// Whether its body is an event stream.
    pub fn is_stream(&self) -> bool {
        self.header("Content-Type").is_some_and(|kind| kind.starts_with("text/event-stream"))
    }

    /// The next event; `None` at the end of the stream.
    ///
    /// # Errors
    /// What went wrong, in words.
    pub async fn event(&mut self) -> Result<Option<Event>, String> {
        loop {
            if let Some(event) = self.decoder.next() {
                return event.map(Some).map_err(|error| error.to_string());
            }
            match self.piece().await? {
                Some(piece) => self.decoder.push(piece),
                None => return Ok(None),
            }
        }
    }

    /// The JSON-RPC message that ends it: the body, or the last event with data.
    ///
    /// # Errors
    /// What went wrong, in words.
    pub async fn message(mut self) -> Result<Value, String> {
        let mut last = Bytes::new();
        if self.is_stream() {
            while let Some(event) = self.event().await? {
                if !event.data.is_empty() {
                    last = event.data;
                }
            }
        } else {
            let mut body = Vec::new();
            while let Some(piece) = self.piece().await? {
                if BODY_BYTES_MAX < body.len() + piece.len() {
                    return Err("the answer is too long".to_owned());
                }
                body.extend_from_slice(&piece);
            }
            last = body.into();
        }
        serde_json::from_slice(&last).map_err(|_| format!("HTTP {} without a JSON body", self.status()))
    }

    async fn piece(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            match tokio::time::timeout(SILENCE_MAX, self.response.body_mut().frame()).await {
                Err(_) => return Err(format!("nothing came for {} s", SILENCE_MAX.as_secs())),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => return Err(format!("the answer broke off: {error}")),
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => return Ok(Some(data)),
                    Err(_) => continue, // trailers
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_an_http_url() {
        for (text, want) in [
            ("http://127.0.0.1:8080/mcp", Some("http://127.0.0.1:8080/mcp")),
            ("http://localhost:9", Some("http://localhost:9/mcp")),
            ("http://[::1]:9/mcp/server/x?a=1", Some("http://[::1]:9/mcp/server/x?a=1")),
            ("http://example.com", Some("http://example.com/mcp")),
            ("https://example.com/mcp", Some("https://example.com/mcp")),
            ("https://me@example.com/mcp", None),
            ("http://me:hush@example.com/", None),
            ("localhost:8080", None),
            ("ftp://x/", None),
            ("", None),
        ] {
            assert_eq!(Target::parse(text).ok().map(|target| target.to_string()).as_deref(), want, "{text:?}");
        }
    }
}
