//! Generated input: a repeatable random source, damage done to good input, and JSON that nobody would write.
//!
//! Knows no parser. A [`Campaign`] feeds one with inputs, counts what it accepts, and prints an input that makes it
//! panic, so that the input can be pasted into a test.

mod campaign;
mod corpus;

pub use campaign::Campaign;
pub use corpus::{corpus, examples};

/// A repeatable random source. The same seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Starts from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number (SplitMix64).
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 when there is none.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.number() % end.max(1) as u64).unwrap_or_default()
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// A byte.
    pub fn byte(&mut self) -> u8 {
        self.number().to_le_bytes()[0]
    }

    /// One of several.
    ///
    /// # Panics
    /// When there are none.
    pub fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all.get(self.below(all.len())).expect("there is something to pick from").clone()
    }
}

/// Damages an input in 1 to 8 places. `others` lend parts, `words` are what the parser looks for.
pub fn damage(rng: &mut Rng, input: &mut Vec<u8>, others: &[Vec<u8>], words: &[&[u8]]) {
    // Few damages are more likely than many: input that is refused at its first byte tests little.
    let times = 1 + rng.below(8).min(rng.below(8));
    for _ in 0..times {
        damage_once(rng, input, others, words);
    }
}

fn damage_once(rng: &mut Rng, input: &mut Vec<u8>, others: &[Vec<u8>], words: &[&[u8]]) {
    let at = rng.below(input.len());
    let end = (at + 1 + rng.below(16)).min(input.len());
    match rng.below(15) {
        0 => overwrite(input, at, |byte| byte ^ 1 << (at % 8)),
        1 => {
            let byte = rng.byte();
            overwrite(input, at, |_| byte);
        }
        2 => input.insert(at.min(input.len()), rng.byte()),
        3 => drop(input.drain(at.min(end)..end)),
        4 => {
            let part = input.get(at..end).unwrap_or_default().to_vec();
            splice(input, at, at, &part);
        }
        5 if rng.one_in(4) => input.truncate(at),
        6 => {
            let other = rng.pick(others);
            let from = rng.below(other.len());
            let to = (from + rng.below(64)).min(other.len());
            splice(input, at, end, other.get(from..to).unwrap_or_default());
        }
        7 => {
            let (a, b) = (at, rng.below(input.len()));
            if a.max(b) < input.len() {
                input.swap(a, b);
            }
        }
        8 | 9 => {
            let word = rng.pick(words);
            splice(input, at, at, word);
        }
        10 => {
            let word = rng.pick(words);
            splice(input, at, at + word.len().min(end - at.min(end)), word);
        }
        // Another letter or digit for one: most inputs stay good and say something else.
        _ => overwrite(input, at, |byte| match byte {
            b'0'..=b'9' => b'0' + byte % 9,
            b'A'..=b'Z' | b'a'..=b'z' => b'a' + byte % 26,
            other => other,
        }),
    }
}

fn overwrite(input: &mut [u8], at: usize, change: impl Fn(u8) -> u8) {
    if let Some(byte) = input.get_mut(at) {
        *byte = change(*byte);
    }
}

fn splice(input: &mut Vec<u8>, from: usize, to: usize, with: &[u8]) {
    let to = to.min(input.len());
    drop(input.splice(from.min(to)..to, with.iter().copied()));
}

/// Words in a row, with now and then a byte between them.
pub fn soup(rng: &mut Rng, words: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..rng.below(24) {
        if rng.one_in(8) {
            out.push(rng.byte());
        } else {
            out.extend_from_slice(rng.pick(words));
        }
    }
    out
}

/// The text of one JSON value, with odd white space, escapes and numbers.
pub fn json(rng: &mut Rng, depth: usize) -> String {
    let mut out = String::new();
    value(rng, depth, &mut out);
    out
}

/// A JSON-RPC message around generated values; most are good ones.
pub fn message(rng: &mut Rng) -> String {
    let id = ["1", "\"a\"", "-0", "1e400", "null", "{}", "\"\\u0041\"", "9007199254740993"];
    let method = ["\"tools/call\"", "\"ping\"", "\"tools\\/list\"", "\"\"", "7", "\"notifications/cancelled\""];
    let mut members = vec!["\"jsonrpc\":\"2.0\"".to_owned()];
    let kind = rng.below(4);
    if kind != 0 || rng.one_in(9) {
        members.push(format!("\"id\" : {}", rng.pick(&id)));
    }
    match kind {
        0 | 1 => {
            members.push(format!("\"method\":{}", rng.pick(&method)));
            members.push(format!("\"params\":{}", object(rng, 3)));
        }
        2 => members.push(format!("\"result\":{}", object(rng, 3))),
        _ => members.push(format!("\"error\":{{\"code\":-32603,\"message\":\"x\",\"data\":{}}}", json(rng, 3))),
    }
    if rng.one_in(8) {
        members.push(format!("\"x\":{}", json(rng, 2)));
    }
    let turn = rng.below(members.len());
    members.rotate_left(turn);
    format!("{{{}}}", members.join([",", " , ", ",\n"][rng.below(3)]))
}

/// An object with the names that the envelope code looks for among its members.
pub fn object(rng: &mut Rng, depth: usize) -> String {
    const NAMES: &[&str] =
        &["name", "arguments", "_meta", "\\u005fmeta", "uri", "cursor", "progressToken", "a", "é", ""];
    let mut members = Vec::new();
    for at in 0..rng.below(5) {
        let name = rng.pick(NAMES);
        // Names with a number behind them do not repeat.
        let number = if rng.one_in(12) || name == "_meta" { String::new() } else { at.to_string() };
        let inner = if name.contains("meta") && depth != 0 { object(rng, depth - 1) } else { json(rng, depth) };
        members.push(format!("\"{name}{number}\":{inner}"));
    }
    format!("{{{}}}", members.join(","))
}

fn value(rng: &mut Rng, depth: usize, out: &mut String) {
    const SCALARS: &[&str] = &[
        "null",
        "true",
        "false",
        "0",
        "-0",
        "-1.5e-9",
        "1e400",
        "12345678901234567890",
        "\"\"",
        "\"\\ud83d\\ude00\"",
        "\"\\ud800\"",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
        "\"é€😀\"",
        "\"a long text that fills more than sixteen bytes\"",
        "\"\\u0000\"",
        "\"\u{2028}\"",
    ];
    const SPACE: &[&str] = &["", "", "", " ", "\n", "\t\r\n"];
    let (open, close) = match rng.below(if depth == 0 { 3 } else { 5 }) {
        0..=2 => return out.push_str(rng.pick(SCALARS)),
        3 => ('[', ']'),
        _ => ('{', '}'),
    };
    out.push(open);
    for at in 0..rng.below(5) {
        if at != 0 {
            out.push(',');
        }
        out.push_str(rng.pick(SPACE));
        if open == '{' {
            out.push_str(&format!("\"k{at}\"{}:", rng.pick(SPACE)));
        }
        value(rng, depth - 1, out);
        out.push_str(rng.pick(SPACE));
    }
    out.push(close);
}
