//! Figures that follow from a history.

use std::collections::HashMap;

use crate::history::{Measure, Quantity, Record};

/// What is measured, in words.
pub fn words(of: &Measure) -> String {
    match of {
        Measure::Counted { name } => name.clone(),
        Measure::Calls { client, how } => format!("calls of {client}* that ended with {how:?}"),
        Measure::Slowest { how } => format!("slowest {how:?} in ms"),
        Measure::Growth { of, from, to } => format!("growth of {of:?} from {from} to {to}"),
        Measure::Peak { of, from, to } => format!("peak of {of:?} during {to}, above {from}"),
        Measure::PerMinute { of, phase } => format!("slope of {of:?} per minute during {phase}"),
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
        Measure::Slowest { .. } => Some(slowest(of, records)),
        Measure::Growth { of, from, to } => Some(samples(records, *of, to).last()?.1 - last(records, *of, from)?),
        Measure::Peak { of, from, to } => {
            let peak = samples(records, *of, to).into_iter().map(|(_, value)| value).max()?;
            Some(peak - last(records, *of, from)?)
        }
        Measure::PerMinute { of, phase } => slope(&samples(records, *of, phase)),
        Measure::Last { of, phase } => last(records, *of, phase),
    }
}

/// No call at all is no slow call.
fn slowest(of: &Measure, records: &[Record]) -> i64 {
    let Measure::Slowest { how } = of else { return 0 };
    let mut sent: HashMap<&str, u64> = HashMap::new();
    let mut slowest = 0;
    for record in records {
        match record {
            Record::Sent { at_ms, marker, .. } => {
                sent.insert(marker, *at_ms);
            }
            Record::Ended { at_ms, marker, how: found, .. } if found == how => {
                let took = sent.get(marker.as_str()).map_or(0, |sent| at_ms.saturating_sub(*sent));
                slowest = slowest.max(i64::try_from(took).unwrap_or(i64::MAX));
            }
            _ => {}
        }
    }
    slowest
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
