//! Asking others over HTTP for what a login needs: strangers at public addresses only, the operator's provider anywhere.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::pin::pin;

use bytes::{Bytes, BytesMut};
use http::header::HOST;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use lb_auth::{Ask, Fetch, FetchError};
use lb_backend::{Anchors, Names, NoWay, Secure};
use lb_exchange::{Bounds, BoxFuture};
use lb_http::Network;
use tokio::io::{AsyncRead, AsyncWrite};

/// Whom it asks.
#[derive(Clone, Debug)]
enum Whom {
    /// Whoever has a public address, or one of these, over TLS.
    Public(Vec<Network>),
    /// Whoever may be asked for a server that has these bounds.
    Within(Bounds),
    /// Whoever the operator has named.
    Anybody,
}

/// Asks over HTTP: one connection for each question, no redirects, no cookies, no proxies.
#[derive(Clone, Debug)]
pub struct Outbound {
    whom: Whom,
    anchors: Anchors,
    names: Names,
}

/// A connection, encrypted or not.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Outbound {
    /// For addresses that strangers name. What has an address that is neither public nor in one of these networks is not
    /// connected to, whatever its name is.
    pub fn public(anchors: Anchors, also: Vec<Network>) -> Self {
        Self { whom: Whom::Public(also), anchors, names: Names::default() }
    }

    /// For addresses that the operator has chosen.
    pub fn anywhere(anchors: Anchors) -> Self {
        Self { whom: Whom::Anybody, anchors, names: Names::default() }
    }

    /// For a server that has these bounds, and whomever it names. The operator has chosen the server, and not those: what
    /// nobody but this machine reaches, such as a cloud's metadata, is none of theirs.
    pub fn within(anchors: Anchors, bounds: Bounds) -> Self {
        let whom = match bounds {
            Bounds::Public => Whom::Public(Vec::new()),
            Bounds::Anywhere | Bounds::Near => Whom::Within(Bounds::Near),
        };
        Self { whom, anchors, names: Names::default() }
    }

    fn allows(&self, address: IpAddr) -> bool {
        match &self.whom {
            Whom::Anybody => true,
            Whom::Within(bounds) => bounds.allow(address),
            Whom::Public(also) => {
                Bounds::Public.allow(address) || also.iter().any(|network| network.contains(address.to_canonical()))
            }
        }
    }

    async fn connect(&self, host: &str, port: u16, is_secure: bool) -> Result<Box<dyn Stream>, FetchError> {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let connected = self.names.connect(bare, port, |address| self.allows(address)).await;
        let stream = connected.map_err(|why| match why {
            NoWay::Forbidden => FetchError::Forbidden,
            NoWay::Failed(error) if error.kind() == ErrorKind::TimedOut => FetchError::Timeout,
            NoWay::Unknown(error) | NoWay::Failed(error) => FetchError::Failed(format!("{host}: {error}")),
        })?;
        if !is_secure {
            return Ok(Box::new(stream));
        }
        let failed = |error: lb_backend::SecureError| FetchError::Failed(format!("{host}: {error}"));
        let secure = Secure::with(host, &self.anchors).map_err(failed)?;
        secure.connect(stream).await.map(|stream| Box::new(stream) as Box<dyn Stream>).map_err(failed)
    }

    async fn ask(&self, ask: Ask) -> Result<Response<Bytes>, FetchError> {
        let (host, is_secure) = match (ask.url.host_str(), ask.url.scheme(), &self.whom) {
            (Some(host), "https", _) => (host, true),
            (Some(host), "http", Whom::Anybody | Whom::Within(_)) => (host, false),
            _ => return Err(FetchError::Forbidden),
        };
        let port = ask.url.port_or_known_default().ok_or(FetchError::Forbidden)?;
        let stream = self.connect(host, port, is_secure).await?;
        let (bytes_max, request) = (ask.bytes_max, request(&ask)?);
        let failed = |error: hyper::Error| FetchError::Failed(error.to_string());
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(failed)?;
            let (head, mut body) = response.into_parts();
            let mut read = BytesMut::new();
            while let Some(frame) = body.frame().await {
                let Ok(data) = frame.map_err(failed)?.into_data() else { continue };
                if bytes_max < read.len() + data.len() {
                    return Err(FetchError::TooLarge);
                }
                read.extend_from_slice(&data);
            }
            Ok(Response::from_parts(head, read.freeze()))
        };
        // Driven by whoever asks, so that giving up closes the connection.
        let (mut exchange, mut connection, mut is_over) = (pin!(exchange), pin!(connection), false);
        loop {
            tokio::select! {
                answer = &mut exchange => return answer,
                _ = &mut connection, if !is_over => is_over = true,
            }
        }
    }
}

impl Fetch for Outbound {
    fn fetch(&self, ask: Ask) -> BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        let timeout = ask.timeout;
        Box::pin(async move { tokio::time::timeout(timeout, self.ask(ask)).await.unwrap_or(Err(FetchError::Timeout)) })
    }
}

fn request(ask: &Ask) -> Result<Request<Full<Bytes>>, FetchError> {
    let odd = |_| FetchError::Forbidden;
    let url = &ask.url;
    let target = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let authority = match (url.host_str(), url.port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (Some(host), None) => host.to_owned(),
        (None, _) => return Err(FetchError::Forbidden),
    };
    let mut request = Request::builder().method(ask.method.clone()).uri(target);
    if let Some(headers) = request.headers_mut() {
        *headers = ask.headers.clone();
        headers.insert(HOST, HeaderValue::from_str(&authority).map_err(|_| FetchError::Forbidden)?);
    }
    request.body(Full::new(ask.body.clone())).map_err(odd)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::SocketAddr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use lb_backend::{Lookup, Trust};

    use super::*;

    #[test]
    fn strangers_cannot_name_what_only_we_reach() {
        let anchors = Anchors::read(&Trust::Usual).expect("somebody to trust");
        let strict = Outbound::public(anchors.clone(), Vec::new());
        let wide = Outbound::public(anchors.clone(), vec!["127.0.0.0/8".parse().expect("a network")]);
        for (address, in_strict, in_wide) in [
            ("8.8.8.8", true, true),
            ("2606:4700::1", true, true),
            ("127.0.0.1", false, true),
            ("::ffff:127.0.0.1", false, true),
            ("10.0.0.1", false, false),
            ("169.254.169.254", false, false),
            ("64:ff9b::a9fe:a9fe", false, false),
            ("::1", false, false),
            ("0.0.0.0", false, false),
            ("100.64.0.1", false, false),
            ("fd00::1", false, false),
        ] {
            let address = address.parse().expect("an address");
            assert_eq!((strict.allows(address), wide.allows(address)), (in_strict, in_wide), "{address}");
        }
        assert!(Outbound::anywhere(anchors.clone()).allows("127.0.0.1".parse().expect("an address")));
        // Whomever a server names that the operator has chosen.
        for bounds in [Bounds::Anywhere, Bounds::Near] {
            let named = Outbound::within(anchors.clone(), bounds);
            for (address, want) in [
                ("8.8.8.8", true),
                ("127.0.0.1", true),
                ("10.0.0.1", true),
                ("fd00::1", true),
                ("169.254.169.254", false),
                ("64:ff9b::a9fe:a9fe", false),
                ("fe80::1", false),
            ] {
                assert_eq!(named.allows(address.parse().expect("an address")), want, "{bounds:?} {address}");
            }
        }
    }

    fn get(url: url::Url) -> Ask {
        let (headers, body) = Default::default();
        Ask { method: http::Method::GET, url, headers, body, bytes_max: 100, timeout: Duration::from_secs(10) }
    }

    #[tokio::test]
    async fn nothing_is_connected_to_that_may_not_be() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let outbound = Outbound::public(Anchors::read(&Trust::Usual).expect("somebody to trust"), Vec::new());
        for host in
            ["127.0.0.1", "localhost", "localhost.", "0x7f.1", "017700000001", "[::ffff:127.0.0.1]", "127.1", "[::1]"]
        {
            for scheme in ["https", "http"] {
                let url = format!("{scheme}://{host}:{port}/client.json").parse().expect("a URL");
                let refused = outbound.fetch(get(url)).await.expect_err(host);
                // Not every system knows that name with its dot.
                let unknown =
                    host == "localhost." && matches!(&refused, FetchError::Failed(why) if why.contains("lookup"));
                assert!(refused == FetchError::Forbidden || unknown, "{scheme} {host}: {refused:?}");
            }
        }
        let accepted = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
        assert!(accepted.is_err(), "nobody came");
    }

    /// Answers with the first of these at first, and then with the others together.
    struct Rebinding {
        answers: [IpAddr; 2],
        asked: AtomicUsize,
    }

    impl Lookup for Rebinding {
        fn lookup<'a>(&'a self, _host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
            let turn = self.asked.fetch_add(1, Ordering::Relaxed).min(2);
            let [first, second] = self.answers.map(|address| SocketAddr::new(address, port));
            let answer = [vec![first], vec![second], vec![second, first]][turn].clone();
            Box::pin(async move { Ok(answer) })
        }
    }

    /// One of our own addresses is allowed here, so that it can be seen who comes: what a document's name means is looked
    /// at each time it is connected to, and the allowed address is the one that is.
    #[tokio::test]
    async fn a_document_whose_name_changes_its_address_is_not_followed() {
        let [good, bad] = ["127.0.0.1", "127.0.0.2"].map(|text| text.parse::<IpAddr>().expect("an address"));
        let allowed = tokio::net::TcpListener::bind((good, 0)).await.expect("a port");
        let port = allowed.local_addr().expect("an address").port();
        let forbidden = tokio::net::TcpListener::bind((bad, port)).await.expect("the same port");
        let anchors = Anchors::read(&Trust::Usual).expect("somebody to trust");
        let mut outbound = Outbound::public(anchors, vec!["127.0.0.1/32".parse().expect("a network")]);
        outbound.names = Names::by(Arc::new(Rebinding { answers: [good, bad], asked: AtomicUsize::new(0) }));
        let url: url::Url = format!("https://rebind.test:{port}/client.json").parse().expect("a URL");
        // The one that is connected to hangs up, which is not the refusal of an address.
        for (turn, comes) in [("the good one", true), ("the bad one", false), ("both", true)] {
            let fetched = outbound.fetch(get(url.clone()));
            let accepted = async {
                if comes {
                    drop(allowed.accept().await.expect("a visitor"));
                }
            };
            let (answer, ()) = tokio::join!(fetched, accepted);
            let refused = answer.expect_err(turn);
            assert_eq!(refused == FetchError::Forbidden, !comes, "{turn}: {refused:?}");
        }
        for listener in [&allowed, &forbidden] {
            let more = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
            assert!(more.is_err(), "nobody else came");
        }
    }
}
