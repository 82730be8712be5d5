//! A connection while it works: what it says unasked, whether it is well, and how its loss is noticed.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lb_backend::Connection;
use lb_exchange::{BoxFuture, Call, Exchange, Feed, Mount, Outcome, Step};
use lb_session::Cause;
use lb_session::backend::Exit;
use lb_wire::compose::Object;
use lb_wire::revision::Era;
use lb_wire::{Id, Message, Raw, Text, compose};
use tokio::time::Instant;

use super::apply::{ACKNOWLEDGED, News};
use super::backend::{Backend, Order};
use super::facts::is_out_of_reach;
use super::keeper::{LOST, jitter, renew};
use crate::clock::sleep_until;

/// How long the end of a process may come after that of its output.
const LAST_WORDS_MAX: Duration = Duration::from_secs(1);
/// Wait before a listen is made again.
const RELISTEN: Duration = Duration::from_secs(5);

/// A connection while it works.
pub(super) struct Tending<'a> {
    backend: &'a Arc<Backend>,
    generation: u64,
    connection: Arc<Connection>,
    feed: Feed,
    /// What a modern server tells: the newest last, and before it those that it takes the place of, until it is
    /// confirmed. With the version of what each listens for.
    listens: Vec<(u64, Exchange)>,
    /// When to ask again if it stopped.
    listen_at: Option<Instant>,
    check: Option<BoxFuture<'static, Result<(), String>>>,
    check_at: Instant,
    /// When to see whether anything still uses it.
    rest_at: Option<Instant>,
}

enum Came {
    RestDue,
    Feed,
    Order,
    Listen(u64, Step),
    ListenAgain,
    CheckDue,
    Checked(Result<(), String>),
}

impl<'a> Tending<'a> {
    pub(super) fn new(backend: &'a Arc<Backend>, generation: u64, connection: Arc<Connection>) -> Self {
        let (listens, listen_at, check) = Default::default();
        let check_at = Instant::now() + backend.health_every.mul_f64(jitter());
        let feed = connection.feed().clone();
        let idle = backend.entry.spec().idle_timeout.filter(|_| connection.pid().is_some());
        let rest_at = idle.map(|idle| Instant::now() + idle);
        let mut it = Self { backend, generation, connection, feed, listens, listen_at, check, check_at, rest_at };
        it.open_listen();
        it
    }

    /// Until the connection is lost, suspected, or to be closed.
    pub(super) async fn run(mut self) {
        loop {
            let news = self.backend.take_in(&self.feed, self.generation);
            for news in news {
                if !self.heard(news).await {
                    return;
                }
            }
            if self.connection.is_lost() {
                let why = self.last_words().await;
                return self.lost(why.as_deref().unwrap_or("the connection is lost"));
            }
            let came = self.next().await;
            if !self.act(came).await {
                return;
            }
        }
    }

    /// What is said of a process that is gone: how it ended is known a moment after its output is.
    async fn last_words(&mut self) -> Option<Text> {
        self.connection.pid()?;
        let until = Instant::now() + LAST_WORDS_MAX;
        loop {
            for news in self.backend.take_in(&self.feed, self.generation) {
                if let News::Down(why) = news {
                    return Some(why);
                }
            }
            tokio::time::timeout_at(until, self.feed.ready()).await.ok()?;
        }
    }

    async fn next(&mut self) -> Came {
        let Self { backend, feed, listens, listen_at, check, check_at, rest_at, .. } = self;
        let checks = check.is_some();
        tokio::select! {
            () = feed.ready() => Came::Feed,
            () = backend.orders.notified() => Came::Order,
            (version, step) = poll_fn(|cx| poll_listens(listens, cx)) => Came::Listen(version, step),
            () = sleep_until(*listen_at) => Came::ListenAgain,
            result = async { match check { Some(check) => check.await, None => std::future::pending().await } } => Came::Checked(result),
            () = tokio::time::sleep_until(*check_at), if !checks => Came::CheckDue,
            () = sleep_until(*rest_at) => Came::RestDue,
        }
    }

    /// False when it is over.
    async fn act(&mut self, came: Came) -> bool {
        match came {
            Came::Feed => true,
            Came::Order => self.ordered().await,
            Came::Listen(version, step) => {
                self.listened(version, step);
                true
            }
            Came::ListenAgain => {
                self.open_listen();
                true
            }
            Came::RestDue => !self.rests().await,
            Came::CheckDue => {
                let (backend, connection) = (self.backend.clone(), self.connection.clone());
                self.check = Some(Box::pin(async move { backend.ping(&connection).await }));
                true
            }
            Came::Checked(result) => {
                self.check = None;
                self.check_at = Instant::now() + self.backend.health_every.mul_f64(jitter());
                self.checked(&result);
                true
            }
        }
    }

    /// Ends a process that nothing has used for long; false when something still does.
    async fn rests(&mut self) -> bool {
        let Some(idle) = self.backend.entry.spec().idle_timeout else { return false };
        let unused = self.connection.idle_for();
        let is_needed = unused < idle || self.check.is_some() || self.backend.is_needed();
        let rests = !is_needed && {
            // Our own listen is no use of it.
            self.listens.clear();
            self.connection.rest()
        };
        if !rests {
            let left = if unused < idle { idle - unused } else { idle };
            self.rest_at = Some(Instant::now() + left);
            if self.listens.is_empty() {
                self.open_listen();
            }
            return false;
        }
        let connection = self.connection.clone();
        self.lost("it was idle");
        connection.close().await;
        true
    }

    fn checked(&self, result: &Result<(), String>) {
        let told = {
            let mut state = self.backend.state.lock();
            match result {
                Ok(()) => state.machine.healthy(self.generation),
                Err(error) => state.machine.unhealthy(self.generation, error),
            }
        };
        self.backend.tell_all(told.into_iter().collect(), LOST, Cause::ServerDisconnected);
    }

    async fn ordered(&mut self) -> bool {
        let order = {
            let mut state = self.backend.state.lock();
            if state.stopped.is_some() || state.order.reconnect {
                return false;
            }
            // A wish to be connected is granted, unless the connection is already lost.
            let connect = state.order.connect && self.connection.is_lost();
            std::mem::replace(&mut state.order, Order { connect, ..Order::default() })
        };
        if order.relisten {
            self.open_listen();
        }
        match order.suspect {
            Some(why) => self.suspected(&why).await,
            None => true,
        }
    }

    async fn heard(&mut self, news: News) -> bool {
        match news {
            News::Renewed => {
                renew(self.backend, self.generation, &self.connection).await;
                false
            }
            News::Down(why) if self.backend.entry.is_http() => self.suspected(&why).await,
            News::Down(why) => {
                self.lost(&why);
                false
            }
        }
    }

    /// Somebody could not reach it. One that answers is not out of reach.
    async fn suspected(&mut self, why: &str) -> bool {
        if self.connection.is_lost() {
            self.lost(why);
            return false;
        }
        if self.backend.ping(&self.connection).await.is_ok() {
            return true;
        }
        let now = self.backend.now();
        let told = self.backend.state.lock().machine.suspect(self.generation, why, now, jitter());
        self.backend.tell_all(told.unwrap_or_default(), LOST, Cause::ServerDisconnected);
        self.backend.changed();
        false
    }

    fn lost(&self, why: &str) {
        let backend = self.backend;
        let now = backend.now();
        let exit = self.connection.exit().map(|exit| Exit {
            code: exit.code,
            signal: exit.signal.map(|signal| signal.to_string().into_boxed_str()),
        });
        let exit = exit.or_else(|| self.connection.pid().map(|_| Exit { code: None, signal: None }));
        let ended = exit.as_ref().and_then(how_it_ended);
        let why = ended.as_deref().unwrap_or(why);
        let told = {
            let mut state = backend.state.lock();
            state.connection = None;
            if self.connection.is_retired() {
                state.machine.retired(self.generation);
                Vec::new()
            } else {
                state.machine.lost(self.generation, why, exit.as_ref(), now, jitter()).unwrap_or_default()
            }
        };
        tracing::info!(server = &*backend.name, why, "server_disconnected");
        backend.tell_all(told, LOST, Cause::ServerDisconnected);
        backend.changed();
    }

    /// Asks a modern server to tell what changes.
    fn open_listen(&mut self) {
        self.listen_at = None;
        if self.connection.era() != Era::Modern {
            return;
        }
        let backend = self.backend;
        let tells = |capability| self.connection.declares(capability, Some("listChanged"));
        let (subscriptions, version) = {
            let told = backend.told.lock();
            (told.subscriptions.clone(), told.version)
        };
        let wanted = Object::new()
            .flag("toolsListChanged", tells("tools"))
            .flag("promptsListChanged", tells("prompts"))
            .flag("resourcesListChanged", tells("resources"))
            .raw("resourceSubscriptions", &Raw::value(&subscriptions))
            .finish();
        let nothing = !tells("tools") && !tells("prompts") && !tells("resources") && subscriptions.is_empty();
        if nothing {
            self.listens.clear();
            backend.heard.send_replace(version);
        } else if let Some(listen) = self.listen_for(&wanted) {
            self.listens.push((version, listen));
        }
    }

    fn listen_for(&self, wanted: &Raw) -> Option<Exchange> {
        let ourselves = &self.backend.ourselves;
        let meta = ourselves.meta(Era::Modern, None, None)?;
        let params = compose::object(&[("_meta", &meta), ("notifications", wanted)]);
        let request = compose::request(&Id::number(1), "subscriptions/listen", Some(&params));
        let message = Message::scan(request.bytes().clone()).ok()?;
        let caller = ourselves.speaking(Era::Modern);
        self.connection
            .open(Call { caller, mount: Mount::Tools, message, headers: None, trace: None, rights: None })
            .ok()
    }

    fn listened(&mut self, version: u64, step: Step) {
        match step {
            Step::Note(note) if &*note.method == ACKNOWLEDGED => {
                // From here on the older ones only say the same.
                self.listens.retain(|(of, _)| version <= *of);
                self.backend.heard.send_replace(version);
            }
            Step::Note(note) => self.backend.noted(&note),
            Step::End(end) => {
                self.listens.retain(|(of, _)| *of != version);
                let refused = matches!(&end.outcome, Outcome::Error(error) if !is_out_of_reach(error));
                if !refused && self.listens.is_empty() {
                    self.listen_at = Some(Instant::now() + RELISTEN);
                }
            }
            Step::Ask(_) | Step::Withdraw { .. } | Step::Pause { .. } => {}
        }
    }
}

/// How a process ended, in words.
fn how_it_ended(exit: &Exit) -> Option<String> {
    match (exit.code, &exit.signal) {
        (Some(code), _) => Some(format!("Process exited with code {code}")),
        (None, Some(signal)) => Some(format!("Process was killed by signal {signal}")),
        (None, None) => None,
    }
}

/// The next thing that one of them says.
fn poll_listens(listens: &mut [(u64, Exchange)], cx: &mut Context<'_>) -> Poll<(u64, Step)> {
    for (version, listen) in listens {
        if let Poll::Ready(step) = listen.poll_step(cx) {
            return Poll::Ready((*version, step));
        }
    }
    Poll::Pending
}
