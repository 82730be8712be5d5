//! Starting: pipes, the supervisor, and its first report.

use std::{io, os::fd::OwnedFd, process::Stdio, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    net::{UnixStream, unix::pipe},
    sync::watch as channel,
};

use super::{
    Child,
    watch::{Reports, State, Watch},
};
use crate::{
    Command, SpawnError, StderrRing,
    control::{Report, send_fd},
    stderr::StderrLog,
    supervisor,
};

/// Time for a supervisor to say whether the program runs. Usually about a millisecond; a slow disk may need longer.
const REPORT_MAX: Duration = Duration::from_secs(10);

/// Bytes of the supervisor's own complaint that go into an error.
const COMPLAINT_BYTES_MAX: usize = 512;

/// Our ends of what the program and its supervisor hold the other ends of.
struct Ends {
    control: Arc<UnixStream>,
    stdin: pipe::Sender,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
}

pub(super) async fn spawn(command: &Command) -> Result<Child, SpawnError> {
    let invocation = supervisor::invocation(command)?;
    let (ends, mut supervisor) = launch(command, invocation)?;
    let stderr = StderrRing::default();
    let mut reports = Reports::new(ends.control.clone());
    let started = match tokio::time::timeout(REPORT_MAX, reports.next()).await {
        Ok(Some(Report::Started(pid))) => u32::try_from(pid).map_err(|_| silent(command, "nonsense from it".into())),
        Ok(Some(Report::NoFolder(errno))) => Err(SpawnError::Cwd {
            path: command.cwd.clone().unwrap_or_default(),
            source: io::Error::from_raw_os_error(errno),
        }),
        Ok(Some(Report::NoProgram(errno))) => Err(SpawnError::from_exec(command, errno)),
        Ok(Some(Report::Exited(_) | Report::Signalled(_))) => Err(silent(command, "nonsense from it".into())),
        Ok(None) => {
            super::watch::drain(&ends.stderr, |read| stderr.push(read));
            Err(silent(command, format!("it ended: {}", stderr.tail(COMPLAINT_BYTES_MAX).trim())))
        }
        Err(_) => Err(silent(command, format!("no report within {REPORT_MAX:?}"))),
    };
    // Dropping our ends on failure ends the supervisor, and the runtime waits for it.
    let pid = started?;
    let (state, states) = channel::channel(State::Running);
    let (schedule, schedules) = channel::channel(None);
    let watch = Watch {
        reports,
        control: ends.control.clone(),
        supervisor: supervisor.id(),
        stderr: Some(ends.stderr),
        ring: stderr.clone(),
        log: StderrLog::new(command.called.clone(), command.heard.clone()),
        state,
        schedule: Some(schedules),
    };
    watch_over(async move { watch.run(&mut supervisor).await });
    Ok(Child {
        pid,
        control: Arc::downgrade(&ends.control),
        pipes: Mutex::new(Some((ends.stdin, ends.stdout))),
        stderr,
        state: states,
        schedule,
    })
}

/// The one place that starts a task: one per process, ended by the end of that process and by nothing else, because it
/// is what waits for it. Dropping the [`Child`] makes that end come.
fn watch_over(task: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::runtime::Handle::current().spawn(task));
}

fn launch(command: &Command, invocation: std::process::Command) -> Result<(Ends, tokio::process::Child), SpawnError> {
    let (ends, theirs, stdout, stderr) = ends().map_err(SpawnError::Pipes)?;
    let mut invocation = tokio::process::Command::from(invocation);
    invocation.stdin(Stdio::from(theirs)).stdout(stdout).stderr(stderr);
    let supervisor = invocation.spawn().map_err(|source| match source.kind() {
        io::ErrorKind::ArgumentListTooLong => SpawnError::TooLong,
        _ => SpawnError::Supervisor { path: command.supervisor.clone(), source },
    })?;
    // `invocation` holds the other ends and drops them here; kept open they would hide that the program closed its own.
    Ok((ends, supervisor))
}

/// All descriptors here are closed on exec: other processes started at the same moment get none of them.
fn ends() -> io::Result<(Ends, OwnedFd, OwnedFd, OwnedFd)> {
    let (control, theirs) = std::os::unix::net::UnixStream::pair()?;
    control.set_nonblocking(true)?;
    let (stdin, writer) = io::pipe()?;
    let (stdout, stdout_writer) = io::pipe()?;
    let (stderr, stderr_writer) = io::pipe()?;
    send_fd(&control, OwnedFd::from(stdin))?;
    let ends = Ends {
        control: Arc::new(UnixStream::from_std(control)?),
        stdin: pipe::Sender::from_owned_fd(writer.into())?,
        stdout: pipe::Receiver::from_owned_fd(stdout.into())?,
        stderr: pipe::Receiver::from_owned_fd(stderr.into())?,
    };
    Ok((ends, theirs.into(), stdout_writer.into(), stderr_writer.into()))
}

fn silent(command: &Command, why: String) -> SpawnError {
    SpawnError::Silent { path: command.supervisor.clone(), why }
}
