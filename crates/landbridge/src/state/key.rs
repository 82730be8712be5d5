//! The secret that what is kept is sealed with, and that nodes know each other by.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use lb_config::settings::State;
use lb_exchange::Secret;

/// What a secret has at least.
const BYTES_MIN: usize = 32;
/// More is no secret, but another file.
const BYTES_MAX: u64 = 16 << 10;

/// The secrets, the newest first: it seals, and all of them open. `folder` is where one is made if none is set.
///
/// # Errors
/// Why there is none, for people.
pub fn read(state: &State, folder: Option<&Path>) -> Result<Vec<Secret>, String> {
    match (&state.key, &state.key_file, folder) {
        (Some(key), _, _) => Ok(vec![key.clone()]),
        (None, Some(file), _) => lines(file),
        (None, None, Some(folder)) => made(&folder.join("key")),
        (None, None, None) => Err("there is neither a key nor a folder to make one in".to_owned()),
    }
}

/// The lines of a file.
///
/// # Errors
/// Why they are no secrets, for people.
pub fn lines(path: &Path) -> Result<Vec<Secret>, String> {
    let text = text_of(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    parse(&text).map_err(|why| format!("{} {why}", path.display()))
}

/// The secrets in a text, one in each line.
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &str) -> Result<Vec<Secret>, String> {
    let found: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match found.as_slice() {
        [] => Err("is empty: openssl rand -hex 32 makes a key".to_owned()),
        [.., _, _, _] => Err("has more than two lines: the key, and perhaps an older one".to_owned()),
        keys if keys.iter().any(|key| key.len() < BYTES_MIN) => {
            Err(format!("has a key that is too short: at least {BYTES_MIN} bytes, as openssl rand -hex 32 makes one"))
        }
        keys => Ok(keys.iter().map(|key| Secret::new(*key)).collect()),
    }
}

/// What a file of secrets says.
///
/// # Errors
/// It cannot be read.
pub fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// The key of this file, which is made if there is none. Of two who make it at once, both use what one has written.
pub fn made(path: &Path) -> Result<Vec<Secret>, String> {
    if !path.exists() {
        write(path, &random()).map_err(|error| format!("{} cannot be made: {error}", path.display()))?;
    }
    lines(path)
}

/// A new key.
pub fn random() -> String {
    let key: [u8; 32] = rand::random();
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes a file for this user alone, as a whole, unless it is there.
///
/// # Errors
/// It cannot be.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension(format!("{}.new", std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    // A link and not a rename: what another one has made meanwhile stays.
    let linked = written.and_then(|()| fs::hard_link(&new, path));
    let removed = fs::remove_file(&new);
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => removed,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_for_this_user_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        let first = made(&path).expect("a key");
        assert_eq!(made(&path).expect("a key"), first);
        assert_eq!(first[0].expose().len(), 64);
        assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing half-made is left");
    }

    #[test]
    fn a_file_holds_one_key_or_two() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        let (one, other) = ("a".repeat(32), "b".repeat(40));
        let read = |text: String| {
            fs::write(&path, text).expect("written");
            lines(&path).map(|keys| keys.iter().map(|key| key.expose().to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(read(format!("{one}\n")), Ok(vec![one.clone()]));
        assert_eq!(read(format!("{one}\r\n\n{other}")), Ok(vec![one.clone(), other.clone()]));
        for (text, why) in [
            (String::new(), "is empty"),
            ("short".to_owned(), "at least 32"),
            (format!("{one}\n{one}\n{one}"), "two lines"),
        ] {
            let said = read(text).expect_err("no key");
            assert!(said.contains(why) && !said.contains(&one), "{said}");
        }
        assert!(lines(&folder.path().join("none")).expect_err("no file").contains("cannot be read"));
    }
}
