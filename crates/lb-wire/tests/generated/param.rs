//! Mirrored arguments. An input is a `tools/list` result, a line feed, and the arguments of a call.

use lb_wire::header::PARAM_PREFIX;
use lb_wire::param::{Mismatch, ToolParams};

/// True when the list annotates a tool, and headers made from the arguments match them.
pub fn check(input: &[u8]) -> bool {
    let mut parts = input.splitn(2, |byte| *byte == b'\n');
    let (list, arguments) = (parts.next().unwrap_or_default(), parts.next());
    let params = ToolParams::from_tools_list(list);
    if params.tool("t").is_none() {
        assert_eq!(params.check("t", arguments, [("a", &b"x"[..])]), Ok(()), "nothing is annotated");
        return false;
    }
    let made = params.headers_for("t", arguments);
    let sent: Vec<(&str, &[u8])> = made
        .iter()
        .map(|(name, value)| (name.strip_prefix(PARAM_PREFIX).expect("the prefix"), value.as_bytes()))
        .collect();
    assert!(made.iter().all(|(_, value)| value.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'))));
    match params.check("t", arguments, sent.iter().copied()) {
        Ok(()) => {
            if let Some((name, value)) = sent.first() {
                let again = sent.iter().copied().chain([(*name, *value)]);
                assert!(matches!(params.check("t", arguments, again), Err(Mismatch::Repeated(_))));
                let other = [&value[..], b"x"].concat();
                let wrong = sent.iter().map(|(n, v)| if n == name { (*n, &other[..]) } else { (*n, *v) });
                assert!(params.check("t", arguments, wrong).is_err(), "another value");
                assert!(params.check("t", arguments, sent.iter().copied().skip(1)).is_err(), "one is missing");
            }
            true
        }
        // Objects and arrays have no header value, halves of surrogate pairs neither; then one is missing.
        Err(Mismatch::Missing(_) | Mismatch::Arguments(_)) => false,
        // An exponent of more than nine digits is not compared.
        Err(Mismatch::Differs(_)) if made.iter().any(|(_, value)| has_long_exponent(value)) => false,
        Err(other) => panic!("headers of our own contradict the arguments: {other}"),
    }
}

fn has_long_exponent(value: &str) -> bool {
    value.split_once(['e', 'E']).is_some_and(|(_, exponent)| 9 < exponent.trim_start_matches(['+', '-']).len())
}
