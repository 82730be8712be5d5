//! A request to a modern server: self-contained, cancelled by closing its connection.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use lb_exchange::{Ask, AskKey, AskKind, Call, End, List, Note, Outcome, Resume, Step, Yield};
use lb_wire::revision::{Era, Revision, code, method};
use lb_wire::{Cursor, Message, Raw, Text, compose, header};

use super::conn::Outgoing;
use super::endpoint::{Endpoint, SendError};
use super::reply::{Events, Heard, Reply};
use super::running::{Running, What};
use super::{HttpConnection, Wire};

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static(header::PROTOCOL_VERSION);
const METHOD: HeaderName = HeaderName::from_static(header::METHOD);
const NAME: HeaderName = HeaderName::from_static(header::NAME);

/// Asks that one result may hold.
const ASKS_MAX: usize = 16;
/// Shortest and longest wait before a listen is made again.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// The headers of every request, with places for those that differ.
pub fn template(endpoint: &Endpoint) -> HeaderMap {
    let mut headers = endpoint.headers().clone();
    headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(Revision::LATEST_MODERN.as_str()));
    headers.insert(METHOD, HeaderValue::from_static(""));
    headers.insert(NAME, HeaderValue::from_static(""));
    headers
}

/// The headers of one request of a method without a name.
pub fn headers(endpoint: &Endpoint, method: &str, name: Option<&Raw>) -> HeaderMap {
    filled(template(endpoint), method, name)
}

fn filled(mut headers: HeaderMap, name_of_method: &str, name: Option<&Raw>) -> HeaderMap {
    let known = method::facts(name_of_method.as_bytes()).map(|facts| HeaderValue::from_static(facts.name));
    let value = known.or_else(|| HeaderValue::from_str(&header::encode(name_of_method)).ok());
    if let (Some(place), Some(value)) = (headers.get_mut(METHOD), value) {
        *place = value;
    }
    match (headers.get_mut(NAME), name.and_then(name_value)) {
        (Some(place), Some(value)) => *place = value,
        _ => drop(headers.remove(NAME)),
    }
    headers
}

/// The header for a JSON string; shares its bytes when they need no change.
fn name_value(name: &Raw) -> Option<HeaderValue> {
    let text = name.to_text()?;
    match (header::encode(&text), name.plain_str()) {
        (std::borrow::Cow::Borrowed(_), Some(plain)) => {
            HeaderValue::from_maybe_shared(name.bytes().slice(1..=plain.len())).ok()
        }
        (encoded, _) => HeaderValue::from_str(&encoded).ok(),
    }
}

/// Makes a request.
pub async fn run(connection: Arc<HttpConnection>, what: What, out: Yield) -> End {
    let (mut running, message) = match Running::open(connection, &what, out) {
        Ok(opened) => opened,
        Err(end) => return end,
    };
    let Wire::Modern(template) = &running.connection.wire else {
        let end = running.failed("it is not a modern server");
        return running.over(Err(end));
    };
    let mut headers = headers_of(&running.connection, template, &what);
    running.trace(&mut headers);
    let end = match &what {
        What::Call(call, _) if what.method() == "subscriptions/listen" => {
            Box::pin(listen(&mut running, &headers, message, call)).await
        }
        What::Call(call, _) => {
            let (replays, ours) = (call.caller.era() == Era::Legacy, call.headers.is_none());
            drop(what);
            let end = answer(&mut running, headers, message).await;
            if ours {
                check_params(&running, &end);
            }
            if replays { Box::pin(replay(&mut running, end)).await } else { end }
        }
        What::Own { .. } => answer(&mut running, headers, message).await,
    };
    running.over(end)
}

fn headers_of(connection: &HttpConnection, template: &HeaderMap, what: &What) -> HeaderMap {
    let facts = method::facts(what.method().as_bytes());
    let name = facts.and_then(|facts| facts.mirror).and_then(|mirror| what.member(mirror.key()));
    let mut headers = filled(template.clone(), what.method(), name.as_ref());
    if let What::Call(call, _) = what {
        add_params(connection, &mut headers, call);
    }
    headers
}

/// Mirrors arguments into headers: as the client sent them, or for one that has no headers as the server's list says.
fn add_params(connection: &HttpConnection, headers: &mut HeaderMap, call: &Call) {
    if let Some(sent) = &call.headers {
        for (name, value) in sent {
            let name = HeaderName::try_from(format!("{}{name}", header::PARAM_PREFIX));
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_maybe_shared(value.clone())) {
                headers.append(name, value);
            }
        }
        return;
    }
    if call.message.method() != "tools/call" {
        return;
    }
    let Some(params) = connection.intake.lists.params() else { return };
    let tool = call.message.member("name");
    let Some(tool) = tool.as_ref().and_then(Raw::to_text) else { return };
    for (name, value) in params.headers_for(&tool, call.message.member_bytes("arguments")) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
}

/// Forgets the list of tools when the server refuses headers that we wrote by it.
fn check_params(running: &Running, end: &Result<End, End>) {
    let (Ok(end) | Err(end)) = end;
    if matches!(&end.outcome, Outcome::Error(error) if error.code == code::HEADER_MISMATCH) {
        running.connection.intake.lists.invalidate(List::Tools);
    }
}

async fn answer(running: &mut Running, headers: HeaderMap, message: Bytes) -> Result<End, End> {
    let request = running.connection.endpoint.post(headers, message);
    let reply = send(running, request).await?;
    match reply.status {
        status if !status.is_success() => Box::pin(running.refused(reply)).await,
        _ if reply.is_events() => Box::pin(events(running, reply)).await,
        _ => running.json(reply).await,
    }
}

async fn send(running: &mut Running, request: Outgoing) -> Result<Reply, End> {
    let connection = running.connection.clone();
    let sent = running.during(connection.access.send_by(request)).await?;
    sent.map_err(|error| running.error(error.to_body(&connection.endpoint)))
}

async fn events(running: &mut Running, reply: Reply) -> Result<End, End> {
    let mut events = Events::new(reply);
    loop {
        match running.during(events.next()).await? {
            Heard::Message(data) => {
                if let Some(end) = running.take(data).await {
                    events.release();
                    return Ok(end);
                }
            }
            Heard::TooLong => return Err(running.failed("one of its events is longer than 16 MiB")),
            Heard::Closed => return running.stray(running.gone()).await,
            Heard::Broken(why) => return Err(running.closed(&why)),
        }
    }
}

/// A legacy client is asked what a modern server needs; the server's own result follows untouched.
async fn replay(running: &mut Running, end: Result<End, End>) -> Result<End, End> {
    if let Ok(End { outcome: Outcome::Result(result), .. }) = &end {
        for ask in asks(result) {
            running.step(Step::Ask(ask)).await;
        }
    }
    end
}

/// What a result asks for that stands for questions instead of an answer.
pub fn asks(result: &Raw) -> Vec<Ask> {
    let kind = result.member("resultType");
    if kind.as_ref().and_then(Raw::plain_str) != Some("input_required") {
        return Vec::new();
    }
    let Some(requests) = result.member("inputRequests") else { return Vec::new() };
    let state = result.member("requestState");
    let mut found = Vec::new();
    let walk = Cursor::new(requests.as_bytes()).members(0, |cursor, key, _| {
        let (value, _) = cursor.skip(1)?;
        found.push((key, value));
        Ok(())
    });
    if walk.is_err() {
        return Vec::new();
    }
    let text = requests.bytes();
    let ask = |(key, value): (lb_wire::Span, lb_wire::Span)| {
        let request = Raw::parse(text.slice(value.start()..value.end())).ok()?;
        let key = Raw::parse(text.slice(key.start() - 1..=key.end())).ok()?;
        let method = request.member("method")?;
        let method = method.to_text()?;
        Some(Ask {
            key: AskKey(Text::from(&*key.to_text()?)),
            kind: AskKind::of(&method),
            method: Text::from(&*method),
            params: request.member("params"),
            resume: Resume::Replay { state: state.clone() },
        })
    };
    found.into_iter().take(ASKS_MAX).filter_map(ask).collect()
}

/// Listens for as long as the client does: a stream that breaks is opened again, and what may have been missed is told.
async fn listen(running: &mut Running, headers: &HeaderMap, message: Bytes, call: &Call) -> Result<End, End> {
    let mut acknowledged = false;
    let mut wait = BACKOFF.0;
    loop {
        let before = acknowledged;
        let end = listen_once(running, headers.clone(), message.clone(), call, &mut acknowledged).await?;
        match end {
            Some(end) => return Ok(end),
            None if !acknowledged => return Err(running.closed("the listen ended before it began")),
            None => {}
        }
        if !before {
            wait = BACKOFF.0;
        }
        running.during(tokio::time::sleep(wait)).await?;
        wait = (wait * 2).min(BACKOFF.1);
    }
}

/// One stream of a listen; `None` when it broke and is worth another.
async fn listen_once(
    running: &mut Running,
    headers: HeaderMap,
    message: Bytes,
    call: &Call,
    acknowledged: &mut bool,
) -> Result<Option<End>, End> {
    let connection = running.connection.clone();
    let request = connection.endpoint.post(headers, message);
    let reply = match running.during(connection.access.send(request)).await? {
        Ok(reply) => reply,
        Err(error) if *acknowledged && !matches!(error, SendError::Login(_)) => return Ok(None),
        Err(error) => return Err(running.error(error.to_body(&connection.endpoint))),
    };
    let passing = reply.status.is_server_error() || reply.status == StatusCode::TOO_MANY_REQUESTS;
    if passing && *acknowledged {
        return Ok(None);
    }
    if !reply.status.is_success() {
        return running.refused(reply).await.map(Some);
    }
    if !reply.is_events() {
        return running.json(reply).await.map(Some);
    }
    let mut events = Events::new(reply);
    loop {
        match running.during(events.next()).await? {
            Heard::Message(data) if *acknowledged && is_acknowledgement(&data) => missed(running, call).await,
            Heard::Message(data) => {
                *acknowledged = *acknowledged || is_acknowledgement(&data);
                if let Some(end) = running.take(data).await {
                    events.release();
                    return Ok(Some(end));
                }
            }
            Heard::Closed | Heard::Broken(_) | Heard::TooLong => return Ok(None),
        }
    }
}

fn is_acknowledgement(data: &Bytes) -> bool {
    Message::scan(data.clone()).is_ok_and(|message| message.method() == "notifications/subscriptions/acknowledged")
}

/// Tells the client that everything it listens for may have changed while nobody listened.
async fn missed(running: &mut Running, call: &Call) {
    running.connection.intake.lists.invalidate_all();
    let Some(filter) = call.message.member("notifications") else { return };
    let listen = running.slot.names().listen.clone();
    let meta = listen.map(|id| compose::object(&[("io.modelcontextprotocol/subscriptionId", &id)]));
    let meta = meta.unwrap_or_else(Raw::empty_object);
    for (flag, method) in [
        ("toolsListChanged", "notifications/tools/list_changed"),
        ("promptsListChanged", "notifications/prompts/list_changed"),
        ("resourcesListChanged", "notifications/resources/list_changed"),
    ] {
        if filter.member(flag).is_some_and(|flag| flag.as_bytes() == b"true") {
            let params = compose::object(&[("_meta", &meta)]);
            running.step(Step::Note(Note::new(Text::from_static(method), Some(params)))).await;
        }
    }
    let uris: Vec<String> =
        filter.member("resourceSubscriptions").and_then(|uris| uris.read().ok()).unwrap_or_default();
    for uri in uris {
        let params = compose::object(&[("uri", &Raw::string(&uri)), ("_meta", &meta)]);
        let method = Text::from_static("notifications/resources/updated");
        running.step(Step::Note(Note::new(method, Some(params)))).await;
    }
}
