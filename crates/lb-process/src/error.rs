//! Why a program could not be started.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

use crate::Command;

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The name is in no folder of the program's `PATH`.
    #[error("program {program:?} not found in PATH")]
    NotInPath {
        /// The program as given.
        program: OsString,
        /// The `PATH` it was looked for in, if there was one.
        path: Option<OsString>,
    },
    /// The path of the program leads to nothing.
    #[error("program {program:?} does not exist")]
    NoSuchFile {
        /// The program as given.
        program: OsString,
    },
    /// The file exists, but what its first line asks for, or its loader, does not.
    #[error("program {program:?} exists, but its interpreter does not")]
    NoInterpreter {
        /// The program as given.
        program: OsString,
    },
    /// The path is that of a folder.
    #[error("{program:?} is a folder, not a program")]
    Folder {
        /// The program as given.
        program: OsString,
    },
    /// The file may not be executed.
    #[error("program {program:?} is not executable")]
    NotExecutable {
        /// The program as given.
        program: OsString,
    },
    /// The file is none that this machine can run: neither its kind of program nor a script with a first line.
    #[error("{program:?} is not a program that runs on this machine")]
    NotAProgram {
        /// The program as given.
        program: OsString,
    },
    /// The folder to start in cannot be entered.
    #[error("working directory {path:?} cannot be entered")]
    Cwd {
        /// The folder as given.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The program, an argument or a variable cannot be given to a process at all.
    #[error("{0}")]
    Invalid(&'static str),
    /// Arguments and environment together exceed the system's limit.
    #[error("arguments and environment are too long for the system")]
    TooLong,
    /// The system refused to start the program for another reason.
    #[error("program {program:?} cannot be started")]
    Refused {
        /// The program as given.
        program: OsString,
        /// Why not.
        source: io::Error,
    },
    /// The supervisor could not be started.
    #[error("supervisor {path:?} cannot be started")]
    Supervisor {
        /// Its path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The supervisor was started and did not report within the time it has.
    #[error("supervisor {path:?} did not start the program: {why}")]
    Silent {
        /// Its path.
        path: PathBuf,
        /// What it did instead.
        why: String,
    },
    /// We could not make the pipes, most often because too many files are open.
    #[error("no pipes for the program")]
    Pipes(#[source] io::Error),
}

impl SpawnError {
    /// What the operator can do about it, as a sentence part in lower case.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotInPath { program, path } => Some(hint_not_in_path(program, path.as_ref())),
            Self::NoSuchFile { program } if first_word(program).is_some_and(|first| Path::new(first).is_file()) => {
                first_word(program).map(hint_split)
            }
            Self::NoSuchFile { program } if Path::new(program).is_absolute() => Some("check the path".into()),
            Self::NoSuchFile { .. } => Some("check the path; a relative one starts at the working directory".into()),
            Self::NoInterpreter { .. } => Some("check the first line of the script, and install what it names".into()),
            Self::Folder { .. } => Some("give the path of a program in it".into()),
            Self::NotExecutable { program } => Some(format!("run `chmod +x {}`", program.display())),
            Self::NotAProgram { .. } => Some("name what runs it in `command`, and the file in `args`".into()),
            Self::Cwd { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Some("it does not exist: create it, or correct `cwd`".into())
            }
            Self::Cwd { .. } => Some("check that it is a folder that we may enter".into()),
            Self::TooLong => Some("pass large values in a file".into()),
            Self::Pipes(_) => Some("raise the limit of open files (`ulimit -n`)".into()),
            Self::Invalid(_) | Self::Refused { .. } | Self::Supervisor { .. } | Self::Silent { .. } => None,
        }
    }

    /// Whether it fails again until somebody mends it: there is no such program, or it cannot be run. Other reasons,
    /// such as too many open files, pass.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        match self {
            Self::NotInPath { .. }
            | Self::NoSuchFile { .. }
            | Self::NoInterpreter { .. }
            | Self::Folder { .. }
            | Self::NotExecutable { .. }
            | Self::NotAProgram { .. }
            | Self::Cwd { .. }
            | Self::Invalid(_)
            | Self::TooLong => true,
            Self::Refused { .. } | Self::Supervisor { .. } | Self::Silent { .. } | Self::Pipes(_) => false,
        }
    }

    /// Reads the error number that the supervisor got when it tried to start the program.
    pub(crate) fn from_exec(command: &Command, errno: i32) -> Self {
        let source = io::Error::from_raw_os_error(errno);
        let program = command.program.clone();
        let by_path = program.as_encoded_bytes().contains(&b'/');
        let file = command.cwd.as_deref().unwrap_or(Path::new("")).join(&program);
        match source.kind() {
            io::ErrorKind::NotFound if !by_path => {
                Self::NotInPath { path: command.variable("PATH").map(Into::into), program }
            }
            io::ErrorKind::NotFound if file.exists() => Self::NoInterpreter { program },
            io::ErrorKind::NotFound => Self::NoSuchFile { program },
            io::ErrorKind::PermissionDenied if by_path && file.is_dir() => Self::Folder { program },
            io::ErrorKind::PermissionDenied => Self::NotExecutable { program },
            io::ErrorKind::ArgumentListTooLong => Self::TooLong,
            _ if errno == rustix::io::Errno::NOEXEC.raw_os_error() => Self::NotAProgram { program },
            _ => Self::Refused { program, source },
        }
    }
}

fn hint_not_in_path(program: &OsString, path: Option<&OsString>) -> String {
    if let Some(first) = first_word(program) {
        return hint_split(first);
    }
    match path {
        // A whole PATH would hide what is said.
        Some(path) => {
            let count = std::env::split_paths(path).count();
            let folders = if count == 1 { "its only folder".to_owned() } else { format!("its {count} folders") };
            format!("looked in {folders}: install it, give its full path, or set another PATH in `env`")
        }
        None => "its environment has no PATH: give the full path of the program".into(),
    }
}

/// What stands before the first blank, if there is one.
fn first_word(program: &OsString) -> Option<&str> {
    let (first, _) = program.to_str()?.split_once(char::is_whitespace)?;
    Some(first)
}

/// For the most common mistake in configuration files.
fn hint_split(first: &str) -> String {
    format!("`command` holds the program alone: write `{first}` there and the rest into `args`")
}
