//! The SDK's questions, asked through our own port.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::LOCATION;
use http::{Response, StatusCode};
use parking_lot::Mutex;
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest};
use serde::Deserialize;
use url::Url;

use crate::fetch::{Ask, Fetch, fetch};
use crate::redirect::is_loopback;

const TIMEOUT: Duration = Duration::from_secs(10);
const BYTES_MAX: usize = 256 * 1_024;

/// Asks for the SDK, and remembers what it does not tell.
pub(super) struct Outward {
    port: Arc<dyn Fetch>,
    server: Url,
    seen: Mutex<Seen>,
}

/// What was seen on the way.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// What the server said of itself, the last time that it said something: the SDK stops where it believes it.
    pub resource: Option<Resource>,
    /// Whether any of the documents that were looked for is there.
    pub something: bool,
    /// Why somebody could not be asked.
    pub away: Option<String>,
    /// Why somebody must not be asked.
    pub unfit: Option<String>,
    /// Where what was answered last lies: the address that was asked for it, and not the one that it led on to.
    pub place: Option<Url>,
    /// Where that answer leads on to, and the address that was asked at first.
    sent_on: Option<(Url, Url)>,
}

impl Seen {
    /// Notes where an answer lies. The SDK follows what leads elsewhere at the same origin, and asks anew for it.
    fn came_from(&mut self, url: &Url, answer: Option<&Response<Bytes>>) {
        let first = match self.sent_on.take() {
            Some((to, first)) if to == *url && to.origin() == first.origin() => first,
            _ => url.clone(),
        };
        let location =
            answer.filter(|answer| answer.status().is_redirection()).and_then(|it| it.headers().get(LOCATION));
        let to = location.and_then(|to| to.to_str().ok()).and_then(|to| url.join(to).ok());
        self.sent_on = to.map(|mut to| {
            to.set_fragment(None);
            (to, first.clone())
        });
        self.place = Some(first);
    }
}

/// What a server says of itself, byte for byte.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Resource {
    pub resource: Option<String>,
    authorization_server: Option<String>,
    authorization_servers: Option<Vec<String>>,
}

impl Resource {
    /// Whether it names this authorization server.
    pub fn names(&self, issuer: &str) -> bool {
        let all = self.authorization_server.iter().chain(self.authorization_servers.iter().flatten());
        all.into_iter().any(|name| name == issuer)
    }

    fn says_something(&self) -> bool {
        self.resource.is_some() || self.authorization_server.is_some() || self.authorization_servers.is_some()
    }
}

impl Outward {
    pub fn new(port: Arc<dyn Fetch>, server: Url) -> Self {
        Self { port, server, seen: Mutex::default() }
    }

    pub fn seen(&self) -> Seen {
        self.seen.lock().clone()
    }

    async fn ask(&self, request: OAuthHttpRequest) -> Result<Response<Vec<u8>>, OAuthHttpClientError> {
        let (parts, body) = request.request.into_parts();
        let url = Url::parse(&parts.uri.to_string())?;
        // What it wants was asked already. A GET there may open a stream that never ends.
        if url == self.server {
            return Ok(Response::builder().status(StatusCode::METHOD_NOT_ALLOWED).body(Vec::new())?);
        }
        if !self.may_ask(&url) {
            let host = url.host_str().unwrap_or_default();
            let why = format!("the server names an address that is not https: {host}");
            self.seen.lock().unfit = Some(why.clone());
            return Err(why.into());
        }
        let ask = Ask {
            method: parts.method,
            url: url.clone(),
            headers: parts.headers,
            body: body.into(),
            bytes_max: BYTES_MAX,
            timeout: TIMEOUT,
        };
        let answer = fetch(&*self.port, ask).await;
        self.remember(&url, answer.as_ref().map_err(ToString::to_string));
        Ok(answer?.map(|body| body.to_vec()))
    }

    /// What the operator has chosen is asked as it is. What a server names is read by others on the way, or changed, unless
    /// it is encrypted or on this machine with the server.
    fn may_ask(&self, url: &Url) -> bool {
        url.scheme() == "https"
            || url.origin() == self.server.origin()
            || (is_loopback(url) && is_loopback(&self.server))
    }

    fn remember(&self, url: &Url, answer: Result<&Response<Bytes>, String>) {
        let host = url.host_str().unwrap_or_default();
        let mut seen = self.seen.lock();
        seen.came_from(url, answer.as_ref().ok().copied());
        match answer {
            Err(why) => seen.away = Some(format!("{host}: {why}")),
            Ok(answer) => match answer.status().as_u16() {
                404 => {}
                status @ (408 | 425 | 429 | 500..) => seen.away = Some(format!("{host} answered {status}")),
                _ => {
                    seen.something |= url.path().contains("/.well-known/");
                    let said = serde_json::from_slice::<Resource>(answer.body()).ok();
                    if let Some(said) = said.filter(Resource::says_something) {
                        seen.resource = Some(said);
                    }
                }
            },
        }
    }
}

impl OAuthHttpClient for Outward {
    /// Follows nothing by itself: where the SDK follows, it asks again, and that is looked at again.
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(self.ask(request))
    }
}
