//! The logins at servers of whoever sits at this machine: a folder that every landbridge of theirs uses, each for a
//! moment.
//!
//! What is in it is sealed. The key lies in the keyring of the system where one is open, so that the folder alone, or a
//! copy of it, is of no use to anybody; the records stay in the folder, which several processes can change safely.

mod seal;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lb_config::settings::{Durability, State, Store as Place};
use lb_store::{Brief, Error, Lazy, Settings, Store};

pub use self::seal::KeptIn;
use super::{make, prepare};
use crate::logs::Words;

/// What keys of logins begin with that are of use in one process alone: whoever comes back comes back to that one.
const OF_ONE_PROCESS: &[&str] = &["behind:open:", "behind:pending:", "behind:state:", "behind:end:"];

/// Logins that can be used.
#[derive(Debug)]
pub struct Opened {
    /// Where they are.
    pub store: Arc<dyn Store>,
    /// Where their key is.
    pub key: KeptIn,
}

/// Why they cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// There is no folder for them, or none that this user may write to.
    NoFolder(String),
    /// Not now: another process is at it, or something has run out. It may work later.
    NotNow(String),
    /// There are some, and they cannot be read.
    NoKey(String),
}

impl Why {
    /// The same, for people.
    pub fn text(self) -> String {
        match self {
            Self::NoFolder(text) | Self::NotNow(text) | Self::NoKey(text) => text,
        }
    }
}

/// Opens them.
///
/// # Errors
/// Why there are none.
pub async fn open(state: &State) -> Result<Opened, Why> {
    let folder = folder(state)?;
    let failed = |error: Error| Why::NotNow(format!("logins cannot be kept in {}: {error}", folder.display()));
    make(&folder).map_err(|error| not_in(&folder, None, &error))?;
    // Of its own: those who share the folder need not be started with the same variables.
    let state = State { key: None, key_file: None, durability: Durability::Event, ..state.clone() };
    let sealed = seal::keys(&folder, state.uses_keyring, lb_config::session_bus().as_deref()).await?;
    let mut settings = Settings::new(lb_store::Place::Disk(folder.clone()));
    prepare(&mut settings, &state, &sealed.keys).map_err(failed)?;
    let store = Brief::new(settings, OF_ONE_PROCESS).await.map_err(failed)?;
    Ok(Opened { store, key: sealed.kept_in })
}

/// Why nothing can be kept there: what this user may not do stays so, and everything else passes.
fn not_in(folder: &Path, file: Option<&Path>, error: &io::Error) -> Why {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
    let file = file.map(|file| format!("{}: ", file.display())).unwrap_or_default();
    let why = format!("logins cannot be kept in {}: {file}{error}", folder.display());
    match error.kind() {
        PermissionDenied | ReadOnlyFilesystem | NotADirectory | NotFound => Why::NoFolder(why),
        _ => Why::NotNow(why),
    }
}

/// Opens them when one is needed, so that nobody's keyring is asked for servers that want no login. Where there is no
/// folder they are kept in memory, for as long as the process lives; where they cannot be read, or not now, whoever needs
/// one is told why, and it is tried again.
pub fn on_demand(state: &State) -> Arc<dyn Store> {
    let state = state.clone();
    Lazy::opened_by(move || {
        let state = state.clone();
        Box::pin(async move {
            match open(&state).await {
                Ok(opened) => Ok(opened.store),
                Err(Why::NoKey(why) | Why::NotNow(why)) => Err(Error::Refused(why)),
                Err(Why::NoFolder(why)) => {
                    let why = format!("logins at servers end with this process: {why}");
                    Words::warning("logins_in_memory", why).say();
                    lb_store::open(&Settings::new(lb_store::Place::Memory)).await
                }
            }
        })
    })
}

fn folder(state: &State) -> Result<PathBuf, Why> {
    let folder = match &state.store {
        Place::Disk(Some(folder)) => Some(folder.clone()),
        Place::Disk(None) | Place::Memory | Place::Shared { .. } => lb_config::state_folder(),
    };
    let none = "there is no folder for logins: neither XDG_STATE_HOME nor HOME is set";
    folder.map(|folder| folder.join("logins")).ok_or_else(|| Why::NoFolder(none.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use lb_config::settings::Node;
    use lb_store::Key;

    use super::*;

    /// A folder that others hold for too long was as good as none: logins were kept in memory until the process ended.
    #[tokio::test(start_paused = true)]
    async fn a_folder_that_is_held_for_a_while_is_tried_again() {
        let place = tempfile::tempdir().expect("a folder");
        let node = Node::default();
        let store = Place::Disk(Some(place.path().to_owned()));
        let (durability, key, key_file) = (Durability::Event, None, None);
        let state = State { store, durability, key, key_file, uses_keyring: false, node };
        let logins = place.path().join("logins");
        make(&logins).expect("a folder");
        let held = File::open(&logins).expect("a folder");
        held.lock().expect("it is free");
        let (store, key) = (on_demand(&state), Key::parse("behind:at:{x}").expect("a key"));
        let refused = store.get(&key).await;
        assert!(matches!(&refused, Err(Error::Refused(why)) if why.contains("cannot be kept")), "{refused:?}");
        held.unlock().expect("it was ours");
        tokio::time::advance(Duration::from_secs(2)).await;
        // A file is written by another thread, which takes real time.
        tokio::time::resume();
        store.set(&key, "kept", Duration::from_secs(60)).await.expect("it is free by now");
        assert!(logins.join("key").exists(), "it is kept there, and not in memory");
        // Where there can be none, they end with the process.
        std::fs::write(place.path().join("file"), "").expect("written");
        let none = State { store: Place::Disk(Some(place.path().join("file"))), ..state };
        on_demand(&none).set(&key, "kept", Duration::from_secs(60)).await.expect("in memory");
    }
}
