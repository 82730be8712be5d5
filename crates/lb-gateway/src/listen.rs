//! What a legacy client hears that no request of it asked for: its session's feed as an exchange.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use lb_exchange::{AskKey, Command, Driver, End, Exchange, Feed, FeedItem, Outcome, Remote, Step};
use parking_lot::Mutex;

use crate::link::Link;

/// The listening side of one session. At most one listen is held at a time.
pub struct Ear {
    feed: Feed,
    /// Counts listens: an older one ends when a newer one starts.
    turn: Arc<AtomicU64>,
    /// Who waits for the answer to an ask that was heard. Outlives the listen that heard it.
    asks: Arc<Mutex<HashMap<AskKey, Remote>>>,
    /// Who sees to it that a list that changed is known before the client is told.
    keeper: Option<Weak<Link>>,
}

impl Ear {
    /// Hears this feed.
    pub fn new(feed: Feed) -> Self {
        Self { feed, turn: Arc::default(), asks: Arc::default(), keeper: None }
    }

    /// Hears this feed, and of changed lists when what this link keeps of them is another.
    pub fn of(feed: Feed, link: &Arc<Link>) -> Arc<Self> {
        let kept = link.kept.as_ref();
        let keeper = kept.map(|_| Arc::downgrade(link));
        let ear = Arc::new(Self { keeper, ..Self::new(feed) });
        if let Some(kept) = kept {
            kept.main().slot().tell(&ear);
        }
        ear
    }

    /// Whether a client listens now.
    pub fn is_open(&self) -> bool {
        self.feed.is_heard()
    }

    /// The feed.
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// A new listen, which ends the one before.
    pub fn listen(&self) -> Exchange {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) + 1;
        self.feed.listen();
        let asks = self.asks.clone();
        let remote = Remote::sink(move |command| match command {
            Command::Answer(key, answer) => {
                let waiting = asks.lock().remove(&key);
                waiting.is_some_and(|remote| remote.answer(key, answer))
            }
            Command::Cancel(_) | Command::Back | Command::Away | Command::Alone => false,
        });
        let (feed, asks, keeper) = (self.feed.clone(), self.asks.clone(), self.keeper.clone());
        let heard = Heard { feed, asks, now: self.turn.clone(), turn, keeper };
        Exchange::new(heard, remote)
    }

    /// Ends the listen and refuses what waits for an answer.
    pub fn close(&self) {
        self.turn.fetch_add(1, Ordering::Relaxed);
        self.asks.lock().clear();
        self.feed.wake();
    }
}

struct Heard {
    feed: Feed,
    asks: Arc<Mutex<HashMap<AskKey, Remote>>>,
    now: Arc<AtomicU64>,
    turn: u64,
    keeper: Option<Weak<Link>>,
}

impl Driver for Heard {
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        loop {
            if self.now.load(Ordering::Relaxed) != self.turn {
                return Poll::Ready(Step::End(End::ours(Outcome::Cancelled)));
            }
            let step = match std::task::ready!(self.feed.poll_next(cx)) {
                FeedItem::Changed(..) if self.keeper.is_some() => {
                    if let Some(link) = self.keeper.as_ref().and_then(Weak::upgrade) {
                        link.changed();
                    }
                    continue;
                }
                FeedItem::Changed(_, note)
                | FeedItem::Updated(_, note)
                | FeedItem::Log(note)
                | FeedItem::Note(note) => Step::Note(note),
                FeedItem::Ask(ask, remote) => {
                    self.asks.lock().insert(ask.key.clone(), remote);
                    Step::Ask(ask)
                }
                FeedItem::Withdraw(key) => {
                    self.asks.lock().remove(&key);
                    Step::Withdraw { key }
                }
                FeedItem::Up(_) | FeedItem::Down(..) | FeedItem::Output(..) => continue,
            };
            return Poll::Ready(step);
        }
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        self.feed.unlisten();
    }
}
