//! Events of sessions: none twice, none out of order, and none missing but within a gap that was owned up to.
//!
//! Which event is missing is known by the numbers of timers: it was given an id between those of two events that a client
//! was told. The gap that excuses it names a range of ids, and has to reach into that stretch.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{DROPPED, Times};
use crate::check::Verdict;
use crate::history::Record;

/// How late a timer may be told.
const LATE_MS: u64 = 3_000;

/// What one client knows of its timers and events.
#[derive(Default)]
struct Session<'a> {
    ids: HashSet<&'a str>,
    last: &'a str,
    /// What comes next is newer than this: the last event, or the end of the last gap.
    mark: &'a str,
    /// The gaps that were owned up to: the first and the last id of each.
    gaps: Vec<(&'a str, &'a str)>,
    timers: BTreeMap<&'a str, Timer<'a>>,
}

/// A timer as its client sees it.
#[derive(Default)]
struct Timer<'a> {
    due: u64,
    sure: bool,
    /// The highest number it was told with.
    number: u64,
    /// The event that told it last, or what was known when it was armed: whatever is missing is newer.
    since: &'a str,
}

impl Session<'_> {
    /// Whether a gap reaches into the ids between two, or beyond the first.
    fn is_excused(&self, after: &str, before: Option<&str>) -> bool {
        self.gaps.iter().any(|(first, last)| after < *last && before.is_none_or(|before| *first < before))
    }
}

/// All of it.
pub fn activity(records: &[Record], times: &Times<'_>, verdict: &mut Verdict) {
    let mut sessions: HashMap<&str, Session<'_>> = HashMap::new();
    for record in records {
        match record {
            Record::Armed { client, timer, due_ms, sure, .. } => {
                let session = sessions.entry(client).or_default();
                let since = session.mark;
                // Its first event can be there before the answer is.
                let known = session.timers.entry(timer).or_insert(Timer { since, ..Timer::default() });
                (known.due, known.sure) = (*due_ms, *sure);
            }
            Record::Activity { at_ms, client, id, what, timer, number, cause, gap } => {
                let session = sessions.entry(client).or_default();
                if !session.ids.insert(id) {
                    verdict.violation(format!("{client}: the event {id} ({what}) came twice, again at {at_ms} ms"));
                } else if what != DROPPED && id.as_str() < session.last {
                    verdict.violation(format!("{client}: the event {id} ({what}) came after {}", session.last));
                }
                if what == DROPPED {
                    dropped(session, client, gap.as_ref(), verdict);
                    if !times.may_miss(client, *at_ms) {
                        verdict.violation(format!(
                            "{client}: events are dropped at {at_ms} ms ({cause:?}), and nothing explains it"
                        ));
                    }
                } else {
                    session.last = session.last.max(id);
                    session.mark = session.mark.max(id);
                }
                if let (Some(timer), Some(number)) = (timer, number) {
                    told(session, (client, *at_ms), (timer, *number, id), times, verdict);
                }
            }
            Record::CaughtUp { at_ms, client } => {
                let session = sessions.entry(client).or_default();
                missing(session, client, *at_ms, times, verdict);
            }
            _ => {}
        }
    }
}

/// A gap says what it may have cost, and stands before whatever is newer.
fn dropped<'a>(session: &mut Session<'a>, client: &str, gap: Option<&'a (String, String)>, verdict: &mut Verdict) {
    let Some((first, last)) = gap.filter(|(first, last)| !first.is_empty() && first <= last) else {
        verdict.violation(format!("{client}: events are dropped, and it is not told which: {gap:?}"));
        return;
    };
    if last.as_str() < session.last {
        let newer = session.last;
        verdict.violation(format!("{client}: a gap up to {last} is told after the event {newer}, which is newer"));
    }
    session.gaps.push((first, last));
    session.mark = session.mark.max(last);
}

/// A timer is told with the number after the last one, unless a gap lies between.
fn told<'a>(
    session: &mut Session<'a>,
    (client, at_ms): (&str, u64),
    (timer, number, id): (&'a str, u64, &'a str),
    times: &Times<'_>,
    verdict: &mut Verdict,
) {
    let known = session.timers.get(timer).map_or((0, ""), |known| (known.number, known.since));
    let (before, since) = known;
    let word = if number <= before { "again" } else { "with a silent gap" };
    let excused = session.is_excused(since, Some(id)) && !(number <= before && times.is_strict(client, at_ms));
    // Modern clients have one inbox: whoever begins anew finds timers there that were set and told before.
    let found = !session.timers.contains_key(timer) && client.starts_with("modern-");
    if number != before + 1 && !excused && !found {
        verdict.violation(format!("{client}: timer {timer} is told {word}: {number} after {before} at {at_ms} ms"));
    }
    let known = session.timers.entry(timer).or_default();
    (known.number, known.since) = (number, id);
}

fn missing(session: &Session<'_>, client: &str, at_ms: u64, times: &Times<'_>, verdict: &mut Verdict) {
    let strict = times.is_strict(client, at_ms);
    for (timer, known) in &session.timers {
        let due = known.sure && known.due.saturating_add(LATE_MS) < at_ms;
        if due && known.number == 0 && (strict || !session.is_excused(known.since, None)) {
            let why = if strict { "acknowledged, and lost" } else { "a silent gap" };
            verdict.violation(format!("{client}: timer {timer}, due at {} ms, was never told: {why}", known.due));
        }
    }
}
