//! The servers that are defined, who may see them, and the connections that several share.

use std::collections::HashMap;
use std::sync::Arc;

use lb_backend::{ConnectError, Environment, Server};
use lb_exchange::{Principal, ServerName, ServerSpec, Shelf, Target};
use lb_session::Moment;
use lb_telemetry::Tracer;
use lb_wire::{Raw, Text};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;

use crate::cache::Cache;
use crate::gateway::Shared;
use crate::link::Link;
use crate::live::{Backend, Known};
use crate::pool::Pool;
use crate::share::Share;
use crate::telemetry::Watcher;

/// Who sees a server, and who may remove it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everybody: it came from a file or the command line.
    All,
    /// Everybody: an operator added it while it ran.
    Operator,
    /// The sessions of whoever added it.
    Principal(Principal),
}

/// Sessions share a connection when principal and declared capabilities are the same.
pub type ShareKey = (Principal, Vec<u8>);

/// One defined server and the connections that sessions share.
pub struct Entry {
    /// The server.
    pub server: Arc<Server>,
    /// Who sees it.
    pub scope: Scope,
    /// Since when it is defined.
    pub added_at: Moment,
    /// The session that defined it, as it is shown.
    pub added_by: Option<Text>,
    /// Connections of modern clients, by principal.
    pub modern: Mutex<HashMap<Principal, Arc<Pool>>>,
    /// Connections that legacy sessions share: of one principal, with the same capabilities.
    pub shared: Mutex<HashMap<ShareKey, Vec<Arc<Share>>>>,
    /// Backends that sessions of the tools surface share.
    pub backends: Mutex<HashMap<Principal, Vec<Arc<Backend>>>>,
    /// What the server listed last, in whichever session of a principal.
    pub known: Mutex<KnownLists>,
    /// What is kept of it, where something is.
    pub cache: Option<Arc<Cache>>,
    /// Attempts to connect over HTTP at one time.
    pub attempts: Semaphore,
    /// Counts the requests to it.
    pub watcher: Arc<Watcher>,
}

/// What a server listed last: it may list something else for each principal.
pub struct KnownLists {
    /// What is kept of a server that tells everybody the same.
    kept: Option<Arc<Known>>,
    /// By principal, those that came last at the end.
    lists: Vec<(Principal, Arc<Known>)>,
}

impl KnownLists {
    /// Principals whose lists are remembered; others have them read again.
    const PRINCIPALS_MAX: usize = 64;

    fn new(kept: Vec<(Option<Principal>, Known)>) -> Self {
        let mut all = Self { kept: None, lists: Vec::new() };
        for (whose, known) in kept {
            match whose {
                Some(who) => all.put(&who, known),
                None => all.kept = Some(Arc::new(known)),
            }
        }
        all
    }

    /// What it lists for this principal.
    pub fn of(&self, who: &Principal) -> Option<Arc<Known>> {
        let own = self.lists.iter().find(|(principal, _)| principal == who).map(|(_, known)| known);
        own.or(self.kept.as_ref()).cloned()
    }

    /// It lists this for a principal.
    pub fn put(&mut self, who: &Principal, known: Known) {
        self.lists.retain(|(principal, _)| principal != who);
        if self.lists.len() == Self::PRINCIPALS_MAX {
            self.lists.remove(0);
        }
        self.lists.push((who.clone(), Arc::new(known)));
    }

    /// Whether it has never been seen to work.
    pub fn is_empty(&self) -> bool {
        self.kept.is_none() && self.lists.is_empty()
    }
}

/// Attempts to connect to one URL at one time, over all sessions.
const ATTEMPTS_MAX: usize = 4;

impl Entry {
    /// A server of this definition.
    ///
    /// # Errors
    /// It can never be reached.
    pub fn new(
        spec: ServerSpec,
        environment: &Environment,
        shelf: Option<&Arc<dyn Shelf>>,
        scope: Scope,
        added_at: Moment,
        added_by: Option<Text>,
        tracer: Option<Arc<Tracer>>,
    ) -> Result<Arc<Self>, ConnectError> {
        let server = Server::new(Arc::new(spec), environment.clone())?;
        let (modern, shared, backends) = Default::default();
        let (attempts, watcher) = (Semaphore::new(ATTEMPTS_MAX), Watcher::new(Some(server.spec()), tracer));
        let cache = Cache::of(&server, shelf, &environment.tasks);
        let known = Mutex::new(KnownLists::new(cache.as_ref().map(|cache| cache.known()).unwrap_or_default()));
        let entry =
            Self { server, scope, added_at, added_by, modern, shared, backends, known, cache, attempts, watcher };
        Ok(Arc::new(entry))
    }

    /// The same where nothing may block: what is kept of the server is on disk.
    ///
    /// Cancel safe: yes.
    ///
    /// # Errors
    /// It can never be reached.
    pub async fn make(
        gateway: &Shared,
        spec: ServerSpec,
        scope: Scope,
        added_by: Option<Text>,
    ) -> Result<Arc<Self>, ConnectError> {
        let (environment, shelf) = (gateway.environment().clone(), gateway.shelf().cloned());
        let (now, tracer, cached) = (gateway.clock().now(), gateway.tracer(), spec.cached);
        let make = move || Self::new(spec, &environment, shelf.as_ref(), scope, now, added_by, tracer);
        if !cached {
            return make();
        }
        tokio::task::spawn_blocking(make).await.unwrap_or(Err(ConnectError::Stopping))
    }

    /// Its definition.
    pub fn spec(&self) -> &Arc<ServerSpec> {
        self.server.spec()
    }

    /// Its name.
    pub fn name(&self) -> &ServerName {
        &self.spec().name
    }

    /// Whether calls of it are refused for a while.
    pub fn is_broken(&self) -> bool {
        self.server.is_left_alone()
    }

    /// Whether it is reached over HTTP.
    pub fn is_http(&self) -> bool {
        matches!(self.spec().target, Target::Http { .. })
    }

    /// How it is reached, in a word.
    pub fn transport(&self) -> &'static str {
        if self.is_http() { "http" } else { "stdio" }
    }

    /// Where it is, as an event says it.
    pub fn place(&self) -> Raw {
        match &self.spec().target {
            Target::Child { command, .. } => Raw::string(command),
            target => Raw::string(&target.address()),
        }
    }

    /// Whether this principal may use it.
    pub fn is_visible_to(&self, who: &Principal) -> bool {
        match &self.scope {
            Scope::All | Scope::Operator => true,
            Scope::Principal(owner) => owner == who,
        }
    }

    /// The connections that do not belong to one session.
    pub fn links(&self) -> Vec<Arc<Link>> {
        let modern = self.modern.lock().values().flat_map(|pool| pool.links()).collect::<Vec<_>>();
        let shared = self.shared.lock().values().flatten().map(|share| share.link().clone()).collect::<Vec<_>>();
        modern.into_iter().chain(shared).collect()
    }
}

/// Why a server is not put where it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutError {
    /// There are that many.
    Full(usize),
    /// Somebody was faster.
    Taken,
}

/// All defined servers, in the order in which they were defined.
#[derive(Default)]
pub struct Registry(RwLock<Vec<Arc<Entry>>>);

/// Servers that one gateway knows at most.
const SERVERS_MAX: usize = 1000;

impl Registry {
    /// Adds a server, or puts it in the place of the one of the same name, which is given back.
    ///
    /// # Errors
    /// There are too many.
    pub fn put(&self, entry: Arc<Entry>) -> Result<Option<Arc<Entry>>, usize> {
        let mut entries = self.0.write();
        let same = |known: &Arc<Entry>| known.name().folded() == entry.name().folded();
        let count = entries.len();
        match entries.iter_mut().find(|known| same(known)) {
            Some(known) => Ok(Some(std::mem::replace(known, entry))),
            None if SERVERS_MAX <= count => Err(SERVERS_MAX),
            None => {
                entries.push(entry);
                Ok(None)
            }
        }
    }

    /// The same where the name must stand for what it stood for before: nothing, or exactly that entry. What comes
    /// between is somebody else's.
    ///
    /// # Errors
    /// The name stands for something else by now, or there are too many.
    pub fn put_after(&self, entry: Arc<Entry>, before: Option<&Arc<Entry>>) -> Result<Option<Arc<Entry>>, PutError> {
        let mut entries = self.0.write();
        let count = entries.len();
        let known = entries.iter_mut().find(|known| known.name().folded() == entry.name().folded());
        match (known, before) {
            (Some(known), Some(before)) if Arc::ptr_eq(known, before) => Ok(Some(std::mem::replace(known, entry))),
            (None, None) if count < SERVERS_MAX => {
                entries.push(entry);
                Ok(None)
            }
            (None, None) => Err(PutError::Full(SERVERS_MAX)),
            (Some(_), _) | (None, Some(_)) => Err(PutError::Taken),
        }
    }

    /// Takes out exactly this one; false when it is no longer there.
    pub fn remove(&self, entry: &Arc<Entry>) -> bool {
        let mut entries = self.0.write();
        let before = entries.len();
        entries.retain(|known| !Arc::ptr_eq(known, entry));
        entries.len() != before
    }

    /// Whether exactly this one is still defined.
    pub fn holds(&self, entry: &Arc<Entry>) -> bool {
        self.0.read().iter().any(|known| Arc::ptr_eq(known, entry))
    }

    /// The server of this name, as this principal sees it.
    pub fn find(&self, name: &str, who: &Principal) -> Option<Arc<Entry>> {
        self.0.read().iter().find(|entry| entry.name().as_str() == name && entry.is_visible_to(who)).cloned()
    }

    /// The server of a name that differs at most in case, whoever may see it.
    pub fn find_folded(&self, name: &ServerName) -> Option<Arc<Entry>> {
        self.folded(&name.folded())
    }

    /// The same by its folded name.
    pub fn folded(&self, folded: &str) -> Option<Arc<Entry>> {
        self.0.read().iter().find(|entry| entry.name().folded() == folded).cloned()
    }

    /// All that this principal sees.
    pub fn visible_to(&self, who: &Principal) -> Vec<Arc<Entry>> {
        self.0.read().iter().filter(|entry| entry.is_visible_to(who)).cloned().collect()
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Entry>> {
        self.0.read().clone()
    }

    /// The only one, if there is one and this principal sees it.
    pub fn only(&self, who: &Principal) -> Option<Arc<Entry>> {
        match self.0.read().as_slice() {
            [only] if only.is_visible_to(who) => Some(only.clone()),
            _ => None,
        }
    }
}
