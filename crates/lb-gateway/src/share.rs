//! One connection for several sessions: what it says out of the blue goes to those that want it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use lb_exchange::{Call, Driver, End, Exchange, FeedItem, Outcome, Step};
use lb_wire::{Raw, Text};
use parking_lot::Mutex;

use crate::link::{Before, Link};
use crate::listen::Ear;

/// A link and the sessions that share it.
pub struct Share {
    link: Arc<Link>,
    members: Mutex<HashMap<u64, Member>>,
}

struct Member {
    ear: Weak<Ear>,
    subscriptions: Vec<Text>,
}

impl Share {
    /// Nobody shares it yet.
    pub fn new(link: Arc<Link>) -> Arc<Self> {
        Arc::new(Self { link, members: Mutex::default() })
    }

    /// The link.
    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// A session joins.
    pub fn join(&self, member: u64, ear: &Arc<Ear>) {
        self.members.lock().insert(member, Member { ear: Arc::downgrade(ear), subscriptions: Vec::new() });
    }

    /// A session leaves, and with it what only it wanted to hear of.
    pub fn leave(&self, member: u64) {
        let unwanted: Vec<Text> = {
            let mut members = self.members.lock();
            let Some(gone) = members.remove(&member) else { return };
            let wanted = |uri: &Text| members.values().any(|member| member.subscriptions.contains(uri));
            gone.subscriptions.into_iter().filter(|uri| !wanted(uri)).collect()
        };
        if !unwanted.is_empty() {
            self.link.unsubscribe(&unwanted);
        }
    }

    /// How many sessions share it.
    pub fn members(&self) -> usize {
        self.members.lock().len()
    }

    /// Hands out what the connection has said, for as long as anybody may hear it.
    pub async fn distribute_forever(self: Arc<Self>) {
        loop {
            self.link.feed().ready().await;
            self.distribute();
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
