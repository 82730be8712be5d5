//! A server's list of tools as its client may see it: without those that it may never call.

use std::sync::Arc;
use std::task::{Context, Poll};

use lb_exchange::{Aim, Call, Driver, Exchange, Outcome, Rights, ServerName, Step, Verdict};
use lb_wire::{Cursor, Raw, Span, compose, splice};

use crate::front::Front;

/// What is left out of a list.
pub(crate) struct Hiding {
    rights: Arc<dyn Rights>,
    server: ServerName,
}

impl Front {
    /// What is to be left out of the answer to a call, if anything may be.
    pub(crate) fn hides(&self, call: &Call) -> Option<Hiding> {
        let rights = call.rights.as_ref().filter(|_| call.message.method() == "tools/list")?;
        let server = self.shared.middle.server_of(&call.mount, &call.caller.visitor())?;
        Some(Hiding { rights: rights.clone(), server })
    }
}

impl Hiding {
    /// The same exchange, whose result is without it.
    pub(crate) fn of(this: Option<Self>, inner: Exchange) -> Exchange {
        let Some(hiding) = this else { return inner };
        let (remote, server) = (inner.remote().clone(), inner.server().cloned());
        Exchange::new(Shown { inner, hiding }, remote).with_server(server)
    }

    fn shown(&self, result: &Raw) -> Raw {
        let Some(tools) = result.member("tools") else { return result.clone() };
        let all = elements(&tools);
        let shown: Vec<&Raw> = all.iter().filter(|tool| self.is_shown(tool)).collect();
        if shown.len() == all.len() {
            return result.clone();
        }
        splice::replace(result, "tools", &compose::array(shown.into_iter()))
    }

    fn is_shown(&self, tool: &Raw) -> bool {
        let name = tool.member("name");
        let name = name.as_ref().and_then(Raw::to_text);
        let aim = Aim::Server { server: self.server.as_str(), tool: name.as_deref() };
        self.rights.decide("tools/call", aim) != Verdict::Deny
    }
}

struct Shown {
    inner: Exchange,
    hiding: Hiding,
}

impl Driver for Shown {
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        let mut step = self.inner.poll_step(cx);
        if let Poll::Ready(Step::End(end)) = &mut step
            && let Outcome::Result(result) = &mut end.outcome
        {
            *result = self.hiding.shown(result);
        }
        step
    }
}

/// The elements of an array, as they are written; none when it is none.
fn elements(array: &Raw) -> Vec<Raw> {
    let mut spans: Vec<Span> = Vec::new();
    if Cursor::new(array.as_bytes()).elements(0, |span, _| spans.push(span)).is_err() {
        return Vec::new();
    }
    let cut = |span: Span| Raw::parse(array.bytes().slice(span.start()..span.end())).ok();
    spans.into_iter().filter_map(cut).collect()
}
