//! Generated files of the two kinds that are read: half a million of servers, and of settings, which take longer, fewer.

mod settings;

use std::path::Path;

use lb_config::{Loaded, Problem, parse_bytes, problems_json};
use lb_testkit::generate::{self, Campaign, Rng, corpus};
use serde_json::Value;

const CONFIG: u64 = 500_000;

const WORDS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"\\",
    b"// x\n",
    b"/* x */",
    b"/*",
    b"${HOME}",
    b"${X:-y}",
    b"${",
    b"$${",
    b"\"command\":\"x\",",
    b"\"url\":\"http://127.0.0.1:1/mcp\",",
    b"\"args\":[\"-a\"],",
    b"\"env\":{\"A\":\"b\"},",
    b"\"disabled\":true,",
    b"\"timeout_ms\":1,",
    b"\"isolation\":\"shared\",",
    b"\"mcpServers\":{",
    b"\"servers\":[",
    b"\"name\":\"a\",",
    b"null",
    b"1e400",
    b"-1",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\n",
    b"\\u0000",
    b"__",
    b"\xc3\xa9",
];

/// True when the file can be used.
fn check(input: &[u8]) -> bool {
    let env = |name: &str| name.len().is_multiple_of(2).then(|| name.repeat(2));
    let strict = serde_json::from_slice::<Value>(input).ok();
    if is_shown(input) {
        lb_config::fuzz_parse(input);
    }
    match parse_bytes(input, Path::new("mcp.json"), &env) {
        Ok(loaded) => {
            check_places(input, loaded.warnings.iter().chain(&loaded.left_out));
            if let Some(value) = &strict {
                check_servers(&loaded, value);
            } else {
                let text = std::str::from_utf8(input).expect("accepted files are text");
                let lenient = ["//", "/*", ",", "\u{feff}"].iter().any(|mark| text.contains(mark));
                assert!(lenient, "accepted, but JSON it is not");
            }
            true
        }
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a reason");
            check_places(input, problems.iter());
            false
        }
    }
}

/// Every server stands in the file.
fn check_servers(loaded: &Loaded, value: &Value) {
    let in_file: usize = ["mcpServers", "servers"]
        .iter()
        .filter_map(|key| value.get(key))
        .map(|servers| servers.as_object().map_or(0, |all| all.len()) + servers.as_array().map_or(0, Vec::len))
        .sum();
    assert!(loaded.servers.len() <= in_file, "{} servers from {in_file}", loaded.servers.len());
}

/// Every problem points into the file and can be shown.
fn check_places<'a>(input: &[u8], problems: impl Iterator<Item = &'a Problem>) {
    let problems: Vec<Problem> = problems.cloned().collect();
    let lines = 1 + input.iter().filter(|byte| **byte == b'\n').count();
    for problem in &problems {
        assert!((1..=lines).contains(&problem.line), "line {} of {lines}: {problem}", problem.line);
        assert!((1..=input.len() + 1).contains(&problem.column), "column {}: {problem}", problem.column);
        assert!(!problem.message.is_empty());
    }
    if is_shown(input) {
        let shown: Vec<Value> = serde_json::from_str(&problems_json(&problems)).expect("problems are shown as JSON");
        assert_eq!(shown.len(), problems.len());
    }
}

/// Showing problems takes longer than finding them: some are enough.
fn is_shown(input: &[u8]) -> bool {
    input.len().is_multiple_of(8)
}

/// A file in one of the known shapes, or words in a row.
fn fresh(rng: &mut Rng) -> Vec<u8> {
    const MEMBERS: &[&str] = &[
        r#""args":["-y","${HOME}"]"#,
        r#""env":{"A":"b"}"#,
        r#""cwd":"/tmp""#,
        r#""disabled":true"#,
        r#""timeout_ms":1000"#,
        r#""isolation":"shared""#,
        r#""x":[{}]"#,
        r#""args":"x""#,
        r#""env":null"#,
        r#""cwd":"${NO:-x}""#,
        r#""disabled":1"#,
        r#""timeout_ms":0"#,
        r#""isolation":"none""#,
    ];
    if rng.one_in(4) {
        return generate::soup(rng, WORDS);
    }
    let mut servers = Vec::new();
    for at in 0..rng.below(4) {
        let mut members = vec![rng.pick(&[r#""command":"node""#, r#""url":"http://localhost:1/mcp""#])];
        for _ in 0..rng.below(3) {
            // The first half of them is good.
            let among = if rng.one_in(5) { MEMBERS } else { MEMBERS.get(..7).unwrap_or_default() };
            members.push(rng.pick(among));
        }
        servers.push(format!("\"s{at}\":{{{}}}", members.join(", ")));
    }
    let comma = if rng.one_in(4) && !servers.is_empty() { "," } else { "" };
    format!("// servers\n{{\"mcpServers\": {{{}{comma}}}}}", servers.join(",\n")).into_bytes()
}

#[test]
fn config_files_are_read_or_refused_with_a_place() {
    let campaign = Campaign { name: "config", count: CONFIG, seed: 0xC0F1, corpus: &corpus("config"), words: WORDS };
    campaign.run(fresh, check);
}

#[test]
fn the_whole_corpus_passes_the_check() {
    let mut usable = 0;
    for input in corpus("config") {
        let outcome = std::panic::catch_unwind(|| check(&input));
        assert!(outcome.is_ok(), "b\"{}\"", input.escape_ascii());
        usable += usize::from(outcome.is_ok_and(|good| good));
    }
    assert!(3 <= usable, "only {usable} files of the corpus can be used");
}
