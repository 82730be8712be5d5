//! The first words to a server over HTTP, and what its answer says about its era.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use lb_wire::revision::Era;
use lb_wire::{Id, Message, Raw, Shape, compose};

use super::access::Access;
use super::endpoint::{Endpoint, SendError};
use super::modern;
use super::reply::{Events, Heard, Reply};
use super::session::Session;
use super::{sse, words};
use crate::era;
use crate::error::{ConnectError, EraError};
use crate::outbound;

/// The id of the first request, before a connection hands out its own.
const FIRST_ID: u64 = 0;

/// Introduces us to a legacy server: its answer, and the session it opened.
pub async fn initialize(access: &Access, hello: &Raw, generation: u64) -> Result<(Raw, Session), EraError> {
    let endpoint = access.endpoint();
    let request = compose::request(&Id::number(FIRST_ID), "initialize", Some(hello));
    let answer = introduce(access, endpoint.headers().clone(), request).await?;
    let welcome = answer.welcome(Era::Legacy)?;
    let session = Session::new(endpoint.clone(), Session::id_in(&answer.headers), &welcome, generation);
    Ok((welcome, session))
}

/// Introduces us to a modern server, and once more if it refuses our revision but names it among its own.
pub async fn discover(access: &Access, client_info: Option<&Raw>) -> Result<Raw, EraError> {
    match discover_once(access, client_info).await {
        Err(error) if era::contradicts_itself(&error) => discover_once(access, client_info).await,
        first => first,
    }
}

async fn discover_once(access: &Access, client_info: Option<&Raw>) -> Result<Raw, EraError> {
    let meta = outbound::own_meta(client_info, &Raw::empty_object());
    let params = compose::object(&[("_meta", &meta)]);
    let request = compose::request(&Id::number(FIRST_ID), "server/discover", Some(&params));
    let headers = modern::headers(access.endpoint(), "server/discover", None);
    introduce(access, headers, request).await?.welcome(Era::Modern)
}

/// An answer that may say something about the era.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    message: Option<Message>,
    page: Bytes,
}

impl Answer {
    /// The welcome that it is, or what it says about the era.
    fn welcome(&self, era: Era) -> Result<Raw, EraError> {
        match self.message.as_ref().map(|message| (message.shape(), message.body())) {
            Some((Shape::Result, Some(result))) if self.status.is_success() => era::welcome(era, result),
            Some((Shape::Error, Some(error))) => Err(self.perhaps_older(era, era::refusal(era, error))),
            _ if self.status.is_success() => Err(EraError::WrongEra(era::no_welcome(era))),
            _ => {
                let (status, body) = (self.status.as_u16(), words::excerpt(&self.page));
                Err(self.perhaps_older(era, EraError::WrongEra(ConnectError::Status { status, body })))
            }
        }
    }

    /// A server that takes no `initialize` may be of the transport that was before.
    fn perhaps_older(&self, era: Era, error: EraError) -> EraError {
        match error {
            EraError::WrongEra(error)
                if era == Era::Legacy && sse::is_hinted_by(self.status) && !era::is_of_modern(&error) =>
            {
                EraError::NoPost(error)
            }
            error => error,
        }
    }
}

async fn introduce(access: &Access, headers: HeaderMap, request: Raw) -> Result<Answer, EraError> {
    let within = access.endpoint().handshake_max();
    let answer = tokio::time::timeout(within, ask(access, headers, request)).await;
    answer.unwrap_or(Err(ConnectError::Timeout(within))).map_err(EraError::Failed)
}

/// Failures of this function prove nothing about the era.
async fn ask(access: &Access, headers: HeaderMap, request: Raw) -> Result<Answer, ConnectError> {
    let endpoint = access.endpoint();
    let request = endpoint.post(headers, request.bytes().clone());
    let mut reply = access.send(request).await.map_err(|error| match error {
        SendError::Unreachable(error) | SendError::Login(error) => error,
        SendError::Broken(why) => endpoint.unreachable(why),
    })?;
    check_tells(access, &mut reply).await?;
    let (status, headers) = (reply.status, std::mem::take(&mut reply.headers));
    if status.is_success() && is_events(&headers) {
        let message = first_answer(reply).await.map_err(|why| endpoint.unreachable(why))?;
        return Ok(Answer { status, headers, message, page: Bytes::new() });
    }
    let page = if status.is_success() { whole(reply, endpoint).await? } else { reply.page().await };
    Ok(Answer { status, headers, message: Message::scan(page.clone()).ok(), page })
}

/// Whether an answer may say something about what the server speaks: 2xx, or 4xx other than those about who and how often.
///
/// # Errors
/// What it says instead.
pub async fn check_tells(access: &Access, reply: &mut Reply) -> Result<(), ConnectError> {
    let status = reply.status;
    if status == StatusCode::FORBIDDEN && access.has_login() {
        let why = "the server answers HTTP 403: whoever is logged in may not use it";
        return Err(ConnectError::LoginFailed(why.to_owned()));
    }
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return Err(ConnectError::Unauthorized { status: status.as_u16() });
    }
    if status.is_success() || status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS {
        return Ok(());
    }
    let body = words::moved(&reply.headers).unwrap_or(words::excerpt(&reply.page().await));
    Err(ConnectError::Status { status: status.as_u16(), body })
}

fn is_events(headers: &HeaderMap) -> bool {
    words::has_type(headers, b"text/event-stream")
}

async fn whole(mut reply: Reply, endpoint: &Endpoint) -> Result<Bytes, ConnectError> {
    reply.whole().await.map_err(|error| endpoint.unreachable(error.to_string()))
}

/// The first result or error on a stream; what comes before it is not for us.
async fn first_answer(reply: Reply) -> Result<Option<Message>, String> {
    let mut events = Events::new(reply);
    loop {
        match events.next().await {
            Heard::Message(data) => match Message::scan(data) {
                Ok(message) if matches!(message.shape(), Shape::Result | Shape::Error) => {
                    events.release();
                    return Ok(Some(message));
                }
                Ok(_) | Err(_) => {}
            },
            Heard::Closed | Heard::TooLong => return Ok(None),
            Heard::Broken(why) => return Err(why),
        }
    }
}
