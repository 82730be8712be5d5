//! How many calls of clients one connection carries at a time, and how many wait for their turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lb_exchange::{End, ErrorBody, Outcome};
use lb_wire::revision::code;
use lb_wire::{Raw, compose};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Calls at a time.
pub const CALLS_MAX: usize = 64;
/// Calls at a time beyond these, where calls become tasks: a session may have a hundred of them, and all shall work.
const TASKS_MORE: usize = 64;
/// Calls that wait, first come first served, until their deadline; further ones are refused. They are two and a half for
/// each place: whoever comes last takes three and a half times as long as alone, where four times are promised.
pub const QUEUE_MAX: usize = CALLS_MAX * 5 / 2;
const _: () = assert!(CALLS_MAX + QUEUE_MAX < 4 * CALLS_MAX, "what is taken on takes at most four times as long");

/// The way of calls through one connection.
pub struct Lane {
    room: Arc<Semaphore>,
    /// How much room there is in all.
    size: AtomicUsize,
    waiting: Arc<AtomicUsize>,
}

/// What becomes of a call.
pub enum Turn {
    /// It goes now.
    Now(OwnedSemaphorePermit),
    /// It waits.
    Later(Waiting),
    /// Too many wait already.
    Never,
}

impl Lane {
    /// Nothing is under way.
    pub fn new() -> Self {
        Self { room: Arc::new(Semaphore::new(CALLS_MAX)), size: AtomicUsize::new(CALLS_MAX), waiting: Arc::default() }
    }

    /// Calls may become tasks here.
    pub fn widen(&self) {
        self.room.add_permits(TASKS_MORE);
        self.size.fetch_add(TASKS_MORE, Ordering::Relaxed);
    }

    /// Whether a call is under way, or waits.
    pub fn is_taken(&self) -> bool {
        self.room.available_permits() < self.size.load(Ordering::Relaxed) || 0 < self.waiting.load(Ordering::Relaxed)
    }

    /// The turn of a call that comes now. Those that wait go first.
    pub fn turn(&self) -> Turn {
        if let Ok(permit) = self.room.clone().try_acquire_owned() {
            return Turn::Now(permit);
        }
        if QUEUE_MAX <= self.waiting.fetch_add(1, Ordering::Relaxed) {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Turn::Never;
        }
        Turn::Later(Waiting { room: self.room.clone(), waiting: self.waiting.clone() })
    }
}

/// A place in the queue, given up when dropped.
pub struct Waiting {
    room: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
}

impl Waiting {
    /// Waits until it is this call's turn.
    ///
    /// Cancel safe: yes, the place is given up.
    pub async fn turn(self) -> Option<OwnedSemaphorePermit> {
        self.room.clone().acquire_owned().await.ok()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a call is told that finds so many waiting that it may not wait too.
pub fn refusal(server: &str, waiting: usize) -> End {
    let message = format!(
        "server {server:?}: too many calls run and {waiting} wait for it already; the call was not sent, try again later"
    );
    let data = compose::object(&[("reason", &Raw::string("overloaded")), ("retryAfterMs", &Raw::value(&1000))]);
    End::ours(Outcome::Error(ErrorBody::new(code::INTERNAL_ERROR, &message, Some(&data)).busy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_ready<F: Future>(turn: &mut std::pin::Pin<Box<F>>) -> bool {
        turn.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_ready()
    }

    #[tokio::test]
    async fn calls_beyond_the_bound_wait_in_order_and_beyond_the_queue_are_refused() {
        let lane = Lane::new();
        let mut running: Vec<_> = (0..CALLS_MAX).map(|_| lane.turn()).collect();
        assert!(running.iter().all(|turn| matches!(turn, Turn::Now(_))));
        let mut waiting: Vec<_> = (0..QUEUE_MAX).map(|_| lane.turn()).collect();
        assert!(waiting.iter().all(|turn| matches!(turn, Turn::Later(_))));
        assert!(matches!(lane.turn(), Turn::Never));
        let Some(Turn::Later(given_up)) = waiting.pop() else { panic!("it waits") };
        drop(given_up);
        assert!(matches!(lane.turn(), Turn::Later(_)), "a place that was given up is free");
        let Turn::Later(first) = waiting.remove(0) else { panic!("it waits") };
        let Turn::Later(second) = waiting.remove(0) else { panic!("it waits") };
        let (mut first, mut second) = (Box::pin(first.turn()), Box::pin(second.turn()));
        assert!(!is_ready(&mut first) && !is_ready(&mut second));
        running.pop();
        assert!(!is_ready(&mut second), "it came later");
        assert!(is_ready(&mut first));
    }
}
