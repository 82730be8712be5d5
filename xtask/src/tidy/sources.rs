//! Rules on the text of one file.

use std::path::Path;

/// A source file past this length usually holds two nouns.
const LINES_MAX: usize = 600;

/// What only the conformance fixture may name, so that nothing in the product answers to it.
const FIXTURE_NAMES: &[&str] = &["\"test_", "test://", "json_schema_2020_12_tool"];

/// Everything that is wrong with a file, one line each.
pub fn violations(file: &Path, text: &str, machine_places: &[String]) -> Vec<String> {
    let mut problems = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if machine_places.iter().any(|place| names_place(line, place)) {
            problems.push(format!("{}:{}: names a folder of this machine", file.display(), number + 1));
        }
    }
    if !is_module(file) {
        return problems;
    }
    if !is_tests(file) && !has_header(text) {
        problems.push(format!("{}: does not open with `//!`", file.display()));
    }
    if is_product(file) {
        for (number, line) in before_tests(text) {
            for name in FIXTURE_NAMES.iter().filter(|name| line.contains(**name)) {
                problems.push(format!("{}:{number}: `{name}` belongs to the fixture server", file.display()));
            }
        }
    }
    problems
}

/// A note on a file that is too long to be about one noun.
pub fn too_long(file: &Path, text: &str) -> Option<String> {
    let lines = text.lines().count();
    (is_module(file) && !is_tests(file) && LINES_MAX < lines).then(|| format!("{}: {lines} lines", file.display()))
}

/// A Rust file in `src` of a crate of ours or of xtask; the benches are outside these rules.
fn is_module(file: &Path) -> bool {
    let parts = parts(file);
    let in_src = matches!(parts.as_slice(), ["crates", _, "src", ..] | ["xtask", "src", ..]);
    in_src && file.extension().is_some_and(|extension| extension == "rs")
}

/// Code that ends up in the product: not the peers, not a file of tests, not xtask.
fn is_product(file: &Path) -> bool {
    matches!(parts(file).as_slice(), ["crates", name, "src", ..] if *name != "lb-peers") && !is_tests(file)
}

fn is_tests(file: &Path) -> bool {
    parts(file).iter().any(|part| matches!(*part, "tests" | "tests.rs"))
}

fn parts(file: &Path) -> Vec<&str> {
    file.iter().filter_map(|part| part.to_str()).collect()
}

/// Inner attributes and blank lines may come first.
fn has_header(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("#!["));
    first.is_some_and(|line| line.starts_with("//!"))
}

/// The numbered lines above an inline test module, which by our layout comes last.
fn before_tests(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    numbered.take_while(|(_, line)| line.trim() != "#[cfg(test)]")
}

/// Whether a line names `place` as an absolute path, and not as the middle of another path.
fn names_place(line: &str, place: &str) -> bool {
    line.match_indices(&format!("{place}/")).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '}' | '~'))
    })
}
