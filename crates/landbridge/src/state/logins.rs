//! The logins at servers of whoever sits at this machine: a folder that every landbridge of theirs uses, each for a
//! moment.
//!
//! What is in it is sealed. The key lies in the keyring of the system where one is open, so that the folder alone, or a
//! copy of it, is of no use to anybody; the records stay in the folder, which several processes can change safely.

mod seal;

use std::path::PathBuf;
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
    /// There is no folder for them.
    NoFolder(String),
    /// There are some, and they cannot be read.
    NoKey(String),
}

impl Why {
    /// The same, for people.
    pub fn text(self) -> String {
        match self {
            Self::NoFolder(text) | Self::NoKey(text) => text,
        }
    }
}

/// Opens them.
///
/// # Errors
/// Why there are none.
pub async fn open(state: &State) -> Result<Opened, Why> {
    let folder = folder(state)?;
    let failed = |error: String| Why::NoFolder(format!("logins cannot be kept in {}: {error}", folder.display()));
    make(&folder).map_err(|error| failed(error.to_string()))?;
    // Of its own: those who share the folder need not be started with the same variables.
    let state = State { key: None, key_file: None, durability: Durability::Event, ..state.clone() };
    let sealed = seal::keys(&folder, state.uses_keyring, lb_config::session_bus().as_deref()).await?;
    let mut settings = Settings::new(lb_store::Place::Disk(folder.clone()));
    prepare(&mut settings, &state, &sealed.keys).map_err(|error| failed(error.to_string()))?;
    let store = Brief::new(settings, OF_ONE_PROCESS).await.map_err(|error| failed(error.to_string()))?;
    Ok(Opened { store, key: sealed.kept_in })
}

/// Opens them when one is needed, so that nobody's keyring is asked for servers that want no login. Where there is no
/// folder they are kept in memory; where they cannot be read, whoever needs one is told why, and it is tried again.
pub fn on_demand(state: &State) -> Arc<dyn Store> {
    let state = state.clone();
    Lazy::opened_by(move || {
        let state = state.clone();
        Box::pin(async move {
            match open(&state).await {
                Ok(opened) => Ok(opened.store),
                Err(Why::NoKey(why)) => Err(Error::Refused(why)),
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
