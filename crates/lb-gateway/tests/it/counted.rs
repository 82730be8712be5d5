//! A store that counts what it is asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use lb_store::{Applied, Batch, Facts, Key, Pending, Scan, Store, Subscription};

/// A store in memory, and how often anybody wanted something of it that is not about the nodes themselves.
#[derive(Debug)]
pub struct Counted {
    inner: Arc<dyn Store>,
    asked: AtomicUsize,
}

impl Counted {
    /// An empty one.
    pub async fn new() -> Arc<Self> {
        let inner = lb_store::open(&lb_store::Settings::parse("memory").expect("a store")).await.expect("a store");
        Arc::new(Self { inner, asked: AtomicUsize::new(0) })
    }

    /// How often it was asked so far.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn count(&self, about: &impl std::fmt::Debug) {
        let about = format!("{about:?}");
        // A node renews its own lease, whatever its clients do.
        if about.contains("session:") || !about.contains("node") {
            self.asked.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Store for Counted {
    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Option<Bytes>> {
        self.count(key);
        self.inner.get(key)
    }

    fn apply(&self, batch: Batch) -> Pending<'_, Applied> {
        self.count(&batch);
        self.inner.apply(batch)
    }

    fn range<'a>(&'a self, key: &'a Key, after: u64, limit: usize) -> Pending<'a, Vec<(u64, Bytes)>> {
        self.count(key);
        self.inner.range(key, after, limit)
    }

    fn scan(&self, prefix: &str) -> Scan {
        self.count(&prefix);
        self.inner.scan(prefix)
    }

    fn publish<'a>(&'a self, channel: &'a Key, message: Bytes) -> Pending<'a, ()> {
        self.count(channel);
        self.inner.publish(channel, message)
    }

    fn subscribe<'a>(&'a self, channel: &'a Key) -> Pending<'a, Subscription> {
        self.count(channel);
        self.inner.subscribe(channel)
    }

    fn ping(&self) -> Pending<'_, ()> {
        self.inner.ping()
    }

    fn facts(&self) -> Facts {
        self.inner.facts()
    }
}
