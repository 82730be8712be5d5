//! The `restartConfig` section of a server. Its unknown keys count as those of the server around it.

use std::time::Duration;

use lb_exchange::Restart;

use crate::entry::Shape;
use crate::fields::{self, Read, Reported};
use crate::json::Node;
use crate::report::{KeyPath, Report};
use crate::suggest::nearest;

const KEYS: [&str; 5] = ["enabled", "maxAttempts", "baseDelayMs", "maxDelayMs", "backoffMultiplier"];
const ATTEMPTS_MAX: u32 = 1_000;
const DELAY_MS_MAX: u32 = 3_600_000;
const FACTOR_MAX: f64 = 100.0;

/// Reads the section; what it does not name stays at its default.
pub(crate) fn read(report: &mut Report<'_>, node: &Node, path: &KeyPath, shape: Shape) -> Read<Restart> {
    let members = fields::object(report, node, path)?;
    let mut restart = Restart::default();
    let mut longest = None;
    let mut first_is_set = false;
    let mut failed = false;
    for member in members {
        let (node, path) = (&member.node, &path.key(&member.key));
        let mut delay =
            || fields::integer(report, node, path, [0, DELAY_MS_MAX]).map(|ms| Duration::from_millis(u64::from(ms)));
        let read = match member.key.as_str() {
            "enabled" => fields::boolean(report, node, path).map(|value| restart.enabled = value),
            "maxAttempts" => {
                fields::integer(report, node, path, [0, ATTEMPTS_MAX]).map(|value| restart.attempts_max = value)
            }
            "baseDelayMs" => {
                first_is_set = true;
                delay().map(|value| restart.delay_first = value)
            }
            "maxDelayMs" => {
                longest = Some((node.at, path.clone()));
                delay().map(|value| restart.delay_max = value)
            }
            "backoffMultiplier" => {
                fields::number(report, node, path, [1.0, FACTOR_MAX]).map(|value| restart.delay_factor = value)
            }
            unknown => shape.unknown_key(report, member.at, path, nearest(unknown, &KEYS)),
        };
        failed |= read.is_err();
    }
    if failed {
        return Err(Reported);
    }
    if restart.delay_max < restart.delay_first {
        match longest {
            Some((at, path)) if first_is_set => {
                report.error(at, &path, "must not be less than baseDelayMs");
                return Err(Reported);
            }
            // Only one of them was set: the default of the other gives way.
            Some(_) => restart.delay_first = restart.delay_max,
            None => restart.delay_max = restart.delay_first,
        }
    }
    Ok(restart)
}
