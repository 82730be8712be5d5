//! Notifications that say the same again: the newest stands for all of a row.

use std::time::Duration;

use lb_wire::{Raw, Text};

use crate::happening::Happening;
use crate::ulid::Ulid;

/// The newest event of a log, when another like it is to be merged into it.
#[derive(Debug)]
pub(super) struct Merge {
    pub(super) seq: u64,
    /// The id of the first that was merged.
    pub(super) since: Ulid,
    /// How many it stands for.
    pub(super) count: u32,
    server: Text,
    method: Box<str>,
    subject: Option<Raw>,
}

impl Merge {
    /// What the event `seq` could take in; `None` for all events that are told one by one.
    pub(super) fn of(server: &Text, what: &Happening, before: u32, seq: u64, since: Ulid) -> Option<Self> {
        let (method, params, count) = repeatable(what)?;
        let subject = subject(method, params).map(|subject| subject.detached());
        Some(Self {
            seq,
            since,
            count: before.saturating_add(count),
            server: server.clone(),
            method: method.into(),
            subject,
        })
    }

    /// Whether this says the same of the same server.
    pub(super) fn takes(&self, server: &Text, what: &Happening) -> bool {
        repeatable(what).is_some_and(|(method, params, _)| {
            *method == *self.method && *server == self.server && subject(method, params) == self.subject
        })
    }

    /// What an event says that stands for `before` others.
    pub(super) fn data(what: &Happening, before: u32, server: &str, unix: Duration) -> Raw {
        match what {
            Happening::Notification { method, params, count } if before != 0 => {
                let count = before.saturating_add(*count);
                Happening::Notification { method: method.clone(), params: params.clone(), count }.data(server, unix)
            }
            other => other.data(server, unix),
        }
    }
}

fn repeatable(what: &Happening) -> Option<(&str, Option<&Raw>, u32)> {
    let Happening::Notification { method, params, count } = what else { return None };
    let repeats = method.ends_with("/list_changed") || is_update(method);
    repeats.then_some((method.as_str(), params.as_ref(), *count))
}

/// What has to be equal: the resource, or everything.
fn subject(method: &str, params: Option<&Raw>) -> Option<Raw> {
    if is_update(method) { params?.member("uri") } else { params.cloned() }
}

fn is_update(method: &str) -> bool {
    method == "notifications/resources/updated"
}
