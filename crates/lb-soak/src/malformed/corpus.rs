//! What is damaged, and with what.

use lb_peers::raw::http::modern_meta;
use lb_testkit::generate;

/// Messages to damage: our hard cases and the official examples. Endless streams are not among them.
#[must_use]
pub fn corpus() -> Vec<Vec<u8>> {
    let mut all = generate::corpus("scan");
    all.extend(generate::examples());
    let has = |input: &[u8], word: &[u8]| input.windows(word.len()).any(|part| part == word);
    all.retain(|input| has(input, b"\"jsonrpc\"") && !has(input, b"subscriptions/") && input.len() < 10_000);
    // Most of them are requests that the server behind answers with a result.
    for method in ["tools/list", "prompts/list", "resources/list", "ping"] {
        all.push(format!(r#"{{"jsonrpc":"2.0","id":"a","method":"{method}"}}"#).into_bytes());
        let meta = modern_meta("");
        let params = format!(r#"{{"_meta":{meta}}}"#);
        all.push(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#).into_bytes());
    }
    for _ in 0..20 {
        let arguments = r#""name":"echo","arguments":{"message":"some text that can be damaged"}"#;
        all.push(format!(r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{{arguments}}}}}"#).into_bytes());
        let meta = modern_meta("");
        let params = format!(r#"{{{arguments},"_meta":{meta}}}"#);
        all.push(format!(r#"{{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{params}}}"#).into_bytes());
    }
    all
}

/// Words that matter in a message.
pub const WORDS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"\\",
    b"\\ud800",
    b"null",
    b"1e400",
    b"\r",
    b"\0",
    b"\xff",
    b"\xc3\xa9",
    b"\"id\":1,",
    b"\"id\":null,",
    b"\"method\":\"ping\",",
    b"\"method\":\"tools/list\",",
    b"\"params\":{},",
    b"\"result\":{},",
    b"\"error\":{},",
    b"\"_meta\":{},",
    b"\"jsonrpc\":\"2.0\",",
];
