//! What one link answers from what is kept of its server.

use std::sync::Arc;

use lb_backend::Connection;
use lb_exchange::{Call, Caller, End, Exchange, Outcome};
use lb_wire::Raw;
use lb_wire::revision::{Era, method};

use super::view::View;
use super::{Snapshot, listen};
use crate::convert;
use crate::link::Link;
use crate::live::Listing;

/// What of a server somebody asks for that can be kept.
enum Wanted {
    Introduction,
    List(Listing),
    Changes,
}

impl Wanted {
    fn of(call: &Call) -> Option<Self> {
        let is_modern = call.caller.era() == Era::Modern;
        match call.message.method() {
            method::SERVER_DISCOVER if is_modern => Some(Self::Introduction),
            method::SUBSCRIPTIONS_LISTEN if is_modern => Some(Self::Changes),
            // Who wants a page of its own choice has it from the server.
            _ if call.message.member_bytes("cursor").is_some() => None,
            method => Listing::ALL.into_iter().find(|which| which.method() == method).map(Self::List),
        }
    }
}

impl Link {
    /// The result of `initialize` from what is kept, if there is something.
    pub(crate) fn greeting(self: &Arc<Self>, caller: &Caller) -> Option<Raw> {
        let view = self.kept.as_ref()?.main();
        let snapshot = view.slot().snapshot()?;
        self.renew_if_old(view, None);
        Some(convert::welcome(snapshot.era(), snapshot.welcome(), caller.revision))
    }

    /// The answer to a request from what is kept; `None` when the server is to be asked.
    pub(crate) fn answer(self: &Arc<Self>, call: &Call) -> Option<Exchange> {
        let kept = self.kept.as_ref()?;
        let wanted = Wanted::of(call)?;
        let running = self.current();
        let view = kept.view(&call.caller, running.as_deref());
        if let Some(connection) = running.as_ref().filter(|_| !Arc::ptr_eq(&view, kept.main())) {
            self.compare_once(&view, connection);
        }
        match wanted {
            Wanted::Introduction => Some(self.introduce(view)),
            Wanted::List(which) => Some(self.list(view, which, running.as_deref())),
            Wanted::Changes => listen::open(self, &view, call),
        }
    }

    /// What the server says of itself.
    fn introduce(self: &Arc<Self>, view: Arc<View>) -> Exchange {
        if let Some(snapshot) = view.slot().snapshot() {
            self.renew_if_old(&view, None);
            return Exchange::ready(introduction(&snapshot));
        }
        let link = self.clone();
        Exchange::deferred(async move {
            match link.known(&view).await {
                Ok(snapshot) => Exchange::ready(introduction(&snapshot)),
                Err(end) => Exchange::ready(end),
            }
        })
    }

    /// What is kept, asked for if there is nothing.
    pub(super) async fn known(self: &Arc<Self>, view: &View) -> Result<Snapshot, End> {
        if let Some(snapshot) = view.slot().snapshot() {
            return Ok(snapshot);
        }
        let refused = |error: lb_backend::ConnectError| End::ours(Outcome::Error(error.to_body(self.name())));
        let connection = self.connection().await.map_err(refused)?;
        view.slot().introduced(&connection);
        Ok(Snapshot::new(connection.era(), connection.welcome()))
    }

    fn list(self: &Arc<Self>, view: Arc<View>, which: Listing, running: Option<&Connection>) -> Exchange {
        let is_right = running.is_none_or(|connection| !view.is_dirty(connection, which));
        let snapshot = view.slot().snapshot();
        let is_right = is_right && !snapshot.as_ref().is_some_and(|snapshot| snapshot.lacks(which));
        match snapshot.and_then(|snapshot| listed(&snapshot, which)).filter(|_| is_right) {
            Some(end) => {
                self.renew_if_old(&view, running.map(|connection| (connection, which)));
                Exchange::ready(end)
            }
            None => {
                let link = self.clone();
                Exchange::deferred(async move { link.ask_for(&view, which).await })
            }
        }
    }

    /// Reads a list and gives it.
    async fn ask_for(self: Arc<Self>, view: &View, which: Listing) -> Exchange {
        let Some(kept) = &self.kept else { return Exchange::ready(End::ours(Outcome::Cancelled)) };
        let connected = self.connection().await;
        if let Ok(connection) = &connected
            && view.read(connection, &self, which, false).await
        {
            kept.cache.save();
        }
        match (view.slot().snapshot().and_then(|snapshot| listed(&snapshot, which)), connected) {
            (Some(end), _) => Exchange::ready(end),
            (None, Err(error)) => Exchange::ready(End::ours(Outcome::Error(error.to_body(self.name())))),
            // Gone while it was asked.
            (None, Ok(connection)) => Exchange::ready(End::ours(Outcome::Error(connection.closed().await))),
        }
    }
}

/// A list as an end; `None` when it was never read.
fn listed(snapshot: &Snapshot, which: Listing) -> Option<End> {
    Some(End::from_server(Outcome::Result(snapshot.told(snapshot.list(which)?)), snapshot.era()))
}

/// The answer to `server/discover`.
fn introduction(snapshot: &Snapshot) -> End {
    match snapshot.era() {
        Era::Modern => End::from_server(Outcome::Result(snapshot.told(snapshot.welcome())), Era::Modern),
        Era::Legacy => End::ours(Outcome::Result(convert::discovered(snapshot.welcome()))),
    }
}
