//! How many logins are under way in all: counted in the store, so that several nodes count together.
//!
//! One count for each minute in which logins began. It goes down when they end, and is forgotten when they would be
//! over anyway.

use std::time::{Duration, SystemTime};

use lb_store::{Applied, Batch, Error, Key, Outcome, Store};

use super::transaction::LIFE;
use crate::token::seconds;

/// How many may be: whoever comes from ever other addresses must not fill the store.
pub(super) const LOGINS_MAX: i64 = 10_000;
const WINDOW: Duration = Duration::from_secs(60);
/// Longer than what is counted in it, by the store's clock too.
const COUNTED_FOR: Duration = Duration::from_secs(LIFE.as_secs() + 3 * WINDOW.as_secs());

/// Whether one more may begin.
pub(super) async fn is_left(store: &dyn Store, now: SystemTime) -> Result<bool, Error> {
    let last = seconds(now) / WINDOW.as_secs();
    let first = last.saturating_sub(LIFE.as_secs() / WINDOW.as_secs());
    let mut batch = Batch::new();
    for window in first..=last {
        batch = batch.add(&key(window)?, 0, COUNTED_FOR);
    }
    let Applied::Done(counts) = store.apply(batch).await? else {
        return Err(Error::WrongShape("a count has no condition"));
    };
    // What ended twice, or after its count, is no room for others.
    let count = |outcome: &Outcome| if let Outcome::Count(count) = outcome { (*count).max(0) } else { 0 };
    Ok(counts.iter().map(count).sum::<i64>() < LOGINS_MAX)
}

/// One that lasts until then has begun, or is over. Worth no failure: a count that is wrong is soon forgotten.
pub(super) async fn count(store: &dyn Store, until: u64, by: i64) {
    let window = until.saturating_sub(LIFE.as_secs()) / WINDOW.as_secs();
    let counted = match key(window) {
        Ok(key) => store.add(&key, by, COUNTED_FOR).await,
        Err(error) => Err(error),
    };
    if let Err(error) = counted {
        tracing::debug!(%error, "a login is not counted");
    }
}

/// All of them lie together, so that they are counted in one step.
fn key(window: u64) -> Result<Key, Error> {
    Key::parse(&format!("logins:{{under-way}}:{window}"))
}
