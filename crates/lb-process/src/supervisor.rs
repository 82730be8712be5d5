//! The process between us and a program: starts it, waits, and leaves nothing behind.
//!
//! One thread, no runtime, no logs. It must outlive every signal that can be caught, and end as soon as the other side
//! of its socket closes and all that descends from the program is gone.

mod keeper;
mod signals;

use std::{
    ffi::{OsStr, OsString},
    io,
    os::{
        fd::{OwnedFd, RawFd},
        unix::{
            ffi::{OsStrExt, OsStringExt},
            process::CommandExt,
        },
    },
    process::ExitCode,
};

use rustix::process::Pid;

use crate::{
    Command, Exit, SpawnError,
    control::{Report, receive_fd},
};
use keeper::Keeper;

/// The first argument that makes our binary a supervisor.
const ENTRY: &str = "__supervise";

/// In front of each variable's name on its way through the supervisor, so that none of them (`LD_PRELOAD`, settings of
/// an allocator) works on the supervisor itself.
const VEILED: &[u8] = b"+";

/// Runs the supervisor if the command line asks for it. Call it first in `main`, and return what it returns.
pub fn supervise_entry() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args.next()? != ENTRY {
        return None;
    }
    Some(match supervise(args) {
        Ok(Exit { code: Some(code), .. }) => ExitCode::from(u8::try_from(code & 0xff).unwrap_or(u8::MAX)),
        Ok(Exit { signal: Some(signal), .. }) => ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX)),
        Ok(Exit::UNKNOWN) => ExitCode::FAILURE,
        // The report has said why, or there is nobody to say it to.
        Err(_) => ExitCode::from(127),
    })
}

/// The supervisor's command line and environment for `command`.
pub(crate) fn invocation(command: &Command) -> Result<std::process::Command, SpawnError> {
    check(command)?;
    let mut supervisor = std::process::Command::new(&command.supervisor);
    supervisor.arg0("landbridge").arg(ENTRY).arg(command.cwd.as_deref().map_or(OsStr::new(""), |cwd| cwd.as_os_str()));
    supervisor.arg(&command.program).args(&command.args).env_clear();
    for (name, value) in &command.env {
        let mut veiled = OsString::from_vec(VEILED.to_vec());
        veiled.push(name);
        supervisor.env(veiled, value);
    }
    Ok(supervisor)
}

fn check(command: &Command) -> Result<(), SpawnError> {
    let nul = |text: &OsStr| text.as_bytes().contains(&0);
    let bad_name = |name: &OsStr| name.is_empty() || name.as_bytes().contains(&b'=') || nul(name);
    if command.program.is_empty() {
        return Err(SpawnError::Invalid("the program's name is empty"));
    }
    if nul(&command.program) || command.args.iter().any(|arg| nul(arg)) {
        return Err(SpawnError::Invalid("the program or one of its arguments holds a NUL byte"));
    }
    if command.env.iter().any(|(name, value)| bad_name(name) || nul(value)) {
        return Err(SpawnError::Invalid("a variable has an empty name, a name with `=`, or a NUL byte"));
    }
    match &command.cwd {
        Some(cwd) if cwd.as_os_str().is_empty() || nul(cwd.as_os_str()) => {
            Err(SpawnError::Invalid("the working directory is empty or holds a NUL byte"))
        }
        _ => Ok(()),
    }
}

fn supervise(args: impl Iterator<Item = OsString>) -> io::Result<Exit> {
    close_inherited();
    // A session of its own: no signal of our terminal arrives, and the program finds no terminal to ask on. Fails only
    // for a group leader, which we were not started as.
    rustix::process::setsid().ok();
    let bell = signals::install()?;
    #[cfg(target_os = "linux")]
    {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        // Only for those who read a list of processes.
        rustix::thread::set_name(c"lb-supervise").ok();
    }
    // The socket came as standard input; it moves up so that 0, 1 and 2 are free for the program's pipes.
    let control = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let program = start(args, &control);
    release_stdio()?;
    Ok(Keeper::new(program?, control, bell).run())
}

/// Starts the program; what fails is reported.
fn start(mut args: impl Iterator<Item = OsString>, control: &OwnedFd) -> io::Result<Pid> {
    let stdin = receive_fd(control)?;
    let (Some(cwd), Some(program)) = (args.next(), args.next()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    if !cwd.is_empty()
        && let Err(error) = std::env::set_current_dir(&cwd)
    {
        return Err(refuse(control, Report::NoFolder, error));
    }
    let mut command = std::process::Command::new(program);
    command.args(args).stdin(stdin).process_group(0).env_clear();
    for (name, value) in std::env::vars_os() {
        if let Some(name) = name.as_bytes().strip_prefix(VEILED) {
            command.env(OsStr::from_bytes(name), value);
        }
    }
    end_with_us(&mut command);
    match command.spawn() {
        Ok(child) => i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData.into()),
        Err(error) => Err(refuse(control, Report::NoProgram, error)),
    }
}

fn refuse(control: &OwnedFd, report: impl Fn(i32) -> Report, error: io::Error) -> io::Error {
    // Nobody listens any more if this fails, and then nobody needs the reason.
    rustix::io::write(control, &report(error.raw_os_error().unwrap_or_default()).encode()).ok();
    error
}

/// The kernel kills the program if the supervisor itself is killed. Only a second net: it reaches no grandchild.
#[cfg(target_os = "linux")]
fn end_with_us(command: &mut std::process::Command) {
    let die = || Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?);
    #[expect(unsafe_code, reason = "code between fork and exec")]
    // SAFETY: between fork and exec, `die` makes one system call and touches neither memory nor locks.
    unsafe {
        command.pre_exec(die)
    };
}

#[cfg(not(target_os = "linux"))]
fn end_with_us(_: &mut std::process::Command) {}

/// Closes what came along from our own parents, such as sockets of socket activation.
fn close_inherited() {
    // Gathered first, because the listing itself uses one of them.
    let open: Vec<RawFd> = match std::fs::read_dir("/dev/fd") {
        Ok(entries) => entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect(),
        Err(_) => (3..1024).collect(),
    };
    for fd in open.into_iter().filter(|fd| 2 < *fd) {
        #[expect(unsafe_code, reason = "a bare number is closed")]
        // SAFETY: first thing in `main`, one thread: no value of this process owns a descriptor above 2 yet.
        // Closing a number that is not open is an error without effect.
        unsafe {
            libc::close(fd)
        };
    }
}

/// Lets go of the program's pipes: their other ends must see it when the program closes its own.
fn release_stdio() -> io::Result<()> {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}
