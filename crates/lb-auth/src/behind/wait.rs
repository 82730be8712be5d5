//! Waiting for a person.

use std::time::Duration;

use super::pending::{self, LIFE};
use super::{Behind, Inner};

/// How often is looked whether a login ended on another node.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How a login ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Somebody logged in.
    Done,
    /// It came to nothing, and why.
    Failed(String),
    /// Nobody came, or there is no such login.
    Over,
}

impl Behind {
    /// Waits until a login ended: at once when it ends here, a moment later when it ends on another node, and no longer
    /// than a person has. Cancel safe: yes.
    pub async fn wait(&self, id: &str) -> Ended {
        self.0.ended_of(id).await
    }
}

impl Inner {
    /// Waits until a login ended.
    pub(super) async fn ended_of(&self, id: &str) -> Ended {
        let mut ended = self.ended.subscribe();
        let waited = tokio::time::timeout(LIFE, async {
            loop {
                if let Some(end) = self.has_ended(id).await {
                    return end;
                }
                tokio::select! {
                    // Cannot fail while we hold the sender.
                    _ = ended.changed() => {}
                    () = tokio::time::sleep(LOOK_EVERY) => {}
                }
            }
        });
        waited.await.unwrap_or(Ended::Over)
    }

    /// How a login ended. A store that is away is no end.
    async fn has_ended(&self, id: &str) -> Option<Ended> {
        if let Some(ended) = self.end_of(id).await {
            return Some(ended);
        }
        match pending::find(&*self.store, id, self.now().await).await {
            // It may have ended between both looks.
            Ok(None) => Some(self.end_of(id).await.unwrap_or(Ended::Over)),
            Ok(Some(_)) | Err(_) => None,
        }
    }

    async fn end_of(&self, id: &str) -> Option<Ended> {
        let end = pending::ended(&*self.store, id).await.ok()??;
        if let Some(entry) = self.known_user(&end.whose) {
            entry.go_stale();
        }
        Some(end.why.map_or(Ended::Done, Ended::Failed))
    }
}
