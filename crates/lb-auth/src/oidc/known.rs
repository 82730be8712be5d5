//! What a provider said: asked for once by all who need it at the same time, and not again at once when that failed.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;

use super::LoginError;

/// How long a failure is told to everybody who asks.
const FAILED_FOR: Duration = Duration::from_secs(5);

type Asking<T> = BoxFuture<'static, Result<Arc<T>, LoginError>>;

/// One thing that a provider says.
pub(super) struct Known<T>(Mutex<State<T>>);

struct State<T> {
    said: Option<(SystemTime, Arc<T>)>,
    failed: Option<(SystemTime, LoginError)>,
    /// When it was last asked for.
    asked: Option<SystemTime>,
    asking: Option<WeakShared<Asking<T>>>,
}

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self(Mutex::new(State { said: None, failed: None, asked: None, asking: None }))
    }
}

impl<T: Send + Sync + 'static> Known<T> {
    /// What was said, not older than this, or asked for now. Cancel safe: others who wait go on.
    pub async fn get(
        &self,
        age_max: Duration,
        now: SystemTime,
        ask: impl FnOnce() -> Asking<T>,
    ) -> Result<Arc<T>, LoginError> {
        let asking = {
            let mut state = self.0.lock();
            if let Some((_, said)) = state.said.as_ref().filter(|(at, _)| is_within(*at, age_max, now)) {
                return Ok(said.clone());
            }
            if let Some((_, error)) = state.failed.as_ref().filter(|(at, _)| is_within(*at, FAILED_FOR, now)) {
                return Err(error.clone());
            }
            let under_way = state.asking.as_ref().and_then(WeakShared::upgrade);
            under_way.unwrap_or_else(|| {
                let asking: Shared<Asking<T>> = ask().shared();
                state.asking = asking.downgrade();
                state.asked = Some(now);
                asking
            })
        };
        let answer = asking.await;
        let mut state = self.0.lock();
        state.asking = None;
        match &answer {
            Ok(said) => (state.said, state.failed) = (Some((now, said.clone())), None),
            Err(error) => state.failed = Some((now, error.clone())),
        }
        answer
    }

    /// What was said last, if it was asked for within this time: nobody asks again so soon.
    pub fn since(&self, within: Duration, now: SystemTime) -> Option<Arc<T>> {
        let state = self.0.lock();
        let asked = state.asked.is_some_and(|at| is_within(at, within, now));
        state.said.as_ref().filter(|_| asked).map(|(_, said)| said.clone())
    }
}

fn is_within(at: SystemTime, age_max: Duration, now: SystemTime) -> bool {
    now.duration_since(at).is_ok_and(|age| age < age_max)
}
