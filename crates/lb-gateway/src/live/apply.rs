//! What a connection says that belongs to no call, put into the sessions it is for; in order.

use std::sync::{Arc, Weak};

use lb_exchange::{Ask, AskKind, Feed, FeedItem, Note, Output, Remote};
use lb_session::backend::{Losses, Told};
use lb_session::{Cause, Happening, Level, LogRow, LogSource, NewRequest, PendingKind, Session};
use lb_wire::{Raw, Text, splice};

use super::Live;
use super::backend::Backend;

/// What a server says of its own tasks.
pub(super) const TASK_STATUS: &str = "notifications/tasks/status";

/// How a server confirms what we listen for.
pub(super) const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// How a server names what we listen with.
const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// What the feed said about the connection itself.
#[derive(Debug)]
pub(super) enum News {
    /// The server forgot us and was introduced anew.
    Renewed,
    /// It is gone, or cannot be heard.
    Down(Text),
}

impl Backend {
    /// The sessions it is for.
    pub(super) fn lives(&self) -> Vec<Arc<Live>> {
        self.members.lock().values().filter_map(Weak::upgrade).collect()
    }

    fn each(&self, mut act: impl FnMut(&mut Session)) {
        for live in self.lives().iter().filter(|live| live.is_remembered()) {
            live.cell().with(&mut act);
        }
    }

    /// Takes in what the feed has, in order, and gives what it says about the connection.
    pub(super) fn take_in(&self, feed: &Feed, generation: u64) -> Vec<News> {
        self.take_in_to(feed, generation, u64::MAX)
    }

    /// The same, unless what came up to this mark is taken in already.
    pub(super) fn take_in_to(&self, feed: &Feed, generation: u64, mark: u64) -> Vec<News> {
        // Whoever has this is done with what was drained before.
        let mut asked = self.taking.lock();
        let mut news = Vec::new();
        if mark != u64::MAX && feed.is_taken(mark) {
            return news;
        }
        for item in feed.drain() {
            match item {
                FeedItem::Changed(_, note) | FeedItem::Updated(_, note) | FeedItem::Note(note) => self.noted(&note),
                FeedItem::Log(note) => self.logged(note.params.as_ref()),
                FeedItem::Output(from, line) => self.wrote(from, &line),
                FeedItem::Ask(ask, remote) => {
                    if let Some((live, id)) = self.asked(&ask, &remote) {
                        asked.insert((generation, ask.key.0), (live, id));
                    }
                }
                FeedItem::Withdraw(key) => {
                    if let Some((live, id)) = asked.remove(&(generation, key.0))
                        && let Some(live) = live.upgrade()
                    {
                        let now = self.now();
                        live.cell().with(|session| session.withdraw_request(id, now));
                    }
                }
                FeedItem::Up(_) => news.push(News::Renewed),
                FeedItem::Down(_, why) => news.push(News::Down(why)),
            }
        }
        asked.retain(|(of, _), _| *of == generation);
        news
    }

    /// What is said about the connection is for its keeper, whoever takes it first.
    pub(super) fn put_back(&self, feed: &Feed, news: Vec<News>) {
        for news in news {
            let item = match news {
                News::Renewed => FeedItem::Up(0),
                News::Down(why) => FeedItem::Down(0, why),
            };
            // Only asks can be refused by a feed.
            drop(feed.push(item));
        }
    }

    /// A notification, as an event. How a task of the server's stands is between the two of us.
    pub(super) fn noted(&self, note: &Note) {
        if matches!(&*note.method, TASK_STATUS | ACKNOWLEDGED) {
            return;
        }
        let now = self.now();
        let event = notification(note);
        self.each(|session| {
            session.tell(&self.name, &event, now);
        });
    }

    /// A log message, from its params.
    pub(super) fn logged(&self, params: Option<&Raw>) {
        let now = self.now();
        let row = log_row(params);
        self.each(|session| session.log(&self.name, row.clone(), now));
    }

    fn wrote(&self, from: Output, line: &Text) {
        let (level, source) = match from {
            Output::Stderr => (Level::Warning, LogSource::Stderr),
            Output::Stdout => (Level::Info, LogSource::Stdout),
        };
        if from == Output::Stdout {
            self.stray.lock().get_or_insert_with(|| line.clone());
        }
        let now = self.now();
        let row = LogRow { level, logger: None, source, data: Raw::string(line) };
        self.each(|session| session.log(&self.name, row.clone(), now));
    }

    /// A request that belongs to no call goes to the model of the session that was used last.
    fn asked(&self, ask: &Ask, remote: &Remote) -> Option<(Weak<Live>, lb_session::Ulid)> {
        let refuse = || remote.answer(ask.key.clone(), ask.kind.refusal());
        let kind = match ask.kind {
            AskKind::Elicitation => PendingKind::Elicitation,
            AskKind::Sampling => PendingKind::Sampling,
            AskKind::Roots | AskKind::Other => {
                refuse();
                return None;
            }
        };
        let params = ask.params.as_ref().map_or_else(Raw::empty_object, Raw::detached);
        let lives = self.lives();
        let live = lives.iter().min_by_key(|live| live.unused_for()).filter(|_| self.ourselves.asks);
        let Some(live) = live.filter(|live| kind != PendingKind::Elicitation || self.may_ask(live, &params)) else {
            tracing::warn!(server = &*self.name, "question of a server refused");
            refuse();
            return None;
        };
        live.remember();
        let now = self.now();
        let new = NewRequest {
            server: self.name.clone(),
            kind,
            params,
            remote: remote.clone(),
            key: ask.key.clone(),
            related_task: None,
        };
        match live.cell().with(|session| session.request(new, now)) {
            Ok(id) => Some((Arc::downgrade(live), id)),
            Err(_) => {
                let answer = lb_exchange::Answer::error(-32000, "Too many pending requests");
                remote.answer(ask.key.clone(), answer);
                None
            }
        }
    }

    /// Does what a change of the state leads to, in every session.
    pub(super) fn tell_all(&self, told: Vec<Told>, reason: &str, cause: Cause) {
        let now = self.now();
        let mut losses = Losses::default();
        for live in self.lives() {
            // All of it under one lock: what a failed task leaves behind must not come between.
            live.cell().with(|session| {
                for what in &told {
                    match what {
                        Told::Event(event) if live.is_remembered() => {
                            session.tell(&self.name, event, now);
                        }
                        Told::Event(_) => {}
                        Told::FailTasks => {
                            losses.tasks += session.fail_tasks_of(&self.name, reason, Some(cause.as_str()), now);
                        }
                        Told::RejectRequests => {
                            let reply = matches!(cause, Cause::ServerRemoved);
                            let lost = session.reject_requests_of(Some(&self.name), cause, reply, now);
                            losses.elicitations += lost.0;
                            losses.sampling += lost.1;
                        }
                    }
                }
            });
        }
        if losses != Losses::default() {
            self.state.lock().machine.note_losses(losses);
        }
    }
}

/// A notification, as an event.
pub(super) fn notification(note: &Note) -> Happening {
    let method = Text::from(&*note.method);
    let params = note.params.as_ref().map(|params| without_our_names(params).detached());
    Happening::Notification { method, params: params.filter(|params| params.as_bytes() != b"{}"), count: 1 }
}

/// The params without the name of our listen, which is nobody's business.
fn without_our_names(params: &Raw) -> Raw {
    let Some(meta) = params.member("_meta").filter(|meta| meta.member(SUBSCRIPTION_KEY).is_some()) else {
        return params.clone();
    };
    let kept = splice::without(&meta, &[SUBSCRIPTION_KEY]);
    if kept.as_bytes() == b"{}" {
        return splice::without(params, &["_meta"]);
    }
    splice::replace(params, "_meta", &kept)
}

/// The row of a log message.
pub(super) fn log_row(params: Option<&Raw>) -> LogRow {
    let member = |name: &str| params.and_then(|params| params.member(name));
    let level = member("level").and_then(|level| level.to_text().and_then(|text| Level::parse(&text)));
    let logger = member("logger").and_then(|logger| logger.to_text().map(|text| Text::from(&*text)));
    let data = member("data").unwrap_or_else(|| Raw::from_static("null")).detached();
    LogRow { level: level.unwrap_or(Level::Info), logger, source: LogSource::Protocol, data }
}
