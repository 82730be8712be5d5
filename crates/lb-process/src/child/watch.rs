//! The task beside each program: hears its supervisor, keeps its last words, and ends it step by step when asked.

use std::sync::Arc;

use rustix::process::{Pid, Signal};
use tokio::{
    io::AsyncReadExt,
    net::{UnixStream, unix::pipe},
    process,
    sync::watch as channel,
    time::Instant,
};
use tracing::{debug, warn};

use super::Grace;
use crate::{
    Exit, StderrRing,
    control::{Order, Report},
    stderr::StderrLog,
    tree,
};

/// Bytes of standard error read at a time.
const READ_BYTES: usize = 4096;

/// Reads of [`READ_BYTES`] when the program has ended, at most. A full pipe is 16 of them; more can only come from a
/// process that the program left behind, and must not keep us.
const DRAIN_READS_MAX: usize = 64;

/// How far a program has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Running,
    /// The program has ended; what it started may still be there.
    Exited(Exit),
    /// Nothing is left of it.
    Gone(Exit),
}

impl State {
    pub(super) fn exit(self) -> Option<Exit> {
        match self {
            Self::Running => None,
            Self::Exited(exit) | Self::Gone(exit) => Some(exit),
        }
    }

    pub(super) fn is_gone(&self) -> bool {
        matches!(self, Self::Gone(_))
    }
}

/// When a program that was asked to stop gets which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    pub(super) terminate_at: Instant,
    pub(super) kill_at: Instant,
}

impl Schedule {
    pub(super) fn new(now: Instant, grace: Grace) -> Self {
        let terminate_at = now + grace.close;
        Self { terminate_at, kill_at: terminate_at + grace.terminate }
    }

    #[must_use]
    pub(super) fn earliest(self, other: Self) -> Self {
        Self { terminate_at: self.terminate_at.min(other.terminate_at), kill_at: self.kill_at.min(other.kill_at) }
    }

    /// The next order and its time, after `last`.
    fn next(self, last: Option<Order>) -> Option<(Order, Instant)> {
        match last {
            None if self.terminate_at < self.kill_at => Some((Order::Terminate, self.terminate_at)),
            None | Some(Order::Terminate) => Some((Order::Kill, self.kill_at)),
            Some(Order::Kill) => None,
        }
    }
}

/// What a supervisor reports, read from its socket.
pub(super) struct Reports {
    control: Arc<UnixStream>,
    partial: Vec<u8>,
}

impl Reports {
    pub(super) fn new(control: Arc<UnixStream>) -> Self {
        Self { control, partial: Vec::with_capacity(Report::BYTES) }
    }

    /// The next report, or `None` once the supervisor is gone or talks nonsense. Cancel safe: yes.
    pub(super) async fn next(&mut self) -> Option<Report> {
        loop {
            if let Ok(whole) = <[u8; Report::BYTES]>::try_from(self.partial.as_slice()) {
                self.partial.clear();
                return Report::parse(whole);
            }
            self.control.readable().await.ok()?;
            let mut missing = [0; Report::BYTES];
            let missing = missing.get_mut(self.partial.len()..)?;
            match self.control.try_read(missing) {
                Ok(0) => return None,
                Ok(read) => self.partial.extend(missing.iter().take(read)),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
    }
}

/// All that the task needs.
pub(super) struct Watch {
    pub(super) reports: Reports,
    pub(super) control: Arc<UnixStream>,
    /// The supervisor's process id.
    pub(super) supervisor: Option<u32>,
    /// Until it is closed.
    pub(super) stderr: Option<pipe::Receiver>,
    pub(super) ring: StderrRing,
    pub(super) log: StderrLog,
    pub(super) state: channel::Sender<State>,
    /// Until the [`super::Child`] is dropped, which by itself ends the supervisor.
    pub(super) schedule: Option<channel::Receiver<Option<Schedule>>>,
}

impl Watch {
    /// Ends when the supervisor has, and with it all that it watched over.
    pub(super) async fn run(mut self, supervisor: &mut process::Child) {
        self.listen().await;
        self.drain();
        self.log.end();
        if self.state.borrow().exit().is_none() {
            self.end_abandoned();
        }
        match supervisor.wait().await {
            Ok(status) => debug!(%status, "supervisor ended"),
            Err(error) => warn!(%error, "cannot wait for a supervisor"),
        }
        self.state.send_modify(|state| *state = State::Gone(state.exit().unwrap_or_default()));
    }

    /// Returns when the supervisor closes its socket.
    async fn listen(&mut self) {
        let mut buffer = vec![0; READ_BYTES];
        let mut last = None;
        loop {
            let schedule = self.schedule.as_ref().and_then(|schedule| *schedule.borrow());
            let next = schedule.and_then(|schedule| schedule.next(last));
            tokio::select! {
                report = self.reports.next() => match report {
                    Some(report) => self.reported(report),
                    None => return,
                },
                read = read_some(&mut self.stderr, &mut buffer) => self.heard(buffer.get(..read).unwrap_or_default()),
                open = changed(&mut self.schedule) => if !open { self.schedule = None },
                order = due(next) => {
                    self.order(order);
                    last = Some(order);
                }
            }
        }
    }

    fn reported(&mut self, report: Report) {
        let exit = match report {
            Report::Exited(code) => Exit::with_code(code),
            Report::Signalled(signal) => Exit::by_signal(signal),
            // Only the first report can be one of these.
            Report::Started(_) | Report::NoFolder(_) | Report::NoProgram(_) => return,
        };
        // First its last words, then the news: who hears of the end finds the reason in the ring.
        self.drain();
        self.state.send_replace(State::Exited(exit));
    }

    fn heard(&mut self, read: &[u8]) {
        if read.is_empty() {
            self.stderr = None;
            self.log.end();
        }
        self.ring.push(read);
        self.log.push(read);
    }

    fn drain(&mut self) {
        let Self { stderr, ring, log, .. } = self;
        if let Some(stderr) = stderr {
            drain(stderr, |read| {
                ring.push(read);
                log.push(read);
            });
        }
    }

    fn order(&self, order: Order) {
        // One byte into an empty socket: it fails only when the supervisor is gone.
        if let Err(error) = rustix::io::write(&*self.control, &[order.byte()]) {
            debug!(%error, ?order, "order not delivered");
        }
    }

    /// The supervisor was killed before its program. The kernel has killed the program; here goes the rest, as far as
    /// it stayed in the supervisor's session. Its number is still taken, because nobody has waited for it yet.
    fn end_abandoned(&self) {
        let Some(session) = self.supervisor.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) else { return };
        let left = tree::session_members(session);
        warn!(supervisor = session.as_raw_pid(), left = left.len(), "supervisor was killed");
        for pid in left {
            // Fails when it is gone already.
            rustix::process::kill_process(pid, Signal::KILL).ok();
        }
    }
}

/// Moves what is in the pipe into the ring, without waiting.
///
/// Reads past the runtime, which may not have noticed yet that there is something to read.
pub(super) fn drain(stderr: &pipe::Receiver, mut take: impl FnMut(&[u8])) {
    let mut buffer = [0; READ_BYTES];
    for _ in 0..DRAIN_READS_MAX {
        match rustix::io::read(stderr, &mut buffer) {
            Ok(read) if 0 < read => take(buffer.get(..read).unwrap_or_default()),
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) | Err(_) => return,
        }
    }
}

/// Bytes read; 0 at the end of the stream, never returns after it.
async fn read_some(stderr: &mut Option<pipe::Receiver>, buffer: &mut [u8]) -> usize {
    match stderr {
        Some(stderr) => stderr.read(buffer).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

/// Whether the schedule can still change; never returns once it cannot.
async fn changed(schedule: &mut Option<channel::Receiver<Option<Schedule>>>) -> bool {
    match schedule {
        Some(schedule) => schedule.changed().await.is_ok(),
        None => std::future::pending().await,
    }
}

/// The order, when its time has come.
async fn due(next: Option<(Order, Instant)>) -> Order {
    match next {
        Some((order, at)) => {
            tokio::time::sleep_until(at).await;
            order
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn orders_come_in_turn_and_the_earliest_times_hold() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let usual = Schedule::new(now, Grace::default());
        assert_eq!(usual.next(None), Some((Order::Terminate, now + 2 * second)));
        assert_eq!(usual.next(Some(Order::Terminate)), Some((Order::Kill, now + 5 * second)));
        assert_eq!(usual.next(Some(Order::Kill)), None);

        let hurried = usual.earliest(Schedule::new(now + second, Grace::NONE));
        assert_eq!(hurried.next(None), Some((Order::Kill, now + second)));
        let relaxed = usual.earliest(Schedule::new(now + second, Grace::default()));
        assert_eq!(relaxed, usual);
    }
}
