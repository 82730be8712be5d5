//! The cipher: AES-256-GCM-SIV with a nonce that is made from what is sealed.
//!
//! A sealed record is one byte for the form, 12 of nonce, the ciphertext, and 16 of tag. The nonce is a keyed hash of
//! the text and of what it is bound to: equal records are sealed alike, different ones never share one in practice,
//! and this cipher would survive if they did.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{hkdf, hmac};
use bytes::Bytes;

use crate::Error;

/// The form of a sealed record. Another one is not read.
const FORM: u8 = 1;

/// The bytes of a tag.
const TAG_LEN: usize = 16;

/// By how much a record grows.
pub(super) const OVERHEAD: usize = 1 + NONCE_LEN + TAG_LEN;

const FAILED: Error = Error::WrongShape("the value could not be sealed");

/// The keys that a store is sealed with: the first one seals, all of them open.
///
/// Nodes of one store change to a new secret in three steps: `old, new` everywhere, then `new, old`, then `new`.
#[derive(Clone)]
pub struct SealKeys(Arc<[Cipher]>);

struct Cipher {
    aead: LessSafeKey,
    nonces: hmac::Key,
}

impl SealKeys {
    /// The shortest secret, in bytes.
    pub const SECRET_BYTES_MIN: usize = 32;

    /// Keys from one secret, or from two while a new one comes in: the first one seals.
    ///
    /// # Errors
    /// There is none, there are more than two, or one is too short.
    pub fn new<S: AsRef<[u8]>>(secrets: &[S]) -> Result<Self, Error> {
        if secrets.is_empty() || 2 < secrets.len() {
            return Err(Error::WrongShape("a store is sealed with one key, or two while it is changed"));
        }
        if secrets.iter().any(|secret| secret.as_ref().len() < Self::SECRET_BYTES_MIN) {
            return Err(Error::WrongShape("a key has at least 32 bytes"));
        }
        let ciphers = secrets.iter().map(|secret| Cipher::new(secret.as_ref()));
        Ok(Self(ciphers.collect::<Result<_, _>>()?))
    }

    /// Seals with the first key.
    pub(super) fn seal(&self, bound_to: &[u8], text: &[u8]) -> Result<Bytes, Error> {
        self.0.first().ok_or(FAILED)?.seal(bound_to, text)
    }

    /// Seals with the first key, and with each of the others.
    pub(super) fn every_seal(&self, bound_to: &[u8], text: &[u8]) -> Result<(Bytes, Vec<Bytes>), Error> {
        let others = self.0.iter().skip(1).map(|cipher| cipher.seal(bound_to, text));
        Ok((self.seal(bound_to, text)?, others.collect::<Result<_, _>>()?))
    }

    /// Opens what was sealed with any of the keys and bound to the same; `None` for everything else.
    pub(super) fn open(&self, bound_to: &[u8], sealed: &[u8]) -> Option<Bytes> {
        self.0.iter().find_map(|cipher| cipher.open(bound_to, sealed))
    }
}

impl fmt::Debug for SealKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealKeys(*** x {})", self.0.len())
    }
}

impl Cipher {
    fn new(secret: &[u8]) -> Result<Self, Error> {
        let root = hkdf::Salt::new(hkdf::HKDF_SHA256, b"landbridge").extract(secret);
        let derive = |using: &[&[u8]]| -> Result<[u8; 32], Error> {
            let mut key = [0; 32];
            let derived = root.expand(using, hkdf::HKDF_SHA256).and_then(|okm| okm.fill(&mut key));
            derived.map(|()| key).map_err(|_| FAILED)
        };
        let aead = UnboundKey::new(&AES_256_GCM_SIV, &derive(&[b"seal", b" text"])?).map_err(|_| FAILED)?;
        let nonces = hmac::Key::new(hmac::HMAC_SHA256, &derive(&[b"seal", b" nonce"])?);
        Ok(Self { aead: LessSafeKey::new(aead), nonces })
    }

    fn nonce(&self, bound_to: &[u8], text: &[u8]) -> [u8; NONCE_LEN] {
        let mut hash = hmac::Context::with_key(&self.nonces);
        hash.update(&(bound_to.len() as u64).to_be_bytes());
        hash.update(bound_to);
        hash.update(text);
        let mut nonce = [0; NONCE_LEN];
        nonce.iter_mut().zip(hash.sign().as_ref()).for_each(|(to, from)| *to = *from);
        nonce
    }

    fn seal(&self, bound_to: &[u8], text: &[u8]) -> Result<Bytes, Error> {
        let nonce = self.nonce(bound_to, text);
        let mut sealed = Vec::with_capacity(text.len() + OVERHEAD);
        sealed.push(FORM);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(text);
        let place = sealed.get_mut(1 + NONCE_LEN..).ok_or(FAILED)?;
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self.aead.seal_in_place_separate_tag(nonce, Aad::from(bound_to), place).map_err(|_| FAILED)?;
        sealed.extend_from_slice(tag.as_ref());
        Ok(sealed.into())
    }

    fn open(&self, bound_to: &[u8], sealed: &[u8]) -> Option<Bytes> {
        let (nonce, text) = sealed.strip_prefix(&[FORM])?.split_first_chunk::<NONCE_LEN>()?;
        let mut text = text.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = self.aead.open_in_place(nonce, Aad::from(bound_to), &mut text).ok()?.len();
        text.truncate(length);
        Some(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(secrets: &[u8]) -> SealKeys {
        let secrets: Vec<_> = secrets.iter().map(|byte| [*byte; 32]).collect();
        SealKeys::new(&secrets).unwrap()
    }

    #[test]
    fn what_is_sealed_opens_only_where_it_was_sealed_and_only_unchanged() {
        let keys = keys(&[1]);
        for text in [&b""[..], b"x", &[7; 10_000]] {
            let sealed = keys.seal(b"here", text).unwrap();
            assert_eq!(sealed.len(), text.len() + OVERHEAD);
            assert_eq!(sealed, keys.seal(b"here", text).unwrap(), "guards compare bytes");
            assert_eq!(keys.open(b"here", &sealed).as_deref(), Some(text));
            assert_eq!(keys.open(b"there", &sealed), None);
            assert_ne!(sealed, keys.seal(b"there", text).unwrap());
            for bit in (0..sealed.len() * 8).step_by(1 + sealed.len() / 64) {
                let mut changed = sealed.to_vec();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(keys.open(b"here", &changed), None, "bit {bit}");
            }
            for length in (0..sealed.len()).rev().take(40) {
                assert_eq!(keys.open(b"here", &sealed[..length]), None, "the first {length} bytes");
            }
        }
        assert_eq!(keys.open(b"here", b""), None);
    }

    #[test]
    fn text_does_not_show() {
        let sealed = keys(&[1]).seal(b"here", b"a secret of somebody").unwrap();
        assert!(!sealed.windows(6).any(|part| b"a secret of somebody".windows(6).any(|word| word == part)));
    }

    #[test]
    fn the_first_key_seals_and_all_open() {
        let (old, both, new) = (keys(&[1]), keys(&[2, 1]), keys(&[2]));
        let (before, after) = (old.seal(b"k", b"t").unwrap(), both.seal(b"k", b"t").unwrap());
        assert_eq!(both.open(b"k", &before).as_deref(), Some(&b"t"[..]));
        assert_eq!(new.open(b"k", &after).as_deref(), Some(&b"t"[..]));
        assert_eq!((old.open(b"k", &after), new.open(b"k", &before)), (None, None));
        assert_eq!(both.every_seal(b"k", b"t").unwrap(), (after, vec![before]));
    }

    #[test]
    fn short_and_missing_secrets_are_refused_and_none_is_shown() {
        for secrets in [
            &[][..],
            &["x".repeat(31)],
            &["x".repeat(32), String::new()],
            &["x".repeat(32), "y".repeat(32), "z".repeat(32)],
        ] {
            assert!(matches!(SealKeys::new(secrets), Err(Error::WrongShape(_))), "{secrets:?}");
        }
        assert_eq!(format!("{:?}", keys(&[1, 2])), "SealKeys(*** x 2)");
    }
}
