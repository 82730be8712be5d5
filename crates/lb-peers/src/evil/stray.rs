//! Answers of wrong-stream that wait for somebody else's stream.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long an answer waits for another stream before it is lost.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Answers that may wait; the oldest is lost beyond that.
const STRAYS_MAX: usize = 1000;

/// Answers on the wrong way, by session.
#[derive(Debug, Default)]
pub struct Strays(Mutex<Vec<Stray>>);

/// One answer, and the way back to the stream it should have come on.
#[derive(Debug)]
pub struct Stray {
    session: String,
    /// The answer, as JSON text.
    pub answer: String,
    owner: oneshot::Sender<Option<String>>,
}

impl Stray {
    /// Tells the answer's own stream that it is gone, and gives it one of somebody else in return.
    pub fn delivered(self, in_return: Option<String>) {
        if self.owner.send(in_return).is_err() {
            eprintln!("evil: the stream of a stray answer is gone");
        }
    }
}

impl Strays {
    /// Takes an answer of this session that waits for another stream.
    pub fn take(&self, session: &str) -> Option<Stray> {
        let mut strays = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One whose stream has been given up is of no use: its time is over.
        strays.retain(|stray| !stray.owner.is_closed());
        let place = strays.iter().position(|stray| stray.session == session)?;
        Some(strays.remove(place))
    }

    /// Leaves an answer for another stream and waits until it was taken. Returns what came in return.
    pub async fn leave(&self, session: &str, answer: String) -> Option<String> {
        let (owner, taken) = oneshot::channel();
        {
            let mut strays = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if STRAYS_MAX <= strays.len() {
                strays.remove(0);
            }
            strays.push(Stray { session: session.to_owned(), answer, owner });
        }
        timeout(WAIT_MAX, taken).await.ok()?.ok()?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_taken_once_by_its_own_session_or_lost() {
        let strays = Strays::default();
        let (back, ()) = tokio::join!(strays.leave("a", "one".to_owned()), async {
            assert!(strays.take("b").is_none());
            let stray = strays.take("a").expect("an answer waits");
            assert_eq!(stray.answer, "one");
            stray.delivered(Some("two".to_owned()));
            assert!(strays.take("a").is_none());
        });
        assert_eq!(back.as_deref(), Some("two"));
        assert_eq!(strays.leave("a", "three".to_owned()).await, None);
        assert!(strays.take("a").is_none());
    }
}
