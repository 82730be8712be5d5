//! The contract of 2024-11-05 to 2025-11-25: sessions, and requests in both directions.

pub(crate) mod batch;
pub(crate) mod initialize;

use std::sync::Arc;

use lb_exchange::{Answer, Busy, Call, Cancel, Mount, Seat, Trace, Visitor};
use lb_wire::revision::{Era, Revision, code, method};
use lb_wire::{Id, Message, Raw, Shape, compose};

use crate::calls::Calls;
use crate::front::{Front, Request};
use crate::open::{Open, Posted};
use crate::reply::{Reply, error_message, revisions};
use crate::running::{Client, Running};
use crate::shown::Hiding;

impl Front {
    pub(crate) fn legacy_post(&self, request: &Request<'_>, message: Message) -> Posted {
        if message.shape() == Shape::Request && message.method() == method::INITIALIZE {
            return self.initialize(request, message);
        }
        let seat = match self.seat(request, message.id()) {
            Ok(seat) => seat,
            Err(reply) => return reply.into(),
        };
        if let Err(forbidden) = self.allows(&request.mount, &request.visitor, &message) {
            return forbidden.reply(Era::Legacy, message.id()).into();
        }
        match self.take(&seat, (&request.mount, &request.visitor), message, request.headers.trace()) {
            Taken::Nothing => Reply::accepted().into(),
            Taken::Answer(answer, status) => Reply::json(status, &answer).into(),
            Taken::Call(running) => {
                let client = running.client().clone();
                Open::new(&self.shared, client, Calls::one(running), request.headers.accept).into()
            }
        }
    }

    /// Ends a session, which is then to be waited for.
    pub(crate) fn legacy_delete(&self, request: &Request<'_>) -> Result<Arc<dyn Seat>, Reply> {
        let seat = self.seat(request, None)?;
        seat.end(Cancel::SessionEnd);
        Ok(seat)
    }

    /// The session that a request names.
    pub(crate) fn seat(&self, request: &Request<'_>, id: Option<&Id>) -> Result<Arc<dyn Seat>, Reply> {
        let refuse = |status, code, message| Err(Reply::refuse(Era::Legacy, id, status, code, message));
        let Some(session) = request.headers.session else {
            let message = "Missing Mcp-Session-Id. Send an initialize request without a session header first.";
            return refuse(400, code::SERVER_ERROR, message);
        };
        let session = std::str::from_utf8(session).unwrap_or_default();
        let Some(seat) = self.shared.middle.seat(session, &request.mount, &request.visitor) else {
            return refuse(404, NO_SESSION, crate::reply::NO_SESSION);
        };
        match request.headers.version {
            Some(version) if Revision::parse(version).is_none() => Err(unsupported(version, id)),
            // One that is known but was not agreed upon is accepted: what was agreed upon counts.
            _ => Ok(seat),
        }
    }

    /// One message of a seated client.
    pub(crate) fn take(
        &self,
        seat: &Arc<dyn Seat>,
        (mount, who): (&Mount, &Visitor),
        message: Message,
        trace: Option<Box<Trace>>,
    ) -> Taken {
        match (message.shape(), message.id().cloned()) {
            (Shape::Notification, _) | (Shape::Request, None) => notified(&**seat, message),
            (Shape::Result | Shape::Error, id) => answered(&**seat, id, &message),
            (Shape::Request, Some(id)) => {
                let (caller, mount, rights) = (seat.caller().clone(), mount.clone(), who.rights.clone());
                let call = Call { caller, mount, message, headers: None, trace, rights };
                self.requested(seat, call, id)
            }
        }
    }

    fn requested(&self, seat: &Arc<dyn Seat>, call: Call, id: Id) -> Taken {
        if call.message.method() == method::PING {
            return Taken::Answer(compose::result(&id, &Raw::empty_object()), 200);
        }
        if seat.is_leaving() {
            let data = Raw::from_static(r#"{"reason":"session_ended"}"#);
            return Taken::Answer(error_message(Era::Legacy, Some(&id), NO_SESSION, SESSION_OVER, Some(&data)), 404);
        }
        // First: what is opened may be with its server already.
        if let Err(busy) = seat.desk().reserve(id.clone()) {
            return Taken::refuse(&id, &busy);
        }
        let method = call.message.method_text();
        let hides = self.hides(&call);
        let exchange = Hiding::of(hides, seat.clone().open(call));
        let client = Client::Legacy(seat.clone());
        Taken::Call(Running::start(id, &method, exchange, client, &self.shared))
    }
}

/// The code of errors about sessions that are not there.
const NO_SESSION: i64 = -32001;

/// What a client is told whose session goes with its server.
const SESSION_OVER: &str = "the session is over, because its server was removed or changed; the request was not sent. \
                            Send initialize to begin another, over HTTP without Mcp-Session-Id";

/// What becomes of one message of a seated client.
#[expect(clippy::large_enum_variant, reason = "the large one is the usual one, and is moved on at once")]
pub(crate) enum Taken {
    /// It needs no answer.
    Nothing,
    /// It is answered here, with this HTTP status when alone.
    Answer(Raw, u16),
    /// It is a call.
    Call(Running),
}

impl Taken {
    fn refuse(id: &Id, busy: &Busy) -> Self {
        let (code, status) = match busy {
            Busy::Id => (code::INVALID_REQUEST, 400),
            Busy::Calls => (code::SERVER_ERROR, 429),
        };
        let data = overloaded(*busy);
        Self::Answer(error_message(Era::Legacy, Some(id), code, &busy.to_string(), data.as_ref()), status)
    }
}

/// The data of an error that says why a call cannot start.
pub(crate) fn overloaded(busy: Busy) -> Option<Raw> {
    match busy {
        Busy::Id => None,
        Busy::Calls => Some(Raw::from_static(r#"{"reason":"overloaded","retryAfterMs":1000}"#)),
    }
}

fn notified(seat: &dyn Seat, message: Message) -> Taken {
    if message.method() == method::CANCELLED {
        if let Some(id) = message.member("requestId").as_ref().and_then(Id::from_raw) {
            seat.desk().cancel(&id, Cancel::Said(message.member("reason")));
        }
    } else {
        seat.notified(message);
    }
    Taken::Nothing
}

fn answered(seat: &dyn Seat, id: Option<Id>, message: &Message) -> Taken {
    if let (Some(id), Some(body)) = (id, message.body()) {
        let answer = if message.shape() == Shape::Result { Answer::Result(body) } else { Answer::Error(body) };
        if !seat.desk().answer(&id, answer) {
            tracing::debug!("an answer came to something that nobody asks any more");
        }
    }
    Taken::Nothing
}

fn unsupported(version: &[u8], id: Option<&Id>) -> Reply {
    let requested = Raw::string(&String::from_utf8_lossy(version));
    let data = compose::object(&[("supported_versions", &revisions(Era::Legacy)), ("requested_version", &requested)]);
    let message = "Bad Request: unsupported protocol version";
    Reply::refuse_with(Era::Legacy, id, 400, code::SERVER_ERROR, message, Some(&data))
}
