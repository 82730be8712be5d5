//! Lists and calls of tools on a server's own path, where a client sees the server as it is.

use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use lb_exchange::{Call, Driver, End, Exchange, Outcome, Principal, ServerAuth, ServerSpec, Step};
use lb_session::Happening;
use lb_wire::compose::Object;
use lb_wire::revision::code;
use lb_wire::{Raw, Text, compose, splice};

use super::{Pin, Pins};
use crate::gateway::Shared;
use crate::live::{Live, objects};

/// What a session is told of a tool that has changed.
const TOLD: &str = "notifications/landbridge/tool_changed";
/// Where a list says which of its tools have changed.
const META: &str = "landbridge/changedTools";

/// What is done to one request.
pub(crate) enum Passing {
    /// Nothing.
    Free,
    /// It is not sent.
    Refused(Box<End>),
    /// Its answer is looked at.
    Looked(Box<Look>),
}

/// What the answer is compared with.
pub(crate) struct Look {
    pins: Arc<Pins>,
    gateway: Weak<Shared>,
    spec: Arc<ServerSpec>,
    whose: Principal,
    revision: &'static str,
}

impl Shared {
    /// What is done to a request to a server.
    pub(crate) fn passing(self: &Arc<Self>, spec: &Arc<ServerSpec>, call: &Call) -> Passing {
        let pins = self.pins();
        match call.message.method() {
            "tools/list" if pins.are_on() => {
                let (gateway, revision) = (Arc::downgrade(self), call.caller.revision.as_str());
                let (spec, whose) = (spec.clone(), call.caller.principal.clone());
                Passing::Looked(Box::new(Look { pins: pins.clone(), gateway, spec, whose, revision }))
            }
            "tools/call" if pins.mode == Pin::Hide => {
                let (name, whose) = (call.message.member("name"), &call.caller.principal);
                let refused = match name.as_ref().and_then(Raw::to_text) {
                    Some(tool) => pins.refuses(spec, whose, &tool),
                    None => Some("name must be a string: tools that have changed are hidden by name".to_owned()),
                };
                refused.map_or(Passing::Free, |why| {
                    let data = Raw::from_static(r#"{"reason":"tool_changed"}"#);
                    Passing::Refused(Box::new(End::error(code::INVALID_PARAMS, &why, Some(&data))))
                })
            }
            _ => Passing::Free,
        }
    }

    /// Tells everybody who sees a server that a tool of it has changed; where each person logs in, the one who saw it.
    pub(crate) fn tell_changed(&self, spec: &ServerSpec, whose: &Principal, tools: &[String]) {
        let Some(entry) = self.registry().find_folded(&spec.name).filter(|_| !tools.is_empty()) else { return };
        let hidden = self.pins().mode == Pin::Hide;
        let is_told = |live: &Live| !matches!(spec.auth, ServerAuth::User(_)) || live.belongs_to(whose);
        for tool in tools {
            let params = Object::new().text("server", spec.name.as_str()).text("tool", tool).flag("hidden", hidden);
            let (method, params) = (Text::from_static(TOLD), Some(params.finish()));
            self.broadcast_to(&entry, &Happening::Notification { method, params, count: 1 }, is_told);
        }
    }
}

impl Passing {
    /// The exchange that `open` opens, or what takes its place.
    pub(crate) fn open(self, open: impl FnOnce() -> Exchange) -> Exchange {
        match self {
            Self::Free => open(),
            Self::Refused(end) => Exchange::ready(*end),
            Self::Looked(look) => {
                let inner = open();
                let (remote, server) = (inner.remote().clone(), inner.server().cloned());
                Exchange::new(Listed { inner, look }, remote).with_server(server)
            }
        }
    }
}

struct Listed {
    inner: Exchange,
    look: Box<Look>,
}

impl Driver for Listed {
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        let mut step = self.inner.poll_step(cx);
        if let Poll::Ready(Step::End(end)) = &mut step
            && let Outcome::Result(result) = &mut end.outcome
            && let Some(shown) = self.look.at(result)
        {
            *result = shown;
        }
        step
    }
}

impl Look {
    /// The list as it is shown, if that is not as the server wrote it.
    fn at(&self, result: &Raw) -> Option<Raw> {
        let rows = objects(&result.member("tools")?);
        let seen = self.pins.look(&self.spec, &self.whose, self.revision, &rows);
        if let Some(gateway) = self.gateway.upgrade() {
            gateway.tell_changed(&self.spec, &self.whose, &seen.news);
        }
        if !seen.hidden.is_empty() {
            return Some(splice::replace(result, "tools", &compose::array(seen.shown(rows).iter())));
        }
        (!seen.changed.is_empty()).then(|| noted(result, &seen.changed))
    }
}

/// A list that says which of its tools have changed.
fn noted(result: &Raw, changed: &[String]) -> Raw {
    let names: Vec<Raw> = changed.iter().map(|name| Raw::string(name)).collect();
    let note = (META, compose::array(names.iter()));
    match result.member("_meta") {
        Some(meta) => splice::replace(result, "_meta", &splice::with(&splice::without(&meta, &[META]), &[note])),
        None => splice::with(result, &[("_meta", compose::object(&[(note.0, &note.1)]))]),
    }
}
