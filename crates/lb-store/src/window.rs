//! How often somebody did something in the present minute, counted by several processes together.
//!
//! Nobody waits for the store: each process counts for itself and is asked at once, and what it counted is added to a
//! shared count a moment later, which tells in turn what the others have counted. What comes within that moment, and the
//! first one in each process that did not know of the others, may be let through beyond the limit; while the store is
//! away, each process keeps to the limit by itself.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{SHA256, digest};
use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{Error, Key, Store};

/// How long counts gather before they are brought together.
const GATHER: Duration = Duration::from_millis(10);

/// How long a store is left alone that did not take them.
const RETRY_AFTER: Duration = Duration::from_millis(250);

/// How many are counted at most. Those who come then are let through: whoever calls has bounds of its own for strangers.
const COUNTED_MAX: usize = 65_536;

/// How many counts are brought together at once.
const AT_ONCE: usize = 16;

/// A limit on how often each of many may do something in each window of time.
pub struct Window {
    store: Arc<dyn Store>,
    name: Box<str>,
    limit: u64,
    length: Duration,
    clock: Box<dyn Fn() -> Duration + Send + Sync>,
    counts: Mutex<HashMap<Box<str>, Count>>,
    /// Rings when there is something to tell, and when the window is dropped.
    bell: Arc<Notify>,
}

/// Whether one more is within the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is, and was counted.
    Within,
    /// It is not; the next window begins after this time.
    Over(Duration),
}

/// What is known of one of them in one window.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    window: u64,
    /// Counted here.
    ours: u64,
    /// Of those, how many are in the shared count.
    told: u64,
    /// Counted by the others, when it was last asked for.
    others: u64,
}

impl Window {
    /// A limit of this many in each window of this length. `name` tells several of them apart.
    ///
    /// # Errors
    /// [`Error::WrongShape`] when the name cannot stand in a key, or a window has no length.
    pub fn new(store: Arc<dyn Store>, name: &str, limit: u64, length: Duration) -> Result<Self, Error> {
        let clock = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::with_clock(store, name, limit, length, Box::new(clock))
    }

    fn with_clock(
        store: Arc<dyn Store>,
        name: &str,
        limit: u64,
        length: Duration,
        clock: Box<dyn Fn() -> Duration + Send + Sync>,
    ) -> Result<Self, Error> {
        if length < Duration::from_millis(1) {
            return Err(Error::WrongShape("a window has at least 1 ms"));
        }
        let window =
            Self { store, name: name.into(), limit, length, clock, counts: Mutex::default(), bell: Arc::default() };
        window.key("", 0).map(|_| window)
    }

    /// Counts one more for somebody, if that is within the limit as far as is known here. Never waits.
    pub fn take(&self, who: &str) -> Taken {
        let (window, left) = self.now();
        let mut counts = self.counts.lock();
        if !counts.contains_key(who) {
            if COUNTED_MAX <= counts.len() {
                counts.retain(|_, count| count.window == window);
            }
            if COUNTED_MAX <= counts.len() {
                return Taken::Within;
            }
            counts.insert(who.into(), Count { window, ..Count::default() });
        }
        let Some(count) = counts.get_mut(who) else { return Taken::Within };
        if count.window != window {
            *count = Count { window, ..Count::default() };
        }
        if self.limit <= count.ours.saturating_add(count.others) {
            return Taken::Over(left);
        }
        count.ours += 1;
        drop(counts);
        self.bell.notify_one();
        Taken::Within
    }

    /// Brings the counts together until the window is dropped. Cancel safe: what was counted is told the next time.
    pub fn run(window: &Arc<Self>) -> impl Future<Output = ()> + Send + 'static {
        let (window, bell) = (Arc::downgrade(window), window.bell.clone());
        async move {
            loop {
                bell.notified().await;
                tokio::time::sleep(GATHER).await;
                let Some(window) = window.upgrade() else { return };
                if !window.reconcile().await {
                    drop(window);
                    tokio::time::sleep(RETRY_AFTER).await;
                    bell.notify_one();
                }
            }
        }
    }

    /// Adds what was counted here to the shared counts, and hears what the others have counted. False when the store
    /// did not take all of it.
    pub async fn reconcile(&self) -> bool {
        let untold = self.untold();
        let telling = untold.into_iter().map(|(who, count)| async move {
            let told = self.tell(&who, count).await;
            if let Err(error) = &told {
                tracing::debug!(%error, name = %self.name, "counts are brought together later");
            }
            told.is_ok()
        });
        let told = stream::iter(telling).buffer_unordered(AT_ONCE);
        told.fold(true, |all, one| std::future::ready(all && one)).await
    }

    /// Those of whom the store does not know everything. What is over is forgotten.
    fn untold(&self) -> Vec<(Box<str>, Count)> {
        let (window, _) = self.now();
        let mut counts = self.counts.lock();
        counts.retain(|_, count| count.window == window);
        let untold = counts.iter().filter(|(_, count)| count.told < count.ours);
        untold.map(|(who, count)| (who.clone(), *count)).collect()
    }

    async fn tell(&self, who: &str, counted: Count) -> Result<(), Error> {
        let key = self.key(who, counted.window)?;
        let more = i64::try_from(counted.ours - counted.told).unwrap_or(i64::MAX);
        // It outlives the windows of those whose clocks are late.
        let total = self.store.add(&key, more, self.length * 2 + Duration::from_secs(1)).await?;
        let mut counts = self.counts.lock();
        if let Some(count) = counts.get_mut(who).filter(|count| count.window == counted.window) {
            count.told = counted.ours;
            count.others = u64::try_from(total).unwrap_or(0).saturating_sub(counted.ours);
        }
        Ok(())
    }

    /// The number of the present window, the same in all processes whose clocks agree, and what is left of it.
    fn now(&self) -> (u64, Duration) {
        let (now, length) = ((self.clock)().as_millis(), self.length.as_millis().max(1));
        let left = length - now % length;
        (
            u64::try_from(now / length).unwrap_or(u64::MAX),
            Duration::from_millis(u64::try_from(left).unwrap_or(u64::MAX)),
        )
    }

    /// Who it is does not show in a key, and may be any text.
    fn key(&self, who: &str, window: u64) -> Result<Key, Error> {
        let mut hash = String::with_capacity(32);
        for byte in digest(&SHA256, who.as_bytes()).as_ref().iter().take(16) {
            // Writing to a text does not fail.
            write!(hash, "{byte:02x}").map_err(|_| Error::WrongShape("a key could not be written"))?;
        }
        Key::parse(&format!("window:{{{}:{hash}}}:{window}", self.name))
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.bell.notify_one();
    }
}

impl std::fmt::Debug for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counted = self.counts.lock().len();
        f.debug_struct("Window").field("name", &self.name).field("counted", &counted).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::Settings;

    const MINUTE: Duration = Duration::from_secs(60);

    /// Two processes with one store and one clock, in milliseconds.
    async fn two(limit: u64) -> ([Arc<Window>; 2], Arc<dyn Store>, Arc<AtomicU64>) {
        let store = crate::open(&Settings::parse("memory").unwrap()).await.unwrap();
        let clock = Arc::new(AtomicU64::new(1_000_000_020_000));
        let window = || {
            let clock = clock.clone();
            let clock = Box::new(move || Duration::from_millis(clock.load(Ordering::SeqCst)));
            Arc::new(Window::with_clock(store.clone(), "calls", limit, MINUTE, clock).unwrap())
        };
        ([window(), window()], store.clone(), clock.clone())
    }

    fn taken(window: &Window, who: &str, times: usize) -> usize {
        (0..times).filter(|_| window.take(who) == Taken::Within).count()
    }

    #[tokio::test]
    async fn one_process_keeps_to_the_limit_without_the_store_and_begins_anew_with_each_window() {
        let ([a, _], _, clock) = two(10).await;
        assert_eq!(taken(&a, "ann", 25), 10);
        assert_eq!(taken(&a, "bob", 3), 3, "each has a limit of its own");
        let Taken::Over(left) = a.take("ann") else { panic!("it is over") };
        assert!(!left.is_zero() && left <= MINUTE, "{left:?}");
        clock.fetch_add(u64::try_from(left.as_millis()).unwrap() - 1, Ordering::SeqCst);
        assert_ne!(a.take("ann"), Taken::Within);
        clock.fetch_add(1, Ordering::SeqCst);
        assert_eq!(taken(&a, "ann", 25), 10);
    }

    #[tokio::test]
    async fn several_processes_count_together() {
        let ([a, b], store, _) = two(10).await;
        assert_eq!((taken(&a, "ann", 4), taken(&b, "ann", 3)), (4, 3));
        for window in [&a, &b, &a] {
            // Somebody else's calls do not change what is known of this one.
            window.reconcile().await;
        }
        assert_eq!(taken(&b, "ann", 9), 3, "4 and 3 and 3");
        b.reconcile().await;
        // What it does not know of, it lets through; then it knows.
        assert_eq!(taken(&a, "ann", 1), 1);
        a.reconcile().await;
        assert_eq!(taken(&a, "ann", 9), 0);
        let key = a.key("ann", a.now().0).unwrap();
        assert_eq!(store.add(&key, 0, MINUTE).await.unwrap(), 11, "each is counted once");
        assert!(!key.as_str().contains("ann"));
    }

    #[tokio::test]
    async fn a_store_that_does_not_answer_holds_nobody_up_and_hears_of_it_later() {
        let ([a, b], store, _) = two(10).await;
        let count = a.key("ann", a.now().0).unwrap();
        // What lies under its key is no count.
        store.set(&count, "rubbish", MINUTE).await.unwrap();
        assert_eq!(taken(&a, "ann", 6), 6);
        a.reconcile().await;
        assert_eq!(taken(&a, "ann", 6), 4, "its own limit holds");
        store.delete(&count).await.unwrap();
        a.reconcile().await;
        b.take("ann");
        b.reconcile().await;
        assert_eq!(taken(&b, "ann", 6), 0, "all of it was told");
    }

    #[tokio::test(start_paused = true)]
    async fn counts_are_brought_together_by_themselves_until_the_window_is_dropped() {
        let ([a, b], _, _) = two(10).await;
        let running = (Window::run(&a), Window::run(&b));
        let both = async { tokio::join!(running.0, running.1) };
        let test = async {
            assert_eq!(taken(&a, "ann", 9), 9);
            tokio::time::sleep(GATHER * 2).await;
            b.take("ann");
            tokio::time::sleep(GATHER * 2).await;
            assert_eq!(taken(&b, "ann", 9), 0);
            drop((a, b));
        };
        let done = tokio::time::timeout(MINUTE, async { tokio::join!(both, test) }).await;
        assert!(done.is_ok(), "they go on without their window");
    }

    #[tokio::test]
    async fn those_who_come_when_it_is_full_are_let_through_and_what_is_over_is_forgotten() {
        let ([a, _], _, clock) = two(1).await;
        for n in 0..COUNTED_MAX + 5 {
            assert_eq!(a.take(&n.to_string()), Taken::Within);
        }
        assert_eq!(a.counts.lock().len(), COUNTED_MAX);
        clock.fetch_add(60_000, Ordering::SeqCst);
        a.take("new");
        assert_eq!(a.counts.lock().len(), 1);
    }

    #[tokio::test]
    async fn names_that_cannot_stand_in_a_key_are_refused() {
        let store = crate::open(&Settings::parse("memory").unwrap()).await.unwrap();
        for (name, length) in [("a b", MINUTE), ("}", MINUTE), ("calls", Duration::ZERO)] {
            assert!(matches!(Window::new(store.clone(), name, 1, length), Err(Error::WrongShape(_))), "{name}");
        }
        Window::new(store, "calls", 1, MINUTE).unwrap();
    }
}
