//! The log file of a wrapped server, for people who cannot see its client's stderr.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::{Wrap, name};

/// The log file that the environment asks for, and how much goes there; `None` without, and with words on stderr if it
/// cannot be had.
pub fn asked_for(settings: &Wrap) -> Option<(PathBuf, &'static str)> {
    let level = level(&lb_config::wrap_debug()?)?;
    let folder = lb_config::runtime_folder();
    let path = folder.join(file_name(settings));
    match make(&folder, &path) {
        Ok(()) => Some((path, level)),
        Err(error) => {
            eprintln!("landbridge: cannot write the log {}: {error}", path.display());
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
            eprintln!("landbridge: LANDBRIDGE_WRAP_DEBUG is 1 or info, 2 or warn, 3 or debug; {text:?} means nothing");
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

/// A file that only this user can read.
fn make(folder: &Path, path: &Path) -> io::Result<()> {
    if !folder.exists() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    // In a folder that everybody may write to, a link could lead anywhere.
    if std::fs::symlink_metadata(path).is_ok_and(|facts| !facts.is_file()) {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "something else has its name"));
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path).map(drop)
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
}
