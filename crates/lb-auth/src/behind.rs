//! Servers behind us that want a login: the back half of OAuth.
//!
//! Keeps what each principal has been given at each server, sends people where they can log in, and renews in time what
//! they brought back. What is kept is one record for each principal, server and issuer; the store seals it and binds it
//! to its key, which is made of these three, and the record repeats them. A token goes to the server that it was made
//! for and to the authorization server that made it, and nowhere else.

mod begin;
mod credential;
mod discover;
mod door;
mod outward;
mod pending;
mod person;
mod service;
mod single;
mod status;
mod tokens;
mod user;
mod wait;

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use futures_util::future::BoxFuture;
use lb_exchange::{Bounds, Login, LoginError, LoginNeeded, Logins, Principal, ServerAuth, ServerSpec, Target};
use lb_store::Store;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::DropGuard;
use tokio_util::task::TaskTracker;

use self::begin::Want;
use self::credential::Whose;
use self::service::{ServiceEntry, ServiceLogin};
use self::user::{UserEntry, UserLogin};
use crate::auth::Auth;
use crate::fetch::Fetch;
use crate::secret::Secret;

pub use self::status::{State, Status};
pub use self::wait::Ended;

/// Every so many logins, those that nobody holds any more are dropped.
const ENTRIES_SWEPT_AT: usize = 256;

/// What is set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What we call ourselves.
    pub name: String,
    /// Where browsers find us, without a slash at its end; `None` where they do not.
    pub public_url: Option<String>,
    /// Where they come back to from a login.
    pub landing: Landing,
}

/// Opens a place to come back to, and says where it is or why there is none.
pub type Opener = Arc<dyn Fn() -> BoxFuture<'static, Result<Place, String>> + Send + Sync>;

/// A place to come back to.
#[derive(Debug)]
pub struct Place {
    /// Where it is.
    pub address: String,
    /// Closes it when dropped. A login that has begun disarms it: the place then closes by itself.
    pub close: DropGuard,
}

/// Where browsers come back to from a login.
#[derive(Clone)]
pub enum Landing {
    /// This very address.
    At(String),
    /// One that is opened when a login begins.
    Opened(Opener),
}

impl std::fmt::Debug for Landing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::At(address) => f.debug_tuple("At").field(address).finish(),
            Self::Opened(_) => f.write_str("Opened"),
        }
    }
}

/// Makes what asks servers that may have these addresses.
pub type Reach = Arc<dyn Fn(Bounds) -> Arc<dyn Fetch> + Send + Sync>;

/// How others are reached.
#[derive(Clone)]
pub struct Ports {
    /// Where everything is kept.
    pub store: Arc<dyn Store>,
    /// How servers and their authorization servers are asked.
    pub reach: Reach,
    /// Who logs browsers in; without one, or without a provider of logins, a link leads straight to where people log in.
    pub people: Option<Arc<Auth>>,
}

/// The logins of everybody at every server.
#[derive(Clone)]
pub struct Behind(Arc<Inner>);

struct Inner {
    settings: Settings,
    store: Arc<dyn Store>,
    reach: Reach,
    people: Option<Arc<Auth>>,
    /// Whether callers show who they are, by whatever means.
    has_login: bool,
    /// Who we are towards other nodes.
    node: String,
    users: Mutex<HashMap<Whose, Weak<UserEntry>>>,
    services: Mutex<HashMap<Whose, Arc<ServiceEntry>>>,
    /// What must not end with whoever waits for it: a token that was renewed and not kept would be lost.
    tasks: TaskTracker,
    /// Changes whenever a login ended in this process.
    ended: watch::Sender<u64>,
    clock: fn() -> SystemTime,
}

impl Behind {
    /// Where a link of ours leads.
    pub const START: &'static str = "/oauth/backend/start";
    /// Where people come back to.
    pub const CALLBACK: &'static str = "/oauth/backend/callback";
    /// The document about us as a client.
    pub const DOCUMENT: &'static str = "/oauth/client.json";

    /// Sets it up. Asks nobody.
    pub fn new(settings: Settings, ports: Ports) -> Self {
        Self::with_clock(settings, ports, SystemTime::now)
    }

    fn with_clock(settings: Settings, ports: Ports, clock: fn() -> SystemTime) -> Self {
        let has_login = ports.people.is_some();
        // Somebody who has no provider cannot tell who sits in front of a browser.
        let people = ports.people.filter(|people| people.idp.is_some() && settings.public_url.is_some());
        Self(Arc::new(Inner {
            settings,
            store: ports.store,
            reach: ports.reach,
            people,
            has_login,
            node: Secret::random().hash().hex(),
            users: Mutex::default(),
            services: Mutex::default(),
            tasks: TaskTracker::new(),
            ended: watch::Sender::new(0),
            clock,
        }))
    }

    /// Begins a login, or returns the one that is open. Cancel safe: the next one begins anew.
    ///
    /// # Errors
    /// Why nobody can log in there, in words for people.
    pub async fn login(&self, principal: &Principal, server: &Arc<ServerSpec>) -> Result<LoginNeeded, LoginError> {
        let (ServerAuth::User(_), Some(whose)) = (&server.auth, Whose::of(principal, server)) else {
            return Err(LoginError::Failed(format!("nobody logs in at {}: its auth is not \"user\"", server.name)));
        };
        let login = UserLogin { behind: self.0.clone(), entry: self.0.user(&whose), spec: server.clone() };
        login.begin(Want::default()).await
    }

    /// Lets what is being renewed be kept. Nothing is renewed afterwards. Cancel safe: yes.
    pub async fn close(&self) {
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

impl Logins for Behind {
    fn of(&self, principal: &Principal, server: &Arc<ServerSpec>) -> Option<Arc<dyn Login>> {
        let (behind, spec) = (self.0.clone(), server.clone());
        match &server.auth {
            ServerAuth::None => None,
            ServerAuth::User(_) => {
                let entry = self.0.user(&Whose::of(principal, server)?);
                Some(Arc::new(UserLogin { behind, entry, spec }))
            }
            ServerAuth::Service(_) => {
                let entry = self.0.service(&Whose::ours(server)?);
                Some(Arc::new(ServiceLogin { behind, entry, spec }))
            }
        }
    }
}

impl Inner {
    /// What time it is for all nodes: what one of them writes down is judged by the others.
    async fn now(&self) -> SystemTime {
        match &self.people {
            Some(people) => people.now().await,
            None => (self.clock)(),
        }
    }

    fn fetch(&self, bounds: Bounds) -> Arc<dyn Fetch> {
        (self.reach)(bounds)
    }

    /// What all connections of a principal to a server share, while one of them is there.
    fn user(&self, whose: &Whose) -> Arc<UserEntry> {
        let mut users = self.users.lock();
        if let Some(entry) = users.get(whose).and_then(Weak::upgrade) {
            return entry;
        }
        if ENTRIES_SWEPT_AT <= users.len() && users.len().is_multiple_of(ENTRIES_SWEPT_AT) {
            users.retain(|_, entry| entry.strong_count() != 0);
        }
        let entry = Arc::new(UserEntry::new(whose.clone()));
        users.insert(whose.clone(), Arc::downgrade(&entry));
        entry
    }

    /// The same, if somebody holds it.
    fn known_user(&self, whose: &Whose) -> Option<Arc<UserEntry>> {
        self.users.lock().get(whose).and_then(Weak::upgrade)
    }

    /// What all connections to a server share. There are no more of them than servers were configured.
    fn service(&self, whose: &Whose) -> Arc<ServiceEntry> {
        self.services.lock().entry(whose.clone()).or_default().clone()
    }
}

impl std::fmt::Debug for Behind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Behind").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

/// Where a server is, without what its query may hide: the name that it has at an authorization server.
fn resource_of(spec: &ServerSpec) -> Option<url::Url> {
    let Target::Http { url, .. } = &spec.target else { return None };
    let mut url = url::Url::parse(url).ok()?;
    url.set_query(None);
    url.set_fragment(None);
    Some(url)
}

#[cfg(test)]
mod tests;
