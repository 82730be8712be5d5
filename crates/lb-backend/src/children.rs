//! Room for children, and which of them makes room when there is none.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lb_exchange::{Principal, Tasks};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connect::Connection;
use crate::error::ConnectError;

/// How long a child may take to end that makes room for another.
const ENDING_MAX: Duration = Duration::from_secs(10);

/// All children of this process, whatever server and session they belong to.
#[derive(Clone)]
pub struct Children(Arc<All>);

struct All {
    max: usize,
    room: Arc<Semaphore>,
    /// How many of them one principal may have; `None` where there is one principal.
    share_max: Option<usize>,
    /// What principals have of that, as far as they have any.
    shares: Mutex<HashMap<Principal, Arc<Semaphore>>>,
    /// Those that may be ended while they are idle; as many as there are permits, and what has not been cleared away.
    known: Mutex<Vec<(Principal, Weak<Connection>)>>,
}

/// Room for one child, given back when it is dropped.
#[derive(Debug)]
pub struct Taken {
    _of_all: OwnedSemaphorePermit,
    _of_share: Option<OwnedSemaphorePermit>,
}

impl Children {
    /// Room for so many.
    pub fn new(max: usize) -> Self {
        Self::shared_out(max, None)
    }

    /// The same where each principal may have so many of them.
    pub fn shared_out(max: usize, share_max: Option<usize>) -> Self {
        let (shares, known) = Default::default();
        Self(Arc::new(All { max, room: Arc::new(Semaphore::new(max)), share_max, shares, known }))
    }

    /// Room for one more, made by ending the one that has been idle for longest: of the principal's own if those are too
    /// many, else of all.
    ///
    /// Cancel safe: yes; a child that is being ended still ends.
    pub async fn room(&self, who: &Principal, tasks: &Tasks) -> Result<Taken, ConnectError> {
        let of_share = match self.share(who) {
            Some((max, share)) => Some(self.take(share, max, Some(who), tasks).await?),
            None => None,
        };
        let of_all = self.take(self.0.room.clone(), self.0.max, None, tasks).await?;
        Ok(Taken { _of_all: of_all, _of_share: of_share })
    }

    async fn take(
        &self,
        room: Arc<Semaphore>,
        max: usize,
        whose: Option<&Principal>,
        tasks: &Tasks,
    ) -> Result<OwnedSemaphorePermit, ConnectError> {
        if let Ok(permit) = room.clone().try_acquire_owned() {
            return Ok(permit);
        }
        let full = ConnectError::TooManyChildren(max);
        let Some(idle) = self.retire(whose) else { return Err(full) };
        tasks.spawn(async move { idle.close().await });
        match tokio::time::timeout(ENDING_MAX, room.acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(full),
        }
    }

    /// What a principal may have, where that has an end.
    fn share(&self, who: &Principal) -> Option<(usize, Arc<Semaphore>)> {
        let max = self.0.share_max?;
        let mut shares = self.0.shares.lock();
        // Whoever has none and wants none is forgotten.
        shares.retain(|_, share| share.available_permits() < max || 1 < Arc::strong_count(share));
        let share = shares.entry(who.clone()).or_insert_with(|| Arc::new(Semaphore::new(max)));
        Some((max, share.clone()))
    }

    /// Counts a connection among those that may be ended while they are idle.
    pub fn add(&self, who: &Principal, connection: &Arc<Connection>) {
        let mut known = self.0.known.lock();
        known.retain(|(_, connection)| connection.strong_count() != 0);
        known.push((who.clone(), Arc::downgrade(connection)));
    }

    /// Retires the connection that has been idle for longest: nothing can be sent on it any more.
    fn retire(&self, whose: Option<&Principal>) -> Option<Arc<Connection>> {
        let is_theirs = |owner: &Principal| whose.is_none_or(|whose| whose == owner);
        let known = self.0.known.lock();
        let mut known: Vec<_> =
            known.iter().filter(|(owner, _)| is_theirs(owner)).filter_map(|(_, weak)| weak.upgrade()).collect();
        known.sort_by_cached_key(|connection| connection.used_at());
        known.into_iter().find(|connection| connection.retire())
    }
}
