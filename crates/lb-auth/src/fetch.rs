//! How others are asked over HTTP: a port, so that this crate opens no connections.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method};
use url::Url;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Ask {
    /// `GET` or `POST`.
    pub method: Method,
    /// Where.
    pub url: Url,
    /// With these headers.
    pub headers: HeaderMap,
    /// With this body.
    pub body: Bytes,
    /// More bytes of an answer are an error.
    pub bytes_max: usize,
    /// So is an answer that takes longer. The caller enforces it, too.
    pub timeout: Duration,
}

/// Why there is no answer. Says nothing that a stranger should not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The address is one that we do not ask.
    #[error("the address is not one that may be asked")]
    Forbidden,
    /// It took too long.
    #[error("it did not answer in time")]
    Timeout,
    /// The answer is too long.
    #[error("it answered with too many bytes")]
    TooLarge,
    /// Anything else, in words for the log.
    #[error("it could not be asked: {0}")]
    Failed(String),
}

/// Asks over HTTP. Follows no redirects, keeps no cookies, and reads no more of an answer than it may.
///
/// There are two of them: one for documents that strangers name, which asks public addresses only and looks at the
/// address that it connects to; and one for the provider that the operator has chosen.
pub trait Fetch: Send + Sync {
    /// Asks once. Cancel safe: the connection is dropped with it.
    fn fetch(&self, ask: Ask) -> BoxFuture<'_, Result<http::Response<Bytes>, FetchError>>;
}

/// Asks, and holds whoever answers to the bounds of the question.
pub(crate) async fn fetch(port: &dyn Fetch, ask: Ask) -> Result<http::Response<Bytes>, FetchError> {
    let (timeout, bytes_max) = (ask.timeout, ask.bytes_max);
    let answer = tokio::time::timeout(timeout, port.fetch(ask)).await.map_err(|_| FetchError::Timeout)??;
    if bytes_max < answer.body().len() { Err(FetchError::TooLarge) } else { Ok(answer) }
}
