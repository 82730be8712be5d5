//! Being woken at a time, without a word to the timer for every call.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};

/// Alarms kept for calls to come; more calls than this at once make their own.
const SPARE_MAX: usize = 256;

/// One sleep that is set again only when it must fire earlier, or has fired.
pub(crate) struct Alarm(Pin<Box<Sleep>>);

impl Alarm {
    pub(crate) fn new(due: Instant) -> Self {
        Self(Box::pin(tokio::time::sleep_until(due)))
    }

    /// Ready when `due` has come; otherwise the task is woken then, or somewhat earlier.
    pub(crate) fn poll(&mut self, due: Instant, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if due < self.0.deadline() {
                self.0.as_mut().reset(due);
            }
            std::task::ready!(self.0.as_mut().poll(cx));
            if due <= self.0.deadline() {
                return Poll::Ready(());
            }
            // It was set for something that has moved since.
            self.0.as_mut().reset(due);
        }
    }
}

/// Alarms of calls that ended before theirs went off.
///
/// They stay set. The next call is due a little later than the last one, so that it takes one over as it is, and the
/// timer, which wakes a thread for every new sleep, hears of one call in hundreds. What an alarm then does too early is
/// to wake a task for nothing.
#[derive(Default)]
pub(crate) struct Alarms(Mutex<Vec<Alarm>>);

impl Alarms {
    /// An alarm for a call that is due then at the earliest.
    pub(crate) fn take(&self, due: Instant) -> Alarm {
        let spare = self.0.lock().pop();
        spare.unwrap_or_else(|| Alarm::new(due))
    }

    /// Keeps an alarm for another call.
    pub(crate) fn put_back(&self, alarm: Alarm) {
        let mut spare = self.0.lock();
        if spare.len() < SPARE_MAX {
            spare.push(alarm);
        }
    }
}

/// Far enough away to mean never, near enough for every clock.
pub(crate) fn far(now: Instant) -> Instant {
    now + Duration::from_secs(86_400 * 365)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    async fn waits(alarm: &mut Alarm, due: Instant) -> Duration {
        let begun = Instant::now();
        std::future::poll_fn(|cx| alarm.poll(due, cx)).await;
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn an_alarm_taken_over_goes_off_for_its_new_owner_and_no_earlier() {
        // Set by a call before: earlier than wanted, later than wanted, and gone off already.
        for (set, passed) in [(100, 0), (900, 0), (100, 200)] {
            let alarms = Alarms::default();
            let now = Instant::now();
            let mut first = alarms.take(now + set * MS);
            assert!(futures_util::poll!(std::pin::pin!(waits(&mut first, now + set * MS))).is_pending());
            alarms.put_back(first);
            tokio::time::advance(passed * MS).await;

            let due = Instant::now() + 500 * MS;
            let mut second = alarms.take(due);
            assert!(alarms.0.lock().is_empty(), "it was taken over");
            let waited = waits(&mut second, due).await;
            assert!((500 * MS..510 * MS).contains(&waited), "{waited:?} with one set for {set}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_the_bound_are_kept() {
        let alarms = Alarms::default();
        let due = Instant::now() + MS;
        for _ in 0..=SPARE_MAX {
            alarms.put_back(Alarm::new(due));
        }
        assert_eq!(alarms.0.lock().len(), SPARE_MAX);
    }
}
