//! A modern client that wants to hear of changed lists: told when what is kept is another, whether the server runs or not.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use lb_exchange::{Call, Command, Driver, End, Exchange, Feed, FeedItem, List, Note, Outcome, Remote, Step};
use lb_wire::compose::Object;
use lb_wire::revision::Era;
use lb_wire::{Id, Raw, Text, compose};
use parking_lot::Mutex;

use super::Snapshot;
use super::view::View;
use crate::link::Link;
use crate::listen::Ear;

const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// Changes of lists: how a client asks for them, what a server declares, and what is said.
const CHANGES: [(&str, &str, List); 3] = [
    ("toolsListChanged", "tools", List::Tools),
    ("promptsListChanged", "prompts", List::Prompts),
    ("resourcesListChanged", "resources", List::Resources),
];

/// The listens on what is kept of one server.
#[derive(Default)]
pub(super) struct Listens {
    is_over: AtomicBool,
    open: Mutex<Vec<Weak<Ear>>>,
}

impl Listens {
    fn add(&self, ear: &Arc<Ear>) {
        let mut open = self.open.lock();
        open.retain(|ear| ear.strong_count() != 0);
        open.push(Arc::downgrade(ear));
    }

    /// Ends all of them, and those that come later.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        let open = std::mem::take(&mut *self.open.lock());
        for ear in open.iter().filter_map(Weak::upgrade) {
            ear.feed().wake();
        }
    }
}

/// A listen; `None` when the server is to be asked, as only it can tell of a resource.
pub(super) fn open(link: &Arc<Link>, view: &Arc<View>, call: &Call) -> Option<Exchange> {
    let listens = link.kept.as_ref()?.cache.listens.clone();
    let wanted = call.message.member("notifications")?;
    let of_resources = wanted.member("resourceSubscriptions").is_some_and(|uris| uris.as_bytes() != b"[]");
    let known = view.slot().snapshot();
    // A legacy server is asked for resources in another way, and says so when it is discovered.
    if of_resources && known.as_ref().is_none_or(|known| known.era() == Era::Modern) {
        return None;
    }
    let id = call.message.id().map_or_else(|| Raw::from_static("null"), Id::to_raw);
    let meta = compose::object(&[(SUBSCRIPTION_KEY, &id)]);
    // Heard from now on, whatever it takes to know the server.
    let ear = Arc::new(Ear::new(Feed::default()));
    view.slot().tell(&ear);
    listens.add(&ear);
    if let Some(known) = known {
        return Some(listening(ear, listens, meta, &wanted, &known));
    }
    let (link, view) = (link.clone(), view.clone());
    Some(Exchange::deferred(async move {
        match link.known(&view).await {
            Ok(known) => listening(ear, listens, meta, &wanted, &known),
            Err(end) => Exchange::ready(end),
        }
    }))
}

fn listening(ear: Arc<Ear>, listens: Arc<Listens>, meta: Raw, wanted: &Raw, known: &Snapshot) -> Exchange {
    let is_wanted = |flag: &str| wanted.member(flag).is_some_and(|value| value.as_bytes() == b"true");
    let granted: Vec<_> = CHANGES
        .into_iter()
        .filter(|(flag, capability, _)| is_wanted(flag) && known.declares(capability, Some("listChanged")))
        .collect();
    let told = granted.iter().fold(Object::new(), |told, (flag, ..)| told.flag(flag, true)).finish();
    let params = compose::object(&[("notifications", &told), ("_meta", &meta)]);
    let said = VecDeque::from([Note::new(Text::from_static(ACKNOWLEDGED), Some(params))]);
    let (lists, remote) = (granted.into_iter().map(|(.., list)| list).collect(), Remote::new());
    Exchange::new(Listening { ear, listens, lists, meta, said, remote: remote.clone() }, remote)
}

struct Listening {
    /// Held, so that it is told.
    ear: Arc<Ear>,
    listens: Arc<Listens>,
    lists: Vec<List>,
    /// What each notification carries, so that the client knows which listen it belongs to.
    meta: Raw,
    said: VecDeque<Note>,
    remote: Remote,
}

impl Driver for Listening {
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        while let Some(command) = self.remote.take() {
            if let Command::Cancel(_) = command {
                return Poll::Ready(Step::End(End::ours(Outcome::Cancelled)));
            }
        }
        loop {
            if let Some(note) = self.said.pop_front() {
                return Poll::Ready(Step::Note(note));
            }
            let item = match self.ear.feed().poll_next(cx) {
                Poll::Ready(item) => item,
                Poll::Pending if self.listens.is_over.load(Ordering::Acquire) => {
                    let result = compose::object(&[("_meta", &self.meta)]);
                    return Poll::Ready(Step::End(End::ours(Outcome::Result(result))));
                }
                Poll::Pending => return Poll::Pending,
            };
            let FeedItem::Note(note) = item else { continue };
            if List::of_change(&note.method).is_some_and(|list| self.lists.contains(&list)) {
                let params = compose::object(&[("_meta", &self.meta)]);
                self.said.push_back(Note::new(note.method, Some(params)));
            }
        }
    }
}
