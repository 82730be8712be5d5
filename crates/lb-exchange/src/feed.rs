//! What a backend connection says that belongs to no request.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use lb_wire::Text;
use parking_lot::Mutex;

use crate::exchange::Remote;
use crate::step::{Ask, AskKey, Note};

/// The lists of a server that can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the lists explain themselves")]
pub enum List {
    Tools,
    Prompts,
    Resources,
}

impl List {
    /// From the method of a `list_changed` notification.
    pub fn of_change(method: &str) -> Option<Self> {
        match method {
            "notifications/tools/list_changed" => Some(Self::Tools),
            "notifications/prompts/list_changed" => Some(Self::Prompts),
            "notifications/resources/list_changed" => Some(Self::Resources),
            _ => None,
        }
    }
}

/// One thing a connection said out of the blue.
#[derive(Clone, Debug)]
pub enum FeedItem {
    /// A list changed.
    Changed(List, Note),
    /// A resource changed.
    Updated(Text, Note),
    /// A log line.
    Log(Note),
    /// Any other notification.
    Note(Note),
    /// A line that its process wrote, and is no message.
    Output(Output, Text),
    /// A request of the server that belongs to no call; answered through the remote.
    Ask(Ask, Remote),
    /// An ask that was in the feed is no longer needed.
    Withdraw(AskKey),
    /// The connection is usable; counts connections.
    Up(u64),
    /// The connection is gone.
    Down(u64, Text),
}

/// Where a process wrote a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the streams explain themselves")]
pub enum Output {
    Stdout,
    Stderr,
}

/// A bounded queue in wire order with one reader. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Feed(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    items: VecDeque<FeedItem>,
    pushed: u64,
    taken: u64,
    logs: usize,
    asks: usize,
    updated: usize,
    notes: usize,
    /// What all that may be dropped weighs.
    bytes: usize,
    dropped: u64,
    waker: Option<Waker>,
    listeners: usize,
    /// Whether it is that of a session, see [`Feed::of_session`].
    session: bool,
}

impl Feed {
    /// Open asks in one feed; more are refused to the server.
    pub const ASKS_MAX: usize = 100;
    /// Distinct resources remembered as updated.
    pub const UPDATED_MAX: usize = 1000;
    /// Log lines and other notes kept; the oldest is dropped and counted.
    pub const NOTES_MAX: usize = 256;
    /// Log lines kept for a session, which has room for many.
    pub const SESSION_LOGS_MAX: usize = 1000;
    /// Bytes of all that may be dropped.
    pub const BYTES_MAX: usize = 16 << 20;

    /// The feed of a session that takes all a server says, also what its process writes beside its messages, and that
    /// can do without an idle process for a while.
    pub fn of_session() -> Self {
        let feed = Self::default();
        feed.0.lock().session = true;
        feed
    }

    /// Adds an item and gives its mark.
    ///
    /// # Errors
    /// Too many asks are open: the item comes back, and the server is to be refused.
    pub fn push(&self, item: FeedItem) -> Result<u64, Box<FeedItem>> {
        let waker = {
            let mut state = self.0.lock();
            if let FeedItem::Ask(..) = &item
                && Self::ASKS_MAX <= state.asks
            {
                return Err(Box::new(item));
            }
            if !state.add(item) {
                return Ok(state.pushed);
            }
            state.pushed += 1;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(self.mark())
    }

    /// How many items have been pushed so far: what an end carries.
    pub fn mark(&self) -> u64 {
        self.0.lock().pushed
    }

    /// Whether items up to this mark have been taken.
    pub fn is_taken(&self, mark: u64) -> bool {
        mark <= self.0.lock().taken
    }

    /// Takes everything that waits.
    pub fn drain(&self) -> Vec<FeedItem> {
        let mut state = self.0.lock();
        state.taken = state.pushed;
        (state.logs, state.asks, state.updated, state.notes, state.bytes) = (0, 0, 0, 0, 0);
        state.items.drain(..).collect()
    }

    /// Takes the oldest item, or waits for one.
    pub fn poll_next(&self, cx: &mut Context<'_>) -> Poll<FeedItem> {
        let mut state = self.0.lock();
        match state.items.pop_front() {
            Some(item) => {
                state.count(&item, false);
                if state.items.is_empty() {
                    state.taken = state.pushed;
                }
                Poll::Ready(item)
            }
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Waits until something is there to be taken.
    ///
    /// Cancel safe: yes.
    pub async fn ready(&self) {
        std::future::poll_fn(|cx| {
            let mut state = self.0.lock();
            if !state.items.is_empty() {
                return Poll::Ready(());
            }
            state.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Wakes whoever waits for an item, to look at something else.
    pub fn wake(&self) {
        let waker = self.0.lock().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Notes that somebody takes from this feed on behalf of a client that can answer.
    pub fn listen(&self) {
        self.0.lock().listeners += 1;
    }

    /// Takes one [`Feed::listen`] back.
    pub fn unlisten(&self) {
        let mut state = self.0.lock();
        state.listeners = state.listeners.saturating_sub(1);
    }

    /// Whether a client that can answer hears this feed now.
    pub fn is_heard(&self) -> bool {
        self.0.lock().listeners != 0
    }

    /// Whether an idle process may be ended although this is heard.
    pub fn can_spare(&self) -> bool {
        let state = self.0.lock();
        state.listeners == 0 || state.session
    }

    /// How many items were dropped because nobody took them in time.
    pub fn dropped(&self) -> u64 {
        self.0.lock().dropped
    }
}

impl State {
    /// False when there is nothing to add.
    fn add(&mut self, item: FeedItem) -> bool {
        match &item {
            // A change that waits already says it all; the newest keeps its place in the order.
            FeedItem::Changed(list, _) => {
                self.items.retain(|old| !matches!(old, FeedItem::Changed(l, _) if l == list));
                self.weigh();
            }
            FeedItem::Updated(uri, _) => self.replace_update(uri),
            FeedItem::Output(..) if !self.session => return false,
            FeedItem::Log(_) | FeedItem::Output(..) if self.logs_max() <= self.logs => {
                self.drop_oldest(|old| matches!(old, FeedItem::Log(_) | FeedItem::Output(..)));
            }
            FeedItem::Note(_) if Feed::NOTES_MAX <= self.notes => {
                self.drop_oldest(|old| matches!(old, FeedItem::Note(_)));
            }
            FeedItem::Up(_) | FeedItem::Down(..) => {
                self.items.retain(|old| !matches!(old, FeedItem::Up(_) | FeedItem::Down(..)));
            }
            FeedItem::Withdraw(key) if !self.withdraw(key) => return false,
            FeedItem::Log(_) | FeedItem::Output(..) | FeedItem::Note(_) | FeedItem::Ask(..) | FeedItem::Withdraw(_) => {
            }
        }
        self.count(&item, true);
        self.items.push_back(item);
        while Feed::BYTES_MAX < self.bytes && 1 < self.items.len() {
            let before = self.items.len();
            self.drop_oldest(|old| weight(old).is_some());
            if self.items.len() == before {
                break;
            }
        }
        true
    }

    fn logs_max(&self) -> usize {
        if self.session { Feed::SESSION_LOGS_MAX } else { Feed::NOTES_MAX }
    }

    /// Whether whoever reads has to hear of a withdrawal. With as many waiting as asks can be open, an ask that still waits
    /// goes without a word, and one that does not is nobody's.
    fn withdraw(&mut self, key: &AskKey) -> bool {
        let is_withdrawal = |item: &&FeedItem| matches!(item, FeedItem::Withdraw(_));
        if self.items.iter().filter(is_withdrawal).count() < Feed::ASKS_MAX {
            return true;
        }
        let waits = |item: &FeedItem| matches!(item, FeedItem::Ask(ask, _) if ask.key == *key);
        if let Some(item) = self.items.iter().position(waits).and_then(|at| self.items.remove(at)) {
            self.count(&item, false);
            if self.items.is_empty() {
                self.taken = self.pushed;
            }
        }
        false
    }

    fn replace_update(&mut self, uri: &Text) {
        let before = self.items.len();
        self.items.retain(|old| !matches!(old, FeedItem::Updated(u, _) if u == uri));
        self.updated -= before - self.items.len();
        self.weigh();
        if Feed::UPDATED_MAX <= self.updated {
            self.drop_oldest(|old| matches!(old, FeedItem::Updated(..)));
        }
    }

    /// Weighs what is left after some of it was taken out.
    fn weigh(&mut self) {
        self.bytes = self.items.iter().filter_map(weight).sum();
    }

    fn drop_oldest(&mut self, which: impl Fn(&FeedItem) -> bool) {
        if let Some(item) = self.items.iter().position(which).and_then(|at| self.items.remove(at)) {
            self.count(&item, false);
            self.dropped += 1;
        }
    }

    fn count(&mut self, item: &FeedItem, added: bool) {
        let bytes = weight(item).unwrap_or(0);
        self.bytes = if added { self.bytes + bytes } else { self.bytes.saturating_sub(bytes) };
        let counter = match item {
            FeedItem::Log(_) | FeedItem::Output(..) => &mut self.logs,
            FeedItem::Ask(..) => &mut self.asks,
            FeedItem::Updated(..) => &mut self.updated,
            FeedItem::Note(_) => &mut self.notes,
            FeedItem::Changed(..) | FeedItem::Withdraw(_) | FeedItem::Up(_) | FeedItem::Down(..) => return,
        };
        *counter = if added { *counter + 1 } else { counter.saturating_sub(1) };
    }
}

/// What an item weighs that may be dropped; `None` for those that may not.
fn weight(item: &FeedItem) -> Option<usize> {
    match item {
        FeedItem::Changed(_, note) | FeedItem::Updated(_, note) | FeedItem::Log(note) | FeedItem::Note(note) => {
            Some(note.weight())
        }
        FeedItem::Output(_, text) => Some(text.len()),
        FeedItem::Ask(..) | FeedItem::Withdraw(_) | FeedItem::Up(_) | FeedItem::Down(..) => None,
    }
}

#[cfg(test)]
mod tests;
