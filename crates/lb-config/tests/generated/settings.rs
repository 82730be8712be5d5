//! Files of settings: read, or refused with a place.

use lb_config::settings::{fuzz_settings, table};
use lb_config::{Problem, problems_json};
use lb_testkit::generate::{self, Campaign, Rng, corpus};
use serde_json::Value;

const SETTINGS: u64 = 150_000;

const WORDS: &[&[u8]] = &[
    b"=",
    b"\n",
    b"\"",
    b"'",
    b"\"\"\"",
    b"[",
    b"]",
    b"[[",
    b"{",
    b"}",
    b"#",
    b".",
    b",",
    b"true",
    b"0x1F",
    b"1_000",
    b"1e9",
    b"1979-05-27",
    b"\"30m\"",
    b"\"5s\"",
    b"\\u0000",
    b"\0",
    b"\xff",
    b"\xc3\xa9",
    b"\xef\xbb\xbf",
    b"port = 1\n",
    b"listen = \"127.0.0.1:0\"\n",
    b"allow_host = [\"a.example\"]\n",
    b"surface = \"server\"\n",
    b"\"unix:/tmp/a\"",
    b"\"10.0.0.0/8\"",
    b"${HOME}",
    b"-1",
];

/// True when the file can be used.
fn check(input: &[u8]) -> bool {
    let (problems, usable) = fuzz_settings(input);
    let lines = 1 + input.iter().filter(|byte| **byte == b'\n').count();
    for Problem { line, message, .. } in &problems {
        assert!(*line <= lines && !message.is_empty(), "line {line} of {lines}: {message}");
    }
    assert!(usable || !problems.is_empty(), "refused without a reason");
    if !problems.is_empty() {
        let shown: Vec<Value> = serde_json::from_str(&problems_json(&problems)).expect("problems are shown as JSON");
        assert_eq!(shown.len(), problems.len());
    }
    usable
}

/// A few settings with values that mostly fit, or words in a row.
fn fresh(rng: &mut Rng) -> Vec<u8> {
    if rng.one_in(4) {
        return generate::soup(rng, WORDS);
    }
    const VALUES: &[&str] =
        &["1", "true", "\"5s\"", "\"a.example\"", "[\"a.example\"]", "0", "\"\"", "-1", "[1]", "1.5"];
    let mut text = String::new();
    for _ in 0..rng.below(4) {
        let setting = &table()[rng.below(table().len())];
        // Half of them get one of the first values, of which one mostly fits.
        let value = if rng.one_in(2) { rng.pick(&VALUES[..4]) } else { rng.pick(VALUES) };
        text.push_str(&format!("{} = {value}\n", setting.key));
    }
    text.into_bytes()
}

#[test]
fn settings_files_are_read_or_refused_with_a_place() {
    let campaign =
        Campaign { name: "settings", count: SETTINGS, seed: 0x5E77, corpus: &corpus("settings"), words: WORDS };
    campaign.run(fresh, check);
}

#[test]
fn the_whole_corpus_of_settings_passes_the_check() {
    let usable = corpus("settings").iter().filter(|input| check(input)).count();
    assert!(3 <= usable, "only {usable} files of the corpus can be used");
}
