//! The log file of a wrapped server, for people who cannot see its client's stderr.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use sha2::{Digest as _, Sha256};

use super::{Wrap, name};
use crate::logs::Words;

/// The log file that the environment asks for, and how much goes there; `None` without, and with words on stderr if it
/// cannot be had.
pub fn asked_for(settings: &Wrap) -> Option<(File, &'static str)> {
    let level = level(&lb_config::wrap_debug()?)?;
    let folder = lb_config::runtime_folder();
    let path = folder.join(file_name(settings));
    match open(&folder, &path) {
        Ok(file) => Some((file, level)),
        Err(error) => {
            Words::warning("no_trace", format!("cannot write the log {}: {error}", path.display())).say();
            None
        }
    }
}

fn level(text: &str) -> Option<&'static str> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "info" => Some("info"),
        "2" | "warn" => Some("warn"),
        "3" | "debug" => Some("debug"),
        "" | "0" | "off" => None,
        _ => {
            let why = format!("LANDBRIDGE_WRAP_DEBUG is 1 or info, 2 or warn, 3 or debug; {text:?} means nothing");
            Words::warning("no_trace", why).say();
            None
        }
    }
}

/// A name that was given is enough; one that was guessed may be that of several servers.
fn file_name(settings: &Wrap) -> String {
    let name = name::name(settings);
    if settings.name.as_deref().is_some_and(|name| !name.is_empty()) {
        return format!("landbridge-wrap-{name}.log");
    }
    let mut sum = Sha256::new();
    for word in &settings.command {
        sum.update(word.as_bytes());
        sum.update([0]);
    }
    let hash: String = sum.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("landbridge-wrap-{name}-{hash}.log")
}

/// A file that is this user's, and that nobody else can read. Opened once: what a name stands for may be another thing
/// a moment later.
fn open(folder: &Path, path: &Path) -> io::Result<File> {
    if !folder.exists() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    // In a folder that everybody may write to, a link could lead anywhere, and a pipe keep us waiting.
    let flags =
        OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "something else has its name"));
    }
    if facts.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file of that name is somebody else's"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_a_number_and_a_word() {
        for (text, want) in [
            ("1", Some("info")),
            ("INFO", Some("info")),
            ("2", Some("warn")),
            ("warn", Some("warn")),
            ("3", Some("debug")),
            ("debug", Some("debug")),
            ("", None),
            ("0", None),
            ("yes", None),
        ] {
            assert_eq!(level(text), want, "{text:?}");
        }
    }

    #[test]
    fn a_log_is_a_file_of_this_user_and_never_what_a_link_or_a_pipe_leads_to() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        for _ in 0..2 {
            open(folder.path(), &path("log")).expect("it opens, new or not");
        }
        let mode = std::fs::metadata(path("log")).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(path("other"), "").expect("written");
        std::os::unix::fs::symlink(path("other"), path("link")).expect("a link");
        open(folder.path(), &path("link")).expect_err("a link");
        std::os::unix::fs::symlink(path("nothing"), path("dangling")).expect("a link");
        open(folder.path(), &path("dangling")).expect_err("a link to nothing");
        assert!(!path("nothing").exists());
        rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .expect("a pipe");
        open(folder.path(), &path("pipe")).expect_err("a pipe");
    }
}
