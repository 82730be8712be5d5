//! Posts to what is no MCP server, over the same connections and TLS.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use http::header::{ACCEPT, CONTENT_TYPE};
use lb_exchange::{Secret, Tasks};

use super::endpoint::{Endpoint, SendError};
use crate::error::ConnectError;

/// One URL that takes bodies.
pub struct Mailbox(Arc<Endpoint>);

impl Mailbox {
    /// Nothing is sent yet.
    ///
    /// # Errors
    /// The URL or a header cannot be used.
    pub fn new(name: &str, url: &str, headers: &[(String, Secret)], tasks: Tasks) -> Result<Self, ConnectError> {
        Endpoint::new(name, url, headers, tasks).map(|endpoint| Self(Arc::new(endpoint)))
    }

    /// Posts a body and gives the status of the response.
    ///
    /// Cancel safe: dropping it closes the connection.
    ///
    /// # Errors
    /// Why there was no response.
    pub async fn post(&self, content_type: &'static str, body: Bytes) -> Result<u16, String> {
        let mut headers = self.0.headers().clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.remove(ACCEPT);
        let request = self.0.post(headers, body);
        let mut reply = self.0.send(request).await.map_err(|error| match error {
            SendError::Unreachable(error) | SendError::Login(error) => error.to_string(),
            SendError::Broken(why) => why,
        })?;
        let status = reply.status.as_u16();
        drop(reply.page().await);
        Ok(status)
    }
}
