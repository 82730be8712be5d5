//! Whether a request may be made, before anything is done about it. Where nobody logs in nothing is looked at.

use lb_exchange::{Aim, Mount, Verdict, Visitor, audit};
use lb_wire::revision::{Era, code};
use lb_wire::{Id, Message, Raw, compose};

use crate::front::{Front, Request};
use crate::reply::{Reply, error_message};

/// What an open stream counts as.
const LISTENING: &str = "subscriptions/listen";
/// What a message without a method counts as: the answer to something that was asked within a session.
const ANSWERING: &str = "ping";

/// Why a request is not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Forbidden {
    /// Nobody gets a token that may.
    Denied,
    /// Its token lacks these scopes.
    Scope(String),
}

impl Forbidden {
    /// The scopes that would do, if any would.
    fn scopes(self) -> Option<String> {
        match self {
            Self::Denied => None,
            Self::Scope(scopes) => Some(scopes),
        }
    }

    /// The response that says so.
    pub(crate) fn answer(&self, era: Era, id: Option<&Id>) -> Raw {
        let (message, data) = match self {
            Self::Denied => {
                let data = compose::object(&[("reason", &Raw::from_static("\"access_denied\""))]);
                ("you may not do that: ask the operator of the gateway", data)
            }
            Self::Scope(scopes) => {
                let reason = Raw::from_static("\"insufficient_scope\"");
                let data = compose::object(&[("reason", &reason), ("scope", &Raw::string(scopes))]);
                ("the token may not do that: ask for the scopes named here", data)
            }
        };
        error_message(era, id, code::INVALID_REQUEST, message, Some(&data))
    }

    /// The same as a reply.
    pub(crate) fn reply(self, era: Era, id: Option<&Id>) -> Reply {
        let body = self.answer(era, id).bytes().clone();
        Reply::Forbidden { id: id.cloned(), scopes: self.scopes(), body }
    }
}

impl Front {
    /// Whether a message may come in here.
    pub(crate) fn allows(&self, mount: &Mount, who: &Visitor, message: &Message) -> Result<(), Forbidden> {
        self.allow_all(mount, who, std::slice::from_ref(message))
    }

    /// Whether all of these may; if one may not, none is made.
    pub(crate) fn allow_all(&self, mount: &Mount, who: &Visitor, messages: &[Message]) -> Result<(), Forbidden> {
        if who.rights.is_none() {
            return Ok(());
        }
        let server = self.shared.middle.server_of(mount, who);
        let mut all = Verdict::Allow;
        for message in messages {
            let calls = message.method() == "tools/call";
            let name = message.member("name").filter(|_| calls);
            // A name that is no text is one that no rule names.
            let tool = name.as_ref().and_then(Raw::to_text).or(calls.then_some("".into()));
            let method = if message.method().is_empty() { ANSWERING } else { message.method() };
            let verdict = decide(who, method, server.as_ref().map(|server| server.as_str()), tool.as_deref());
            all = all.and(verdict);
        }
        refusal(all)
    }

    /// Whether a stream may be opened here.
    pub(crate) fn allows_listening(&self, request: &Request<'_>) -> Result<(), Forbidden> {
        if request.visitor.rights.is_none() {
            return Ok(());
        }
        let server = self.shared.middle.server_of(&request.mount, &request.visitor);
        refusal(decide(&request.visitor, LISTENING, server.as_ref().map(|server| server.as_str()), None))
    }
}

fn decide(who: &Visitor, method: &str, server: Option<&str>, tool: Option<&str>) -> Verdict {
    let aim = match server {
        Some(server) => Aim::Server { server, tool },
        None => Aim::Own { tool },
    };
    let verdict = who.decide(method, aim);
    audit(&who.principal, who.client.as_deref(), method, aim, &verdict);
    verdict
}

fn refusal(verdict: Verdict) -> Result<(), Forbidden> {
    match verdict {
        Verdict::Allow => Ok(()),
        Verdict::Deny => Err(Forbidden::Denied),
        Verdict::StepUp(scopes) => Err(Forbidden::Scope(scopes)),
    }
}
