//! Ids that sort in the order in which they were made, within this process.

use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;

use crate::moment::Moment;

/// A ULID: 48 bits of milliseconds, 80 bits that are random for the first of a millisecond and counted after it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ulid(u128);

/// The last one of this process: a later one is always greater, even when the clock goes back.
static LAST: Mutex<u128> = Mutex::new(0);

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const RANDOM_BITS: u32 = 80;

impl Ulid {
    /// How many characters its text has.
    pub const CHARS: usize = 26;
    /// Before all others.
    pub(crate) const FIRST: Self = Self(0);

    /// A new one, greater than every earlier one of this process.
    pub fn mint(now: Moment) -> Self {
        let millis = now.unix.as_millis() & ((1 << 48) - 1);
        // Half of the room is left for counting.
        let random = rand::random::<u128>() >> (128 - RANDOM_BITS + 1);
        let mut last = LAST.lock();
        *last = if *last >> RANDOM_BITS < millis { millis << RANDOM_BITS | random } else { *last + 1 };
        Self(*last)
    }

    /// A new one that is also greater than this one, which another process may have made with another clock.
    pub(crate) fn mint_after(floor: Option<Self>, now: Moment) -> Self {
        let minted = Self::mint(now);
        floor.map_or(minted, |floor| minted.max(floor.next()))
    }

    /// The last one that can be minted at this time.
    pub(crate) fn end_of(unix: Duration) -> Self {
        let millis = unix.as_millis() & ((1 << 48) - 1);
        Self(millis << RANDOM_BITS | ((1 << RANDOM_BITS) - 1))
    }

    /// One that another process minted at this time.
    #[cfg(test)]
    pub(crate) fn elsewhere(unix: Duration) -> Self {
        Self(unix.as_millis() << RANDOM_BITS | 7)
    }

    /// The first one that can come after it.
    pub(crate) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// When it was minted, since the Unix epoch.
    pub(crate) fn unix(self) -> Duration {
        Duration::from_millis(u64::try_from(self.0 >> RANDOM_BITS).unwrap_or(u64::MAX))
    }

    /// Reads one, in upper or lower case; `None` when the text is none.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != Self::CHARS {
            return None;
        }
        let mut value: u128 = 0;
        for (n, byte) in text.bytes().enumerate() {
            let digit = ALPHABET.iter().position(|known| *known == byte.to_ascii_uppercase())?;
            // 26 characters hold 130 bits: the first has two to spare.
            if n == 0 && 7 < digit {
                return None;
            }
            value = value << 5 | u128::try_from(digit).ok()?;
        }
        Some(Self(value))
    }
}

impl fmt::Display for Ulid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0_u8; Self::CHARS];
        let mut rest = self.0;
        for place in text.iter_mut().rev() {
            let digit = usize::try_from(rest & 31).unwrap_or_default();
            *place = ALPHABET.get(digit).copied().unwrap_or(b'0');
            rest >>= 5;
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Ulid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<'de> serde::Deserialize<'de> for Ulid {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("no ULID"))
    }
}

impl serde::Serialize for Ulid {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_burst_within_one_millisecond_is_in_order_and_so_is_a_clock_that_goes_back() {
        let mut now = Moment { up: Duration::ZERO, unix: Duration::from_millis(1_800_000_000_000) };
        let mut last = Ulid::mint(now).to_string();
        for n in 0..10_000 {
            if n == 9_000 {
                now.unix -= Duration::from_secs(3_600);
            }
            let next = Ulid::mint(now).to_string();
            assert!(last < next, "{last} then {next}");
            last = next;
        }
    }

    #[test]
    fn a_text_reads_back_and_nothing_else_does() {
        let id = Ulid::mint(Moment { up: Duration::ZERO, unix: Duration::from_secs(1) });
        assert_eq!(Ulid::parse(&id.to_string()), Some(id));
        assert_eq!(Ulid::parse(&id.to_string().to_lowercase()), Some(id));
        for text in ["", "0", "8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "0000000000000000000000000U", "000000000000000000000000000"]
        {
            assert_eq!(Ulid::parse(text), None, "{text}");
        }
    }
}
