//! A request on its way: what both eras share while one waits for HTTP.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use lb_exchange::{
    Answer, AskKey, Audience, Call, Cancel, Command, End, ErrorBody, Outcome, Step, Trace, Whence, Yield,
};
use lb_wire::revision::Era;
use lb_wire::{Id, Message, Raw, Shape, compose};
use tokio::time::Instant;

use super::reply::{ReadError, Reply};
use super::{HttpConnection, words};
use crate::calls::{Names, Slot};
use crate::commands::{Commanded, cancelled_params};
use crate::error;
use crate::outbound;

/// How long a call whose answer came another way still listens to its own response, which may hold the answer of
/// another call.
const LINGER: Duration = Duration::from_secs(1);
/// How long an answer may come another way after the call's own response has ended without it.
pub const STRAY_WAIT: Duration = Duration::from_millis(500);

/// What is said of a response that holds no answer.
const NO_ANSWER: &str = "its response does not answer the request; see whether its url is that of an MCP server";

/// A request to be made.
#[expect(clippy::large_enum_variant, reason = "it moves once, into the future of the call; a box would be one more")]
pub enum What {
    /// A client's, and the log level that it set.
    Call(Call, Option<Raw>),
    /// One of our own.
    Own {
        /// Its method.
        method: String,
        /// Its params.
        params: Option<Raw>,
    },
}

impl What {
    /// The method.
    pub fn method(&self) -> &str {
        match self {
            Self::Call(call, _) => call.message.method(),
            Self::Own { method, .. } => method,
        }
    }

    /// A member of the params.
    pub fn member(&self, name: &str) -> Option<Raw> {
        match self {
            Self::Call(call, _) => call.message.member(name),
            Self::Own { params, .. } => params.as_ref()?.member(name),
        }
    }

    fn message(&self, id: u64, era: Era) -> Raw {
        match self {
            Self::Call(call, log_level) => outbound::request(call, id, era, log_level.as_ref()),
            Self::Own { method, params } => compose::request(&Id::number(id), method, params.as_ref()),
        }
    }
}

/// A request of ours that is open. Dropping it tells a legacy server that nobody waits any more.
pub struct Running {
    pub connection: Arc<HttpConnection>,
    pub id: u64,
    pub slot: Arc<Slot>,
    out: Yield,
    /// The trace it belongs to.
    trace: Option<Box<Trace>>,
    /// Whether the server may know of the request, and wants to hear when it is cancelled.
    pub known: bool,
    /// The end, when it came another way than the call's own response.
    early: Option<End>,
    /// Whether the call's own response held the answer of another one, whose response may hold ours.
    swapped: bool,
}

impl Running {
    /// Opens the request: its slot, and the message to send.
    pub fn open(connection: Arc<HttpConnection>, what: &What, out: Yield) -> Result<(Self, Bytes), End> {
        let (names, eligible) = match what {
            What::Call(call, _) => (outbound::names(call), outbound::is_eligible(call)),
            What::Own { .. } => (Names::default(), false),
        };
        let opened = connection.intake.calls.open(names, eligible);
        let (id, slot) = opened.map_err(|error| End::ours(Outcome::Error(ErrorBody::from_server(error))))?;
        let message = what.message(id, connection.intake.era);
        let trace = match what {
            What::Call(call, _) => call.trace.clone(),
            What::Own { .. } => None,
        };
        let running = Self { connection, id, slot, out, trace, known: false, early: None, swapped: false };
        Ok((running, message.bytes().clone()))
    }

    /// Adds the trace to the headers of a request.
    pub fn trace(&self, headers: &mut HeaderMap) {
        let Some(trace) = &self.trace else { return };
        if let Ok(parent) = HeaderValue::try_from(trace.parent.to_string()) {
            headers.insert(HeaderName::from_static("traceparent"), parent);
        }
        if let Some(Ok(state)) = trace.state.as_deref().map(HeaderValue::from_str) {
            headers.insert(HeaderName::from_static("tracestate"), state);
        }
    }

    /// The end of it all.
    pub fn over(mut self, end: Result<End, End>) -> End {
        self.known = false;
        let end = match end {
            Ok(end) | Err(end) => end,
        };
        let end = self.early.take().unwrap_or(end);
        // A server that has answered the call and still waits for an answer of its own gets one.
        if !matches!(end.outcome, Outcome::Cancelled) {
            for (key, kind) in self.slot.take_asks() {
                self.connection.answer(&key, &kind.refusal());
            }
        }
        end
    }

    /// Waits for `http`, and meanwhile hands out steps and obeys commands. The end comes instead when the call is
    /// cancelled or answered another way.
    pub async fn during<T>(&mut self, http: impl Future<Output = T>) -> Result<T, End> {
        let mut http = pin!(http);
        // What is rare is boxed, here and below: a plain call shall not carry its room.
        if self.early.is_some() {
            return Box::pin(self.linger(http)).await;
        }
        loop {
            tokio::select! {
                biased;
                command = self.out.command() => {
                    if let Some(end) = self.obey(command) {
                        return Err(end);
                    }
                }
                step = std::future::poll_fn(|cx| self.slot.poll(cx)) => match step {
                    Step::End(end) => {
                        self.early = Some(end);
                        return Box::pin(self.linger(http)).await;
                    }
                    step => self.out.step(step).await,
                },
                done = &mut http => return Ok(done),
            }
        }
    }

    async fn linger<T>(&mut self, http: Pin<&mut impl Future<Output = T>>) -> Result<T, End> {
        let wait = if self.connection.is_lost() { Duration::ZERO } else { LINGER };
        match tokio::time::timeout(wait, http).await {
            Ok(done) => Ok(done),
            Err(_) => Err(self.early.take().unwrap_or_else(|| End::ours(Outcome::Cancelled))),
        }
    }

    /// Waits for a time, or until somebody is back.
    pub async fn pause(&mut self, wait: Duration) -> Result<(), End> {
        let mut wait = pin!(tokio::time::sleep(wait));
        loop {
            tokio::select! {
                biased;
                command = self.out.command() => {
                    let is_back = matches!(command, Command::Back);
                    if let Some(end) = self.obey(command) {
                        return Err(end);
                    }
                    if is_back {
                        return Ok(());
                    }
                }
                step = std::future::poll_fn(|cx| self.slot.poll(cx)) => match step {
                    Step::End(end) => return Err(end),
                    step => self.out.step(step).await,
                },
                () = &mut wait => return Ok(()),
            }
        }
    }

    /// Hands out one step.
    pub async fn step(&mut self, step: Step) {
        self.out.step(step).await;
    }

    /// Takes one message of the call's own response; the end, if it was the answer.
    pub async fn take(&mut self, data: Bytes) -> Option<End> {
        match Message::scan(data.clone()) {
            Ok(message) => self.take_message(&message),
            Err(error) => match Message::batch(&data) {
                // Servers of 2025-03-26 may answer with arrays.
                Ok(Some(parts)) => {
                    parts
                        .into_iter()
                        .filter_map(|part| Message::scan(part).ok())
                        .for_each(|part| self.take_message(&part));
                }
                _ => tracing::debug!(%error, bytes = data.len(), "message of the server skipped"),
            },
        }
        self.settle().await
    }

    fn take_message(&mut self, message: &Message) {
        tracing::trace!(?message, "from server");
        if message.shape() == Shape::Request && self.connection.intake.era == Era::Modern {
            tracing::debug!("request of a modern server dropped: its era has none");
            return;
        }
        if let (Shape::Result | Shape::Error, Some(id)) = (message.shape(), message.id().and_then(Id::to_number)) {
            let open = self.connection.intake.calls.get(id).is_some();
            self.swapped |= id != self.id && open;
            if id == self.id && !open {
                // As in `plain_answer`.
                self.early = Some(self.connection.intake.end_of(message, self.slot.names()));
            }
        }
        if let Some(reply) = self.connection.intake.take(message, Whence::Stream(self.id)) {
            self.connection.post(reply);
        }
    }

    /// Hands out what waits; the end, if it is there.
    async fn settle(&mut self) -> Option<End> {
        while let Some(step) = self.waiting() {
            match step {
                Step::End(end) => return Some(end),
                step => self.out.step(step).await,
            }
        }
        None
    }

    fn waiting(&self) -> Option<Step> {
        // Nobody is to be woken: what comes later is met by the next wait.
        match self.slot.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(step) => Some(step),
            Poll::Pending => None,
        }
    }

    /// The end that the whole body of a response stands for.
    pub async fn json(&mut self, mut reply: Reply) -> Result<End, End> {
        let body = match self.during(reply.whole()).await? {
            Ok(body) => body,
            Err(ReadError::Broken(why)) => return Err(self.closed(&why)),
            Err(error @ ReadError::TooLong) => return Err(self.failed(&error.to_string())),
        };
        if let Ok(message) = Message::scan(body.clone())
            && let Some(end) = self.plain_answer(&message)
        {
            return Ok(end);
        }
        Box::pin(self.json_otherwise(body)).await
    }

    async fn json_otherwise(&mut self, body: Bytes) -> Result<End, End> {
        match self.take(body).await {
            Some(end) => Ok(end),
            None if self.swapped => self.stray(self.no_answer(NO_ANSWER)).await,
            // It has said what it had to say, and that is nothing.
            None => Err(self.failed(NO_ANSWER)),
        }
    }

    /// The end, if this is the answer to our request, or an error that names none.
    pub fn plain_answer(&mut self, message: &Message) -> Option<End> {
        let ours = match (message.shape(), message.id()) {
            (Shape::Result | Shape::Error, Some(id)) => id.to_number() == Some(self.id),
            (Shape::Error, None) => self.early.is_none(),
            _ => false,
        };
        if !ours {
            return None;
        }
        // What the call's own response says counts, whatever came another way before.
        self.early = None;
        self.connection.intake.calls.remove(self.id);
        Some(self.connection.intake.end_of(message, self.slot.names()))
    }

    /// The response is over without an answer: it may yet come another way, if there is one.
    pub async fn stray(&mut self, otherwise: ErrorBody) -> Result<End, End> {
        let wait = if self.swapped {
            // In the response of the call whose answer was here, for as long as that one listens to it.
            LINGER
        } else if self.connection.may_hear() || 1 < self.connection.intake.calls.len() {
            STRAY_WAIT
        } else {
            Duration::ZERO
        };
        let until = Instant::now() + wait;
        while Instant::now() < until {
            self.pause(until - Instant::now()).await?;
        }
        Err(self.error(otherwise))
    }

    /// The end that a response with an error status stands for.
    pub async fn refused(&mut self, mut reply: Reply) -> Result<End, End> {
        let page = self.during(reply.page()).await?;
        let server = self.connection.endpoint.called();
        let error = words::status_error(server, reply.status, &reply.headers, &page);
        if reply.status != http::StatusCode::UNAUTHORIZED
            && let Ok(message) = Message::scan(page)
            && message.shape() == Shape::Error
            && let Some(end) = self.plain_answer(&message)
        {
            return Ok(end);
        }
        Err(self.error(error))
    }

    /// The end for a server that went away.
    pub fn closed(&mut self, why: &str) -> End {
        tracing::debug!(why, "response of the server broke off");
        self.error(self.gone())
    }

    /// The error for a server that went away.
    pub fn gone(&self) -> ErrorBody {
        ErrorBody::from_server(error::closed(self.connection.endpoint.called(), None, None))
    }

    /// The end for a response that makes no sense.
    pub fn failed(&mut self, why: &str) -> End {
        self.error(self.no_answer(why))
    }

    /// The error for a response that makes no sense.
    pub fn no_answer(&self, why: &str) -> ErrorBody {
        words::no_answer(self.connection.endpoint.called(), why)
    }

    /// An end of our own making.
    pub fn error(&mut self, error: ErrorBody) -> End {
        self.known = false;
        End::ours(Outcome::Error(error))
    }
}

impl Commanded for Running {
    fn answer(&mut self, key: &AskKey, answer: &Answer) {
        if self.slot.answered(key) {
            self.connection.answer(key, answer);
        }
    }

    fn cancel(&mut self, why: &Cancel) {
        let open = self.connection.intake.calls.remove(self.id).is_some();
        if std::mem::take(&mut self.known) && open {
            self.connection.notify("notifications/cancelled", Some(&cancelled_params(self.id, why)));
        }
    }

    fn heard_by(&mut self, audience: Audience) {
        self.slot.heard_by(audience);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cancel(&Cancel::Gone);
    }
}
