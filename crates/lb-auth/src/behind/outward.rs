//! The SDK's questions, asked through our own port.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use parking_lot::Mutex;
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest};
use serde::Deserialize;
use url::Url;

use crate::fetch::{Ask, Fetch, fetch};

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

    fn remember(&self, url: &Url, answer: Result<&Response<Bytes>, String>) {
        let host = url.host_str().unwrap_or_default();
        let mut seen = self.seen.lock();
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
