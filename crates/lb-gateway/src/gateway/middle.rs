//! The port that fronts call.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use lb_exchange::{
    Aim, BoxFuture, Call, End, Exchange, Hello, Middle, Mount, Place, Principal, Refusal, Seat, ServerName, Unseated,
    Verdict, Visitor, Welcome,
};

use super::{Gateway, unknown_server};
use crate::login;
use crate::pool::Pool;
use crate::reception;
use crate::surface::Via;

impl Middle for Gateway {
    fn open(&self, call: Call) -> Exchange {
        if let Some(surface) = self.0.surface(&call.mount) {
            let watch = self.0.totals.own.received(&call.message, call.trace.as_deref());
            let who = call.caller.clone();
            let exchange = reception::open(surface, call, Via::Modern(self.clone()));
            let exchange = self.0.default_written_first(&who, exchange);
            return self.0.while_logged_in(who.family.as_ref(), None, exchange).watched(watch);
        }
        let Some(entry) = self.0.entry(&call.mount, &call.caller.principal) else {
            return Exchange::ready(End::ours(lb_exchange::Outcome::Error(unknown_server())));
        };
        let known = entry.modern.lock().get(&call.caller.principal).cloned();
        let pool = known.unwrap_or_else(|| {
            let (cache, clients) = (entry.cache.as_ref(), self.0.setup.clients);
            let make = || Pool::new(&entry.server, &call, &self.0.tasks, cache, clients);
            entry.modern.lock().entry(call.caller.principal.clone()).or_insert_with(make).clone()
        });
        let passing = self.0.passing(entry.spec(), &call);
        let family = call.caller.family.clone();
        let (call, watch) = entry.watcher.passing(call);
        let (spec, who) = (entry.spec(), call.caller.principal.clone());
        let open = || login::modern(&spec.auth, || entry.server.login(&who), call, move |call| pool.open(call));
        self.0.while_logged_in(family.as_ref(), Some(entry.name()), passing.open(open)).watched(watch)
    }

    fn begin(&self, hello: Hello) -> BoxFuture<'_, Result<Welcome, Refusal>> {
        Box::pin(self.0.seat(hello))
    }

    fn seat(&self, id: &str, mount: &Mount, who: &Visitor) -> Option<Arc<dyn Seat>> {
        let seat = self.0.sessions.read().get(id).cloned()?;
        let same = seat.mount == *mount && seat.caller.is(who) && !seat.ended.load(Ordering::Relaxed);
        if !same || seat.is_default() {
            return None;
        }
        self.0.use_seat(&seat, who.family.as_ref());
        Some(seat)
    }

    fn server_of(&self, mount: &Mount, who: &Visitor) -> Option<ServerName> {
        match (self.0.surface(mount), mount) {
            (Some(_), _) => None,
            // Also one that is not there: whether it is, is told to those who may know.
            (None, Mount::Server(name)) => Some(name.clone()),
            (None, _) => self.0.entry(mount, &who.principal).map(|entry| entry.name().clone()),
        }
    }

    fn is_here(&self, session: &str) -> bool {
        self.0.is_here(session)
    }

    fn locate<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Place> {
        Box::pin(self.0.locate(session))
    }

    fn is_unseated_here(&self, call: &Unseated<'_>) -> bool {
        self.0.is_unseated_here(call)
    }

    fn locate_unseated<'a>(&'a self, call: Unseated<'a>) -> BoxFuture<'a, Place> {
        Box::pin(self.0.locate_unseated(call))
    }

    fn adopt(&self, pump: BoxFuture<'static, ()>) {
        let tasks = self.0.tasks.clone();
        self.0.tasks.spawn(async move {
            tokio::select! {
                () = pump => {}
                () = tasks.stopping() => {}
            }
        });
    }

    fn servers(&self, who: &Visitor) -> Vec<String> {
        let may_know = |name: &ServerName| {
            let aim = Aim::Server { server: name.as_str(), tool: None };
            who.decide("tools/list", aim) != Verdict::Deny
        };
        let visible = self.0.registry.visible_to(&who.principal);
        visible.iter().map(|entry| entry.name()).filter(|name| may_know(name)).map(ToString::to_string).collect()
    }

    fn has(&self, mount: &Mount) -> bool {
        let leads = self.0.surface(mount).is_some() || self.0.entry(mount, &Principal::local()).is_some();
        // Calls of a server that is not served any more may need an answer of their clients to come to an end.
        leads || self.0.sessions.read().values().any(|seat| seat.mount == *mount && seat.is_working())
    }

    fn serves(&self, mount: &Mount, who: &Visitor) -> bool {
        self.0.entry(mount, &who.principal).is_some() || self.has(mount)
    }
}
