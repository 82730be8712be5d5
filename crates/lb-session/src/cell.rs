//! A session behind its lock, and those who wait for something to happen in it.
//!
//! Whatever a change leads to (effects, wake-ups, a new deadline) is collected under the lock and done after it.

mod watch;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use lb_exchange::Receipt;
use lb_wire::Text;

pub(crate) use self::watch::Watchers;
pub use self::watch::{TooManyWaiters, Watch};
use crate::effect::Effect;
use crate::events::Lease;
use crate::happening::Happening;
use crate::moment::Moment;
use crate::session::Session;
use crate::sync::{Mutex, MutexGuard};
use crate::ulid::Ulid;

/// One session that several may use at once.
pub struct Cell {
    state: Mutex<State>,
    /// The version of the deadline that the hook heard of last. Held while it is called, so that it hears them in order.
    heard: Mutex<u64>,
    hook: Box<dyn Fn(Option<Duration>) + Send + Sync>,
    unkept: Box<dyn Fn() + Send + Sync>,
}

struct State {
    session: Session,
    deadline: Option<Duration>,
    /// Counts the changes of `deadline`.
    version: u64,
}

impl Cell {
    /// A cell for a session. `deadline` is called whenever the time changes at which the session wants to be ticked,
    /// with no session lock held; it must not use the cell itself.
    pub fn new(session: Session, deadline: impl Fn(Option<Duration>) + Send + Sync + 'static) -> Arc<Self> {
        let cell = Self::keeping(session, deadline, || ());
        cell.begin();
        cell
    }

    /// The same for a session that is kept: `unkept` is called whenever there is something to write again, for the first
    /// time since [`Session::take_delta`], with no session lock held. Nothing is called before [`Cell::begin`] or the
    /// first use.
    pub fn keeping(
        session: Session,
        deadline: impl Fn(Option<Duration>) + Send + Sync + 'static,
        unkept: impl Fn() + Send + Sync + 'static,
    ) -> Arc<Self> {
        let state = Mutex::new(State { session, deadline: None, version: 0 });
        let (hook, unkept) = (Box::new(deadline), Box::new(unkept));
        Arc::new(Self { state, heard: Mutex::new(0), hook, unkept })
    }

    /// Lets the hooks hear of what a session has that was not new: it is not to wait for its first use. For when whoever
    /// they speak to can be found.
    pub fn begin(&self) {
        self.with(|_| ());
    }

    /// Works on the session. What that leads to is done before this returns, even when `act` panics.
    pub fn with<T>(&self, act: impl FnOnce(&mut Session) -> T) -> T {
        let mut held = Held { cell: self, state: Some(self.state.lock()) };
        let Some(state) = &mut held.state else { unreachable!("the lock is given up when `held` is dropped") };
        act(&mut state.session)
    }

    /// Adds an event and wakes those who wait.
    pub fn tell(&self, server: &Text, what: &Happening, now: Moment) -> Ulid {
        self.with(|session| session.tell(server, what, now))
    }

    /// A receipt for the response that carries the events of a lease.
    pub fn receipt(self: &Arc<Self>, lease: Lease) -> Receipt {
        let cell = self.clone();
        Receipt::new(move |safe| {
            cell.with(|session| {
                if safe {
                    session.events.commit(lease);
                } else {
                    session.events.roll_back(lease);
                    // Somebody else may want them.
                    session.changed = true;
                }
            });
        })
    }

    /// Waits for something to happen, with any number of others.
    pub fn watch(self: &Arc<Self>) -> Watch {
        let key = self.with(|session| session.watchers.enter());
        Watch::new(self.clone(), key)
    }

    /// Waits for events.
    ///
    /// # Errors
    /// As many as may do so already wait.
    pub fn watch_activity(self: &Arc<Self>) -> Result<Watch, TooManyWaiters> {
        let key = self.with(|session| session.watchers.enter_limited(session.limits.waiters_max))?;
        Ok(Watch::new(self.clone(), key))
    }

    fn hear(&self, version: u64, deadline: Option<Duration>) {
        let mut heard = self.heard.lock();
        // A later change may have been faster than this one.
        if *heard < version {
            *heard = version;
            (self.hook)(deadline);
        }
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cell")
    }
}

/// The lock, given up in the right way on every path.
struct Held<'a> {
    cell: &'a Cell,
    state: Option<MutexGuard<'a, State>>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let Some(mut state) = self.state.take() else { return };
        let after = state.collect();
        drop(state);
        after.effects.into_iter().for_each(Effect::run);
        after.wakers.into_iter().for_each(Waker::wake);
        if let Some((version, deadline)) = after.deadline {
            self.cell.hear(version, deadline);
        }
        if after.unkept {
            (self.cell.unkept)();
        }
    }
}

/// What is to be done once the lock is free.
struct After {
    effects: Vec<Effect>,
    wakers: Vec<Waker>,
    deadline: Option<(u64, Option<Duration>)>,
    unkept: bool,
}

impl State {
    fn collect(&mut self) -> After {
        let session = &mut self.session;
        let effects = std::mem::take(&mut session.effects);
        let changed = std::mem::take(&mut session.changed);
        let wakers = if changed { session.watchers.take_wakers() } else { Vec::new() };
        let due = session.next_deadline();
        let deadline = (due != self.deadline).then(|| {
            self.deadline = due;
            self.version += 1;
            (self.version, due)
        });
        After { effects, wakers, deadline, unkept: session.tell_unkept() }
    }
}
