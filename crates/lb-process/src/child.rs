//! A running program, seen from our side.

mod start;
mod watch;

use std::{fmt, sync::Weak, time::Duration};

use parking_lot::Mutex;
use tokio::{
    net::{UnixStream, unix::pipe},
    sync::watch as channel,
    time::Instant,
};
use tracing::warn;

use crate::{Command, Exit, SpawnError, StderrRing};
use watch::{Schedule, State};

/// Our end of a program's standard input. `try_write` writes what fits without waiting.
pub type ChildStdin = pipe::Sender;

/// Our end of a program's standard output.
pub type ChildStdout = pipe::Receiver;

/// How long a program may take to end before the next, harder step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    /// From the end of its input to SIGTERM.
    pub close: Duration,
    /// From SIGTERM to SIGKILL.
    pub terminate: Duration,
}

impl Grace {
    /// SIGKILL at once.
    pub const NONE: Self = Self { close: Duration::ZERO, terminate: Duration::ZERO };
}

impl Default for Grace {
    fn default() -> Self {
        Self { close: Duration::from_secs(2), terminate: Duration::from_secs(3) }
    }
}

/// A program that was started.
///
/// Dropping it kills the program and all that descends from it, at once.
pub struct Child {
    pid: u32,
    /// Held by the watch task until all of the program is gone, and closed then.
    control: Weak<UnixStream>,
    /// Ours until someone takes them.
    pipes: Mutex<Option<(ChildStdin, ChildStdout)>>,
    stderr: StderrRing,
    state: channel::Receiver<State>,
    schedule: channel::Sender<Option<Schedule>>,
}

impl Child {
    /// Starts a program and waits until it runs or is known not to: one to two milliseconds, without blocking.
    ///
    /// Must be called within a Tokio runtime that has IO and time enabled. Cancel safe: yes, what was started by then
    /// is killed.
    ///
    /// # Errors
    /// When the program cannot be started; see [`SpawnError::hint`].
    pub async fn spawn(command: &Command) -> Result<Self, SpawnError> {
        start::spawn(command).await
    }

    /// The program's standard input and output; once.
    pub fn take_pipes(&self) -> Option<(ChildStdin, ChildStdout)> {
        self.pipes.lock().take()
    }

    /// What the program writes to its standard error, from the first byte.
    #[must_use]
    pub fn stderr(&self) -> StderrRing {
        self.stderr.clone()
    }

    /// The program's process id, which is also that of its process group.
    ///
    /// For display: once the program has ended, the number may be another's.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// How the program ended, if it has.
    #[must_use]
    pub fn exit(&self) -> Option<Exit> {
        self.state.borrow().exit()
    }

    /// Waits until the program has ended. All that it wrote to its standard error is in the ring by then.
    ///
    /// Does not wait for what the program left behind; that is killed a moment later. Cancel safe: yes.
    pub async fn wait(&self) -> Exit {
        let mut state = self.state.clone();
        // The sender is gone only when the runtime is shutting down.
        state.wait_for(|state| state.exit().is_some()).await.ok().and_then(|state| state.exit()).unwrap_or_default()
    }

    /// Ends the program: closes its input (and output) if nobody took them, waits, SIGTERM to its group, waits, SIGKILL
    /// to all that is left. Returns when all of it is gone.
    ///
    /// Many may call it, again and again; the earliest times asked for hold. Cancel safe: yes, the program is ended all
    /// the same.
    pub async fn stop(&self, grace: Grace) -> Exit {
        drop(self.pipes.lock().take());
        let asked = Schedule::new(Instant::now(), grace);
        self.schedule.send_modify(|schedule| {
            *schedule = Some(schedule.map_or(asked, |earlier| earlier.earliest(asked)));
        });
        let mut state = self.state.clone();
        let gone = async move { state.wait_for(State::is_gone).await.ok().and_then(|state| state.exit()) };
        match tokio::time::timeout_at(asked.kill_at + Self::KILL_MAX, gone).await {
            Ok(exit) => exit.unwrap_or_default(),
            Err(_) => {
                warn!(pid = self.pid, "process does not die of SIGKILL; its supervisor goes on trying");
                self.exit().unwrap_or_default()
            }
        }
    }

    /// How long the kernel may take to end a process after SIGKILL. Longer means that it hangs in a device or a file
    /// system, where nothing reaches it.
    const KILL_MAX: Duration = Duration::from_secs(5);
}

impl Drop for Child {
    fn drop(&mut self) {
        // The watch task holds the socket too and need not run any more, so closing our handle would not do.
        // Fails only when the supervisor is already gone.
        if let Some(control) = self.control.upgrade() {
            rustix::net::shutdown(&*control, rustix::net::Shutdown::Write).ok();
        }
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("pid", &self.pid).field("state", &*self.state.borrow()).finish_non_exhaustive()
    }
}
