//! The rules for several nodes on one store: what trouble excuses, and what nothing does.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Verdict;
use crate::history::{How, Must, Record, Trouble};

/// How long after a node died what went through it may still break.
const INSTANT_MS: u64 = 400;
/// How late a timer may be told.
const LATE_MS: u64 = 3_000;

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
        Self { spans, opened }
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
                // Whatever breaks is told as that; a session or a stream that is unknown is never excused.
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

    /// Whether anything happened since a session was opened that can have cost events.
    fn may_miss(&self, client: &str, until: u64) -> bool {
        let opened = self.opened.get(client).map_or(0, |(at, _)| *at);
        self.happened(opened, until, |what| matches!(what, Trouble::NodeKilled | Trouble::StoreEmptied))
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
    activity(records, &times, verdict);
    owned_up(records, &times, verdict);
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
                if !times.excuses(client, *sent_ms, *at_ms, *how) {
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
                    CURSOR => times.may_miss(client, *at_ms),
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

/// What one client knows of its timers and events.
#[derive(Default)]
struct Session<'a> {
    ids: HashSet<&'a str>,
    last: &'a str,
    /// How often a gap was owned up to.
    gaps: u64,
    timers: BTreeMap<&'a str, Timer>,
}

/// A timer as its client sees it.
#[derive(Default)]
struct Timer {
    due: u64,
    sure: bool,
    /// The highest number it was told with.
    number: u64,
    /// The gaps that were known when it was armed or last told.
    gaps: u64,
}

/// No event twice, none out of order, and none missing but where a gap was owned up to.
fn activity(records: &[Record], times: &Times<'_>, verdict: &mut Verdict) {
    let mut sessions: HashMap<&str, Session<'_>> = HashMap::new();
    for record in records {
        match record {
            Record::Armed { client, timer, due_ms, sure, .. } => {
                let session = sessions.entry(client).or_default();
                let gaps = session.gaps;
                // Its first event can be there before the answer is.
                let known = session.timers.entry(timer).or_insert(Timer { gaps, ..Timer::default() });
                (known.due, known.sure) = (*due_ms, *sure);
            }
            Record::Activity { at_ms, client, id, what, timer, number, cause } => {
                let session = sessions.entry(client).or_default();
                if !session.ids.insert(id) {
                    verdict.violation(format!("{client}: the event {id} ({what}) came twice, again at {at_ms} ms"));
                } else if what != DROPPED && id.as_str() < session.last {
                    verdict.violation(format!("{client}: the event {id} ({what}) came after {}", session.last));
                }
                if what == DROPPED {
                    // It stands before what was kept, however old that is.
                    session.gaps += 1;
                    if !times.may_miss(client, *at_ms) {
                        verdict.violation(format!(
                            "{client}: events are dropped at {at_ms} ms ({cause:?}), and nothing explains it"
                        ));
                    }
                } else {
                    session.last = session.last.max(id);
                }
                if let (Some(timer), Some(number)) = (timer, number) {
                    told(session, client, timer, *number, verdict);
                }
            }
            Record::CaughtUp { at_ms, client } => {
                let session = sessions.entry(client).or_default();
                missing(session, client, *at_ms, verdict);
            }
            _ => {}
        }
    }
}

/// A timer is told with the number after the last one, unless a gap lies between.
fn told<'a>(session: &mut Session<'a>, client: &str, timer: &'a str, number: u64, verdict: &mut Verdict) {
    let gaps = session.gaps;
    let known = session.timers.entry(timer).or_insert(Timer { gaps, ..Timer::default() });
    if number != known.number + 1 && known.gaps == gaps {
        let word = if number <= known.number { "again" } else { "with a silent gap" };
        verdict.violation(format!("{client}: timer {timer} is told {word}: {number} after {}", known.number));
    }
    (known.number, known.gaps) = (number, gaps);
}

fn missing(session: &Session<'_>, client: &str, at_ms: u64, verdict: &mut Verdict) {
    for (timer, known) in &session.timers {
        let due = known.sure && known.due.saturating_add(LATE_MS) < at_ms;
        if due && known.number == 0 && known.gaps == session.gaps {
            verdict
                .violation(format!("{client}: timer {timer}, due at {} ms, was never told: a silent gap", known.due));
        }
    }
}

/// Whoever takes a session from a node that died says that something may be missing.
fn owned_up(records: &[Record], times: &Times<'_>, verdict: &mut Verdict) {
    let mut gaps: HashMap<&str, u64> = HashMap::new();
    for record in records {
        if let Record::Activity { at_ms, client, what, cause, .. } = record
            && what == DROPPED
            && cause.as_deref() == Some(NODE_LOST)
        {
            gaps.insert(client, *at_ms);
        }
    }
    for record in records {
        let Record::CaughtUp { client, .. } = record else { continue };
        let known = times.opened.get(client.as_str()).is_some_and(|(_, node)| node.is_some());
        let Some(first) = times.of_opener(client).next().filter(|_| known) else { continue };
        let told = gaps.get(client.as_str()).is_some_and(|at| first.from <= *at);
        if first.what == Trouble::NodeKilled && !told {
            verdict.violation(format!(
                "{client}: its node was killed at {} ms, and no event says that something may be missing",
                first.from
            ));
        }
    }
}

#[cfg(test)]
mod tests;
