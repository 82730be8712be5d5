//! Who has a session: one small value, which every write of the session is guarded by.

use bytes::Bytes;

use crate::nodes::NodeName;

/// The epoch at which a session begins.
const FIRST: u64 = 1;
/// The last epoch that is read: it grows by one each time a session changes hands, so that nobody of ours comes near.
const EPOCH_MAX: u64 = u64::MAX / 2;

/// Who has a session. The epoch only grows: whoever finds a larger one than its own has lost it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) epoch: u64,
    pub(crate) holder: Holder,
}

/// Who.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A node, in this very process.
    Node(NodeName),
    /// Nobody: everything was written before it was let go of.
    Nobody,
    /// It was ended, and does not come back.
    Gone,
}

impl Owner {
    pub(crate) fn of(epoch: u64, node: &NodeName) -> Self {
        Self { epoch, holder: Holder::Node(node.clone()) }
    }

    /// A node that begins a session.
    pub(crate) fn first(node: &NodeName) -> Self {
        Self::of(FIRST, node)
    }

    /// A node that begins a session under a name that others may have used, on a store that may have forgotten that. It
    /// gives way to all of them.
    pub(crate) fn assumed(node: &NodeName) -> Self {
        Self::of(FIRST - 1, node)
    }

    /// Whether this gives way to one that was forgotten.
    pub(crate) fn is_assumed(&self) -> bool {
        self.epoch < FIRST && matches!(self.holder, Holder::Node(_))
    }

    /// The same session, held by nobody.
    pub(crate) fn released(&self) -> Self {
        Self { epoch: self.epoch, holder: Holder::Nobody }
    }

    /// The same session, ended.
    pub(crate) fn gone(&self) -> Self {
        Self { epoch: self.epoch + 1, holder: Holder::Gone }
    }

    /// Whether somebody with this value has lost the session when this other one is found in its place.
    pub(crate) fn is_behind(&self, found: &Self) -> bool {
        match &found.holder {
            Holder::Gone => true,
            Holder::Node(_) => self.epoch <= found.epoch,
            // Our own word, if it is ours: nobody has taken it since.
            Holder::Nobody => self.epoch < found.epoch,
        }
    }

    /// As it is written.
    pub(crate) fn value(&self) -> Bytes {
        let text = match &self.holder {
            Holder::Node(node) => format!("{} {} {}", self.epoch, node.id, node.boot),
            Holder::Nobody => format!("{} - -", self.epoch),
            Holder::Gone => format!("{} gone -", self.epoch),
        };
        text.into()
    }

    /// Reads what was written; `None` when that is none of ours.
    pub(crate) fn read(value: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(value).ok()?.split(' ');
        let (epoch, node, boot) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
        if EPOCH_MAX < epoch || words.next().is_some() || node.is_empty() || boot.is_empty() {
            return None;
        }
        let holder = match (node, boot) {
            ("-", "-") => Holder::Nobody,
            ("gone", "-") => Holder::Gone,
            (_, "-") => return None,
            (id, boot) => Holder::Node(NodeName::parse(&format!("{id} {boot}"))?),
        };
        Some(Self { epoch, holder })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Owner> {
        Owner::read(text.as_bytes())
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let node = NodeName { id: "n1".into(), boot: "b7".into() };
        let owner = Owner::of(3, &node);
        for (owner, text) in [(owner.clone(), "3 n1 b7"), (owner.released(), "3 - -"), (owner.gone(), "4 gone -")] {
            assert_eq!((&owner.value()[..], read(text)), (text.as_bytes(), Some(owner)), "{text}");
        }
        for wrong in [
            "",
            "3",
            "3 n1",
            "x n1 b7",
            "3 n1 b7 more",
            "-1 n1 b7",
            "3  b7",
            "3 n1 -",
            "{}",
            "18446744073709551615 - -",
        ] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_session_is_lost_to_whoever_came_later_and_to_its_end() {
        let owner = read("3 n1 b7").unwrap();
        for (found, lost) in [
            ("4 n2 b", true),
            ("3 n2 b", true),
            ("2 n2 b", false),
            ("4 - -", true),
            ("3 - -", false),
            ("2 - -", false),
            ("4 gone -", true),
            ("1 gone -", true),
        ] {
            assert_eq!(owner.is_behind(&read(found).unwrap()), lost, "{found}");
        }
    }
}
