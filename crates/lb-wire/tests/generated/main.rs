//! A million generated inputs against each parser of this crate; `lb-config` does the like with those of files.
//!
//! Each parser has an oracle beside it that reads the same input another way. The fuzz targets run the same checks.

mod envelope;
mod header;
mod lines;
mod param;
mod scan;
mod sse;

use lb_testkit::generate::{self, Campaign, Rng, corpus, examples};

const SCAN: u64 = 1_000_000;
const SSE: u64 = 1_000_000;
const HEADER: u64 = 1_000_000;
/// Several messages each, with the checks of all of them.
const LINES: u64 = 250_000;
const PARAM: u64 = 1_000_000;

const JSON_WORDS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"\\",
    b"\\u0041",
    b"\\ud800",
    b"null",
    b"true",
    b"1e400",
    b"-",
    b"0.",
    b" ",
    b"\r\n",
    b"\0",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xc3\xa9",
    b"\"id\":1,",
    b"\"method\":\"ping\",",
    b"\"_meta\":{}",
    b"\"jsonrpc\":\"2.0\",",
    b"\"params\":{},",
    b"\"result\":{},",
    b"\"error\":{},",
    b"\"\":0,",
    b"[[[[[[[[",
    b"\xef\xbb\xbf",
];
const SSE_WORDS: &[&[u8]] = &[
    b"\n",
    b"\r",
    b"\r\n",
    b"\n\n",
    b"data",
    b"data:",
    b"data: {}\n",
    b"id: 1\n",
    b"id:\0\n",
    b"event: message\n",
    b"retry: 10\n",
    b"retry: 99999999999\n",
    b": ping\n",
    b":",
    b" ",
    b"\xef\xbb\xbf",
    b"\0",
    b"\xff",
];
const HEADER_WORDS: &[&[u8]] = &[
    b"=?base64?",
    b"?=",
    b"=?base64?SGk=?=",
    b"=",
    b" ",
    b"\t",
    b"\n",
    b"\"Hi\"",
    b"42",
    b"42.0",
    b"1e2",
    b"true",
    b"null",
    b"\xff",
    b"\0",
    b"\\u0048",
    b"-0",
    b"\"",
];

/// The official examples, as messages where they are only a part of one, and our own hard cases.
fn messages() -> Vec<Vec<u8>> {
    let mut all = corpus("scan");
    for example in examples() {
        let text = String::from_utf8(example).expect("examples are text");
        let compact = serde_json::from_str::<serde_json::Value>(&text).expect("examples are JSON").to_string();
        for text in [text, compact] {
            all.push(if text.contains("\"jsonrpc\"") {
                text.into_bytes()
            } else {
                format!(r#"{{"jsonrpc":"2.0","id":7,"result":{text}}}"#).into_bytes()
            });
        }
    }
    all
}

fn fresh_json(rng: &mut Rng) -> Vec<u8> {
    match rng.below(8) {
        0 => generate::soup(rng, JSON_WORDS),
        1 => (0..rng.below(64)).map(|_| rng.byte()).collect(),
        2 => generate::json(rng, 5).into_bytes(),
        3 => {
            // Around the deepest nesting that is taken, in a message or alone.
            let depth = 240 + rng.below(30);
            let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            if rng.one_in(2) { nested } else { format!(r#"{{"jsonrpc":"2.0","id":1,"result":{nested}}}"#) }.into_bytes()
        }
        4 => {
            let members: Vec<_> = (0..rng.below(4)).map(|_| generate::message(rng)).collect();
            format!("[{}]", members.join(",")).into_bytes()
        }
        _ => generate::message(rng).into_bytes(),
    }
}

#[test]
fn the_scan_reads_messages_as_serde_json_does() {
    let campaign = Campaign { name: "scan", count: SCAN, seed: 0x5CA4, corpus: &messages(), words: JSON_WORDS };
    campaign.run(fresh_json, scan::check);
}

#[test]
fn the_event_stream_decoder_agrees_with_the_standard_read_literally() {
    let corpus = corpus("sse");
    let campaign = Campaign { name: "sse", count: SSE, seed: 0x55E, corpus: &corpus, words: SSE_WORDS };
    campaign.run(
        |rng| match rng.below(4) {
            0 => (0..rng.below(64)).map(|_| rng.byte()).collect(),
            _ => generate::soup(rng, SSE_WORDS),
        },
        sse::check,
    );
}

#[test]
fn header_values_are_decoded_and_compared_exactly() {
    let corpus = corpus("header");
    let campaign = Campaign { name: "header", count: HEADER, seed: 0x4EAD, corpus: &corpus, words: HEADER_WORDS };
    campaign.run(
        |rng| match rng.below(4) {
            0 => (0..rng.below(32)).map(|_| rng.byte()).collect(),
            1 => {
                let text = generate::json(rng, 0);
                let value = serde_json::from_str::<String>(&text).unwrap_or_else(|_| text.clone());
                format!("{}\n{text}", lb_wire::header::encode(&value)).into_bytes()
            }
            2 => {
                // Two spellings of numbers that are often the same.
                let number = |rng: &mut Rng| {
                    let spelled = ["5", "50", "0.5", "0.05", "0.050", "5.0", "500", "0", "-0.0", "-5"];
                    format!("{}{}", rng.pick(&spelled), rng.pick(&["", "", "e0", "e1", "E-1", "e+2", "e-2"]))
                };
                format!("{}\n{}", number(rng), number(rng)).into_bytes()
            }
            _ => generate::soup(rng, HEADER_WORDS),
        },
        header::check,
    );
}

#[test]
fn lines_come_out_as_they_went_in() {
    let corpus: Vec<_> = messages().chunks(3).map(|some| some.join(&b'\n')).collect();
    let campaign = Campaign { name: "lines", count: LINES, seed: 0x11E5, corpus: &corpus, words: JSON_WORDS };
    campaign.run(
        |rng| {
            let lines: Vec<_> = (0..rng.below(6)).map(|_| fresh_json(rng)).collect();
            lines.join(&b'\n')
        },
        lines::check,
    );
}

#[test]
fn annotated_arguments_match_the_headers_made_from_them() {
    let corpus = corpus("param");
    let campaign = Campaign { name: "param", count: PARAM, seed: 0xA46, corpus: &corpus, words: JSON_WORDS };
    campaign.run(
        |rng| {
            let tools = r#"{"tools":[{"name":"t","inputSchema":{"properties":{"k0":{"type":"string","x-mcp-header":"A"},"k1":{"type":"integer","x-mcp-header":"b"},"k2":{"properties":{"k0":{"type":"boolean","x-mcp-header":"c"}}}}}}]}"#;
            format!("{tools}\n{}", generate::json(rng, 3)).into_bytes()
        },
        param::check,
    );
}

/// What once went wrong must not go wrong again.
#[test]
fn the_whole_corpus_passes_every_check() {
    for (folder, check) in [
        ("scan", scan::check as fn(&[u8]) -> bool),
        ("sse", sse::check),
        ("header", header::check),
        ("lines", lines::check),
        ("param", param::check),
    ] {
        for input in corpus(folder) {
            let outcome = std::panic::catch_unwind(|| check(&input));
            assert!(outcome.is_ok(), "{folder}: b\"{}\"", input.escape_ascii());
        }
    }
}
