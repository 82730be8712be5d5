//! What time it is, and who has to be told when something is due.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lb_exchange::Tasks;
use lb_session::Moment;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::live::Live;

/// What the clock shows when it starts: sessions that come back have moments before that.
const HEAD_START: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The clock of one gateway.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Starts now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// This moment.
    pub fn now(self) -> Moment {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment { up: HEAD_START + self.0.elapsed(), unix }
    }

    /// A deadline as timers take it.
    pub fn at(self, up: Duration) -> Instant {
        self.0 + up.saturating_sub(HEAD_START)
    }
}

/// One queue for all sessions: none has a timer of its own.
pub struct Schedule {
    clock: Clock,
    queue: Mutex<Queue>,
    changed: Notify,
}

#[derive(Default)]
struct Queue {
    due: BTreeMap<(Duration, u64), Weak<Live>>,
    /// When each session is due, to find its place.
    places: HashMap<u64, Duration>,
}

impl Schedule {
    /// Nobody is due.
    pub fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self { clock, queue: Mutex::default(), changed: Notify::new() })
    }

    /// A session is due at this time, or no more.
    pub fn set(&self, session: u64, live: &Weak<Live>, at: Option<Duration>) {
        let first = {
            let mut queue = self.queue.lock();
            if let Some(old) = queue.places.remove(&session) {
                queue.due.remove(&(old, session));
            }
            if let Some(at) = at {
                queue.places.insert(session, at);
                queue.due.insert((at, session), live.clone());
            }
            queue.due.first_key_value().is_some_and(|((_, first), _)| *first == session)
        };
        if first {
            self.changed.notify_one();
        }
    }

    /// Ticks sessions when they are due, until told to stop.
    pub async fn run(self: Arc<Self>, tasks: Tasks) {
        loop {
            let next = self.tick();
            tokio::select! {
                () = tasks.stopping() => return,
                () = self.changed.notified() => {}
                () = sleep_until(next.map(|up| self.clock.at(up))) => {}
            }
        }
    }

    /// Ticks who is due, and says when the next one is.
    fn tick(&self) -> Option<Duration> {
        loop {
            let now = self.clock.now();
            let live = {
                let mut queue = self.queue.lock();
                let next = queue.due.first_key_value().map(|((at, _), _)| *at)?;
                if now.up < next {
                    return Some(next);
                }
                let ((_, session), live) = queue.due.pop_first()?;
                queue.places.remove(&session);
                live
            };
            if let Some(live) = live.upgrade() {
                live.cell().with(|session| session.tick(now));
            }
        }
    }
}

/// Sleeps until then; for ever without a time.
pub async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
