//! The first words to a server over HTTP, and what its answer says about its era.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use lb_exchange::ErrorBody;
use lb_wire::revision::{Era, Revision, code};
use lb_wire::{Id, Message, Raw, Shape, compose};

use super::endpoint::{Endpoint, SendError};
use super::modern;
use super::reply::{Events, Heard, Reply};
use super::session::Session;
use super::words;
use crate::error::{ConnectError, EraError};
use crate::outbound;

/// How long a server may take to answer.
const HANDSHAKE_MAX: Duration = Duration::from_secs(30);
/// The id of the first request, before a connection hands out its own.
const FIRST_ID: u64 = 0;

/// Introduces us to a legacy server: its answer, and the session it opened.
pub async fn initialize(endpoint: &Arc<Endpoint>, hello: &Raw, generation: u64) -> Result<(Raw, Session), EraError> {
    let request = compose::request(&Id::number(FIRST_ID), "initialize", Some(hello));
    let answer = introduce(endpoint, endpoint.headers().clone(), request).await?;
    match answer.message() {
        // A server that names a revision without `initialize` as what it settled on speaks that one.
        Some((Shape::Result, welcome)) if settles_on(&welcome) == Some(Era::Modern) => {
            Err(EraError::WrongEra(no_result("initialize")))
        }
        Some((Shape::Result, welcome)) if welcome.member("protocolVersion").is_some() => {
            let id = Session::id_in(&answer.headers);
            let session = Session::new(endpoint.clone(), id, &welcome, generation);
            Ok((welcome, session))
        }
        Some((Shape::Result, _)) => Err(EraError::WrongEra(no_result("initialize"))),
        Some((_, error)) => Err(EraError::WrongEra(refused(error))),
        None => Err(answer.unreadable("initialize")),
    }
}

/// Introduces us to a modern server, and once more if it refuses our revision but names it among its own.
pub async fn discover(endpoint: &Arc<Endpoint>, client_info: Option<&Raw>) -> Result<Raw, EraError> {
    let first = discover_once(endpoint, client_info).await;
    let Err(
        EraError::WrongEra(ConnectError::Refused { raw, .. }) | EraError::Failed(ConnectError::Refused { raw, .. }),
    ) = &first
    else {
        return first;
    };
    let supported = unsupported(raw);
    if supported.is_some_and(|data| speaks(&data, "supported", Era::Modern)) {
        return discover_once(endpoint, client_info).await;
    }
    first
}

async fn discover_once(endpoint: &Arc<Endpoint>, client_info: Option<&Raw>) -> Result<Raw, EraError> {
    let meta = outbound::own_meta(client_info, &Raw::empty_object());
    let params = compose::object(&[("_meta", &meta)]);
    let request = compose::request(&Id::number(FIRST_ID), "server/discover", Some(&params));
    let headers = modern::headers(endpoint, "server/discover", None);
    let answer = introduce(endpoint, headers, request).await?;
    match answer.message() {
        Some((Shape::Result, welcome)) if speaks(&welcome, "supportedVersions", Era::Modern) => Ok(welcome),
        Some((Shape::Result, _)) => Err(EraError::WrongEra(no_result("server/discover"))),
        Some((_, error)) => Err(refused_modern(error)),
        None => Err(answer.unreadable("server/discover")),
    }
}

/// The era of the revision that a server settled on, if we know it.
fn settles_on(welcome: &Raw) -> Option<Era> {
    Some(Revision::parse(welcome.member("protocolVersion")?.plain_str()?.as_bytes())?.era())
}

/// Whether a list of revisions names one of this era that we speak.
fn speaks(object: &Raw, member: &str, era: Era) -> bool {
    let named: Vec<String> = object.member(member).and_then(|list| list.read().ok()).unwrap_or_default();
    named.iter().filter_map(|name| Revision::parse(name.as_bytes())).any(|revision| revision.era() == era)
}

/// Only a server that names no legacy revision proves that the other era is not worth a try.
fn refused_modern(error: Raw) -> EraError {
    let modern_only = unsupported(&error)
        .is_some_and(|data| data.member("supported").is_some() && !speaks(&data, "supported", Era::Legacy));
    let error = refused(error);
    if modern_only { EraError::Failed(error) } else { EraError::WrongEra(error) }
}

/// What a server says about its revisions when it refuses ours.
fn unsupported(error: &Raw) -> Option<Raw> {
    let body = ErrorBody::from_server(error.clone());
    error.member("data").filter(|_| body.code == code::UNSUPPORTED_VERSION)
}

fn refused(raw: Raw) -> ConnectError {
    let message = raw.member("message");
    let message =
        message.as_ref().and_then(Raw::to_text).map_or("no reason given".to_owned(), |text| text.into_owned());
    ConnectError::Refused { message, raw }
}

fn no_result(method: &str) -> ConnectError {
    ConnectError::Handshake(format!("its answer is no {method} result"))
}

/// An answer that may say something about the era: 2xx, or 4xx other than those about who and how often.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    message: Option<Message>,
    page: Bytes,
}

impl Answer {
    /// Its result or error.
    fn message(&self) -> Option<(Shape, Raw)> {
        let message = self.message.as_ref()?;
        match message.shape() {
            Shape::Result if !self.status.is_success() => None,
            shape @ (Shape::Result | Shape::Error) => Some((shape, message.body()?)),
            Shape::Request | Shape::Notification => None,
        }
    }

    fn unreadable(&self, method: &str) -> EraError {
        EraError::WrongEra(if self.status.is_success() {
            no_result(method)
        } else {
            ConnectError::Status { status: self.status.as_u16(), body: words::excerpt(&self.page) }
        })
    }
}

async fn introduce(endpoint: &Arc<Endpoint>, headers: HeaderMap, request: Raw) -> Result<Answer, EraError> {
    let answer = tokio::time::timeout(HANDSHAKE_MAX, ask(endpoint, headers, request)).await;
    answer.unwrap_or(Err(ConnectError::Timeout(HANDSHAKE_MAX.as_secs()))).map_err(EraError::Failed)
}

/// Failures of this function prove nothing about the era.
async fn ask(endpoint: &Arc<Endpoint>, headers: HeaderMap, request: Raw) -> Result<Answer, ConnectError> {
    let request = endpoint.post(headers, request.bytes().clone());
    let mut reply = endpoint.send(request).await.map_err(|error| match error {
        SendError::Unreachable(error) => error,
        SendError::Broken(why) => endpoint.unreachable(why),
    })?;
    let (status, headers) = (reply.status, std::mem::take(&mut reply.headers));
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return Err(ConnectError::Unauthorized { status: status.as_u16() });
    }
    let tells = status.is_success() || status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS;
    if !tells {
        let body = words::moved(&headers).unwrap_or(words::excerpt(&reply.page().await));
        return Err(ConnectError::Status { status: status.as_u16(), body });
    }
    if status.is_success() && is_events(&headers) {
        let message = first_answer(reply).await.map_err(|why| endpoint.unreachable(why))?;
        return Ok(Answer { status, headers, message, page: Bytes::new() });
    }
    let page = if status.is_success() { whole(reply, endpoint).await? } else { reply.page().await };
    Ok(Answer { status, headers, message: Message::scan(page.clone()).ok(), page })
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
