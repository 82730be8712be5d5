//! Where state is kept, and how several nodes find each other.

use std::path::PathBuf;

use lb_exchange::Secret;

use super::gather::{Gathered, Held};
use super::kind::Value;
use super::listen::is_loopback;
use super::typed::{home, url_host};

/// Where sessions are kept.
#[derive(Clone, Debug)]
pub enum Store {
    /// In this process, and gone with it.
    Memory,
    /// In a folder; `None` for that of the user's state.
    Disk(Option<PathBuf>),
    /// On a server that several processes share.
    Shared {
        /// Its address, which may hold a password.
        url: Secret,
        /// What it is known by, if not by what the system knows.
        ca: Option<PathBuf>,
        /// What keys begin with.
        prefix: String,
    },
}

/// What may be lost when the process or the machine dies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A second, and more in a power cut.
    None,
    /// Changes of 10 ms.
    #[default]
    Batch,
    /// Nothing that was acknowledged.
    Event,
}

/// How other nodes reach this one.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Where it listens for them.
    pub listen: Option<String>,
    /// What they call it.
    pub url: Option<String>,
    /// What they are known by, if not by what the system knows.
    pub ca: Option<PathBuf>,
    /// Whether they may do without TLS beyond this machine.
    pub insecure: bool,
}

/// Everything about state.
#[derive(Clone, Debug)]
pub struct State {
    /// Where it is kept.
    pub store: Store,
    /// What may be lost.
    pub durability: Durability,
    /// What it is sealed with.
    pub key: Option<Secret>,
    /// A file with that.
    pub key_file: Option<PathBuf>,
    /// Whether the keyring of the system may be used, for logins of whoever sits at this machine.
    pub uses_keyring: bool,
    /// Other nodes.
    pub node: Node,
}

impl State {
    /// Puts checked values together, and says what does not fit.
    pub(super) fn settle(gathered: &mut Gathered) -> Self {
        let store = store(gathered);
        let path = |key: &str| gathered.text(key).map(|path| home(&path, gathered));
        let durability = match gathered.text("durability").as_deref() {
            Some("none") => Durability::None,
            Some("event") => Durability::Event,
            _ => Durability::Batch,
        };
        let node = Node {
            listen: gathered.text("node_listen"),
            url: gathered.text("node_url"),
            ca: path("node_ca"),
            insecure: gathered.switch("node_insecure"),
        };
        let state = Self {
            store,
            durability,
            key: gathered.text("key").map(Secret::new),
            key_file: path("key_file"),
            uses_keyring: !gathered.is("keyring", "off"),
            node,
        };
        state.check(gathered);
        state
    }

    /// What makes no sense alone, or together.
    fn check(&self, gathered: &mut Gathered) {
        let is_shared = matches!(self.store, Store::Shared { .. });
        if is_shared && self.key.is_none() && self.key_file.is_none() {
            let message =
                "what is kept on a server is sealed, and nodes know each other by a key that all of them have";
            let hint = "set LANDBRIDGE_KEY, or give --key-file: openssl rand -hex 32 makes one";
            refuse(gathered, if gathered.held.contains_key("store") { "store" } else { "store_type" }, message, hint);
        }
        if self.key.is_some() && self.key_file.is_some() {
            refuse(gathered, "key_file", "LANDBRIDGE_KEY says the same", "give one of them");
        }
        if !is_shared && self.node.listen.is_some() {
            let message = "there are no other nodes: state is kept by this process alone";
            refuse(gathered, "node_listen", message, "give --store valkey://HOST:PORT too, or leave this out");
        }
        if self.node.url.is_some() && self.node.listen.is_none() {
            refuse(gathered, "node_url", "nothing listens there", "give --node-listen too");
        }
        let is_far = |host: &str| !is_loopback(host);
        let url_is_far = match (&self.node.url, &self.node.listen) {
            (Some(url), _) => url.starts_with("http://") && url_host(url).is_some_and(|host| is_far(&host)),
            (None, Some(listen)) => listen.rsplit_once(':').is_some_and(|(host, _)| is_far(host)),
            (None, None) => false,
        };
        if url_is_far && !self.node.insecure {
            let key = if self.node.url.is_some() { "node_url" } else { "node_listen" };
            let message = "other nodes would be spoken to without TLS beyond this machine";
            let hint = "give an https:// --node-url that leads here, or --node-insecure on a network that is yours";
            refuse(gathered, key, message, hint);
        }
    }
}

fn store(gathered: &mut Gathered) -> Store {
    let (data, url, kind) = (gathered.held.get("data"), gathered.held.get("store"), gathered.text("store_type"));
    let is_none = |held: &&Held| matches!(&held.value, Value::Text(text) if text == "none");
    let folder = data.filter(|held| !is_none(held)).map(|_| ());
    let in_memory = data.is_some_and(|held| is_none(&held));
    let both = folder.is_some() && url.is_some();
    match kind.as_deref() {
        Some("memory") => return Store::Memory,
        Some("valkey") if url.is_none() => {
            let hint = "set MCP_CONFIG_STORAGE_VALKEY_URL, or give --store";
            refuse(gathered, "store_type", "the address of the server is missing", hint);
            return Store::Memory;
        }
        Some("disk") => return Store::Disk(gathered.text("data").map(|path| home(&path, gathered))),
        Some(_) | None => {}
    }
    if both {
        refuse(gathered, "store", "state is kept in one place, and --data names another", "give one of them");
    }
    match gathered.text("store") {
        Some(url) => Store::Shared {
            url: Secret::new(url),
            ca: gathered.text("store_ca").map(|path| home(&path, gathered)),
            prefix: gathered.text("store_prefix").unwrap_or_else(|| "landbridge:".to_owned()),
        },
        None if in_memory => Store::Memory,
        None => Store::Disk(gathered.text("data").map(|path| home(&path, gathered))),
    }
}

fn refuse(gathered: &mut Gathered, key: &str, message: &str, hint: &str) {
    gathered.refuse(key, message.to_owned(), Some(hint.to_owned()));
}
