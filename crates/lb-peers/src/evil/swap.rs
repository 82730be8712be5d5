//! The meeting of two concurrent strikes of swapped-ids.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long a strike waits for a second one.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// Where a strike leaves its id for the next one to take.
#[derive(Debug, Default)]
pub struct Swap(Mutex<Option<Waiting>>);

#[derive(Debug)]
struct Waiting {
    id: String,
    partner: oneshot::Sender<String>,
}

impl Swap {
    /// The id to answer with: that of a concurrent strike, or after 500 ms its own.
    ///
    /// Cancel safe: yes; a strike that has gone away is skipped.
    pub async fn exchange(&self, id: String) -> String {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(first) = waiting
            && first.partner.send(id.clone()).is_ok()
        {
            return first.id;
        }
        let (partner, second) = oneshot::channel();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Waiting { id: id.clone(), partner });
        match timeout(WAIT_MAX, second).await {
            Ok(Ok(other)) => other,
            Ok(Err(_)) | Err(_) => id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn two_strikes_swap_and_a_third_keeps_its_own_id() {
        let swap = Swap::default();
        let ids = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let both = tokio::join!(swap.exchange("1".to_owned()), swap.exchange("2".to_owned()));
        assert_eq!(both, ids("2", "1"));
        assert_eq!(swap.exchange("3".to_owned()).await, "3");
        let later = tokio::join!(swap.exchange("4".to_owned()), swap.exchange("5".to_owned()));
        assert_eq!(later, ids("5", "4"));
    }
}
