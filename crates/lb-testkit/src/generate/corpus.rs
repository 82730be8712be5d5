//! Inputs that lie in the repository.

use std::path::{Path, PathBuf};

/// Our own hard cases for one parser: what `fuzz/corpus` has under this name.
///
/// # Panics
/// The folder cannot be read, or holds no file.
#[must_use]
pub fn corpus(name: &str) -> Vec<Vec<u8>> {
    files(&repository("fuzz/corpus").join(name))
}

/// The official examples of the newest revision.
///
/// # Panics
/// They cannot be read.
#[must_use]
pub fn examples() -> Vec<Vec<u8>> {
    files(&repository("tests/schema/2026-07-28/examples"))
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Every file below a folder, in order of their names.
fn files(folder: &Path) -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("a folder can be read to its end").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    assert!(!files.is_empty(), "{} holds no file", folder.display());
    files.iter().map(|path| std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))).collect()
}
