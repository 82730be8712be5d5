//! Servers as one session sees them: added, removed, connected again.

use std::sync::Arc;
use std::time::Duration;

use lb_exchange::{Bounds, BoxFuture, Isolation, Note, Principal, ServerSpec};
use lb_session::Happening;
use lb_wire::Text;
use tokio::sync::oneshot;

use super::backend::{Backend, REDEFINED, REMOVED};
use super::facts::Facts;
use super::input::Ourselves;
use super::view::{ReconnectError, RemoveError, ServerView, Unavailable};
use super::{AskMode, Live, apply};
use crate::gateway::Shared;
use crate::registry::{Entry, PutError, Scope};

/// No server of this name is known here.
#[derive(Clone, Debug, thiserror::Error)]
#[error("Server '{name}' not found{}", known(.servers))]
pub struct NoServer {
    /// The name.
    pub name: String,
    /// Those that are known.
    pub servers: Vec<String>,
}

fn known(servers: &[String]) -> String {
    match servers {
        [] => "; none is defined: use add_server".to_owned(),
        some => format!("; defined are: {}", some.join(", ")),
    }
}

/// A server that was added.
#[derive(Debug)]
pub struct Added {
    /// How it stands.
    pub view: ServerView,
    /// What it said of itself; `None` while it waits for a login.
    pub facts: Option<Facts>,
    /// Whether no server had this name before.
    pub is_new: bool,
}

/// Why a server was not added.
#[derive(Debug)]
pub enum AddError {
    /// This client may not.
    Forbidden(String),
    /// The definition cannot be used.
    Invalid(String),
    /// It could not be connected.
    Failed(Unavailable),
}

/// Where the outcome goes of what somebody asked for; closed when they no longer wait.
type Asked<T> = oneshot::Sender<T>;

/// How long a server that is added may take to answer.
const ADD_MAX: Duration = Duration::from_secs(35);
/// How long a server that is connected again may take to answer.
const RECONNECT_MAX: Duration = Duration::from_secs(35);

impl Live {
    /// The servers of this session, in the order in which they were defined.
    pub fn servers(&self) -> Vec<ServerView> {
        let Some(gateway) = self.gateway.upgrade() else { return Vec::new() };
        let entries = self.visible(&gateway);
        let backends = self.backends.lock();
        let view = |entry: &Arc<Entry>| match backends.get(entry.name().as_str()) {
            Some(backend) if Arc::ptr_eq(backend.entry(), entry) => backend.view(),
            _ => ServerView::unconnected(entry),
        };
        entries.iter().map(view).collect()
    }

    /// A server, whatever its state.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn backend(&self, name: &str) -> Result<Arc<Backend>, NoServer> {
        let gateway = self.gateway.upgrade().filter(|_| !self.is_ended());
        let entry = gateway.as_ref().and_then(|gateway| gateway.registry().find(name, &self.caller.principal));
        let entry = entry.filter(|entry| self.may_see(entry.name().as_str()));
        match (gateway, entry) {
            (Some(gateway), Some(entry)) => Ok(self.backend_of(&gateway, &entry)),
            (gateway, _) => Err(NoServer { name: name.to_owned(), servers: self.names(gateway.as_deref()) }),
        }
    }

    /// The servers that its client may know of.
    fn visible(&self, gateway: &Shared) -> Vec<Arc<Entry>> {
        let mut entries = gateway.registry().visible_to(&self.caller.principal);
        entries.retain(|entry| self.may_see(entry.name().as_str()));
        entries
    }

    fn names(&self, gateway: Option<&Shared>) -> Vec<String> {
        let entries = gateway.map(|gateway| self.visible(gateway));
        entries.unwrap_or_default().iter().map(|entry| entry.name().to_string()).collect()
    }

    /// All servers that can be asked for something.
    pub fn backends(&self) -> Vec<Arc<Backend>> {
        let Some(gateway) = self.gateway.upgrade().filter(|_| !self.is_ended()) else { return Vec::new() };
        let entries = self.visible(&gateway);
        entries.iter().map(|entry| self.backend_of(&gateway, entry)).collect()
    }

    fn backend_of(&self, gateway: &Arc<Shared>, entry: &Arc<Entry>) -> Arc<Backend> {
        let mut backends = self.backends.lock();
        if let Some(known) = backends.get(entry.name().as_str())
            && Arc::ptr_eq(known.entry(), entry)
            && !known.is_stopped()
        {
            return known.clone();
        }
        let make = || Backend::new(gateway, entry, self.ourselves(gateway));
        let backend = match entry.spec().isolation {
            Isolation::Session => {
                let backend = make();
                backend.join(self.number, self.itself());
                backend
            }
            Isolation::Shared => {
                let mut all = entry.backends.lock();
                let shared = all.entry(self.caller.principal.clone()).or_default();
                shared.retain(|known| !known.is_stopped());
                if shared.len() < entry.spec().pool && shared.iter().all(|known| known.sessions() != 0) {
                    shared.push(make());
                }
                let backend = shared.iter().min_by_key(|known| known.sessions()).cloned().unwrap_or_else(make);
                // Under the lock under which the last one leaves.
                backend.join(self.number, self.itself());
                backend
            }
        };
        let name = entry.name().as_str();
        let before = self.cell.with(|session| (session.wishes_before(name).cloned(), session.left_before(name)));
        if let (Some(wishes), listed) = before {
            backend.was_told(wishes);
            listed.into_iter().for_each(|listed| backend.had_listed(listed));
        }
        let displaced = backends.insert(entry.name().as_str().into(), backend.clone());
        if let Some(displaced) = displaced {
            gateway.tasks().spawn(async move { displaced.dismiss(REDEFINED, None).await });
        }
        // Removed, or over, since it was looked up: whoever saw to that has not seen this one.
        if !gateway.registry().holds(entry) || self.is_ended() {
            backends.remove(entry.name().as_str());
            let (gone, number) = (backend.clone(), self.number);
            gateway.tasks().spawn(async move { gone.leave(number).await });
        }
        backend
    }

    fn ourselves(&self, gateway: &Shared) -> Ourselves {
        Ourselves::new(&self.caller.principal, self.caller.era(), gateway.policy().ask != AskMode::Never)
    }

    /// Connects to what is defined, without waiting: servers over HTTP at once, processes at once if nothing is known of
    /// them, else when they are first used.
    pub(crate) fn connect_all(&self) {
        for backend in self.backends() {
            self.meet_again(&backend);
            let entry = backend.entry();
            if entry.is_http() || entry.known.lock().is_empty() {
                backend.want();
            }
        }
    }

    /// Tries servers again that were given up: whoever has the config read again may have mended them.
    pub(crate) fn try_again(&self) {
        // Those that are not there yet have never been tried.
        let backends: Vec<Arc<Backend>> = self.backends.lock().values().cloned().collect();
        for backend in backends.iter().filter(|backend| backend.is_given_up()) {
            backend.want();
        }
    }

    /// A server that others have connected, and that this session had in a process before this one, is told as such.
    fn meet_again(&self, backend: &Backend) {
        let Some(listed) = backend.listed() else { return };
        let (name, now) = (backend.name(), self.now());
        let left = self.cell.with(|session| session.left_before(name));
        let changes = left.map(|left| backend.changed_since(left)).unwrap_or_default();
        self.cell.with(|session| {
            if session.wishes_before(name).is_none() {
                return;
            }
            session.tell(name, &Happening::ServerConnected(Box::new(listed)), now);
            for changed in changes {
                session.tell(name, &apply::notification(&Note::new(Text::from_static(changed), None)), now);
            }
        });
    }

    /// Connects to a server that is defined from now on, without waiting: in the config, or by somebody at another node,
    /// which is nothing to anybody else.
    pub(crate) fn meet(&self, gateway: &Arc<Shared>, entry: &Arc<Entry>) {
        let is_visible = entry.is_visible_to(&self.caller.principal) && self.may_see(entry.name().as_str());
        if !self.is_ended() && is_visible {
            self.backend_of(gateway, entry).want();
        }
    }

    /// Defines a server and connects this session to it. A definition that does not work is not kept.
    pub fn add_server(self: &Arc<Self>, spec: ServerSpec) -> BoxFuture<'static, Result<Added, AddError>> {
        let live = self.clone();
        let bounds = self.gateway.upgrade().map_or(Bounds::Public, |gateway| gateway.bounds());
        let spec = ServerSpec { bounds, ..spec };
        self.to_the_end(
            |asked| async move { live.add(spec, asked).await },
            || AddError::Invalid("the gateway is shutting down".to_owned()),
        )
    }

    /// Runs work that must not be left half done, even if whoever asked for it goes away; it can see whether they have.
    fn to_the_end<T, E, F>(
        &self,
        work: impl FnOnce(Asked<Result<T, E>>) -> F,
        stopping: impl FnOnce() -> E + Send + 'static,
    ) -> BoxFuture<'static, Result<T, E>>
    where
        T: Send + 'static,
        E: Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let (asked, answer) = oneshot::channel();
        let gateway = self.gateway.upgrade();
        if let Some(gateway) = &gateway {
            gateway.tasks().spawn(work(asked));
        }
        Box::pin(async move { answer.await.unwrap_or_else(|_| Err(stopping())) })
    }

    async fn add(self: Arc<Self>, spec: ServerSpec, mut asked: Asked<Result<Added, AddError>>) {
        let added = self.add_checked(spec, &mut asked).await;
        // Nobody may want to know any more.
        drop(asked.send(added));
    }

    async fn add_checked(
        self: &Arc<Self>,
        spec: ServerSpec,
        asked: &mut Asked<Result<Added, AddError>>,
    ) -> Result<Added, AddError> {
        let Some(gateway) = self.gateway.upgrade() else {
            return Err(AddError::Invalid("the gateway is shutting down".to_owned()));
        };
        let (name, who) = (spec.name.clone(), &self.caller.principal);
        let added = self.add_allowed(&gateway, spec, asked).await;
        let outcome = match &added {
            Ok(_) => "ok",
            Err(AddError::Forbidden(_)) => "forbidden",
            Err(AddError::Invalid(_)) => "refused",
            Err(AddError::Failed(_)) => "failed",
        };
        let (who, client) = (who.as_str(), self.caller.client.as_deref());
        tracing::info!(target: "audit", event = "server_added", who, client, server = %name, outcome);
        added
    }

    async fn add_allowed(
        self: &Arc<Self>,
        gateway: &Arc<Shared>,
        spec: ServerSpec,
        asked: &mut Asked<Result<Added, AddError>>,
    ) -> Result<Added, AddError> {
        gateway.may_define(&spec).await?;
        let who = &self.caller.principal;
        let before = gateway.registry().find_folded(&spec.name);
        if let Some(before) = &before {
            if !before.is_visible_to(who) || before.name() != &spec.name {
                return Err(AddError::Invalid(format!("the name '{}' is taken", spec.name)));
            }
            if self.is_others(before) {
                return Err(AddError::Invalid(format!(
                    "the server '{}' is there for others too: its operator changes it, with POST /servers or in the \
                     config file; choose another name for yours",
                    spec.name
                )));
            }
            if (ServerSpec { bounds: spec.bounds, ..(**before.spec()).clone() }) == spec {
                return self.connect_again(gateway, before).await;
            }
        }
        self.add_anew(gateway, spec, before, asked).await
    }

    /// Whether a server is there for others too. A model that was talked into it must not lead everybody's calls elsewhere,
    /// nor take a server from them.
    fn is_others(&self, entry: &Entry) -> bool {
        let who = &self.caller.principal;
        *who != Principal::local() && entry.scope != Scope::Principal(who.clone())
    }

    /// The same definition once more: nothing changes but that this session is connected.
    async fn connect_again(&self, gateway: &Arc<Shared>, entry: &Arc<Entry>) -> Result<Added, AddError> {
        let backend = self.backend_of(gateway, entry);
        let facts = known_or_waits(backend.ready(ADD_MAX).await)?;
        Ok(Added { view: backend.view(), facts, is_new: false })
    }

    async fn add_anew(
        self: &Arc<Self>,
        gateway: &Arc<Shared>,
        spec: ServerSpec,
        before: Option<Arc<Entry>>,
        asked: &mut Asked<Result<Added, AddError>>,
    ) -> Result<Added, AddError> {
        let scope = match &before {
            Some(before) => before.scope.clone(),
            None => Scope::Principal(self.caller.principal.clone()),
        };
        let by = Some(Text::from(self.hash.as_str()));
        let entry =
            Entry::make(gateway, spec, scope, by).await.map_err(|error| AddError::Invalid(error.to_string()))?;
        // Tried before anybody else sees it.
        let trial = Backend::new(gateway, &entry, self.ourselves(gateway));
        trial.join(self.number, self.itself());
        trial.try_out();
        let tried = tokio::select! {
            tried = trial.ready(ADD_MAX) => known_or_waits(tried),
            () = asked.closed() => Err(AddError::Invalid("nobody waits for it any more".to_owned())),
        };
        let taken = || AddError::Invalid(format!("the name '{}' was taken while the server was tried", entry.name()));
        // On several nodes the registry of each knows only what is there so far.
        let claim = match &tried {
            Ok(_) => gateway.claim(entry.spec(), &entry.scope, entry.added_by.as_ref()).await,
            Err(_) => None,
        };
        let put = match tried {
            Ok(_) if self.is_ended() => Err(AddError::Invalid("Session not found".to_owned())),
            Ok(_) if claim.is_none() => Err(taken()),
            Ok(facts) => match gateway.registry().put_after(entry.clone(), before.as_ref()) {
                Ok(replaced) => Ok((facts, replaced)),
                Err(PutError::Full(most)) => {
                    Err(AddError::Invalid(format!("{most} servers are defined already; remove one first")))
                }
                Err(PutError::Taken) => Err(taken()),
            },
            Err(error) => Err(error),
        };
        drop(claim);
        let (facts, replaced) = match put {
            Ok(put) => put,
            Err(error) => {
                trial.leave(self.number).await;
                if before.is_none() {
                    self.cell.with(|session| session.forget_server(entry.name().as_str()));
                }
                return Err(error);
            }
        };
        if entry.spec().isolation == Isolation::Shared {
            entry.backends.lock().entry(self.caller.principal.clone()).or_default().push(trial.clone());
        }
        trial.tried();
        let old = self.backends.lock().insert(entry.name().as_str().into(), trial.clone());
        // All at once: whoever uses the server meanwhile has a backend of the new definition.
        let own = async {
            if let Some(old) = old {
                old.dismiss(REDEFINED, Some(self.number)).await;
            }
        };
        let others = async {
            if let Some(replaced) = &replaced {
                gateway.dismiss(replaced, REDEFINED, Some(self.number), Some(&entry)).await;
            }
        };
        tokio::join!(own, others);
        self.announce(gateway, &entry, replaced.is_some());
        gateway.note_server(entry.name());
        Ok(Added { view: trial.view(), facts, is_new: replaced.is_none() })
    }

    /// Tells the other sessions of a server.
    fn announce(&self, gateway: &Arc<Shared>, entry: &Arc<Entry>, updated: bool) {
        let (target, transport, by) = (entry.place(), entry.transport(), entry.added_by.clone());
        tracing::info!(server = %entry.name(), updated, "server_config_{}", if updated { "updated" } else { "added" });
        let event = Happening::ServerAdded { target, transport, by, updated };
        gateway.broadcast(entry, &event, Some(self.number));
    }

    /// Removes a server from every session.
    pub fn remove_server(self: &Arc<Self>, name: &str) -> BoxFuture<'static, Result<(), RemoveError>> {
        let (live, name) = (self.clone(), name.to_owned());
        let gone = RemoveError::NoServer(NoServer { name: name.clone(), servers: Vec::new() });
        let work = |asked: Asked<Result<(), RemoveError>>| async move {
            // Nobody may want to know any more.
            drop(asked.send(live.remove(name).await));
        };
        self.to_the_end(work, || gone)
    }

    async fn remove(&self, name: String) -> Result<(), RemoveError> {
        let gateway = self.gateway.upgrade();
        let entry = gateway.as_ref().and_then(|gateway| gateway.registry().find(&name, &self.caller.principal));
        let (Some(gateway), Some(entry)) = (gateway, entry) else {
            return Err(NoServer { servers: self.names(self.gateway.upgrade().as_deref()), name }.into());
        };
        let (who, client) = (self.caller.principal.as_str(), self.caller.client.as_deref());
        if self.is_others(&entry) {
            let outcome = "forbidden";
            tracing::warn!(target: "audit", event = "server_removed", who, client, server = %entry.name(), outcome);
            return Err(RemoveError::Others(name));
        }
        if !gateway.registry().remove(&entry) {
            return Err(NoServer { servers: self.names(Some(&gateway)), name }.into());
        }
        tracing::info!(server = %entry.name(), "server_config_removed");
        tracing::info!(target: "audit", event = "server_removed", who, client, server = %entry.name(), outcome = "ok");
        gateway.dismiss(&entry, REMOVED, None, None).await;
        let event = Happening::ServerRemoved { by: Some(Text::from(self.hash.as_str())) };
        gateway.broadcast(&entry, &event, None);
        gateway.forget_server(&entry);
        gateway.note_server(entry.name());
        Ok(())
    }

    /// Closes the connection to a server, whatever its state, and makes it anew.
    pub fn reconnect_server(self: &Arc<Self>, name: &str) -> BoxFuture<'static, Result<(), ReconnectError>> {
        let backend = self.backend(name);
        Box::pin(async move {
            let backend = backend.map_err(ReconnectError::NoServer)?;
            backend.reconnect(RECONNECT_MAX).await.map_err(ReconnectError::Failed)
        })
    }

    /// Puts a backend of a new definition where one of the old was, not connected until it is used.
    pub(crate) fn succeed(&self, gateway: &Arc<Shared>, entry: &Arc<Entry>, old: &Backend) {
        if entry.spec().isolation == Isolation::Session && !self.is_ended() {
            let backend = Backend::new(gateway, entry, self.ourselves(gateway));
            backend.join(self.number, self.itself());
            backend.succeed(old);
            self.backends.lock().entry(entry.name().as_str().into()).or_insert(backend);
        }
    }

    /// Takes a backend out that was dismissed.
    pub(crate) fn take_backend(&self, entry: &Arc<Entry>) -> Option<Arc<Backend>> {
        let mut backends = self.backends.lock();
        let same = backends.get(entry.name().as_str()).is_some_and(|backend| Arc::ptr_eq(backend.entry(), entry));
        if same { backends.remove(entry.name().as_str()) } else { None }
    }

    /// Whether it belongs to this principal.
    pub(crate) fn belongs_to(&self, who: &Principal) -> bool {
        self.caller.principal == *who
    }
}

/// A server that waits for a login is as good as one that works: it is kept, so that somebody can log in.
fn known_or_waits(tried: Result<Facts, Unavailable>) -> Result<Option<Facts>, AddError> {
    match tried {
        Ok(facts) => Ok(Some(facts)),
        Err(why) if why.login.is_some() => Ok(None),
        Err(why) => Err(AddError::Failed(why)),
    }
}
