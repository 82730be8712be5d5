//! Unix sockets: in a folder that is ours alone, never over somebody who still listens, and gone when we are.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

use super::ListenError;

/// The file of a socket; removed when dropped, unless another process has put its own there.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and number of the file.
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Nobody puts its own there between the look and the removal.
        let _alone = self.path.parent().and_then(|folder| alone_in(folder).ok());
        if identity(&self.path).is_ok_and(|found| found == self.identity)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "the socket could not be removed");
        }
    }
}

/// Listens on a path.
pub(super) fn bind(path: &Path) -> Result<(UnixListener, SocketFile), ListenError> {
    // The parent of a bare name is nothing, which could not be checked.
    let path = &std::path::absolute(path)?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    secure_folder(folder)?;
    // Of two who find a socket that was left behind, one must not remove what the other has just put in its place.
    let _alone = alone_in(folder)?;
    clear(path)?;
    let listener = UnixListener::bind(path)?;
    // Nobody else gets into the folder, so that there is no moment in which another could connect.
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    let file = SocketFile { path: path.to_owned(), identity: identity(path)? };
    Ok((listener, file))
}

/// Makes the folder, or checks that it is ours alone.
fn secure_folder(folder: &Path) -> Result<(), ListenError> {
    let found = match fs::metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            // Another may have made it in this moment, and their rules may give it to others.
            fs::metadata(folder)?
        }
        found => found?,
    };
    let ours = found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 == 0;
    if found.is_dir() && ours { Ok(()) } else { Err(ListenError::Folder { folder: folder.to_owned() }) }
}

/// Keeps other processes of ours from changing sockets in this folder, until it is dropped. Nobody else can open the
/// folder, and nobody holds it for longer than a look takes.
fn alone_in(folder: &Path) -> io::Result<File> {
    let folder = File::open(folder)?;
    folder.lock()?;
    Ok(folder)
}

/// Removes the socket of a process that is gone.
fn clear(path: &Path) -> Result<(), ListenError> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
        Ok(found) => found,
    };
    if !found.file_type().is_socket() {
        return Err(ListenError::NoSocket { path: path.to_owned() });
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(fs::remove_file(path)?),
        // Also when it is too busy to accept: it is there.
        Ok(_) | Err(_) => Err(ListenError::Answered { path: path.to_owned() }),
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    #[tokio::test]
    async fn a_socket_is_for_one_user_and_goes_with_its_listener() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/http.sock");
        let (listener, file) = bind(&path).unwrap();
        assert_eq!((mode(path.parent().unwrap()), mode(&path)), (0o700, 0o600));
        assert!(matches!(bind(&path), Err(ListenError::Answered { .. })), "somebody is there");
        assert!(UnixStream::connect(&path).is_ok(), "and was left alone");
        drop((listener, file));
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_socket_that_was_left_behind_is_replaced_and_another_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        let path = folder.path().join("http.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "as after a crash");
        let (_listener, file) = bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "precious").unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious", "it is no longer ours");
        assert!(matches!(bind(&path), Err(ListenError::NoSocket { .. })));
    }

    #[tokio::test]
    async fn of_many_who_find_a_socket_left_behind_one_gets_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        let path = folder.path().join("http.sock");
        for round in 0..50 {
            drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
            let start = std::sync::Barrier::new(4);
            let runtime = tokio::runtime::Handle::current();
            let tried = std::thread::scope(|scope| {
                let one = || {
                    let _entered = runtime.enter();
                    start.wait();
                    bind(&path)
                };
                let all: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
                all.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
            });
            assert_eq!(tried.iter().filter(|bound| bound.is_ok()).count(), 1, "round {round}: {tried:?}");
            assert!(UnixStream::connect(&path).is_ok(), "round {round}: and it is reached");
            drop(tried);
            assert!(!path.exists(), "round {round}");
        }
    }

    #[test]
    fn a_bare_name_is_in_the_folder_where_we_are() {
        // The folder of this crate is open to others, or at least no place for a socket.
        let here = std::env::current_dir().unwrap();
        let kept = fs::metadata(&here).unwrap().mode() & 0o077 == 0;
        assert_eq!(secure_folder(&here).is_ok(), kept);
        if !kept {
            let refused = bind(Path::new("bare-name.sock")).unwrap_err();
            assert!(refused.to_string().contains("0700"), "{refused}");
        }
    }

    #[test]
    fn a_folder_that_others_can_use_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for mode in [0o755, 0o710, 0o701, 0o770] {
            fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
            let refused = bind(&folder.path().join("http.sock")).unwrap_err();
            assert!(refused.to_string().contains("0700"), "{mode:o}: {refused}");
        }
    }
}
