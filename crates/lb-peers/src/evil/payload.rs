//! The bytes of the faults, public so that tests can compare what reached them.

use super::fault::Transport;
use crate::raw::handshake::Era;
use crate::raw::message::notification;

/// Bytes that flood writes in log notifications before the answer, at least.
pub const FLOOD_BYTES: usize = 50_000_000;
/// Bytes of the text in a huge-line answer.
pub const HUGE_BYTES: usize = 40_000_000;
/// Progress notifications of a storm.
pub const PROGRESS_COUNT: usize = 20_000;

const FLOOD_LINE_BYTES: usize = 1000;

/// The log notifications of a flood, each of 1000 bytes.
pub fn flood() -> impl Iterator<Item = String> {
    (0..FLOOD_BYTES / FLOOD_LINE_BYTES).map(|number| {
        let make = |fill: usize| {
            let fill = "x".repeat(fill);
            notification("notifications/message", &format!(r#"{{"level":"info","data":"{number:06} {fill}"}}"#))
        };
        make(FLOOD_LINE_BYTES - make(0).len())
    })
}

/// The progress notifications of a storm; `token` is JSON text.
pub fn progress(token: &str) -> impl Iterator<Item = String> {
    (1..=PROGRESS_COUNT).map(move |step| {
        let params = format!(r#"{{"progressToken":{token},"progress":{step},"total":{PROGRESS_COUNT}}}"#);
        notification("notifications/progress", &params)
    })
}

/// The text of a huge answer.
#[must_use]
pub fn huge() -> String {
    "evil".repeat(HUGE_BYTES / 4)
}

/// Bytes that are not UTF-8 and hold no line end, the same at every call.
#[must_use]
pub fn random_bytes(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    let mut bytes: Vec<u8> =
        std::iter::repeat_with(&mut next).filter(|byte| !b"\r\n".contains(byte)).take(count).collect();
    bytes.extend_from_slice(b"\xff\xfe\xc0");
    bytes
}

/// Lines that are no JSON, ended by line feeds.
#[must_use]
pub fn garbage_lines() -> Vec<u8> {
    let lines: [&[u8]; 7] = [
        b"Starting server, please wait...",
        &random_bytes(300),
        b"",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":",
        b"\xef\xbb\xbf\0\0\0",
        b"}}}}]]]]",
        b"Content-Length: 12\r",
    ];
    let mut all = lines.join(&b'\n');
    all.push(b'\n');
    all
}

/// The result of odd-content, exactly as it is sent.
///
/// Every byte is valid JSON with a meaning a gateway must not change. Over stdio the whitespace holds a tab and a bare
/// carriage return, which a line may contain but an event of an event stream may not; over HTTP also line feeds, which
/// neither a line nor an event may.
#[must_use]
pub fn odd_result(era: Era, transport: Transport) -> String {
    let gap = match transport {
        Transport::Stdio => " \t \r ",
        Transport::Http => " \t\r\n  \n",
    };
    let result_type = match era {
        Era::Legacy => "",
        Era::Modern => r#""resultType" : "complete","#,
    };
    ODD.replace('§', gap).replacen("@", result_type, 1)
}

/// `§` stands for whitespace, `@` for the modern `resultType`.
const ODD: &str = concat!(
    r#"{@§"x-vendor":{"deep":[{"er":null}]},"content"§:§[§"#,
    r#"{"type":"hologram","beams":[1,2.50,{}],"annotations":{"audience":["system","nobody"],"priority":0.10}},"#,
    r#"{"text":"esc\u0061pe \/ \u00e9 é \ud83d\ude00 😀 \u0000 \u2028\"\\","type":"text","x-field":[],"#,
    r#""annotations":{"audience":["user","martian"],"x-note":1,"lastModified":"yesterday"},"_meta":{"x/y":{}}},"#,
    r#"{"type":"resource","resource":{"uri":"odd://one","text":"","x-inner":true,"blob":null},"x-outer":false},"#,
    r#"{"type":"resource_link","uri":"odd://two","name":"two","size":18446744073709551615},"#,
    r#"{"type":"image","data":"","mimeType":"image/x-odd","x":{}},"#,
    r#"{"kind":"no type at all"}§],§"#,
    r#""structuredContent":{"huge":1e400,"tiny":1E-400,"zero":-0,"minus":-0.0,"one":1.0,"plain":1,"exp":1e2,"#,
    r#""max":9223372036854775807,"min":-9223372036854775808,"unsigned":18446744073709551615,"#,
    r#""beyond":123456789012345678901234567890,"third":0.3333333333333333333333,"":"empty key","a":1,"A":2,"#,
    r#""\u006bey":"escaped key","nested":[[[[]]],{}],"null":null},"#,
    r#""isError"§:§false,"_meta":{"x.example/odd":[1.0,-0],"progressToken":"not one"},"#,
    r#""nextCursor":"not here","result":{"content":[]},"error":{"code":1},"id":"inner","jsonrpc":"1.0"§}"#,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_have_the_sizes_they_claim() {
        assert!(flood().take(3).all(|line| line.len() == FLOOD_LINE_BYTES));
        assert_eq!(flood().count() * FLOOD_LINE_BYTES, FLOOD_BYTES);
        assert_eq!(progress("\"t\"").count(), PROGRESS_COUNT);
        assert_eq!(huge().len(), HUGE_BYTES);
    }

    const ODDITIES: [&str; 12] = [
        r#""type":"hologram""#,
        r#""audience":["user","martian"]"#,
        r#""x-vendor":{"#,
        ":1e400,",
        ":-0,",
        ":1.0,",
        ":9223372036854775807,",
        ":18446744073709551615,",
        r"esc\u0061pe \/",
        r"\ud83d\ude00 😀 \u0000",
        " \t",
        "\r",
    ];

    #[test]
    fn odd_content_is_json_and_garbage_is_not() {
        use serde_json::value::RawValue;
        for era in [Era::Legacy, Era::Modern] {
            for transport in [Transport::Stdio, Transport::Http] {
                let text = odd_result(era, transport);
                assert!(serde_json::from_str::<&RawValue>(&text).is_ok(), "{text}");
                assert!(!text.contains('§') && !text.contains('@'));
                assert_eq!(text.contains('\n'), transport == Transport::Http);
                assert_eq!(text.contains("resultType"), era == Era::Modern);
                for oddity in ODDITIES {
                    assert!(text.contains(oddity), "{oddity} is missing in {text}");
                }
            }
        }
        for line in garbage_lines().split(|byte| *byte == b'\n') {
            assert!(serde_json::from_slice::<&RawValue>(line).is_err(), "{line:?}");
        }
        assert!(String::from_utf8(random_bytes(300)).is_err());
    }
}
