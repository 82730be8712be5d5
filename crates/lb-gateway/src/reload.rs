//! Servers of a config that changed: what differs is added, redefined or removed; nothing else is touched.

use std::sync::Arc;

use lb_exchange::{ServerName, ServerSpec};
use lb_session::Happening;
use lb_wire::Text;

use crate::gateway::{Gateway, Shared};
use crate::live::{REDEFINED, REMOVED};
use crate::registry::{Entry, Scope};

/// What became of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Added,
    /// It has another definition.
    Updated,
    /// It is gone.
    Removed,
    /// It cannot be served; what was there stays.
    Refused,
}

impl Gateway {
    /// Takes up what differs between two states of a config, and tries what was given up. Sessions are told.
    ///
    /// Only the difference counts: a server that a client has redefined meanwhile stays as it is while the config says
    /// the same of it.
    ///
    /// Cancel safe: no; what was begun is left where it was.
    pub async fn reload(&self, before: &[ServerSpec], after: &[ServerSpec]) -> Vec<(ServerName, Change)> {
        let find = |list: &'_ [ServerSpec], name: &ServerName| {
            list.iter().find(|spec| spec.name.folded() == name.folded()).cloned()
        };
        let mut changes = Vec::new();
        for gone in before.iter().filter(|spec| find(after, &spec.name).is_none()) {
            if self.shared().drop_server(&gone.name, |scope| *scope == Scope::All).await {
                changes.push((gone.name.clone(), Change::Removed));
            }
        }
        for spec in after.iter().filter(|spec| find(before, &spec.name).as_ref() != Some(spec)) {
            changes.push((spec.name.clone(), self.shared().define(spec.clone(), Scope::All, None).await));
        }
        for live in self.shared().lives() {
            live.try_again();
        }
        changes
    }
}

impl Shared {
    /// Puts a server into the registry, tells everybody who sees it, and lets them meet it.
    pub(crate) async fn define(self: &Arc<Self>, spec: ServerSpec, scope: Scope, by: Option<Text>) -> Change {
        let name = spec.name.clone();
        let entry = match Entry::make(self, spec, scope, by.clone()).await {
            Ok(entry) => entry,
            Err(error) => {
                tracing::error!(server = %name, %error, "server cannot be served");
                return Change::Refused;
            }
        };
        let replaced = match self.registry().put(entry.clone()) {
            Ok(replaced) => replaced,
            Err(most) => {
                tracing::error!(server = %name, most, "server has no room");
                return Change::Refused;
            }
        };
        let updated = replaced.is_some();
        match updated {
            true => tracing::info!(server = %name, "server_config_updated"),
            false => tracing::info!(server = %name, "server_config_added"),
        }
        if let Some(replaced) = &replaced {
            self.dismiss(replaced, REDEFINED, None, Some(&entry)).await;
        }
        let (target, transport) = (entry.place(), entry.transport());
        self.broadcast(&entry, &Happening::ServerAdded { target, transport, by, updated }, None);
        self.note_server(&name);
        for live in self.lives() {
            live.meet(self, &entry);
        }
        if updated { Change::Updated } else { Change::Added }
    }

    /// Takes a server out of the registry and of every session, if it has such a scope.
    pub(crate) async fn drop_server(self: &Arc<Self>, name: &ServerName, which: impl Fn(&Scope) -> bool) -> bool {
        let Some(entry) = self.registry().find_folded(name).filter(|entry| which(&entry.scope)) else {
            return false;
        };
        if !self.registry().remove(&entry) {
            return false;
        }
        tracing::info!(server = %name, "server_config_removed");
        self.dismiss(&entry, REMOVED, None, None).await;
        self.broadcast(&entry, &Happening::ServerRemoved { by: None }, None);
        self.forget_server(&entry);
        self.note_server(name);
        true
    }
}
