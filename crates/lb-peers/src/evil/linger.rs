//! The processes that ignore-term leaves behind.

use std::io::{Error, ErrorKind, Result};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, setsid, test_kill_process_group};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};

/// After this even a process that ignores everything ends, so that a broken test leaves nothing for long.
pub const LIFE_MAX: Duration = Duration::from_secs(1000);

/// Makes SIGTERM do nothing, for the rest of the process's life.
///
/// # Errors
/// When the system refuses the handler.
pub fn ignore_term() -> Result<()> {
    // The handler stays installed when the listener is dropped.
    signal(SignalKind::terminate()).map(drop)
}

/// Starts a copy of this program that lingers in a session of its own, holding stdout and stderr open.
///
/// # Errors
/// When it cannot be started or does not get its session.
pub async fn start_copy() -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--linger").stdin(Stdio::null()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    // Only a copy that failed to get its session is dropped; one that stays is not ended by our own end.
    let child = command.kill_on_drop(true).spawn()?;
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| Error::from(ErrorKind::NotFound))?;
    // The answer to the strike tells that the copy is out of our group, so wait until it leads one. Not by asking for
    // its session: in a process namespace the one it was born into may have no number.
    let separate = async {
        while test_kill_process_group(pid).is_err() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(5), separate).await.map_err(|_| Error::from(ErrorKind::TimedOut))?;
    Ok(child)
}

/// What the copy does: leave the session and the group it was started in, and ignore all but SIGKILL.
///
/// # Errors
/// When it cannot become a session leader.
pub async fn linger() -> Result<()> {
    ignore_term()?;
    setsid()?;
    sleep(LIFE_MAX).await;
    Ok(())
}
