//! State that outlives the process: where it is, and what it is sealed with.

pub mod key;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lb_config::settings::{Durability, State, Store as Place};
use lb_exchange::{BoxFuture, Secret};
use lb_store::{Error, Late, Settings, Store};

use crate::logs::Words;
use crate::run::Failure;

/// How long a process that starts beside an old one waits for its folder.
const PATIENCE: Duration = Duration::from_secs(35);

/// A store, opened or being opened.
pub struct Opened {
    /// The store.
    pub store: Arc<dyn Store>,
    /// What it is sealed with; the first seals.
    pub keys: Vec<Secret>,
    /// Whether other processes use it at the same time.
    pub is_shared: bool,
    /// Where it is, for people.
    pub place: String,
    /// Ends when it is open, or never will be.
    pub opening: Option<BoxFuture<'static, Result<(), Error>>>,
}

/// Opens what the settings say; `None` for memory. `beside` when this process is started while an old one still runs.
///
/// # Errors
/// It was asked for by name and cannot be had.
pub async fn open(state: &State, beside: bool) -> Result<Option<Opened>, Failure> {
    match &state.store {
        Place::Memory => Ok(None),
        Place::Disk(Some(folder)) => disk(state, folder, beside).await.or_else(|why| why.unless_in_use()),
        Place::Disk(None) => {
            let Some(folder) = lb_config::state_folder() else {
                in_memory("there is no folder for it: neither XDG_STATE_HOME nor HOME is set");
                return Ok(None);
            };
            // Nobody asked for it: better without than not at all.
            disk(state, &folder, beside).await.or_else(|why| match why {
                Why::Beside(_) => why.unless_in_use(),
                Why::InUse(_) | Why::Failed(_) => {
                    in_memory(why.text());
                    Ok(None)
                }
            })
        }
        Place::Shared { url, ca, prefix } => {
            let wrong = |error: Error| Failure::usage(format!("--store: {error}"));
            let mut settings = Settings::parse(url.expose()).map_err(wrong)?;
            (settings.ca_file, settings.prefix) = (ca.clone(), prefix.clone());
            settings.durability = durability(state.durability);
            let keys = key::read(state, None).map_err(Failure::usage)?;
            let store = lb_store::open(&settings).await;
            let store = store.map_err(|error| Failure::runtime(format!("the store cannot be used: {error}")))?;
            for warning in store.facts().warnings {
                let lb_store::Warning::Evicts { policy } = warning;
                let why = format!(
                    "the store throws sessions away when it is full (maxmemory-policy {policy}): set it to noeviction"
                );
                Words::warning("store_evicts", why).say();
            }
            let place = place_of(&settings);
            Ok(Some(Opened { store, keys, is_shared: true, place, opening: None }))
        }
    }
}

/// Why a folder is not used.
enum Why {
    /// Another process has it.
    InUse(String),
    /// The same, and this one was to take over from it.
    Beside(String),
    /// It cannot be.
    Failed(String),
}

impl Why {
    fn text(&self) -> &str {
        match self {
            Self::InUse(text) | Self::Beside(text) | Self::Failed(text) => text,
        }
    }

    /// A folder that was asked for by name must be usable, and may be in use.
    fn unless_in_use(self) -> Result<Option<Opened>, Failure> {
        match self {
            Self::InUse(text) => {
                in_memory(&text);
                Ok(None)
            }
            Self::Beside(text) | Self::Failed(text) => Err(Failure::runtime(text)),
        }
    }
}

async fn disk(state: &State, folder: &Path, beside: bool) -> Result<Option<Opened>, Why> {
    let failed = |error: String| Why::Failed(format!("state cannot be kept in {}: {error}", folder.display()));
    make(folder).map_err(|error| failed(error.to_string()))?;
    let keys = key::read(state, Some(folder)).map_err(failed)?;
    let mut settings = Settings::new(lb_store::Place::Disk(folder.to_owned()));
    settings.durability = durability(state.durability);
    let place = folder.display().to_string();
    let opened = |store, opening| Opened { store, keys, is_shared: false, place, opening };
    match lb_store::open(&settings).await {
        Ok(store) => Ok(Some(opened(store, None))),
        Err(Error::InUse(_)) if beside => {
            let (store, opening) = Late::open(settings, PATIENCE);
            Ok(Some(opened(store, Some(Box::pin(opening)))))
        }
        Err(error @ Error::InUse(_)) => Err(Why::InUse(error.to_string())),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// For this user alone.
fn make(folder: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn durability(durability: Durability) -> lb_store::Durability {
    match durability {
        Durability::None => lb_store::Durability::None,
        Durability::Batch => lb_store::Durability::default(),
        Durability::Event => lb_store::Durability::Event,
    }
}

fn in_memory(why: &str) {
    let text = format!("sessions are kept in memory and end with this process: {why}");
    Words::warning("state_in_memory", text).say();
}

/// Where a server is, without what is secret.
fn place_of(settings: &Settings) -> String {
    match &settings.place {
        lb_store::Place::Valkey(servers) => {
            let hosts: Vec<_> = servers.hosts.iter().map(|(host, port)| format!("{host}:{port}")).collect();
            format!("{}://{}", if servers.tls { "rediss" } else { "valkey" }, hosts.join(","))
        }
        lb_store::Place::Disk(folder) => folder.display().to_string(),
        lb_store::Place::Memory => "memory".to_owned(),
    }
}
