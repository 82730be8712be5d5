//! Idle connections to one server, newest first, each kept for a while.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::conn::Conn;
use super::reply::Rest;

/// Idle connections that are kept; beyond, the oldest is closed.
const IDLE_MAX: usize = 64;
/// How long an unused connection is kept when the server does not say.
pub const IDLE_FOR: Duration = Duration::from_secs(60);

/// The idle connections of one endpoint.
#[derive(Default)]
pub struct Pool(Mutex<State>);

#[derive(Default)]
struct State {
    /// Oldest first.
    idle: Vec<Idle>,
    /// Whether somebody will close what is left unused.
    swept: bool,
    /// Whether anything was put back since the last sweep.
    used: bool,
}

struct Idle {
    conn: Box<Conn>,
    /// What the server has yet to say of a response that nobody reads any more: usually only that it ends.
    rest: Option<Rest>,
    until: Instant,
}

impl Pool {
    /// The connection used last, if one is idle. It may have been closed by the server meanwhile.
    pub fn take(&self) -> Option<Box<Conn>> {
        let now = Instant::now();
        let mut state = self.0.lock();
        let mut at = state.idle.len();
        while 0 < at {
            at -= 1;
            let Some(idle) = state.idle.get_mut(at) else { continue };
            let ended = match &mut idle.rest {
                None => Some(true),
                Some(rest) => rest.ended(&mut idle.conn),
            };
            let usable = ended == Some(true) && now < idle.until;
            if ended.is_none() && now < idle.until {
                continue;
            }
            let idle = state.idle.remove(at);
            if usable {
                return Some(idle.conn);
            }
        }
        None
    }

    /// Keeps a connection; true when the caller is to start the sweep.
    #[must_use]
    pub fn put(&self, conn: Box<Conn>, rest: Option<Rest>, for_time: Duration) -> bool {
        let mut state = self.0.lock();
        if IDLE_MAX <= state.idle.len() {
            state.idle.remove(0);
        }
        state.idle.push(Idle { conn, rest, until: Instant::now() + for_time });
        state.used = true;
        !std::mem::replace(&mut state.swept, true)
    }

    /// Closes what was left unused for too long. False when the pool was not used since the last sweep and is empty:
    /// the sweep is over until the next connection is put back.
    pub fn sweep(&self) -> bool {
        let now = Instant::now();
        let mut state = self.0.lock();
        state.idle.retain(|idle| now < idle.until);
        let used = std::mem::replace(&mut state.used, false);
        state.swept = used || !state.idle.is_empty();
        state.swept
    }

    /// Closes everything idle.
    pub fn clear(&self) {
        let idle = std::mem::take(&mut self.0.lock().idle);
        drop(idle);
    }
}
