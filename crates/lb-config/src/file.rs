//! A config file from its bytes, or from the disk, to what can be served.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::path::Path;

use lb_exchange::{ServerName, ServerSpec};

use crate::entry::Scope;
use crate::expand::Lookup;
use crate::json::{self, Step};
use crate::problem::{Problem, Severity, problems_json};
use crate::report::{KeyPath, Report};
use crate::section;

/// Largest config file, in bytes. Files of other programs that hold servers hold much else.
pub const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A config file that can be used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// The servers, in file order, disabled ones included.
    pub servers: Vec<ServerSpec>,
    /// What may not mean what its writer thinks.
    pub warnings: Vec<Problem>,
    /// Servers that cannot be served under their name; the others are.
    pub left_out: Vec<Problem>,
    /// Where the programs of servers are named, for whoever finds that one is not there.
    pub commands: Vec<CommandPlace>,
}

/// Where the program of a server is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandPlace {
    /// The server.
    pub server: ServerName,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Path of the key.
    pub key: String,
}

/// Reads the text of a config file; relative paths start at the folder of `file`, which itself is not touched.
///
/// # Errors
/// Every problem of the file in file order, warnings included, when at least one of them makes it unusable.
pub fn parse(text: &str, file: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Loaded, Vec<Problem>> {
    parse_bytes(text.as_bytes(), file, env)
}

/// Reads a config file whose bytes may not even be text.
///
/// # Errors
/// As [`parse`].
pub fn parse_bytes(bytes: &[u8], file: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Loaded, Vec<Problem>> {
    let folder = file.parent().unwrap_or(Path::new(""));
    finish(check(bytes, file, &Scope { env, folder }))
}

/// Reads a config file from the disk, with the variables of this process.
///
/// # Errors
/// As [`parse`], and when the file cannot be read, is too large, or others may write to it.
pub fn load(path: &Path) -> Result<Loaded, Vec<Problem>> {
    let (bytes, metadata) = read(path).map_err(|message| vec![whole_file(path, message, None)])?;
    let env: Lookup<'_> = &|name| std::env::var(name).ok();
    // Absolute, so that a child's folder does not depend on where we are by then.
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = absolute.parent().unwrap_or(Path::new(""));
    let mut found = check(&bytes, path, &Scope { env, folder });
    let exposure = Exposure::of(&metadata);
    if exposure.writable {
        let hint = format!("run chmod go-w {}", path.display());
        let message = "refused: others may write to this file, and it names programs to start".to_owned();
        found.errors.push(whole_file(path, message, Some(hint)));
    }
    if exposure.readable {
        found.warnings.append(&mut found.secrets);
    }
    finish(found)
}

/// Reads servers out of a variable of this name; relative paths start where this process is.
///
/// # Errors
/// As [`parse`].
pub fn load_inline(text: &str, name: &Path) -> Result<Loaded, Vec<Problem>> {
    if !text.contains('{') {
        let hint = format!("name a file in {}_FILE, or with --config", name.display());
        return Err(vec![whole_file(name, "is to hold the config itself, and this is none".to_owned(), Some(hint))]);
    }
    let folder = std::env::current_dir().unwrap_or_default();
    finish(check(text.as_bytes(), name, &Scope { env: &|name| std::env::var(name).ok(), folder: &folder }))
}

/// Runs everything that reads and shows config files over arbitrary bytes; for generated input. Must never panic.
pub fn fuzz_parse(bytes: &[u8]) {
    let env = |name: &str| name.len().is_multiple_of(2).then(|| name.repeat(2));
    let problems = match parse_bytes(bytes, Path::new("mcp.json"), &env) {
        Ok(loaded) => [loaded.warnings, loaded.left_out].concat(),
        Err(problems) => problems,
    };
    let shown: String = problems.iter().map(Problem::to_string).collect();
    std::hint::black_box((shown, problems_json(&problems)));
}

/// What was found in a file.
struct Found {
    servers: Vec<ServerSpec>,
    errors: Vec<Problem>,
    warnings: Vec<Problem>,
    left_out: Vec<Problem>,
    secrets: Vec<Problem>,
    commands: Vec<CommandPlace>,
}

fn check(bytes: &[u8], file: &Path, scope: &Scope<'_>) -> Found {
    let mut report = Report::new(file, bytes);
    let top = KeyPath::default();
    let mut servers = Vec::new();
    match std::str::from_utf8(bytes).map(json::parse) {
        Err(error) => {
            report.error(error.valid_up_to(), &top, "the file is not UTF-8");
        }
        Ok(Err(error)) => {
            let problem = report.error(error.at, &top, error.fault.to_string());
            if let Some(hint) = error.fault.hint() {
                problem.hint(hint);
            }
        }
        Ok(Ok(document)) => {
            for duplicate in &document.duplicates {
                let path = duplicate.trail.iter().fold(top.clone(), |path, step| match step {
                    Step::Key(key) => path.key(key),
                    Step::Index(index) => path.index(*index),
                });
                report.error(duplicate.at, &path, "the same key is given twice");
            }
            servers = section::read(&mut report, scope, &document.root);
        }
    }
    let Report { errors, warnings, left_out, secrets, commands, .. } = report;
    Found { servers, errors, warnings, left_out, secrets, commands }
}

fn finish(found: Found) -> Result<Loaded, Vec<Problem>> {
    let Found { servers, errors, mut warnings, mut left_out, commands, .. } = found;
    let place = |problem: &Problem| (problem.line, problem.column);
    if errors.is_empty() {
        warnings.sort_by_key(place);
        left_out.sort_by_key(place);
        return Ok(Loaded { servers, warnings, left_out, commands });
    }
    // In a file that must be corrected anyway, a warning is often the reason for an error.
    let mut problems = [errors, warnings, left_out].concat();
    problems.sort_by_key(place);
    Err(problems)
}

/// The bytes of a file that is not too large.
pub(crate) fn read(path: &Path) -> Result<(Vec<u8>, Metadata), String> {
    let failed = |error: io::Error| format!("cannot be read: {error}");
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err("is a folder, not a file".into());
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if FILE_BYTES_MAX < bytes.len() as u64 {
        return Err(format!("is larger than {} MiB", FILE_BYTES_MAX >> 20));
    }
    Ok((bytes, metadata))
}

/// A problem with a file as a whole.
pub(crate) fn whole_file(file: &Path, message: String, hint: Option<String>) -> Problem {
    Problem { severity: Severity::Error, file: file.into(), line: 0, column: 0, key: String::new(), message, hint }
}

/// What group and others may do with a file.
pub(crate) struct Exposure {
    pub writable: bool,
    pub readable: bool,
}

impl Exposure {
    #[cfg(unix)]
    pub fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        // A pipe (`--config <(…)`) belongs to whoever opened it, whatever its mode says.
        let mode = if metadata.is_file() { metadata.permissions().mode() } else { 0 };
        Self { writable: mode & 0o022 != 0, readable: mode & 0o044 != 0 }
    }

    /// Other systems keep a user's files in the user's profile, behind lists that a mode cannot show.
    #[cfg(not(unix))]
    pub fn of(_: &Metadata) -> Self {
        Self { writable: false, readable: false }
    }
}
