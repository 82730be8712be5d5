//! What each row of the conformance table must reach.

use super::client::Driver;
use super::{Suite, Way};
use crate::score::Score;

/// The scenario that upstream consists of one SKIPPED check.
const ALWAYS_VOID: &str = "tasks-status-notifications";

/// Polling is about a server that closes its SSE stream early; a server on stdio has no such stream.
const NOT_ON_STDIO: &str = "server-sse-polling";

/// How many must pass, and which may show nothing.
fn target(way: Way, suite: Suite, driver: &Driver) -> (usize, &'static [&'static str]) {
    match (suite, way) {
        // Another driver is measured by what it passes directly, whatever that is; something, at least.
        (_, Way::Client) if matches!(driver, Driver::Given(_)) => (1, &[]),
        (_, Way::Authorization) => (2, &[]),
        (Suite::Modern, Way::ClientAuth) => (25, &[]),
        (Suite::Legacy, Way::ClientAuth) => (14, &[]),
        (Suite::Oldest, _) => (2, &[]),
        (Suite::Legacy, Way::Client) => (5, &[]),
        (Suite::Modern, Way::Client) => (8, &[]),
        (Suite::Legacy, Way::HttpStdio) => (32, &[NOT_ON_STDIO]),
        (Suite::Stable, Way::HttpStdio) => (31, &[NOT_ON_STDIO]),
        (Suite::Legacy, _) => (33, &[]),
        (Suite::Modern, _) => (40, &[]),
        (Suite::Tasks, _) => (9, &[ALWAYS_VOID]),
        (Suite::Stable, _) => (32, &[]),
    }
}

/// What keeps a score from its target, one line each.
pub fn misses(way: Way, suite: Suite, driver: &Driver, score: &Score) -> Vec<String> {
    let (passed, may_be_void) = target(way, suite, driver);
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
        assert_eq!(misses(way, suite, &Driver::Ours, &score).is_empty(), met, "{way:?} {suite:?} {score:?}");
    }

    #[test]
    fn only_our_own_driver_must_pass_everything() {
        let score = |passed| Score { passed, failed: 0, void: Vec::new(), warnings: 0, bad: Vec::new() };
        let met = |driver: &Driver, passed| misses(Way::Client, Suite::Modern, driver, &score(passed)).is_empty();
        let given = Driver::Given("client".to_owned());
        assert_eq!([met(&Driver::Ours, 8), met(&Driver::Ours, 7)], [true, false]);
        assert_eq!([met(&given, 8), met(&given, 1), met(&given, 0)], [true, true, false]);
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
        check(Way::Authorization, Suite::Modern, 2, &[], &[], true);
        check(Way::Authorization, Suite::Legacy, 1, &["authorization-code-grant"], &[], false);
        check(Way::Client, Suite::Legacy, 5, &[], &[], true);
        check(Way::Client, Suite::Legacy, 5, &[], &["sse-retry"], false);
    }
}
