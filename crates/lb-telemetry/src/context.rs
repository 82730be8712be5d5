//! W3C trace context: which trace a request belongs to, and which span it came from.

use std::fmt::{self, Display, Write as _};

/// Names a trace; never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

/// Names a span within its trace; never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

impl TraceId {
    /// A new one.
    pub fn random() -> Self {
        loop {
            let bytes: [u8; 16] = rand::random();
            if bytes != [0; 16] {
                return Self(bytes);
            }
        }
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The part that samplers decide by, which every hop sees alike.
    pub(crate) fn low(self) -> u64 {
        self.0.iter().skip(8).fold(0, |low, byte| (low << 8) | u64::from(*byte))
    }
}

impl SpanId {
    /// A new one.
    pub fn random() -> Self {
        loop {
            let bytes: [u8; 8] = rand::random();
            if bytes != [0; 8] {
                return Self(bytes);
            }
        }
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// One span of one trace, as it is told to the next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// The trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
    /// Whether somebody records it.
    pub sampled: bool,
}

impl Context {
    /// Reads a `traceparent`. Versions to come are read as far as they are known; what breaks the rules is nothing.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut parts = text.trim_ascii().split(|byte| *byte == b'-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let [version] = hex::<1>(version)?;
        if version == 0xff || (version == 0 && parts.next().is_some()) {
            return None;
        }
        let (trace, span, [flags]) = (hex::<16>(trace)?, hex::<8>(span)?, hex::<1>(flags)?);
        if trace == [0; 16] || span == [0; 8] {
            return None;
        }
        Some(Self { trace: TraceId(trace), span: SpanId(span), sampled: flags & 1 == 1 })
    }
}

impl Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("00-")?;
        self.trace.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_char('-')?;
        self.span.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, "-0{}", u8::from(self.sampled))
    }
}

/// Lower case only, as the standard has it.
fn hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    if text.len() != 2 * N {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn what_was_read_is_written_again() {
        assert_eq!(Context::parse(GOOD.as_bytes()).map(|context| context.to_string()).as_deref(), Some(GOOD));
        let unsampled = GOOD.replace("-01", "-00");
        assert_eq!(Context::parse(unsampled.as_bytes()).map(|context| context.to_string()), Some(unsampled));
    }

    #[test]
    fn later_versions_are_read_as_far_as_they_are_known() {
        let later = format!("{}-more", GOOD.replacen("00", "cc", 1));
        assert_eq!(Context::parse(later.as_bytes()), Context::parse(GOOD.as_bytes()));
        // Flags that are not known are not passed on.
        let flags = GOOD.replace("-01", "-ff");
        assert_eq!(Context::parse(flags.as_bytes()), Context::parse(GOOD.as_bytes()));
    }

    #[test]
    fn what_breaks_the_rules_is_nothing() {
        for bad in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333g-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
        ] {
            assert_eq!(Context::parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
