//! The table of acceptance rows: each row of the contract, each threat and each promise under load or fault that must
//! hold has a test that exists and is run.

use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::{Context, Result};

/// Where the table is. A line is `ROW<TAB>PLACE<TAB>WHAT`: a row of the contract as `042`, a threat as `T07` or a
/// promise as `R04`, its test as `FILE::FUNCTION` or a heading as `ARCHITECTURE.md#Heading`, and what the row asks for,
/// in words.
const TABLE: &str = "tests/acceptance/rows.tsv";
/// The last row of the contract.
const LAST: u16 = 215;
/// Rows of features that do not exist: the sandbox, the native surface.
const ABSENT: &[RangeInclusive<u16>] = &[76..=79, 210..=210];
/// Threats that concern what exists.
const THREATS: &[RangeInclusive<u16>] = &[1..=33, 36..=39, 41..=41, 44..=54];
/// Promises under load and faults that concern what exists.
const PROMISES: &[RangeInclusive<u16>] = &[2..=22];
/// Weaknesses of an earlier design, and rules of authorization.
const WEAKNESSES: &[RangeInclusive<u16>] = &[1..=22];
const RULES: &[RangeInclusive<u16>] = &[1..=35];
/// Rows that ask for a decision and not for a behaviour.
const TEXTS: &[&str] = &["089", "091", "127", "138"];
/// Rows that one test may stand for.
const PER_TEST_MAX: usize = 3;

/// Everything that is wrong with the table.
pub(super) fn violations(root: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(root.join(TABLE)).with_context(|| format!("{TABLE} maps rows to tests"))?;
    let read = |file: &str| fs::read_to_string(root.join(file)).ok();
    Ok(check(&text, &read))
}

fn check(table: &str, read: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut rows: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut tests: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut cells = line.split('\t');
        let (Some(row), Some(place)) = (cells.next().filter(|row| is_row(row)), cells.next()) else {
            problems.push(format!("{TABLE}: not a row, a tab and a place: {line:?}"));
            continue;
        };
        rows.entry(row).or_default().push(place);
        let problem = if TEXTS.contains(&row) { heading(place, read) } else { test(place, read) };
        problems.extend(problem.map(|problem| format!("{TABLE}: row {row}: {problem}")));
        if !TEXTS.contains(&row) {
            tests.entry(place).or_default().push(row);
        }
    }
    let missing = wanted().into_iter().filter(|row| !rows.contains_key(row.as_str()));
    problems.extend(missing.map(|row| format!("{TABLE}: row {row} is missing")));
    for (place, rows) in tests.iter().filter(|(_, rows)| PER_TEST_MAX < rows.len()) {
        problems.push(format!("{TABLE}: {place} stands for {} rows, at most {PER_TEST_MAX} can be", rows.len()));
    }
    problems
}

/// Every row that must be there, as the table writes it.
fn wanted() -> Vec<String> {
    let contract = (1..=LAST).filter(|row| !ABSENT.iter().any(|absent| absent.contains(row)));
    let all = |letter: char, ranges: &'static [RangeInclusive<u16>]| {
        ranges.iter().flat_map(Clone::clone).map(move |row| format!("{letter}{row:02}"))
    };
    let contract = contract.map(|row| format!("{row:03}"));
    let numbered = [('A', RULES), ('R', PROMISES), ('T', THREATS), ('W', WEAKNESSES)];
    contract.chain(numbered.into_iter().flat_map(|(letter, ranges)| all(letter, ranges))).collect()
}

/// Whether a cell is written as rows are.
fn is_row(cell: &str) -> bool {
    let number = cell.strip_prefix(['A', 'R', 'T', 'W']).unwrap_or(cell);
    let digits = if number.len() == cell.len() { 3 } else { 2 };
    number.len() == digits && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn heading(place: &str, read: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let Some((file, title)) = place.split_once('#') else { return Some(format!("{place} is no FILE#Heading")) };
    let found = read(file).is_some_and(|text| {
        text.lines().any(|line| line.starts_with('#') && line.trim_start_matches('#').trim() == title)
    });
    (!found).then(|| format!("{file} has no heading {title:?}"))
}

fn test(place: &str, read: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let Some((file, name)) = place.split_once("::") else { return Some(format!("{place} is no FILE::FUNCTION")) };
    let Some(text) = read(file) else { return Some(format!("{file} does not exist")) };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_it = |line: &&str| {
        let code = line.trim_start_matches("pub ").trim_start_matches("async ");
        code.strip_prefix("fn ").and_then(|rest| rest.strip_prefix(name)).is_some_and(|rest| rest.starts_with('('))
    };
    let Some(at) = lines.iter().position(is_it) else { return Some(format!("{file} has no test {name}")) };
    let above = lines.iter().take(at).rev().take_while(|line| line.starts_with('#') || line.starts_with("//"));
    let attributes: Vec<&str> = above.copied().collect();
    let runs = attributes.iter().any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"));
    let ignored = attributes.iter().any(|line| line.starts_with("#[ignore"));
    match (runs, ignored) {
        (true, false) => None,
        (false, _) => Some(format!("{file}: {name} is no test")),
        (true, true) => Some(format!("{file}: {name} is ignored")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "//! x\n#[test]\nfn good() {}\n#[tokio::test(start_paused = true)]\n/// Doc.\nasync fn paused() {}\n#[test]\n#[ignore]\nfn off() {}\nfn helper() {}\n";

    fn read(file: &str) -> Option<String> {
        match file {
            "a.rs" => Some(FILE.to_owned()),
            "ARCHITECTURE.md" => Some("# A\n## One registry\ntext\n".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn a_row_needs_a_test_that_is_run() {
        for (line, want) in [
            ("001\ta.rs::good", None),
            ("001\ta.rs::paused", None),
            ("001\ta.rs::off", Some("is ignored")),
            ("001\ta.rs::helper", Some("is no test")),
            ("001\ta.rs::gone", Some("has no test gone")),
            ("001\tb.rs::good", Some("does not exist")),
            ("001\ta.rs", Some("is no FILE::FUNCTION")),
            ("089\tARCHITECTURE.md#One registry", None),
            ("089\tARCHITECTURE.md#Two", Some("has no heading")),
            ("x\ta.rs::good", Some("not a row")),
            ("1\ta.rs::good", Some("not a row")),
            ("T7\ta.rs::good", Some("not a row")),
            ("T07\ta.rs::good", None),
            ("R04\ta.rs::gone", Some("has no test gone")),
        ] {
            let problems: Vec<_> =
                check(line, &read).into_iter().filter(|text| !text.ends_with("is missing")).collect();
            match want {
                None => assert_eq!(problems, [""; 0], "{line}"),
                Some(want) => assert!(problems.iter().any(|text| text.contains(want)), "{line}: {problems:?}"),
            }
        }
    }

    #[test]
    fn rows_that_are_missing_and_tests_that_stand_for_too_much_are_told() {
        let problems = check("", &read);
        assert_eq!(problems.len(), wanted().len());
        for row in ["001", "064", "215", "T08", "T45", "R19", "W22", "A01"] {
            assert!(problems.iter().any(|text| text.ends_with(&format!("row {row} is missing"))), "{row}");
        }
        for row in ["076", "079", "210", "T40", "R01"] {
            assert!(!problems.iter().any(|text| text.contains(row)), "{row}");
        }
        let table = "001\ta.rs::good\n002\ta.rs::good\n003\ta.rs::good\n004\ta.rs::good\n";
        assert!(check(table, &read).iter().any(|text| text.contains("stands for 4 rows")));
    }
}
