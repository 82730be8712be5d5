//! How codes and refresh tokens are put together: a prefix, then their family, a secret and, for refresh tokens, a mark.

use crate::keys::Keys;
use crate::secret::{Secret, decode, encode, unhex};

const CODE: &str = "lbc_";
const REFRESH: &str = "lbr_";

/// A code of this family.
pub(super) fn code(family: &[u8; 16], secret: &[u8; 32]) -> Secret {
    Secret::new(format!("{CODE}{}", encode(&[&family[..], secret].concat())))
}

/// A refresh token of this family.
pub(super) fn refresh(keys: &Keys, family: &[u8; 16], secret: &[u8; 32]) -> Secret {
    let token = [&family[..], secret].concat();
    Secret::new(format!("{REFRESH}{}", encode(&[&token[..], &keys.mark(&token)].concat())))
}

/// Which family a code is of, if it is one.
pub(super) fn family_of_code(text: &str) -> Option<[u8; 16]> {
    let bytes = decode(text.strip_prefix(CODE)?).filter(|bytes| bytes.len() == 48)?;
    bytes.first_chunk().copied()
}

/// Which family a refresh token is of, if it is one.
pub(super) fn family_of_refresh(text: &str) -> Option<[u8; 16]> {
    let bytes = decode(text.strip_prefix(REFRESH)?).filter(|bytes| bytes.len() == 64)?;
    bytes.first_chunk().copied()
}

/// Whether a refresh token was made here, and not made up by somebody who knows the name of a family.
pub(super) fn is_ours(keys: &Keys, text: &str) -> bool {
    let bytes = text.strip_prefix(REFRESH).and_then(decode).filter(|bytes| bytes.len() == 64);
    bytes.is_some_and(|bytes| bytes.split_last_chunk::<16>().is_some_and(|(token, mark)| keys.is_marked(token, mark)))
}

/// The family that a claim names.
pub(super) fn family(text: &str) -> Option<[u8; 16]> {
    unhex(text)
}
