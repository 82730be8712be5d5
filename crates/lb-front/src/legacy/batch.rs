//! Batches of 2025-03-26: one reply with several exchanges.

use bytes::Bytes;
use lb_wire::revision::{Era, code, method};
use lb_wire::{Id, Message, MessageError, Raw, Shape};

use crate::calls::Calls;
use crate::front::{Front, Request};
use crate::legacy::Taken;
use crate::open::{Open, Posted};
use crate::reply::{Reply, error_message};
use crate::running::{Client, Running};

/// Members of one batch.
pub(crate) const MEMBERS_MAX: usize = 64;

impl Front {
    pub(crate) fn legacy_batch(&self, request: &Request<'_>, members: Vec<Bytes>) -> Posted {
        let seat = match self.seat(request, None) {
            Ok(seat) => seat,
            Err(reply) => return reply.into(),
        };
        if !seat.caller().revision.batches() {
            let message = "Invalid Request: this revision of the protocol has no batches";
            return Reply::refuse(Era::Legacy, None, 400, code::INVALID_REQUEST, message).into();
        }
        let Some(batch) = sort(members) else {
            let message = "Invalid Request: a batch has 1 to 64 members";
            return Reply::refuse(Era::Legacy, None, 400, code::INVALID_REQUEST, message).into();
        };
        if let Err(forbidden) = self.allow_all(&request.mount, &request.visitor, &batch.messages) {
            return forbidden.reply(Era::Legacy, None).into();
        }
        let mut answers = batch.errors;
        let mut calls: Vec<Running> = Vec::new();
        for message in batch.messages {
            match self.take(&seat, (&request.mount, &request.visitor), message, request.headers.trace()) {
                Taken::Nothing => {}
                Taken::Answer(answer, _) => answers.push(answer),
                Taken::Call(running) => calls.push(running),
            }
        }
        let client = Client::Legacy(seat);
        Open::new(&self.shared, client, Calls::several(calls), request.headers.accept).batch(answers).into()
    }
}

/// A batch in the order in which it takes effect.
pub(crate) struct Sorted {
    /// What is not a message gets its own error.
    pub(crate) errors: Vec<Raw>,
    /// Responses and notifications first, then requests; each kind in its order.
    pub(crate) messages: Vec<Message>,
}

/// `None` when there are too few or too many members.
pub(crate) fn sort(members: Vec<Bytes>) -> Option<Sorted> {
    if members.is_empty() || MEMBERS_MAX < members.len() {
        return None;
    }
    let refuse = |id: Option<&Id>, why: &str| error_message(Era::Legacy, id, code::INVALID_REQUEST, why, None);
    let mut errors = Vec::new();
    let mut messages = Vec::new();
    for member in members {
        match Message::scan(member) {
            Ok(message) if message.shape() == Shape::Request && message.method() == method::INITIALIZE => {
                errors.push(refuse(message.id(), "Invalid Request: initialize cannot be part of a batch"));
            }
            Ok(message) => messages.push(message),
            Err(MessageError::Shape { why, id }) => {
                errors.push(refuse(id.as_ref(), &format!("Invalid Request: {why}")));
            }
            Err(MessageError::Scan(error)) => errors.push(refuse(None, &format!("Invalid Request: {error}"))),
        }
    }
    messages.sort_by_key(|message| message.shape() == Shape::Request);
    Some(Sorted { errors, messages })
}
