//! The rules that hold for every scenario.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Verdict;
use crate::history::{How, Must, Record};

/// Every call ends exactly once, as it has to.
pub fn ends(records: &[Record], verdict: &mut Verdict) {
    let mut sent: HashMap<&str, Must> = HashMap::new();
    let mut ended: HashSet<&str> = HashSet::new();
    for record in records {
        match record {
            Record::Sent { marker, must, client, .. } => match sent.insert(marker, *must) {
                None => {}
                Some(_) => verdict.violation(format!("{client}: two calls have the marker {marker}")),
            },
            Record::Ended { client, marker, how, detail, .. } => {
                let Some(must) = sent.get(marker.as_str()) else {
                    verdict.violation(format!("{client}: {marker} ended and was never sent"));
                    continue;
                };
                if !ended.insert(marker) {
                    verdict.violation(format!("{client}: {marker} ended twice"));
                }
                if !allowed(*must, *how) {
                    verdict.violation(format!("{client}: {marker} must {must:?} and ended with {how:?}: {detail}"));
                }
            }
            _ => {}
        }
    }
    for marker in sent.keys().filter(|marker| !ended.contains(*marker)) {
        verdict.violation(format!("{marker} was sent and never ended"));
    }
}

fn allowed(must: Must, how: How) -> bool {
    match must {
        Must::Succeed => how == How::Result,
        Must::Fail => how == How::Error,
        Must::Answer => matches!(how, How::Result | How::Error),
        Must::ServeOrShed => matches!(how, How::Result | How::Shed),
        // What excuses the rest is for the rules of several nodes to say.
        Must::End | Must::Hold => how != How::Never,
    }
}

/// Nobody sees a marker of somebody else, and whoever has a result has his own.
pub fn canary(records: &[Record], verdict: &mut Verdict) {
    let mut owners: HashMap<&str, &str> = HashMap::new();
    let mut seen: HashSet<(&str, &str)> = HashSet::new();
    for record in records {
        match record {
            Record::Sent { client, marker, .. } | Record::Armed { client, timer: marker, .. } => {
                owners.insert(marker, client);
            }
            Record::Seen { client, marker } => {
                seen.insert((client, marker));
                match owners.get(marker.as_str()) {
                    Some(owner) if inbox(owner) == inbox(client) => {}
                    Some(owner) => verdict.violation(format!("LEAK: {client} saw {marker} of {owner}")),
                    None => verdict.violation(format!("LEAK: {client} saw {marker}, which nobody had sent")),
                }
            }
            Record::Ended { client, marker, how: How::Result, .. }
                if !seen.contains(&(client.as_str(), marker.as_str())) =>
            {
                verdict.violation(format!("{client}: the result of {marker} is not its own"));
            }
            _ => {}
        }
    }
}

/// Where no people log in, modern clients have one inbox: whoever begins anew under the same name finds what was left there.
fn inbox(client: &str) -> &str {
    if client.starts_with("modern-") { client.split('.').next().unwrap_or(client) } else { client }
}

/// No call has two effects, none an effect that nobody asked for, and no result comes without one.
pub fn effects(records: &[Record], verdict: &mut Verdict) {
    let sent: HashSet<&str> = records
        .iter()
        .filter_map(|record| if let Record::Sent { marker, .. } = record { Some(marker.as_str()) } else { None })
        .collect();
    let mut effects: HashMap<&str, u32> = HashMap::new();
    for record in records {
        let Record::Effect { marker, .. } = record else { continue };
        *effects.entry(marker).or_default() += 1;
        if !sent.contains(marker.as_str()) {
            verdict.violation(format!("{marker} had an effect and was never sent"));
        }
    }
    for (marker, count) in effects.iter().filter(|(_, count)| 1 < **count) {
        verdict.violation(format!("{marker} had {count} effects"));
    }
    for record in records {
        if let Record::Ended { client, marker, how: How::Result, .. } = record
            && !effects.contains_key(marker.as_str())
        {
            verdict.violation(format!("{client}: {marker} has a result and had no effect"));
        }
    }
}

/// A resumed stream has each event once, in order, and none is missing at its end.
pub fn streams(records: &[Record], verdict: &mut Verdict) {
    let mut streams: BTreeMap<&str, (Vec<u64>, HashSet<&str>)> = BTreeMap::new();
    let mut whole: BTreeMap<&str, u64> = BTreeMap::new();
    for record in records {
        match record {
            Record::Event { stream, id, number } => {
                let (numbers, ids) = streams.entry(stream).or_default();
                if !ids.insert(id) {
                    verdict.violation(format!("stream {stream}: the event {id} came twice"));
                }
                numbers.push(*number);
            }
            Record::StreamEnd { stream, count } => {
                whole.insert(stream, *count);
            }
            _ => {}
        }
    }
    for (stream, (numbers, _)) in &streams {
        if !numbers.is_sorted_by(|one, next| one < next) {
            verdict.violation(format!("stream {stream}: out of order or repeated: {numbers:?}"));
        }
    }
    for (stream, count) in whole {
        let numbers: HashSet<u64> =
            streams.get(stream).map(|(all, _)| all.iter().copied().collect()).unwrap_or_default();
        let missing: Vec<u64> = (1..=count).filter(|number| !numbers.contains(number)).collect();
        if !missing.is_empty() {
            verdict.violation(format!("stream {stream}: {} of {count} are missing: {missing:?}", missing.len()));
        }
    }
}

/// Nothing is left that should be gone.
pub fn left(records: &[Record], verdict: &mut Verdict) {
    for record in records {
        if let Record::Left { pid, what } = record {
            verdict.violation(format!("process {pid} is left: {what}"));
        }
    }
}
