//! How fast a server is read that says more than anybody can hear.
//!
//! What the pipe or the socket holds back slows the server down. Without that, one that speaks without pause would take
//! the processors from the calls of all others.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// Messages that are counted together.
const ROUND: u32 = 128;
/// What a round of them takes where they come without pause: 32,000 in a second.
const ROUND_TIME: Duration = Duration::from_millis(4);
/// What a server that was quiet has saved up: 4,096 messages.
const SAVED_MAX: Duration = Duration::from_millis(128);

/// Counts the messages of one connection.
#[derive(Debug, Default)]
pub struct Pace {
    count: u32,
    /// When the rounds so far would be over at the pace above.
    due: Option<Instant>,
    /// Until when nothing should be read.
    rest: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    /// One message more was read.
    pub fn step(&mut self) {
        self.count += 1;
        if self.count < ROUND {
            return;
        }
        self.count = 0;
        let now = Instant::now();
        let saved = now.checked_sub(SAVED_MAX).unwrap_or(now);
        let due = self.due.map_or(saved, |due| due.max(saved)) + ROUND_TIME;
        self.due = Some(due);
        self.rest = (now < due).then(|| Box::pin(tokio::time::sleep_until(due)));
    }

    /// Whether the next message may be read.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(rest) = &mut self.rest {
            ready!(rest.as_mut().poll(cx));
            self.rest = None;
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// Reads this many messages, each of which comes after `gap`; how long it rested.
    async fn read(messages: u32, gap: Duration) -> Duration {
        let (mut pace, mut rested) = (Pace::default(), Duration::ZERO);
        for _ in 0..messages {
            tokio::time::advance(gap).await;
            pace.step();
            let before = Instant::now();
            poll_fn(|cx| pace.poll_ready(cx)).await;
            rested += before.elapsed();
        }
        rested
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_slowed_down_to_its_pace() {
        let rested = read(32_000 + 4_096, Duration::ZERO).await;
        assert!((990..=1_010).contains(&rested.as_millis()), "{rested:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_and_a_steady_stream_are_not_slowed_down() {
        assert_eq!(read(4_096, Duration::ZERO).await, Duration::ZERO);
        assert_eq!(read(100_000, Duration::from_micros(32)).await, Duration::ZERO);
    }
}
