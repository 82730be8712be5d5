//! Names that are taken on all nodes before their server is defined on one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use lb_exchange::ServerSpec;
use lb_wire::Text;

use super::record::Added;
use super::{AddedServers, Put};
use crate::gateway::Shared;
use crate::registry::Scope;

/// A name that is ours while this lives. Whatever the registry says of it afterwards is written.
#[must_use]
pub(crate) struct Claim(Option<(Arc<AddedServers>, String)>);

impl Shared {
    /// Takes a name for a server that is about to be defined here; `None` when somebody else has it. Where nodes share
    /// the store, the first one has it. While the store is away, whoever writes first when it is back does.
    ///
    /// Cancel safe: yes.
    pub(crate) async fn claim(&self, spec: &ServerSpec, scope: &Scope, by: Option<&Text>) -> Option<Claim> {
        match self.added_servers() {
            Some(added) => added.claim(spec, scope, by).await,
            None => Some(Claim(None)),
        }
    }
}

impl AddedServers {
    async fn claim(self: &Arc<Self>, spec: &ServerSpec, scope: &Scope, by: Option<&Text>) -> Option<Claim> {
        let added = Added { spec: spec.clone(), scope: scope.clone(), by: by.cloned() };
        let Some(value) = added.written().filter(|_| self.is_shared) else { return Some(Claim(None)) };
        let name = spec.name.folded();
        if !self.claimed.lock().insert(name.clone()) {
            return None;
        }
        let claim = Claim(Some((self.clone(), name.clone())));
        let known = self.seen.lock().get(&name).cloned();
        if known.is_some_and(|theirs| !super::has_same_owner(&theirs, &value)) {
            return None;
        }
        let told = match self.put(&name, value).await {
            Ok(Put::Taken(_)) => return None,
            Ok(Put::Done) => self.tell().await,
            Err(error) => Err(error),
        };
        if let Err(error) = told {
            tracing::debug!(%error, "other nodes are told of an added server later");
        }
        Some(claim)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some((servers, name)) = self.0.take() {
            servers.marked.lock().insert(name.clone());
            servers.claimed.lock().remove(&name);
            servers.is_behind.store(true, Ordering::Relaxed);
            servers.bell.notify_one();
        }
    }
}
