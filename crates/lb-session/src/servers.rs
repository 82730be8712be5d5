//! The servers that a session has met, and what it told them for longer than a call.
//!
//! Both outlive the process: a server that a session meets again in another process has been started anew for it, and
//! must be told again.

use std::collections::BTreeMap;

use lb_wire::Text;
use serde::{Deserialize, Serialize};

use crate::backend::{Losses, reconnected};
use crate::happening::Happening;
use crate::session::Session;

/// What a session wants of one server for longer than a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wishes {
    /// Resources of whose changes it wants to hear.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subscriptions: Vec<String>,
    /// From which level on the server shall log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_level: Option<String>,
}

impl Wishes {
    /// A resource is wanted, or not any more.
    pub fn subscribe(&mut self, uri: &str, wanted: bool) {
        self.subscriptions.retain(|known| known != uri);
        if wanted {
            self.subscriptions.push(uri.to_owned());
        }
    }
}

/// How it is told that a server is connected.
pub(crate) enum Meeting {
    /// As any other event.
    AsSaid,
    Instead(Box<Happening>),
    /// The session has only rested.
    Silent,
}

/// The servers that a session has met.
pub(crate) type Servers = BTreeMap<Box<str>, Met>;

/// One server that a session has met.
#[derive(Debug, Default)]
pub(crate) struct Met {
    wishes: Wishes,
    /// Met in a process before this one, and what went with that.
    before: Option<Losses>,
    /// What it listed when the session went to rest, if the two were then connected and nothing was lost by that.
    left: Option<Prints>,
}

/// Fingerprints of what a server lists.
pub type Prints = [u64; 4];

/// A server as it is written.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ServerRecord {
    name: Box<str>,
    #[serde(flatten)]
    wishes: Wishes,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<Prints>,
}

impl Session {
    /// Something that is wanted of a server for longer than a call has changed.
    pub fn wish(&mut self, server: &str, change: impl FnOnce(&mut Wishes)) {
        change(&mut self.servers.entry(server.into()).or_default().wishes);
        self.note();
    }

    /// What a server was told in a process before this one, as long as it is not met again.
    pub fn wishes_before(&self, server: &str) -> Option<&Wishes> {
        self.servers.get(server).filter(|met| met.before.is_some()).map(|met| &met.wishes)
    }

    /// The session rests, and leaves these servers behind, which have listed this. None of them has anything to lose by
    /// that, so that nothing is said when they are met again, but that lists have changed meanwhile.
    pub fn leave_servers(&mut self, left: &[(Text, Prints)]) {
        for (name, met) in &mut self.servers {
            met.left = left.iter().find(|(server, _)| **server == **name).map(|(_, prints)| *prints);
        }
        self.note();
    }

    /// It goes on after all.
    pub fn stay_with_servers(&mut self) {
        self.servers.values_mut().for_each(|met| met.left = None);
        self.note();
    }

    /// What a server listed when the session went to rest, as long as it is not met again.
    pub fn left_before(&self, server: &str) -> Option<Prints> {
        self.servers.get(server).filter(|met| met.before.is_some())?.left
    }

    /// What is said when a server is connected: one that was met in a process before this one was started anew.
    pub(crate) fn meet(&mut self, server: &Text, what: &Happening) -> Meeting {
        let (Happening::ServerConnected(_) | Happening::ServerReconnected(_)) = what else { return Meeting::AsSaid };
        if !self.servers.contains_key(&**server) {
            self.note();
        }
        let met = self.servers.entry((&**server).into()).or_default();
        let (before, left) = (met.before.take(), met.left.take());
        match (what, before) {
            (Happening::ServerConnected(_), Some(_)) if left.is_some() => Meeting::Silent,
            (Happening::ServerConnected(listed), Some(losses)) => {
                Meeting::Instead(Box::new(reconnected(listed, losses, 1, false, false)))
            }
            _ => Meeting::AsSaid,
        }
    }

    /// A server is gone for good, with all that was wanted of it.
    pub(crate) fn part_from(&mut self, server: &str) {
        if self.servers.remove(server).is_some() {
            self.note();
        }
    }

    pub(crate) fn servers_record(&self) -> Vec<ServerRecord> {
        let record = |name: &str, met: &Met| {
            let (wishes, left) = (met.wishes.clone(), met.left);
            ServerRecord { name: name.into(), wishes, left }
        };
        self.servers.iter().map(|(name, met)| record(name, met)).collect()
    }

    pub(crate) fn restore_servers(&mut self, servers: Vec<ServerRecord>) {
        for ServerRecord { name, wishes, left } in servers {
            self.servers.insert(name, Met { wishes, before: Some(Losses::default()), left });
        }
    }

    /// Something of a server went with the process before this one.
    pub(crate) fn note_loss(&mut self, server: &str, count: impl FnOnce(&mut Losses)) {
        if let Some(losses) = self.servers.get_mut(server).and_then(|met| met.before.as_mut()) {
            count(losses);
        }
    }
}
