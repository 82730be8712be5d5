//! Bytes as lower-case hex text, the form of the recorder's files.

const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];

/// Writes `bytes` as lower-case hex.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        for half in [byte >> 4, byte & 15] {
            text.extend(DIGITS.get(usize::from(half)));
        }
    }
    text
}

/// Reads hex text of either case; `None` for an odd length or another character.
#[must_use]
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digit = |c: &u8| char::from(*c).to_digit(16);
    let pair = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_survives_and_bad_text_is_refused() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)), Some(all));
        assert_eq!(decode("0AfF"), Some(vec![0x0a, 0xff]));
        for bad in ["0", "0g", "é"] {
            assert_eq!(decode(bad), None, "input {bad:?}");
        }
    }
}
