//! What to start.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    path::{Path, PathBuf},
};

use crate::stderr::LineHook;

/// What to start: a program, what it gets, and the binary that supervises it.
///
/// The environment is exactly what [`Command::env`] names; nothing is inherited. Use [`crate::environment`] to choose.
#[derive(Clone)]
pub struct Command {
    pub(crate) program: OsString,
    /// What the log calls it.
    pub(crate) called: String,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) supervisor: PathBuf,
    pub(crate) heard: Option<LineHook>,
}

impl Command {
    /// A program, looked up in the `PATH` of its own environment unless it holds a slash, below `supervisor`.
    ///
    /// `supervisor` is a binary that calls [`crate::supervise_entry`] first in `main`.
    pub fn new(program: impl Into<OsString>, supervisor: impl Into<PathBuf>) -> Self {
        let (program, supervisor) = (program.into(), supervisor.into());
        let called = program.to_string_lossy().into_owned();
        Self { program, called, args: Vec::new(), env: Vec::new(), cwd: None, supervisor, heard: None }
    }

    /// Gives it another name than that of its program in the log.
    #[must_use]
    pub fn called(mut self, name: impl Into<String>) -> Self {
        self.called = name.into();
        self
    }

    /// Lets `heard` have every line of standard error, from the first byte.
    #[must_use]
    pub fn heard(mut self, heard: LineHook) -> Self {
        self.heard = Some(heard);
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Replaces the environment.
    #[must_use]
    pub fn env(mut self, env: Vec<(OsString, OsString)>) -> Self {
        self.env = env;
        self
    }

    /// Starts the program in this folder instead of ours; a relative `program` is looked for from there.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// The program as given.
    #[must_use]
    pub fn program(&self) -> &OsStr {
        &self.program
    }

    pub(crate) fn variable(&self, name: &str) -> Option<&OsStr> {
        self.env.iter().rfind(|(given, _)| given == name).map(|(_, value)| value.as_os_str())
    }
}

/// Without arguments and values of variables: both may hold secrets.
impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&OsString> = self.env.iter().map(|(name, _)| name).collect();
        f.debug_struct("Command")
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("env", &names)
            .field("cwd", &self.cwd)
            .field("supervisor", &self.supervisor)
            .finish()
    }
}

/// Our own binary, as the supervisor of what we start.
///
/// On Linux this keeps working after the file was replaced or removed by an update.
///
/// # Errors
/// When the system does not say which file we run from.
pub fn own_supervisor() -> std::io::Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if cfg!(target_os = "linux") && running.exists() { Ok(running.into()) } else { std::env::current_exe() }
}
