//! Waiting for a program, its orders and its orphans, and ending them all.

use std::{
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group},
};

use crate::{
    Exit,
    control::{Order, Report},
    tree,
};

/// Time for what outlives the program to end by itself.
const LINGER: Duration = Duration::from_millis(200);

/// Pause between two rounds of killing when no child reports its end.
const ROUND: Duration = Duration::from_millis(10);

/// Rounds in a row in which nobody was found to kill although children are left: the system does not show them to us.
const BLIND_ROUNDS_MAX: u32 = 200;

/// Watches over one program.
pub(super) struct Keeper {
    control: OwnedFd,
    bell: OwnedFd,
    program: Pid,
    exit: Option<Exit>,
}

/// What ended a wait.
enum Event {
    /// A child ended, or the time is up.
    Woken,
    Ordered(Order),
    /// The other side of the socket is closed.
    Alone,
}

impl Keeper {
    /// `bell` is readable after a child has ended.
    pub(super) fn new(program: Pid, control: OwnedFd, bell: OwnedFd) -> Self {
        Self { control, bell, program, exit: None }
    }

    /// Reports the start and the end of the program, and returns when nothing is left of it.
    pub(super) fn run(mut self) -> Exit {
        self.report(Report::Started(self.program.as_raw_pid()));
        self.watch();
        self.exit.unwrap_or(Exit::UNKNOWN)
    }

    /// Returns when no child is left.
    fn watch(&mut self) {
        let mut until = None;
        while self.reap() {
            if self.exit.is_some() {
                let until = *until.get_or_insert_with(|| Instant::now() + LINGER);
                if until <= Instant::now() {
                    return self.end_all();
                }
            }
            match self.event(until) {
                Event::Woken => {}
                Event::Ordered(Order::Terminate) => self.terminate(),
                Event::Ordered(Order::Kill) | Event::Alone => return self.end_all(),
            }
        }
    }

    /// Waits for children that have ended and says whether any are left.
    fn reap(&mut self) -> bool {
        self.end_group_of_dead_program();
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.program => {
                    let exit = Exit { code: status.exit_status(), signal: status.terminating_signal() };
                    self.exit = Some(exit);
                    self.report(exit.into());
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Where orphans do not come to us, the group is all we can reach, and its number is surely ours only until the
    /// program has been waited for.
    fn end_group_of_dead_program(&self) {
        if cfg!(target_os = "linux") || self.exit.is_some() {
            return;
        }
        let looking = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if let Ok(Some(_)) = rustix::process::waitid(WaitId::Pid(self.program), looking) {
            self.signal_group(Signal::KILL);
        }
    }

    fn terminate(&self) {
        // After the program's end its number may be another's; the rest has little time left anyway.
        if self.exit.is_none() {
            self.signal_group(Signal::TERM);
            // A stopped process would only see it when it goes on.
            self.signal_group(Signal::CONT);
        }
    }

    fn signal_group(&self, signal: Signal) {
        // Fails when the group is already empty, which is what we want.
        kill_process_group(self.program, signal).ok();
    }

    /// Kills until no child is left. What a killed child leaves behind becomes our child, and the next round's.
    fn end_all(&mut self) {
        if self.exit.is_none() {
            self.signal_group(Signal::KILL);
        }
        let mut blind = 0;
        while self.reap() {
            let children = tree::own_children().unwrap_or_default();
            blind = if children.is_empty() { blind + 1 } else { 0 };
            if BLIND_ROUNDS_MAX < blind {
                return;
            }
            children.into_iter().for_each(kill_with_group);
            self.wait_for_bell(Some(ROUND), false);
        }
    }

    fn event(&self, until: Option<Instant>) -> Event {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if !self.wait_for_bell(left, true) {
            return Event::Woken;
        }
        let mut orders = [0; 16];
        match rustix::io::read(&self.control, &mut orders) {
            Ok(0) => Event::Alone,
            Ok(read) => {
                let mut orders = orders.iter().take(read).filter_map(|byte| Order::parse(*byte));
                // The last of several is the strongest: nobody asks to terminate after asking to kill.
                orders.next_back().map_or(Event::Woken, Event::Ordered)
            }
            Err(Errno::INTR | Errno::AGAIN) => Event::Woken,
            // A reset is how some systems say that the other side closed before reading all we reported.
            Err(_) => Event::Alone,
        }
    }

    /// Sleeps until a child ends, the time is up or, if asked to listen, the socket has something; says whether it has.
    fn wait_for_bell(&self, left: Option<Duration>, listen: bool) -> bool {
        let mut fds =
            [PollFd::new(&self.bell, PollFlags::IN), PollFd::from_borrowed_fd(self.control.as_fd(), PollFlags::IN)];
        let left = left.map(|left| Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            // Up to the next millisecond, which is all some systems measure: never a busy wait for the remainder.
            tv_nsec: (left.subsec_nanos().min(998_999_999) + 1_000_000).into(),
        });
        let watched = if listen { &mut fds[..] } else { &mut fds[..1] };
        match poll(watched, left.as_ref()) {
            Ok(_) => {}
            // Interrupted by the very signal that rings the bell: look again at once.
            Err(_) => return false,
        }
        let [bell, control] = fds.map(|fd| !fd.revents().is_empty());
        if bell {
            // Any number of ends is one reason to look.
            rustix::io::read(&self.bell, &mut [0; 64]).ok();
        }
        control
    }

    fn report(&self, report: Report) {
        // Nobody listens any more if this fails; the closed socket will say so.
        rustix::io::write(&self.control, &report.encode()).ok();
    }
}

/// Kills a child of ours and its process group.
///
/// The group holds only descendants of ours: groups do not cross sessions, and the sessions below us began below us. At
/// once, because a group that forks as fast as we kill would escape one by one.
fn kill_with_group(child: Pid) {
    if let Ok(group) = rustix::process::getpgid(Some(child))
        && group != rustix::process::getpgrp()
    {
        kill_process_group(group, Signal::KILL).ok();
    }
    kill_process(child, Signal::KILL).ok();
}
