//! Who holds what, with a number that only grows.

use bytes::Bytes;

/// A claim as it is kept. Its [`value`](Self::value) makes a guard for what only its holder may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Larger than that of every claim before it on the same key, also when the store lost those: whoever is given work
    /// with a smaller one refuses it.
    pub token: u64,
    /// Who holds it.
    pub holder: String,
}

/// What came of trying to claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// It is ours.
    Ours(Claim),
    /// It belongs to another one.
    Theirs(Claim),
}

impl Claim {
    /// The bytes that are kept under the key while the claim lasts.
    pub fn value(&self) -> Bytes {
        format!("{} {}", self.token, self.holder).into()
    }

    /// A claim that was read back.
    pub fn read(value: &[u8]) -> Option<Self> {
        let (token, holder) = std::str::from_utf8(value).ok()?.split_once(' ')?;
        Some(Self { token: token.parse().ok()?, holder: holder.to_owned() })
    }
}
