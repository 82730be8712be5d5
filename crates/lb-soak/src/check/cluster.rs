//! The rules for several nodes on one store: what trouble excuses, and what nothing does.

mod events;
mod takeovers;

use std::collections::HashMap;

use super::Verdict;
use crate::history::{How, Must, Record, Trouble};

/// How long after a node died what went through it may still break.
const INSTANT_MS: u64 = 400;
/// What a node may not have written down when it dies: as long as a call of these clients takes, since nobody outside
/// knows when its stream began.
const LAST_MOMENT_MS: u64 = 2_000;
/// How the refusal of a stream begins that a client came back for.
const UNRESUMED: &str = "resuming after";
/// While the store is away nobody can tell a dead node from a live one, nor for as long after that as a lease takes.
const LEASE_MS: u64 = 12_000;

/// The type of the event that owns up to a gap.
const DROPPED: &str = "events_dropped";
const NODE_LOST: &str = "node_lost";
/// What is refused when a session does not know the event that a client had last.
const CURSOR: &str = "last_event_id";

/// Trouble from its beginning to its end.
#[derive(Clone, Copy, Debug)]
struct Span {
    what: Trouble,
    node: Option<usize>,
    from: u64,
    until: u64,
}

/// What a history says of trouble and of who owned what.
struct Times<'a> {
    spans: Vec<Span>,
    opened: HashMap<&'a str, (u64, Option<usize>)>,
    strict: bool,
    streams_first: bool,
}

impl<'a> Times<'a> {
    fn read(records: &'a [Record]) -> Self {
        let (mut spans, mut opened): (Vec<Span>, _) = (Vec::new(), HashMap::new());
        for record in records {
            match record {
                Record::Trouble { at_ms, what, node, over: false } => {
                    spans.push(Span { what: *what, node: *node, from: *at_ms, until: u64::MAX });
                }
                Record::Trouble { at_ms, what, node, over: true } => {
                    let is_it = |span: &&mut Span| (span.what, span.node, span.until) == (*what, *node, u64::MAX);
                    if let Some(span) = spans.iter_mut().rev().find(is_it) {
                        span.until = *at_ms;
                    }
                }
                Record::Opened { at_ms, client, node } => {
                    opened.insert(client.as_str(), (*at_ms, *node));
                }
                _ => {}
            }
        }
        let stores: Vec<Span> = spans.iter().filter(|span| span.node.is_none()).copied().collect();
        for kill in spans.iter_mut().filter(|span| span.what == Trouble::NodeKilled) {
            let (from, until) = (kill.from, kill.until);
            let met = stores.iter().filter(|store| store.from <= until && from <= store.until);
            let later = met.map(|store| store.until.saturating_add(LEASE_MS)).max();
            kill.until = kill.until.max(later.unwrap_or(0));
        }
        let strict = records.contains(&Record::Strict);
        let streams_first = strict || records.contains(&Record::StreamsFirst);
        Self { spans, opened, strict, streams_first }
    }

    /// What has happened to the node that opened a session, in order.
    fn of_opener(&self, client: &str) -> impl Iterator<Item = &Span> {
        let opened = self.opened.get(client).copied();
        self.spans.iter().filter(move |span| {
            let about_node = matches!(span.what, Trouble::NodeKilled | Trouble::NodeStopped);
            about_node && opened.is_some_and(|(at, node)| at <= span.from && (node.is_none() || span.node == node))
        })
    }

    /// Whether the session of a client can have been on the node of this trouble. It stays where it was opened until
    /// that node goes; from then on nobody outside knows where it is.
    fn hits(&self, span: &Span, client: &str) -> bool {
        let Some((_, opener)) = self.opened.get(client) else { return false };
        let moved = self.of_opener(client).any(|earlier| earlier.from < span.from);
        opener.is_none() || *opener == span.node || moved
    }

    fn excuses(&self, client: &str, sent: u64, ended: u64, how: How) -> bool {
        self.spans.iter().filter(|span| sent <= span.until && span.from <= ended).any(|span| {
            let at_once = sent <= span.from.saturating_add(INSTANT_MS);
            match span.what {
                // Whatever breaks is told as that; a session that is unknown is never excused, and a stream only as
                // below.
                Trouble::NodeKilled => how != How::Refused && (at_once || self.hits(span, client)),
                // Whoever comes to the door of a node that ends is sent away, or finds nobody there.
                Trouble::NodeStopped => {
                    matches!(how, How::Shed | How::Broken) || how == How::Error && self.hits(span, client)
                }
                Trouble::StoreAway | Trouble::StoreFull => how == How::Shed,
                Trouble::StoreEmptied => matches!(how, How::Shed | How::Refused),
            }
        })
    }

    /// Whether a stream that cannot be resumed began in the last moment of a node, which had no time to write it down and
    /// need not have had it.
    fn excuses_stream(&self, client: &str, sent: u64, ended: u64, detail: &str) -> bool {
        let killed = |span: &&Span| span.what == Trouble::NodeKilled && sent <= span.from && span.from <= ended;
        let at_last = |span: &Span| span.from - sent <= LAST_MOMENT_MS && self.hits(span, client);
        !self.streams_first && detail.starts_with(UNRESUMED) && self.spans.iter().filter(killed).any(at_last)
    }

    /// Whether anything happened since a session was opened that can have cost events.
    fn may_miss(&self, client: &str, until: u64) -> bool {
        let opened = self.opened.get(client).map_or(0, |(at, _)| *at);
        self.happened(opened, until, |what| matches!(what, Trouble::NodeKilled | Trouble::StoreEmptied))
    }

    /// Whether everything that a session was told or acknowledged has to be there: kills cost nothing then, and only a
    /// store that was not there may.
    fn is_strict(&self, client: &str, until: u64) -> bool {
        let opened = self.opened.get(client).map_or(0, |(at, _)| *at);
        let of_store = |what| matches!(what, Trouble::StoreAway | Trouble::StoreEmptied | Trouble::StoreFull);
        self.strict && !self.happened(opened, until, of_store)
    }

    fn happened(&self, from: u64, until: u64, is_it: impl Fn(Trouble) -> bool) -> bool {
        self.spans.iter().any(|span| is_it(span.what) && from <= span.until && span.from <= until)
    }
}

/// All of them.
pub fn all(records: &[Record], verdict: &mut Verdict) {
    let times = Times::read(records);
    ends(records, &times, verdict);
    lost(records, &times, verdict);
    events::activity(records, &times, verdict);
    takeovers::owned_up(records, verdict);
}

/// What ends without a result, although nothing was wrong that would explain it.
fn ends(records: &[Record], times: &Times<'_>, verdict: &mut Verdict) {
    let mut sent: HashMap<&str, u64> = HashMap::new();
    for record in records {
        match record {
            Record::Sent { at_ms, marker, must: Must::Hold, .. } => {
                sent.insert(marker, *at_ms);
            }
            Record::Ended { at_ms, client, marker, how, detail } if *how != How::Result => {
                let Some(sent_ms) = sent.get(marker.as_str()) else { continue };
                let unresumed = *how == How::Refused && times.excuses_stream(client, *sent_ms, *at_ms, detail);
                if !unresumed && !times.excuses(client, *sent_ms, *at_ms, *how) {
                    verdict.violation(format!(
                        "{client}: {marker}, sent at {sent_ms} ms, ended at {at_ms} ms with {how:?}, and nothing \
                         excuses it: {detail}"
                    ));
                }
            }
            Record::Request { sent_ms, at_ms, client, what, how, detail } => {
                let excused = match what.as_str() {
                    _ if *how == How::Result => true,
                    // It has had an event that nobody kept.
                    CURSOR => times.may_miss(client, *at_ms) && !times.is_strict(client, *at_ms),
                    _ => times.excuses(client, *sent_ms, *at_ms, *how),
                };
                if *how == How::Never || !excused {
                    verdict.violation(format!(
                        "{client}: {what}, sent at {sent_ms} ms, ended at {at_ms} ms with {how:?}, and nothing excuses \
                         it: {detail}"
                    ));
                }
            }
            _ => {}
        }
    }
}

/// A session is only ever lost with a store that lost it.
fn lost(records: &[Record], times: &Times<'_>, verdict: &mut Verdict) {
    for record in records {
        let Record::Lost { at_ms, client, detail } = record else { continue };
        let opened = times.opened.get(client.as_str()).map_or(0, |(at, _)| *at);
        if !times.happened(opened, *at_ms, |what| what == Trouble::StoreEmptied) {
            verdict.violation(format!("{client}: its session is lost at {at_ms} ms, and the store was not: {detail}"));
        }
    }
}

#[cfg(test)]
mod tests;
