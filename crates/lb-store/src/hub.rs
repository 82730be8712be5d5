//! Who in this process hears what is published. Carries nothing between processes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::settings::within;
use crate::{Error, Key};

/// The largest message.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// What waits for a subscriber at most. When it is full, what comes is dropped and told as [`Notice::Missed`].
const WAITING_MAX: usize = 1_024;
const WAITING_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What a subscriber hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// What was published.
    Message(Bytes),
    /// Something may have been published here that was not heard: the subscriber was slow, or the connection broke.
    /// Comes when hearing has begun again, so that looking now finds what was missed.
    Missed,
}

/// What is published on one channel, in the order of the store. Dropping it ends it.
#[derive(Debug)]
pub struct Subscription {
    queue: Arc<Queue>,
    hub: Weak<Hub>,
    channel: Key,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    bell: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    notices: VecDeque<Notice>,
    bytes: usize,
    closed: bool,
}

/// What is called with a channel that nobody hears any more.
type OnSilence = Box<dyn Fn(&Key) + Send + Sync>;

/// The subscriptions of one store.
pub(crate) struct Hub {
    channels: Mutex<HashMap<Key, Vec<Arc<Queue>>>>,
    on_silence: OnSilence,
}

impl Subscription {
    /// What comes next; `None` when the store is gone.
    ///
    /// Cancel safe: yes, nothing is lost.
    pub async fn next(&mut self) -> Option<Notice> {
        loop {
            {
                let mut waiting = self.queue.waiting.lock();
                if let Some(notice) = waiting.notices.pop_front() {
                    if let Notice::Message(message) = &notice {
                        waiting.bytes = waiting.bytes.saturating_sub(message.len());
                    }
                    return Some(notice);
                }
                if waiting.closed {
                    return None;
                }
            }
            self.queue.bell.notified().await;
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(hub) = self.hub.upgrade() {
            hub.leave(&self.channel, &self.queue);
        }
    }
}

impl Queue {
    fn push(&self, notice: Notice) {
        let mut waiting = self.waiting.lock();
        let bytes = if let Notice::Message(message) = &notice { message.len() } else { 0 };
        let full = WAITING_MAX <= waiting.notices.len() || WAITING_BYTES_MAX < waiting.bytes + bytes;
        let notice = if full { Notice::Missed } else { notice };
        // One gap is told once.
        if notice == Notice::Missed && waiting.notices.back() == Some(&Notice::Missed) {
            return;
        }
        waiting.bytes += if full { 0 } else { bytes };
        waiting.notices.push_back(notice);
        drop(waiting);
        self.bell.notify_one();
    }
}

impl Hub {
    pub(crate) fn new() -> Arc<Self> {
        Self::with(Box::new(|_| ()))
    }

    pub(crate) fn with(on_silence: OnSilence) -> Arc<Self> {
        Arc::new(Self { channels: Mutex::default(), on_silence })
    }

    /// A subscription that hears what is delivered from now on.
    pub(crate) fn subscribe(self: &Arc<Self>, channel: &Key) -> Subscription {
        let queue = Arc::new(Queue::default());
        self.channels.lock().entry(channel.clone()).or_default().push(queue.clone());
        Subscription { queue, hub: Arc::downgrade(self), channel: channel.clone() }
    }

    /// Tells everyone in this process, which is all there are where no other has the store.
    pub(crate) fn publish(&self, channel: &Key, message: Bytes) -> Result<(), Error> {
        within(message.len(), MESSAGE_BYTES_MAX)?;
        self.deliver(channel, &Notice::Message(message));
        Ok(())
    }

    pub(crate) fn deliver(&self, channel: &Key, notice: &Notice) {
        // Under the lock, so that all subscribers hear the same order.
        for queue in self.channels.lock().get(channel).into_iter().flatten() {
            queue.push(notice.clone());
        }
    }

    /// Whether somebody hears a channel.
    pub(crate) fn hears(&self, channel: &Key) -> bool {
        self.channels.lock().contains_key(channel)
    }

    fn leave(&self, channel: &Key, queue: &Arc<Queue>) {
        let mut channels = self.channels.lock();
        let Some(queues) = channels.get_mut(channel) else { return };
        queues.retain(|other| !Arc::ptr_eq(other, queue));
        if queues.is_empty() {
            channels.remove(channel);
            drop(channels);
            (self.on_silence)(channel);
        }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        for queue in self.channels.get_mut().values().flatten() {
            queue.waiting.lock().closed = true;
            queue.bell.notify_one();
        }
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("channels", &self.channels.lock().len()).finish()
    }
}
