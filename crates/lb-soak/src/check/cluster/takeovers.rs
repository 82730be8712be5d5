//! Whoever takes a session from a node that died says that something may be missing: each time, and before anything
//! newer.

use std::collections::{HashMap, HashSet};

use super::{DROPPED, INSTANT_MS, NODE_LOST};
use crate::check::Verdict;
use crate::history::{Record, Trouble};

/// The death of a node that had a session, as its client sees it.
struct Loss {
    node: usize,
    at_ms: u64,
    /// Timers that were set after it: whoever is told of one has been told of the gap.
    later: HashSet<String>,
    told: bool,
}

/// All of it.
pub fn owned_up(records: &[Record], verdict: &mut Verdict) {
    let mut holds: HashMap<usize, HashSet<&str>> = HashMap::new();
    let mut names: HashMap<&str, Vec<&str>> = HashMap::new();
    let mut losses: HashMap<&str, Vec<Loss>> = HashMap::new();
    for record in records {
        match record {
            Record::Named { client, session } => names.entry(session).or_default().push(client),
            Record::Holds { node, sessions, .. } => {
                holds.insert(*node, sessions.iter().map(String::as_str).collect());
            }
            Record::Trouble { at_ms, what: Trouble::NodeKilled, node: Some(node), over: false } => {
                let held = holds.remove(node).unwrap_or_default();
                for client in held.iter().flat_map(|session| names.get(session).into_iter().flatten()) {
                    let loss = Loss { node: *node, at_ms: *at_ms, later: HashSet::new(), told: false };
                    losses.entry(client).or_default().push(loss);
                }
            }
            Record::Armed { at_ms, client, timer, sure: true, .. } => {
                for loss in losses.get_mut(client.as_str()).into_iter().flatten() {
                    // An answer may be on its way when a node dies.
                    if loss.at_ms + INSTANT_MS < *at_ms {
                        loss.later.insert(timer.clone());
                    }
                }
            }
            Record::Activity { at_ms, client, what, timer, cause, .. } => {
                let of_client = losses.get_mut(client.as_str()).into_iter().flatten();
                if what == DROPPED && cause.as_deref() == Some(NODE_LOST) {
                    of_client.for_each(|loss| loss.told = true);
                } else if let Some(timer) = timer {
                    for loss in of_client.filter(|loss| !loss.told && loss.later.contains(timer)) {
                        loss.told = true;
                        verdict.violation(format!(
                            "{}, when it is told of a timer that was set later",
                            silent(client, loss, *at_ms)
                        ));
                    }
                }
            }
            Record::CaughtUp { at_ms, client } => {
                for loss in losses.get_mut(client.as_str()).into_iter().flatten().filter(|loss| !loss.told) {
                    loss.told = true;
                    verdict.violation(silent(client, loss, *at_ms));
                }
            }
            _ => {}
        }
    }
}

fn silent(client: &str, loss: &Loss, at_ms: u64) -> String {
    let Loss { node, at_ms: killed, .. } = loss;
    format!(
        "{client}: node {node}, which had its session, was killed at {killed} ms, and until {at_ms} ms no event says \
         that something may be missing"
    )
}
