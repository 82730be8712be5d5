//! Looking after one connection of a link: what it says unasked of lists that are kept, and when it can rest.

use std::sync::{Arc, Weak};
use std::time::Duration;

use lb_backend::Connection;
use lb_exchange::{Call, Exchange, Feed, FeedItem, List, Mount, Outcome, Step, Tasks};
use lb_wire::compose::Object;
use lb_wire::revision::Era;
use lb_wire::{Id, Message, compose};
use tokio::time::Instant;

use super::Link;
use crate::clock::sleep_until;

/// How long a server may take to acknowledge a listen before its lists are asked for without it.
const ACKNOWLEDGED_MAX: Duration = Duration::from_secs(5);
/// Wait before a listen is made again.
const RELISTEN: Duration = Duration::from_secs(5);

impl Link {
    /// Looks after a new connection, for as long as it is the link's. True when its lists are read once it listens.
    pub(super) fn tend(self: &Arc<Self>, connection: &Arc<Connection>) -> bool {
        let is_kept = self.kept.is_some();
        let listen = if is_kept { self.listen_for_changes(connection) } else { None };
        let idle = self.idle_after;
        // The feed of legacy clients has a reader: their own listen.
        let feed = Some(self.feed().clone()).filter(|_| is_kept && self.caller().era() == Era::Modern);
        let tasks = self.tasks().child();
        {
            let mut state = self.state.lock();
            state.stop_tending();
            if state.closed.is_some() {
                return false;
            }
            state.tending = Some(tasks.clone());
        }
        let listens = listen.is_some();
        if !listens && idle.is_none() && feed.is_none() {
            return false;
        }
        let now = Instant::now();
        let tending = Tending {
            link: Arc::downgrade(self),
            connection: Arc::downgrade(connection),
            feed,
            listen,
            listen_at: None,
            again: false,
            lists_at: listens.then(|| now + ACKNOWLEDGED_MAX),
            rest_at: idle.map(|idle| now + idle),
            idle: idle.unwrap_or_default(),
        };
        self.tasks().spawn(tending.run(tasks));
        listens
    }

    /// Asks a modern server to say when its lists change; `None` for one that never does.
    fn listen_for_changes(&self, connection: &Arc<Connection>) -> Option<Exchange> {
        let tells = |capability| connection.declares(capability, Some("listChanged"));
        let (tools, prompts, resources) = (tells("tools"), tells("prompts"), tells("resources"));
        if connection.era() != Era::Modern || !(tools || prompts || resources) {
            return None;
        }
        let wanted = Object::new()
            .flag("toolsListChanged", tools)
            .flag("promptsListChanged", prompts)
            .flag("resourcesListChanged", resources)
            .finish();
        let params = compose::object(&[("_meta", &crate::cache::meta(self.caller())), ("notifications", &wanted)]);
        let request = compose::request(&Id::number(1), "subscriptions/listen", Some(&params));
        let message = Message::scan(request.bytes().clone()).ok()?;
        let (caller, mount) = (self.caller().clone(), Mount::Server(self.spec().name.clone()));
        connection.open(Call { caller, mount, message, headers: None, trace: None, rights: None }).ok()
    }
}

struct Tending {
    link: Weak<Link>,
    connection: Weak<Connection>,
    /// What belongs to no request, where nobody else takes it.
    feed: Option<Feed>,
    /// What a modern server says of its lists.
    listen: Option<Exchange>,
    /// When to ask again if it stopped.
    listen_at: Option<Instant>,
    /// Whether it was asked before.
    again: bool,
    /// When to read the lists even if it has not begun.
    lists_at: Option<Instant>,
    /// When to see whether anything still uses the connection.
    rest_at: Option<Instant>,
    idle: Duration,
}

enum Came {
    Said(Step),
    Feed,
    ListenAgain,
    ListsDue,
    RestDue,
}

impl Tending {
    async fn run(mut self, tasks: Tasks) {
        loop {
            let came = tokio::select! {
                came = self.next() => came,
                () = tasks.stopping() => return,
            };
            let (Some(link), Some(connection)) = (self.link.upgrade(), self.connection.upgrade()) else { return };
            if connection.is_lost() || !self.act(came, &link, &connection).await {
                return;
            }
        }
    }

    async fn next(&mut self) -> Came {
        let Self { feed, listen, listen_at, lists_at, rest_at, .. } = self;
        tokio::select! {
            step = async { match listen { Some(listen) => listen.step().await, None => std::future::pending().await } } => Came::Said(step),
            () = async { match feed { Some(feed) => feed.ready().await, None => std::future::pending().await } } => Came::Feed,
            () = sleep_until(*listen_at) => Came::ListenAgain,
            () = sleep_until(*lists_at) => Came::ListsDue,
            () = sleep_until(*rest_at) => Came::RestDue,
        }
    }

    /// False when it is over.
    async fn act(&mut self, came: Came, link: &Arc<Link>, connection: &Arc<Connection>) -> bool {
        match came {
            Came::Said(step) => self.said(step, link, connection),
            Came::Feed => {
                let said = self.feed.as_ref().map(Feed::drain).unwrap_or_default();
                if said.iter().any(|item| matches!(item, FeedItem::Changed(..))) {
                    link.changed();
                }
            }
            Came::ListenAgain => {
                self.listen_at = None;
                self.listen_again(link, connection);
            }
            Came::ListsDue => self.may_read(link, connection),
            Came::RestDue => return !self.rests(link, connection).await,
        }
        true
    }

    fn said(&mut self, step: Step, link: &Arc<Link>, connection: &Arc<Connection>) {
        match step {
            Step::Note(note) if List::of_change(&note.method).is_some() => link.changed(),
            // Acknowledged: from here on no change is missed.
            Step::Note(_) => self.may_read(link, connection),
            Step::End(end) => {
                self.listen = None;
                let failed = matches!(&end.outcome, Outcome::Error(_)) && self.lists_at.is_some();
                if failed && self.again {
                    // It has listened before: it is asked once more, and for its lists when it does.
                    self.lists_at = None;
                }
                self.may_read(link, connection);
                if !failed || self.again {
                    self.listen_at = Some(Instant::now() + RELISTEN);
                }
            }
            Step::Ask(_) | Step::Withdraw { .. } | Step::Pause { .. } => {}
        }
    }

    /// What changed while nobody listened was not told: everything is read again, once the server listens.
    fn listen_again(&mut self, link: &Arc<Link>, connection: &Arc<Connection>) {
        if let Some(kept) = &link.kept {
            kept.missed_something();
        }
        self.again = true;
        self.listen = link.listen_for_changes(connection);
        self.lists_at = Some(Instant::now() + ACKNOWLEDGED_MAX);
    }

    fn may_read(&mut self, link: &Arc<Link>, connection: &Arc<Connection>) {
        if self.lists_at.take().is_some() {
            link.refresh_once(connection);
        }
    }

    /// Ends a connection that nothing has used for some time; false when something has.
    async fn rests(&mut self, link: &Arc<Link>, connection: &Arc<Connection>) -> bool {
        let unused = connection.idle_for();
        if unused < self.idle {
            self.rest_at = Some(Instant::now() + (self.idle - unused));
            return false;
        }
        // Not worth missing a change for.
        if link.has_subscriptions() || connection.is_working() {
            self.rest_at = Some(Instant::now() + self.idle);
            return false;
        }
        // Whoever connects meanwhile waits; whoever finds the connection closed to new calls makes another.
        let nobody_connects = link.connecting.lock().await;
        // Our own listen is no use of it.
        let listened = self.listen.take().is_some();
        if !link.has_subscriptions() && connection.rest() {
            drop(nobody_connects);
            connection.close().await;
            return true;
        }
        self.rest_at = Some(Instant::now() + self.idle);
        if listened {
            self.listen_again(link, connection);
        }
        false
    }
}
