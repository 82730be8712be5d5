//! State that outlives the process: where it is, and what it is sealed with.

mod host;
pub mod key;
pub mod logins;
mod node;
mod rates;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lb_config::settings::{Durability, Settings as Everything, State, Store as Place};
use lb_exchange::{BoxFuture, Secret, Tasks};
use lb_gateway::{About, Keeping, Membership};
use lb_http::Tls;
use lb_store::{Error, Late, SealKeys, Settings, Store};

use self::host::Sign;
use self::node::NodeDoor;
use self::rates::Rates;
use crate::logs::Words;
use crate::run::Failure;

/// How long a process that starts beside an old one waits for its folder.
const PATIENCE: Duration = Duration::from_secs(35);

/// A store, opened or being opened.
pub struct Opened {
    /// The store.
    pub store: Arc<dyn Store>,
    /// What it is sealed with, and nodes know each other by; the first seals.
    pub keys: Vec<Secret>,
    /// Whether other processes use it at the same time.
    pub is_shared: bool,
    /// Where it is, for people.
    pub place: String,
    /// Ends when it is open, or never will be.
    pub opening: Option<BoxFuture<'static, Result<(), Error>>>,
}

/// Opens what the settings say and joins those who use it; `None` for memory. `beside` when this process is started while
/// an old one still runs.
///
/// # Errors
/// It was asked for by name and cannot be had.
pub async fn keep(
    settings: &Everything,
    beside: bool,
    tls: Option<&Tls>,
    tasks: &Tasks,
) -> Result<Option<Kept>, Failure> {
    match open(&settings.state, beside).await? {
        Some(opened) => opened.join(settings, tls, tasks).await.map(Some),
        None => Ok(None),
    }
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
            Ok(disk(state, &folder, beside).await.unwrap_or_else(|why| {
                in_memory(why.text());
                None
            }))
        }
        Place::Shared { url, ca, prefix } => {
            let wrong = |error: Error| Failure::usage(format!("--store: {error}"));
            let mut settings = Settings::parse(url.expose()).map_err(wrong)?;
            (settings.ca_file, settings.prefix) = (ca.clone(), prefix.clone());
            let keys = key::read(state, None).map_err(Failure::usage)?;
            prepare(&mut settings, state, &keys).map_err(wrong)?;
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

/// A store that ends with this process.
///
/// # Errors
/// There is no memory for it.
pub async fn in_process() -> Result<Arc<dyn Store>, Failure> {
    let store = lb_store::open(&Settings::new(lb_store::Place::Memory)).await;
    store.map_err(|error| Failure::runtime(format!("nothing can be kept: {error}")))
}

/// A store in use, and this process among those who use it.
pub struct Kept {
    /// What the gateway is given.
    pub keeping: Keeping,
    /// Where other nodes reach this one.
    pub door: Option<NodeDoor>,
    /// See [`Opened::keys`].
    pub keys: Vec<Secret>,
    /// See [`Opened::opening`].
    pub opening: Option<BoxFuture<'static, Result<(), Error>>>,
    /// Held until the process ends.
    _sign: Option<Sign>,
}

impl Opened {
    /// Joins those who use it, with a door for other nodes where the settings want one.
    ///
    /// # Errors
    /// The store cannot be used, or the door not be opened.
    pub async fn join(self, settings: &Everything, tls: Option<&Tls>, tasks: &Tasks) -> Result<Kept, Failure> {
        let mut door = NodeDoor::open(settings, &self.keys, tls).await?;
        let url = door.as_ref().and_then(|door| door.settings.url.clone());
        if self.is_shared && url.is_none() {
            let why =
                "other nodes cannot reach this one: give --node-listen, or let it be the only one that uses the store";
            Words::warning("node_without_url", why).say();
        }
        let failed = |error: Error| Failure::runtime(format!("the store cannot be used: {error}"));
        let store = self.store;
        let mut sign = None;
        let nodes = if self.is_shared {
            let mut about = About::new(None, url, env!("CARGO_PKG_VERSION"));
            sign = Sign::show(&mut about);
            Membership::join(store.clone(), about, tasks).await.map_err(failed)?
        } else {
            let about = About::new(Some("local"), None, env!("CARGO_PKG_VERSION"));
            Membership::alone(store.clone(), about).map_err(failed)?
        };
        if let Some(door) = door.as_mut().filter(|_| self.is_shared) {
            door.settings.together = Some(Arc::new(Rates::new(store.clone(), tasks.clone())));
            node::keep_time(&store, &door.settings.clock, tasks).await;
        }
        let durability = settings.state.durability;
        let shared = self.is_shared || durability == Durability::Event;
        let keeping = Keeping {
            store,
            nodes,
            gather: gather(durability),
            ttl: settings.session_ttl,
            shared,
            wait_for_streams: shared && durability != Durability::None,
        };
        Words::info("state_kept", format!("sessions are kept in {}", self.place)).say();
        Ok(Kept { keeping, door, keys: self.keys, opening: self.opening, _sign: sign })
    }
}

impl Kept {
    /// What logins are kept in, and their tokens are made with.
    pub fn for_login(&self) -> (Arc<dyn Store>, Vec<Secret>) {
        (self.keeping.store.clone(), self.keys.clone())
    }

    /// Lets go of the store, so that another process can have it.
    pub async fn close(self) {
        self.keeping.nodes.leave().await;
        self.keeping.store.close().await;
    }
}

/// Resolves when a store that was being opened will never be.
pub async fn failure(opening: Option<BoxFuture<'static, Result<(), Error>>>) -> Failure {
    match opening {
        Some(opening) => match opening.await {
            Ok(()) => std::future::pending().await,
            Err(error) => Failure::runtime(format!("state cannot be kept: {error}")),
        },
        None => std::future::pending().await,
    }
}

/// How long changes gather before they are written.
fn gather(durability: Durability) -> Duration {
    match durability {
        Durability::None => Duration::from_secs(1),
        Durability::Batch => Duration::from_millis(10),
        Durability::Event => Duration::ZERO,
    }
}

/// Why a folder is not used.
enum Why {
    /// Another process has it.
    InUse(String),
    /// It cannot be.
    Failed(String),
}

impl Why {
    fn text(&self) -> &str {
        match self {
            Self::InUse(text) | Self::Failed(text) => text,
        }
    }

    /// A folder that was asked for by name must be usable, and may be in use.
    fn unless_in_use(self) -> Result<Option<Opened>, Failure> {
        match self {
            Self::InUse(text) => {
                in_memory(&text);
                Ok(None)
            }
            Self::Failed(text) => Err(Failure::runtime(text)),
        }
    }
}

async fn disk(state: &State, folder: &Path, beside: bool) -> Result<Option<Opened>, Why> {
    let failed = |error: String| Why::Failed(format!("state cannot be kept in {}: {error}", folder.display()));
    make(folder).map_err(|error| failed(error.to_string()))?;
    let keys = key::read(state, Some(folder)).map_err(failed)?;
    let mut settings = Settings::new(lb_store::Place::Disk(folder.to_owned()));
    prepare(&mut settings, state, &keys).map_err(|error| failed(error.to_string()))?;
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

fn prepare(settings: &mut Settings, state: &State, keys: &[Secret]) -> Result<(), Error> {
    settings.durability = match state.durability {
        Durability::None => lb_store::Durability::None,
        Durability::Batch => lb_store::Durability::default(),
        Durability::Event => lb_store::Durability::Event,
    };
    let secrets: Vec<&[u8]> = keys.iter().map(|key| key.expose().as_bytes()).collect();
    settings.seal = Some(SealKeys::new(&secrets)?);
    Ok(())
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
