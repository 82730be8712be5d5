//! The keys by which nodes of one cluster know each other.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// What the keys of hops are derived for, so that they are no other use's.
const USE: &[u8] = b"hop";

/// One or two keys: the first signs, both are believed, so that a key can be replaced node by node.
#[derive(Clone)]
pub struct NodeKeys {
    first: Hmac<Sha256>,
    second: Option<Hmac<Sha256>>,
}

impl NodeKeys {
    /// Derives them from the key of the cluster and, while it is being replaced, the other one.
    #[must_use]
    pub fn derive(first: &[u8], second: Option<&[u8]>) -> Self {
        Self { first: keyed(&derive(first, USE)), second: second.map(|key| keyed(&derive(key, USE))) }
    }

    pub(crate) fn sign(&self, text: &str) -> [u8; 32] {
        let mut mac = self.first.clone();
        mac.update(text.as_bytes());
        mac.finalize().into_bytes().into()
    }

    /// Takes the same time wherever they differ.
    pub(crate) fn verify(&self, text: &str, mac: &[u8; 32]) -> bool {
        let is_by = |key: &Hmac<Sha256>| {
            let mut made = key.clone();
            made.update(text.as_bytes());
            made.verify_slice(mac).is_ok()
        };
        is_by(&self.first) || self.second.as_ref().is_some_and(is_by)
    }
}

impl std::fmt::Debug for NodeKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NodeKeys(***)")
    }
}

/// HKDF-SHA256 (RFC 5869) without a salt, one block.
fn derive(key: &[u8], purpose: &[u8]) -> [u8; 32] {
    let mut extract = keyed(&[0; 32]);
    extract.update(key);
    let mut expand = keyed(&extract.finalize().into_bytes());
    expand.update(purpose);
    expand.update(&[1]);
    expand.finalize().into_bytes().into()
}

#[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("any key length is valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn keys_are_derived_as_the_standard_says() {
        // RFC 5869, A.3: neither salt nor info; the first 32 bytes.
        let want = "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d";
        assert_eq!(hex(&derive(&[0x0b; 22], b"")), want);
        assert_ne!(hex(&derive(&[0x0b; 22], USE)), want, "each use has its own");
    }

    #[test]
    fn the_first_signs_and_both_are_believed() {
        let (old, new) = (b"an old key of the cluster, 32 long", b"a new key of the cluster, 32 bytes");
        let (before, after) = (NodeKeys::derive(old, None), NodeKeys::derive(new, None));
        let during = NodeKeys::derive(new, Some(old));
        assert!(during.verify("x", &before.sign("x")) && during.verify("x", &after.sign("x")));
        assert!(after.verify("x", &during.sign("x")) && !before.verify("x", &during.sign("x")));
        assert!(!during.verify("y", &during.sign("x")));
        assert_eq!(format!("{during:?}"), "NodeKeys(***)");
    }
}
