//! Room for children, and which of them makes room when there is none.

use std::sync::{Arc, Weak};
use std::time::Duration;

use lb_exchange::Tasks;
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
    /// Those that may be ended while they are idle; as many as there are permits, and what has not been cleared away.
    known: Mutex<Vec<Weak<Connection>>>,
}

impl Children {
    /// Room for so many.
    pub fn new(max: usize) -> Self {
        Self(Arc::new(All { max, room: Arc::new(Semaphore::new(max)), known: Mutex::default() }))
    }

    /// Room for one more, made by ending the one that has been idle for longest.
    ///
    /// Cancel safe: yes; a child that is being ended still ends.
    pub async fn room(&self, tasks: &Tasks) -> Result<OwnedSemaphorePermit, ConnectError> {
        let room = &self.0.room;
        if let Ok(permit) = room.clone().try_acquire_owned() {
            return Ok(permit);
        }
        let full = ConnectError::TooManyChildren(self.0.max);
        let Some(idle) = self.retire() else { return Err(full) };
        tasks.spawn(async move { idle.close().await });
        match tokio::time::timeout(ENDING_MAX, room.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(full),
        }
    }

    /// Counts a connection among those that may be ended while they are idle.
    pub fn add(&self, connection: &Arc<Connection>) {
        let mut known = self.0.known.lock();
        known.retain(|connection| connection.strong_count() != 0);
        known.push(Arc::downgrade(connection));
    }

    /// Retires the connection that has been idle for longest: nothing can be sent on it any more.
    fn retire(&self) -> Option<Arc<Connection>> {
        let mut known: Vec<_> = self.0.known.lock().iter().filter_map(Weak::upgrade).collect();
        known.sort_by_cached_key(|connection| connection.used_at());
        known.into_iter().find(|connection| connection.retire())
    }
}
