//! Folders and files of a project, opened one below the other: no link is followed on the way, and nothing that is
//! there already is touched unless it is meant.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, mkdirat, open, openat, unlinkat};
use rustix::io::Errno;

use super::name::Name;
use crate::run::Failure;

const FOLDER_MODE: Mode = Mode::from_raw_mode(0o755);
const FILE_MODE: Mode = Mode::from_raw_mode(0o644);

/// An open folder, and how it was reached.
pub struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Opens a folder step by step, and makes what is missing.
    ///
    /// # Errors
    /// A step is a link, no folder, or may not be made.
    pub fn walk(path: &Path) -> Result<Self, Failure> {
        let start = if path.is_absolute() { "/" } else { "." };
        let fd = open(start, folder_flags(), Mode::empty()).map_err(|error| cannot("open", Path::new(start), error))?;
        let start = Self { fd, path: if path.is_absolute() { PathBuf::from("/") } else { PathBuf::new() } };
        path.components().try_fold(start, |folder, component| match component {
            Component::Normal(name) => folder.enter(Path::new(name)),
            Component::ParentDir => folder.enter(Path::new("..")),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => Ok(folder),
        })
    }

    /// The folder of a project, which is new or empty unless `force`.
    ///
    /// # Errors
    /// It is a link, or holds something.
    pub fn project(&self, name: &Name, force: bool) -> Result<Self, Failure> {
        let project = self.enter(Path::new(name.as_str()))?;
        if !force && !project.is_empty()? {
            let path = project.path.display();
            return Err(Failure::usage(format!("{path} is not empty: choose another name, or add --force")));
        }
        Ok(project)
    }

    /// Writes a file below this folder.
    ///
    /// # Errors
    /// It is there already and `force` is not given, or a folder on the way is a link.
    pub fn write(&self, path: &str, text: &str, force: bool) -> Result<(), Failure> {
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut folder = Self { fd: self.again()?, path: self.path.clone() };
        for step in folders.split('/').filter(|step| !step.is_empty()) {
            folder = folder.enter(Path::new(step))?;
        }
        folder.create(name, text, force)
    }

    fn create(&self, name: &str, text: &str, force: bool) -> Result<(), Failure> {
        let path = self.path.join(name);
        if force {
            // A link by that name goes, and not what it leads to.
            match unlinkat(&self.fd, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(cannot("replace", &path, error)),
            }
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.fd, name, flags, FILE_MODE).map_err(|error| cannot("write", &path, error))?;
        let written = File::from(file).write_all(text.as_bytes());
        written.map_err(|error| Failure::runtime(format!("cannot write {}: {error}", path.display())))
    }

    fn enter(&self, name: &Path) -> Result<Self, Failure> {
        let path = self.path.join(name);
        match mkdirat(&self.fd, name, FOLDER_MODE) {
            // What cannot be made because nobody may write here can still be there.
            Ok(()) | Err(Errno::EXIST | Errno::ACCESS | Errno::ROFS | Errno::ISDIR) => {}
            Err(error) => return Err(cannot("make", &path, error)),
        }
        let fd = openat(&self.fd, name, folder_flags(), Mode::empty()).map_err(|error| match error {
            Errno::LOOP | Errno::NOTDIR => {
                let path = path.display();
                Failure::usage(format!("{path} is a link or no folder: give the path of a folder itself with --dir"))
            }
            error => cannot("open", &path, error),
        })?;
        Ok(Self { fd, path })
    }

    fn again(&self) -> Result<OwnedFd, Failure> {
        self.fd.try_clone().map_err(|error| Failure::runtime(error.to_string()))
    }

    fn is_empty(&self) -> Result<bool, Failure> {
        let entries = Dir::read_from(&self.fd).map_err(|error| cannot("read", &self.path, error))?;
        for entry in entries {
            let entry = entry.map_err(|error| cannot("read", &self.path, error))?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn folder_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn cannot(verb: &str, path: &Path, error: Errno) -> Failure {
    Failure::runtime(format!("cannot {verb} {}: {}", path.display(), std::io::Error::from(error)))
}
