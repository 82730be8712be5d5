//! What each row of the conformance table must reach.

use super::{Suite, Way};
use crate::score::Score;

/// The scenario that upstream consists of one SKIPPED check.
const ALWAYS_VOID: &str = "tasks-status-notifications";

/// Polling is about a server that closes its SSE stream early; a server on stdio has no such stream.
const NOT_ON_STDIO: &str = "server-sse-polling";

/// How many must pass, and which may show nothing.
fn target(way: Way, suite: Suite) -> (usize, &'static [&'static str]) {
    match (suite, way) {
        // Measured by what the driver passes directly, whatever that is; something, at least.
        (_, Way::Client) => (1, &[]),
        (Suite::Legacy, Way::HttpStdio) => (32, &[NOT_ON_STDIO]),
        (Suite::Stable, Way::HttpStdio) => (31, &[NOT_ON_STDIO]),
        (Suite::Legacy, _) => (33, &[]),
        (Suite::Modern, _) => (40, &[]),
        (Suite::Tasks, _) => (9, &[ALWAYS_VOID]),
        (Suite::Stable, _) => (32, &[]),
    }
}

/// What keeps a score from its target, one line each.
pub fn misses(way: Way, suite: Suite, score: &Score) -> Vec<String> {
    let (passed, may_be_void) = target(way, suite);
    let mut misses = Vec::new();
    if score.passed < passed {
        misses.push(format!("{} passed, the target is {passed}", score.passed));
    }
    if !score.bad.is_empty() {
        misses.push(format!("bad: {}", score.bad.join(", ")));
    }
    let void: Vec<&str> = score.void.iter().map(String::as_str).filter(|name| !may_be_void.contains(name)).collect();
    if !void.is_empty() {
        misses.push(format!("void: {}", void.join(", ")));
    }
    misses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(way: Way, suite: Suite, passed: usize, void: &[&str], bad: &[&str], met: bool) {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let score = Score { passed, failed: bad.len(), void: own(void), warnings: 0, bad: own(bad) };
        assert_eq!(misses(way, suite, &score).is_empty(), met, "{way:?} {suite:?} {score:?}");
    }

    #[test]
    fn a_row_meets_its_target_only_without_other_voids_and_failures() {
        check(Way::HttpHttp, Suite::Legacy, 33, &[], &[], true);
        check(Way::HttpHttp, Suite::Legacy, 32, &[], &[], false);
        check(Way::HttpHttp, Suite::Legacy, 32, &[NOT_ON_STDIO], &[], false);
        check(Way::HttpStdio, Suite::Legacy, 32, &[NOT_ON_STDIO], &[], true);
        check(Way::HttpStdio, Suite::Legacy, 32, &["ping"], &[], false);
        check(Way::HttpStdio, Suite::Legacy, 33, &[], &[], true);
        check(Way::Direct, Suite::Tasks, 9, &[ALWAYS_VOID], &[], true);
        check(Way::Direct, Suite::Modern, 40, &[], &["caching"], false);
        check(Way::HttpStdio, Suite::Stable, 31, &[NOT_ON_STDIO], &[], true);
    }
}
