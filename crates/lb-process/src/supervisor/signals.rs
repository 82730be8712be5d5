//! Signals of the supervisor: none ends it, and the end of a child rings a bell.
//!
//! Handlers rather than "ignore", because a program inherits what is ignored and gets the default where there was a
//! handler. That also undoes what those who started us had ignored.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
    ptr,
    sync::atomic::{AtomicI32, Ordering},
};

/// Where `ring` writes. Set once, before the handler is installed.
static BELL: AtomicI32 = AtomicI32::new(-1);

/// Faults of our own code keep their default, or what the language's runtime made of it.
const FAULTS: &[libc::c_int] =
    &[libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGTRAP, libc::SIGSYS];

/// Highest signal number of the systems we run on; numbers that a system lacks are refused without effect.
const LAST: libc::c_int = 64;

/// Takes every signal that can be taken. The answer becomes readable each time a child has ended.
pub(super) fn install() -> io::Result<OwnedFd> {
    let (heard, bell) = rustix::pipe::pipe()?;
    for end in [&heard, &bell] {
        rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)?;
        rustix::fs::fcntl_setfl(end, rustix::fs::OFlags::NONBLOCK)?;
    }
    BELL.store(bell.as_raw_fd(), Ordering::Relaxed);
    // The handler uses it as long as the process lives.
    std::mem::forget(bell);
    for signal in (1..=LAST).filter(|signal| !FAULTS.contains(signal)) {
        let handler = if signal == libc::SIGCHLD { ring } else { ignore };
        handle(signal, handler);
    }
    Ok(heard)
}

fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    #[expect(unsafe_code, reason = "signal handlers")]
    // SAFETY: all zeroes is a valid `sigaction` (the default action, an empty mask and no flags), and the pointers are
    // to live memory or null where null is allowed. Both handlers do only what a handler may. Signals that cannot be
    // handled are refused by the system without effect.
    unsafe {
        let action = action.assume_init_mut();
        action.sa_sigaction = handler as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, action, ptr::null_mut())
    };
}

extern "C" fn ignore(_: libc::c_int) {}

extern "C" fn ring(_: libc::c_int) {
    #[expect(unsafe_code, reason = "a descriptor known by number")]
    // SAFETY: set before this handler was installed, and never closed. A write is allowed in a handler; it does not
    // wait, and when the pipe is full the bell is already ringing.
    let bell = unsafe { BorrowedFd::borrow_raw(BELL.load(Ordering::Relaxed)) };
    rustix::io::write(bell, &[0]).ok();
}
