//! The way to an endpoint for one principal: what goes with each request where the server wants a login.

use std::sync::Arc;

use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use lb_exchange::{Login, LoginError, Proof, Refused};

use super::conn::Outgoing;
use super::endpoint::{Endpoint, SendError};
use super::reply::Reply;

/// An endpoint, and what somebody proves itself with there. Cheap to clone.
#[derive(Clone)]
pub struct Access {
    endpoint: Arc<Endpoint>,
    login: Option<Arc<dyn Login>>,
}

/// Whether what becomes of a request says how the server is.
#[derive(Clone, Copy)]
enum Counts {
    Yes,
    No,
}

impl Access {
    /// With this login, if there is one.
    pub fn new(endpoint: Arc<Endpoint>, login: Option<Arc<dyn Login>>) -> Self {
        Self { endpoint, login }
    }

    /// Where it leads.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// Whether somebody logs in.
    pub fn has_login(&self) -> bool {
        self.login.is_some()
    }

    /// As [`Endpoint::send_by`], with what the server wants.
    ///
    /// Cancel safe: as that.
    pub async fn send_by(&self, request: Outgoing) -> Result<Reply, SendError> {
        match &self.login {
            None => self.endpoint.send_by(request).await,
            // Boxed: a call without a login shall not carry its room.
            Some(login) => Box::pin(self.prove(&**login, request, Counts::Yes)).await,
        }
    }

    /// As [`Endpoint::send`], with what the server wants.
    ///
    /// Cancel safe: as that.
    pub async fn send(&self, request: Outgoing) -> Result<Reply, SendError> {
        match &self.login {
            None => self.endpoint.send(request).await,
            Some(login) => Box::pin(self.prove(&**login, request, Counts::No)).await,
        }
    }

    /// Sends a request with a proof. A refusal of the proof says that the request was not run: it is sent once more with
    /// another one. That may happen once for each reason, as a new login may be good for too little.
    async fn prove(&self, login: &dyn Login, request: Outgoing, counts: Counts) -> Result<Reply, SendError> {
        let mut proof = login.proof().await?;
        let mut seen: Option<StatusCode> = None;
        loop {
            let mut reply = self.send_once(with(request.clone(), proof.as_ref())?, counts).await?;
            let Some(challenges) = refusal(reply.status, &reply.headers) else { return Ok(reply) };
            // Read, so that its connection can be used again.
            drop(reply.page().await);
            let status = reply.status;
            if seen.is_some_and(|seen| seen == status || status == StatusCode::UNAUTHORIZED) {
                return Err(twice(status).into());
            }
            seen = Some(status);
            proof = Some(login.refused(Refused { status: status.as_u16(), challenges, proof }).await?);
        }
    }

    async fn send_once(&self, request: Outgoing, counts: Counts) -> Result<Reply, SendError> {
        match counts {
            Counts::Yes => self.endpoint.send_by(request).await,
            Counts::No => self.endpoint.send(request).await,
        }
    }
}

/// Without a login.
impl From<Arc<Endpoint>> for Access {
    fn from(endpoint: Arc<Endpoint>) -> Self {
        Self::new(endpoint, None)
    }
}

impl From<LoginError> for SendError {
    fn from(error: LoginError) -> Self {
        Self::Login(error.into())
    }
}

fn with(mut request: Outgoing, proof: Option<&Proof>) -> Result<Outgoing, LoginError> {
    if let Some(proof) = proof {
        let value = HeaderValue::from_str(proof.value.expose());
        let mut value =
            value.map_err(|_| LoginError::Failed("its token has characters that no header can hold".to_owned()))?;
        value.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, value);
    }
    Ok(request)
}

/// What a server says that does not take the proof of a request; `None` for every other answer.
fn refusal(status: StatusCode, headers: &HeaderMap) -> Option<Vec<String>> {
    let challenges = || -> Vec<String> {
        let values = headers.get_all(WWW_AUTHENTICATE).iter();
        values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    };
    match status {
        StatusCode::UNAUTHORIZED => Some(challenges()),
        StatusCode::FORBIDDEN => Some(challenges()).filter(|all| all.iter().any(|one| wants_more_scope(one))),
        _ => None,
    }
}

fn wants_more_scope(challenge: &str) -> bool {
    let plain: String = challenge.chars().filter(|c| !c.is_whitespace() && *c != '"').collect();
    plain.to_ascii_lowercase().contains("error=insufficient_scope")
}

fn twice(status: StatusCode) -> LoginError {
    let why = match status {
        StatusCode::FORBIDDEN => "it wants more than a new login allows",
        _ => "it does not take a new login either",
    };
    LoginError::Failed(format!("the server answers HTTP {}: {why}", status.as_u16()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_refused_by_401_and_by_403_that_asks_for_scopes() {
        for (status, challenge, want) in [
            (401, None, Some(0)),
            (401, Some("Basic realm=x"), Some(1)),
            (403, Some(r#"Bearer error="insufficient_scope", scope="a b""#), Some(1)),
            (403, Some("Bearer scope=a, Error = insufficient_scope"), Some(1)),
            (403, Some(r#"Bearer error="invalid_token""#), None),
            (403, None, None),
            (400, Some(r#"Bearer error="insufficient_scope""#), None),
            (200, Some("Bearer"), None),
        ] {
            let mut headers = HeaderMap::new();
            challenge.map(|text| headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(text)));
            let got = refusal(StatusCode::from_u16(status).unwrap(), &headers).map(|all| all.len());
            assert_eq!(got, want, "{status} {challenge:?}");
        }
    }
}
