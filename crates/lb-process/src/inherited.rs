//! Sockets that whoever started us has opened for us, by the protocol of systemd: `LISTEN_PID` names us, `LISTEN_FDS`
//! says how many there are, and the first is descriptor 3.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

/// The first descriptor that is handed over.
const FIRST: RawFd = 3;
/// More than anybody hands over; a larger number is a mistake.
const COUNT_MAX: RawFd = 64;

static TAKEN: AtomicBool = AtomicBool::new(false);

/// Takes the sockets over; nothing when there are none, or when they were taken before.
///
/// They are not handed on to the programs that we start.
///
/// # Errors
/// The variables promise descriptors that are not there.
pub fn inherited_sockets() -> io::Result<Vec<OwnedFd>> {
    let variable = |name| std::env::var(name).ok();
    let Some(count) = promised(variable("LISTEN_PID"), variable("LISTEN_FDS"), std::process::id()) else {
        return Ok(Vec::new());
    };
    if TAKEN.swap(true, Ordering::AcqRel) {
        return Ok(Vec::new());
    }
    (FIRST..FIRST + count.min(COUNT_MAX)).map(take).collect()
}

/// How many are meant for this process.
fn promised(pid: Option<String>, count: Option<String>, own: u32) -> Option<RawFd> {
    let meant = pid?.parse() == Ok(own);
    count?.parse().ok().filter(|count| meant && 0 < *count)
}

fn take(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: only a number is looked at here, and `fcntl` says whether it is open.
    #[expect(unsafe_code, reason = "the number of a descriptor comes from outside, as the protocol has it")]
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags == -1 {
        let text = format!("LISTEN_FDS promises descriptor {number}, which is not open");
        return Err(io::Error::new(io::ErrorKind::NotFound, text));
    }
    // SAFETY: the descriptor is open, was opened for this very process by whoever started it, and is taken once: the
    // caller has set `TAKEN`. Nothing else in this process knows of it.
    #[expect(unsafe_code, reason = "a descriptor that was handed over is a number until somebody owns it")]
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    debug_assert_eq!(socket.as_raw_fd(), number, "taken as it is");
    fcntl_setfd(&socket, fcntl_getfd(&socket)? | FdFlags::CLOEXEC)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_meant_for_this_process_counts() {
        for (pid, count, want) in [
            (Some("7"), Some("2"), Some(2)),
            (Some("8"), Some("2"), None),
            (Some("7"), Some("0"), None),
            (Some("7"), Some("-1"), None),
            (Some("7"), Some("x"), None),
            (Some("7"), None, None),
            (None, Some("1"), None),
            (Some(""), Some("1"), None),
        ] {
            let got = promised(pid.map(str::to_owned), count.map(str::to_owned), 7);
            assert_eq!(got, want, "LISTEN_PID={pid:?} LISTEN_FDS={count:?}");
        }
    }
}
