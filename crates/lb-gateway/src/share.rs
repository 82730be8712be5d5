//! One connection for several sessions: what it says out of the blue goes to those that want it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use lb_exchange::{Call, Driver, End, Exchange, FeedItem, Outcome, Step};
use lb_wire::compose::Object;
use lb_wire::{Raw, Text};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::link::{Before, Link};
use crate::listen::Ear;
use crate::registry::Entry;

/// A link and the sessions that share it.
pub struct Share {
    link: Arc<Link>,
    members: Mutex<HashMap<u64, Member>>,
    /// Where those find it who come later.
    entry: Weak<Entry>,
    /// Rung when nobody shares it any more.
    over: Notify,
}

struct Member {
    ear: Weak<Ear>,
    subscriptions: Vec<Text>,
    /// The params by which it last said how much the server shall log.
    level: Option<Raw>,
    /// Whether it ever wanted something.
    ever: bool,
}

impl Share {
    /// Nobody shares it yet.
    pub fn new(link: Arc<Link>, entry: &Arc<Entry>) -> Arc<Self> {
        Arc::new(Self { link, members: Mutex::default(), entry: Arc::downgrade(entry), over: Notify::new() })
    }

    /// The link.
    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// A session joins. Whoever calls this holds the lock on the shares of the server.
    pub fn join(self: &Arc<Self>, member: u64, ear: &Arc<Ear>) -> Joined {
        let (ear, subscriptions) = (Arc::downgrade(ear), Vec::new());
        self.members.lock().insert(member, Member { ear, subscriptions, level: None, ever: false });
        Joined { share: self.clone(), member }
    }

    /// A session leaves, and with it what only it wanted to hear of. The link, when it was the last one: it must be
    /// closed.
    fn leave(self: &Arc<Self>, member: u64) -> Option<Arc<Link>> {
        let entry = self.entry.upgrade();
        // Under the lock under which others join: who comes now finds it with a member, or not at all.
        let mut shares = entry.as_ref().map(|entry| entry.shared.lock());
        let mut members = self.members.lock();
        let gone = members.remove(&member)?;
        if members.is_empty() {
            if let Some(shares) = &mut shares {
                shares.retain(|_, known| {
                    known.retain(|share| !Arc::ptr_eq(share, self));
                    !known.is_empty()
                });
            }
            self.over.notify_one();
            return Some(self.link.clone());
        }
        let wanted = |uri: &Text| members.values().any(|member| member.subscriptions.contains(uri));
        let unwanted: Vec<Text> = gone.subscriptions.into_iter().filter(|uri| !wanted(uri)).collect();
        drop(members);
        drop(shares);
        if !unwanted.is_empty() {
            self.link.unsubscribe(&unwanted);
        }
        None
    }

    /// What one session wants of the server, as it is written; `None` when that was never anything.
    fn told(&self, member: u64) -> Option<Raw> {
        let members = self.members.lock();
        let own = members.get(&member).filter(|own| own.ever)?;
        let uris: Vec<&str> = own.subscriptions.iter().map(|uri| &**uri).collect();
        Some(Object::new().maybe("level", own.level.as_ref()).raw("subscriptions", &Raw::value(&uris)).finish())
    }

    /// How many sessions share it.
    pub fn members(&self) -> usize {
        self.members.lock().len()
    }

    /// Hands out what the connection has said, for as long as anybody may hear it.
    pub async fn distribute_forever(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.link.feed().ready() => self.distribute(),
                () = self.over.notified() => return,
            }
        }
    }

    /// Opens a request of one session.
    pub fn open(self: &Arc<Self>, member: u64, call: Call, before: Before) -> Exchange {
        if let Some(end) = self.subscribed(member, &call) {
            return Exchange::ready(end);
        }
        self.link.remember(&call);
        let inner = self.link.open(call, before);
        let (remote, server) = (inner.remote().clone(), inner.server().cloned());
        Exchange::new(Ordered { inner, share: self.clone() }, remote).with_server(server)
    }

    /// Keeps track of who wants which resource; the end, where the server need not be told.
    fn subscribed(&self, member: u64, call: &Call) -> Option<End> {
        let method = call.message.method();
        if method == "logging/setLevel" {
            if let Some(own) = self.members.lock().get_mut(&member) {
                (own.level, own.ever) = (call.message.body().map(|level| level.detached()), true);
            }
            return None;
        }
        if !matches!(method, "resources/subscribe" | "resources/unsubscribe") {
            return None;
        }
        let uri = call.message.member("uri")?;
        let uri = Text::from(&*uri.to_text()?);
        let mut members = self.members.lock();
        let own = members.get_mut(&member)?;
        own.subscriptions.retain(|known| *known != uri);
        if method == "resources/subscribe" {
            own.subscriptions.push(uri);
            own.ever = true;
            return None;
        }
        let wanted = members.values().any(|other| other.subscriptions.contains(&uri));
        wanted.then(|| End::ours(Outcome::Result(Raw::empty_object())))
    }

    fn distribute(&self) {
        let members = self.members.lock();
        let ears = |wanted: &dyn Fn(&Member) -> bool| -> Vec<Arc<Ear>> {
            members.values().filter(|member| wanted(member)).filter_map(|member| member.ear.upgrade()).collect()
        };
        for item in self.link.feed().drain() {
            match &item {
                FeedItem::Updated(uri, _) => push_all(&ears(&|member| member.subscriptions.contains(uri)), &item),
                FeedItem::Ask(ask, remote) => match ears(&|_| true).iter().find(|ear| ear.is_open()) {
                    Some(ear) => push_all(std::slice::from_ref(ear), &item),
                    None => {
                        remote.answer(ask.key.clone(), ask.kind.refusal());
                    }
                },
                _ => push_all(&ears(&|_| true), &item),
            }
        }
    }
}

/// A session's part in a share, which ends with this at the latest.
pub struct Joined {
    share: Arc<Share>,
    member: u64,
}

impl Joined {
    /// The link that is shared.
    pub fn link(&self) -> &Arc<Link> {
        &self.share.link
    }

    /// Opens a request of the session.
    pub fn open(&self, call: Call, before: Before) -> Exchange {
        self.share.open(self.member, call, before)
    }

    /// What the session wants of the server, for as long as the link is shared.
    pub fn told(&self) -> impl Fn() -> Option<Raw> + Send + Sync + 'static {
        let (share, member) = (Arc::downgrade(&self.share), self.member);
        move || share.upgrade()?.told(member)
    }

    /// What the session has said to the process before this one that it wants of the server.
    pub fn was_told(&self, told: &Raw) {
        let uris = told.member("subscriptions").and_then(|uris| uris.read::<Vec<String>>().ok()).unwrap_or_default();
        let uris: Vec<Text> = uris.iter().map(|uri| Text::from(&**uri)).collect();
        let level = told.member("level").map(|level| level.detached());
        if let Some(own) = self.share.members.lock().get_mut(&self.member) {
            (own.subscriptions, own.level, own.ever) = (uris.clone(), level.clone(), true);
        }
        self.share.link.was_asked_for(&uris, level);
    }

    /// The session leaves; the last one ends the link, and waits for that.
    ///
    /// Cancel safe: yes, the link is used by nobody any more.
    pub async fn leave(&self) {
        if let Some(link) = self.share.leave(self.member) {
            link.close().await;
        }
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        if let Some(link) = self.share.leave(self.member) {
            self.share.link.tasks().spawn(async move { link.close().await });
        }
    }
}

fn push_all(ears: &[Arc<Ear>], item: &FeedItem) {
    for ear in ears {
        if let Err(refused) = ear.feed().push(item.clone())
            && let FeedItem::Ask(ask, remote) = *refused
        {
            remote.answer(ask.key, ask.kind.refusal());
        }
    }
}

/// Lets what was said before an end take effect before it.
struct Ordered {
    inner: Exchange,
    share: Arc<Share>,
}

impl Driver for Ordered {
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        let step = std::task::ready!(self.inner.poll_step(cx));
        if let Step::End(end) = &step
            && !self.share.link.feed().is_taken(end.feed_mark)
        {
            self.share.distribute();
        }
        Poll::Ready(step)
    }
}
