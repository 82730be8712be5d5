//! The time a caller waits, which stands still while the client itself has a question to answer.

use tokio::time::Instant;

/// When a call becomes a task.
#[derive(Debug)]
pub(super) struct Deadline {
    at: Instant,
    paused: Option<Instant>,
}

impl Deadline {
    pub(super) fn new(at: Instant) -> Self {
        Self { at, paused: None }
    }

    /// When it is due; never, while it stands still.
    pub(super) fn due(&self) -> Option<Instant> {
        self.paused.is_none().then_some(self.at)
    }

    pub(super) fn pause(&mut self) {
        self.paused.get_or_insert_with(Instant::now);
    }

    pub(super) fn resume(&mut self) {
        if let Some(since) = self.paused.take() {
            self.at += since.elapsed();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_with_the_client_does_not_count() {
        let start = Instant::now();
        let mut deadline = Deadline::new(start + Duration::from_secs(10));
        tokio::time::advance(Duration::from_secs(4)).await;
        deadline.pause();
        assert_eq!(deadline.due(), None);
        tokio::time::advance(Duration::from_secs(60)).await;
        // A second question changes nothing.
        deadline.pause();
        deadline.resume();
        assert_eq!(deadline.due(), Some(start + Duration::from_secs(70)));
        deadline.resume();
        assert_eq!(deadline.due(), Some(start + Duration::from_secs(70)));
    }
}
