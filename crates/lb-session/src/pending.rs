//! What servers ask of the client: kept until somebody answers, gives up or runs out of time.
//!
//! A request leaves the table once, and whoever takes it out is the one who replies. What is asked and answered is never
//! logged.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use lb_exchange::{Answer, AskKey, Remote};
use lb_wire::compose::{Object, array};
use lb_wire::{Raw, Text};

use crate::effect::Effect;
use crate::happening::{Cause, Happening};
use crate::logs::shortened;
use crate::moment::Moment;
use crate::session::Session;
use crate::sight::Sight;
use crate::ulid::Ulid;

mod request;
#[cfg(test)]
mod tests;

pub use request::Pending;

/// Bytes of what an elicitation says that go into every response; the whole of it is in its row.
const MESSAGE_BYTES_MAX: usize = 1 << 10;

/// What a server asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PendingKind {
    /// Something that a person knows.
    Elicitation,
    /// Something that a model says.
    Sampling,
}

impl PendingKind {
    /// The word for it in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Elicitation => "Elicitation",
            Self::Sampling => "Sampling",
        }
    }
}

/// A request of a server.
#[derive(Debug)]
pub struct NewRequest {
    /// Who asks.
    pub server: Text,
    /// What kind of answer is wanted.
    pub kind: PendingKind,
    /// What is asked, as the server wrote it.
    pub params: Raw,
    /// Where the answer goes.
    pub remote: Remote,
    /// The request, within its exchange.
    pub key: AskKey,
    /// The task it belongs to, where the server says so.
    pub related_task: Option<Ulid>,
}

/// As many requests of this server wait as may, or the session has ended and takes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Too many pending requests")]
pub struct TooManyPending;

/// A request that cannot be answered: somebody was first, or there never was one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Request '{0}' not found or already completed")]
pub struct RequestGone(pub Ulid);

/// The requests that wait. All wait equally long, so that the order of ids, of age and of expiry are one.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    all: BTreeMap<Ulid, Pending>,
    /// Has no entry for a server of which nothing waits.
    by_server: HashMap<Box<str>, BTreeSet<Ulid>>,
    /// What they say, all together.
    bytes: usize,
}

impl Session {
    /// Keeps a request of a server until it is answered.
    ///
    /// # Errors
    /// Too many of this server wait already, or the session has ended. The caller says so to the server.
    pub fn request(&mut self, new: NewRequest, now: Moment) -> Result<Ulid, TooManyPending> {
        let waiting = self.requests.by_server.get(&*new.server).map_or(0, BTreeSet::len);
        let bytes = self.requests.bytes + new.params.as_bytes().len();
        if self.is_closed() || self.limits.pending_max <= waiting || self.limits.pending_bytes_max < bytes {
            return Err(TooManyPending);
        }
        self.requests.bytes = bytes;
        let id = Ulid::mint(now);
        let request = Pending::new(id, new, self.limits.pending_for, now);
        let (server, params) = (request.server().clone(), request.params().clone());
        let what = match request.kind() {
            PendingKind::Elicitation => Happening::ElicitationRequest { request: id, params },
            PendingKind::Sampling => Happening::SamplingRequest { request: id, params },
        };
        self.requests.by_server.entry(Box::from(&*server)).or_default().insert(id);
        self.requests.all.insert(id, request);
        self.note();
        self.tell(&server, &what, now);
        Ok(id)
    }

    /// Answers a request and says whose it was. The first answer wins.
    ///
    /// # Errors
    /// No request of this kind and name waits.
    pub fn answer_request(
        &mut self,
        id: Ulid,
        kind: PendingKind,
        answer: Answer,
        now: Moment,
    ) -> Result<Text, RequestGone> {
        let request = self.take_request(id, Some(kind), now).ok_or(RequestGone(id))?;
        let (server, remote, key) = request.into_parts();
        self.effects.push(Effect::Answer(remote, key, answer));
        Ok(server)
    }

    /// Gives up on a request, for the client, and says whose it was.
    ///
    /// # Errors
    /// No request of this kind and name waits.
    pub fn cancel_request(
        &mut self,
        id: Ulid,
        kind: PendingKind,
        reason: &str,
        now: Moment,
    ) -> Result<Text, RequestGone> {
        let request = self.take_request(id, Some(kind), now).ok_or(RequestGone(id))?;
        let server = request.server().clone();
        self.refuse(request, Cause::Cancelled, Some(reason), true, now);
        Ok(server)
    }

    /// The server took its request back and waits for no reply. False when it was not waiting any more.
    pub fn withdraw_request(&mut self, id: Ulid, now: Moment) -> bool {
        let Some(request) = self.take_request(id, None, now) else { return false };
        self.refuse(request, Cause::ServerCancelled, None, false, now);
        true
    }

    /// Ends all requests of one server, or of all, with a reply or because nobody is there to have one. Says how many
    /// elicitations and sampling requests there were.
    pub fn reject_requests_of(
        &mut self,
        server: Option<&str>,
        cause: Cause,
        reply: bool,
        now: Moment,
    ) -> (usize, usize) {
        let ids: Vec<Ulid> = match server {
            Some(server) => self.pending_of(server).map(Pending::id).collect(),
            None => self.requests.all.keys().copied().collect(),
        };
        let mut counts = (0, 0);
        for id in ids {
            let Some(request) = self.take_request(id, None, now) else { continue };
            match request.kind() {
                PendingKind::Elicitation => counts.0 += 1,
                PendingKind::Sampling => counts.1 += 1,
            }
            self.refuse(request, cause, None, reply, now);
        }
        counts
    }

    /// The requests of one kind that wait, oldest first.
    pub fn pending(&self, kind: PendingKind) -> impl Iterator<Item = &Pending> {
        self.requests.all.values().filter(move |request| request.kind() == kind)
    }

    /// A request that waits.
    pub fn pending_request(&self, id: Ulid) -> Option<&Pending> {
        self.requests.all.get(&id)
    }

    /// The requests of one server that wait, oldest first.
    pub fn pending_of(&self, server: &str) -> impl Iterator<Item = &Pending> {
        self.requests.by_server.get(server).into_iter().flatten().filter_map(|id| self.requests.all.get(id))
    }

    /// How many requests wait, of all servers.
    pub fn pending_count(&self) -> usize {
        self.requests.all.len()
    }

    /// Whether a request of this server waits that came at this time or later, on the clock of [`Moment::up`].
    pub fn is_pending_since(&self, server: &str, up: Duration) -> bool {
        let newest = self.requests.by_server.get(server).and_then(BTreeSet::last);
        newest.and_then(|id| self.requests.all.get(id)).is_some_and(|request| up <= request.created().up)
    }

    /// What waits for an answer of the client, at most `max` of each kind listed; `None` when nothing waits.
    pub fn pending_client(&self, max: usize, with_mode: bool, sight: Sight<'_>) -> Option<Raw> {
        if !self.requests.all.values().any(|request| sight.sees(request.server())) {
            return None;
        }
        let of = |kind| self.pending(kind).filter(|request| sight.sees(request.server())).collect();
        let asked: Vec<&Pending> = of(PendingKind::Elicitation);
        let sampled: Vec<&Pending> = of(PendingKind::Sampling);
        let elicitations: Vec<Raw> = asked
            .iter()
            .take(max)
            .map(|request| {
                let message = shortened(&request.message(), MESSAGE_BYTES_MAX).into_owned();
                let row = request.named().text("message", &message);
                if with_mode { row.text("mode", request.mode()) } else { row }.finish()
            })
            .collect();
        let sampling: Vec<Raw> = sampled.iter().take(max).map(|request| request.named().finish()).collect();
        let listed = Object::new()
            .number("sampling", sampled.len())
            .number("elicitation", asked.len())
            .raw("elicitations", &array(elicitations.iter()))
            .raw("sampling_requests", &array(sampling.iter()));
        Some(listed.finish())
    }

    pub(crate) fn requests_deadline(&self) -> Option<Duration> {
        self.requests.all.first_key_value().map(|(_, request)| request.due())
    }

    pub(crate) fn tick_requests(&mut self, now: Moment) {
        while let Some((id, request)) = self.requests.all.first_key_value() {
            if now.up < request.due() {
                break;
            }
            let id = *id;
            if let Some(request) = self.take_request(id, None, now) {
                self.refuse(request, Cause::Timeout, None, true, now);
            }
        }
    }

    /// The only way out of the table.
    fn take_request(&mut self, id: Ulid, kind: Option<PendingKind>, now: Moment) -> Option<Pending> {
        let found = self.requests.all.get(&id)?;
        if kind.is_some_and(|kind| kind != found.kind()) {
            return None;
        }
        let request = self.requests.all.remove(&id)?;
        self.requests.bytes -= request.params().as_bytes().len();
        if let Some(of_server) = self.requests.by_server.get_mut(&**request.server()) {
            of_server.remove(&id);
            if of_server.is_empty() {
                self.requests.by_server.remove(&**request.server());
            }
        }
        self.request_ended(request.server(), request.created().up, now);
        self.changed = true;
        self.note();
        Some(request)
    }

    /// Ends a request that was taken out and gets no answer of the client.
    fn refuse(&mut self, request: Pending, cause: Cause, reason: Option<&str>, reply: bool, now: Moment) {
        let (id, kind) = (request.id(), request.kind());
        let reason = reason
            .map_or_else(|| request.reason(cause), |text| shortened(text, self.limits.log_line_bytes_max).into_owned());
        let (server, remote, key) = request.into_parts();
        if reply {
            let answer = match (kind, cause) {
                (PendingKind::Elicitation, _) => Answer::Result(Raw::from_static(r#"{"action":"cancel"}"#)),
                (PendingKind::Sampling, Cause::Timeout) => Answer::error(-32001, &reason),
                (PendingKind::Sampling, _) => Answer::error(-1, &reason),
            };
            self.effects.push(Effect::Answer(remote, key, answer));
        }
        let reason = reason.into_boxed_str();
        let what = match kind {
            PendingKind::Elicitation => Happening::ElicitationExpired { request: id, reason, cause },
            PendingKind::Sampling => Happening::SamplingExpired { request: id, reason, cause },
        };
        self.tell(&server, &what, now);
    }
}
