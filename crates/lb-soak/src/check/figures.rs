//! Figures that follow from a history.

use std::collections::HashMap;

use crate::history::{How, Measure, Quantity, Record};

/// What is measured, in words.
pub fn words(of: &Measure) -> String {
    match of {
        Measure::Counted { name } => name.clone(),
        Measure::Calls { client, how } => format!("calls of {client}* that ended with {how:?}"),
        Measure::Slowest { how } => format!("slowest {how:?} in ms"),
        Measure::Percentile { client, percent } => format!("p{percent} of calls of {client}* in ms"),
        Measure::Growth { of, from, to } => format!("growth of {of:?} from {from} to {to}"),
        Measure::Peak { of, from, to } => format!("peak of {of:?} during {to}, above {from}"),
        Measure::PerMinute { of, phase } => format!("slope of {of:?} per minute during {phase}"),
        Measure::Steady { of, phase } => format!("median slope of {of:?} per minute during {phase}"),
        Measure::Last { of, phase } => format!("{of:?} at the end of {phase}"),
    }
}

/// The value; `None` when nothing was measured.
pub fn value(of: &Measure, records: &[Record]) -> Option<i64> {
    match of {
        Measure::Counted { name } => {
            let counts = records.iter().filter_map(|record| match record {
                Record::Count { name: found, value } if found == name => Some(*value),
                _ => None,
            });
            counts.reduce(|sum, value| sum + value)
        }
        Measure::Calls { client: start, how } => {
            let ended = |record: &&Record| matches!(record, Record::Ended { client, how: found, .. } if client.starts_with(start) && found == how);
            i64::try_from(records.iter().filter(ended).count()).ok()
        }
        // No call at all is no slow call.
        Measure::Slowest { how } => Some(times(records, |_, found| found == *how).into_iter().max().unwrap_or(0)),
        Measure::Percentile { client: start, percent } => {
            let mut times = times(records, |client, _| client.starts_with(start));
            times.sort_unstable();
            times.get((times.len() * percent / 100).min(times.len().saturating_sub(1))).copied()
        }
        Measure::Growth { of, from, to } => Some(samples(records, *of, to).last()?.1 - last(records, *of, from)?),
        Measure::Peak { of, from, to } => {
            let peak = samples(records, *of, to).into_iter().map(|(_, value)| value).max()?;
            Some(peak - last(records, *of, from)?)
        }
        Measure::PerMinute { of, phase } => slope(&samples(records, *of, phase)),
        Measure::Steady { of, phase } => {
            let samples = samples(records, *of, phase);
            let mut slopes: Vec<i64> = samples.chunks((samples.len() / 10).max(2)).filter_map(slope).collect();
            slopes.sort_unstable();
            slopes.get(slopes.len() / 2).copied()
        }
        Measure::Last { of, phase } => last(records, *of, phase),
    }
}

/// How long those calls took that are wanted by their client and their end.
fn times(records: &[Record], is_wanted: impl Fn(&str, How) -> bool) -> Vec<i64> {
    let mut sent: HashMap<&str, u64> = HashMap::new();
    let mut times = Vec::new();
    for record in records {
        match record {
            Record::Sent { at_ms, marker, .. } => {
                sent.insert(marker, *at_ms);
            }
            Record::Ended { at_ms, client, marker, how, .. } if is_wanted(client, *how) => {
                let took = sent.get(marker.as_str()).map_or(0, |sent| at_ms.saturating_sub(*sent));
                times.push(i64::try_from(took).unwrap_or(i64::MAX));
            }
            _ => {}
        }
    }
    times
}

fn last(records: &[Record], of: Quantity, phase: &str) -> Option<i64> {
    samples(records, of, phase).last().map(|(_, value)| *value)
}

/// Time and value of the samples of a phase.
fn samples(records: &[Record], of: Quantity, wanted: &str) -> Vec<(i64, i64)> {
    let found = records.iter().filter_map(|record| match record {
        Record::Sample { at_ms, phase, rss_kib, fds, processes, zombies, ticks, .. } if phase == wanted => {
            let value = match of {
                Quantity::RssKib => *rss_kib,
                Quantity::Fds => *fds,
                Quantity::Processes => *processes,
                Quantity::Zombies => *zombies,
                Quantity::Ticks => *ticks,
            };
            Some((i64::try_from(*at_ms).ok()?, i64::try_from(value).ok()?))
        }
        _ => None,
    });
    found.collect()
}

/// What the best straight line through the samples rises by in a minute.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "figures for people, far below 2^52")]
fn slope(samples: &[(i64, i64)]) -> Option<i64> {
    let count = samples.len() as f64;
    let mean = |part: fn(&(i64, i64)) -> i64| samples.iter().map(|sample| part(sample) as f64).sum::<f64>() / count;
    let (mid_time, mid_value) = (mean(|sample| sample.0), mean(|sample| sample.1));
    let (mut above, mut below) = (0.0, 0.0);
    for (time, value) in samples {
        let from_mid = *time as f64 - mid_time;
        above += from_mid * (*value as f64 - mid_value);
        below += from_mid * from_mid;
    }
    (0.0 < below).then(|| (above / below * 60_000.0).round() as i64)
}
