//! The keys that tokens are made with, derived from one secret of the operator's.

use aws_lc_rs::hmac;
use jsonwebtoken::{DecodingKey, EncodingKey};

use crate::secret::hex;

/// How short a secret must not be, in bytes.
pub const KEY_BYTES_MIN: usize = 32;

/// The current keys, and those before them while what they signed is still in use.
pub struct Keys {
    current: Set,
    previous: Option<Set>,
}

/// Why a secret is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It could be guessed.
    #[error("the key has {0} bytes: use at least 32 random ones, as from `openssl rand -base64 32`")]
    Short(usize),
    /// It is one of those that are put into examples.
    #[error("the key repeats itself: use at least 32 random bytes, as from `openssl rand -base64 32`")]
    Dull,
}

/// What is derived from one secret.
pub(crate) struct Set {
    /// What tells two of them apart, in the header of a token.
    pub id: String,
    pub encode: EncodingKey,
    pub decode: DecodingKey,
    refresh: hmac::Key,
    forms: hmac::Key,
}

impl Keys {
    /// Derives all keys. With a second secret, what that one signed is still good.
    ///
    /// # Errors
    /// When one of them is no secret.
    pub fn new(secret: &[u8], before: Option<&[u8]>) -> Result<Self, KeyError> {
        Ok(Self { current: Set::derive(secret)?, previous: before.map(Set::derive).transpose()? })
    }

    pub(crate) fn current(&self) -> &Set {
        &self.current
    }

    pub(crate) fn by_id(&self, id: &str) -> Option<&Set> {
        self.all().find(|set| set.id == id)
    }

    fn all(&self) -> impl Iterator<Item = &Set> {
        std::iter::once(&self.current).chain(&self.previous)
    }

    /// Marks a refresh token as made here, so that a spent one is known without a list of all spent ones.
    pub(crate) fn mark(&self, token: &[u8]) -> [u8; 16] {
        short(&self.current.refresh, token)
    }

    /// Whether a refresh token was made here.
    pub(crate) fn is_marked(&self, token: &[u8], mark: &[u8]) -> bool {
        self.all().any(|set| crate::secret::equal(&short(&set.refresh, token), mark))
    }

    /// What a form carries to show that it was given to the browser with this cookie, for this purpose.
    pub(crate) fn form_mark(&self, purpose: &str, cookie: &str) -> String {
        hex(hmac::sign(&self.current.forms, format!("{purpose}\0{cookie}").as_bytes()).as_ref())
    }

    /// Whether a form has the right mark, also if keys were changed while it was shown.
    pub(crate) fn is_form_marked(&self, purpose: &str, cookie: &str, mark: &str) -> bool {
        let text = format!("{purpose}\0{cookie}");
        let marks = self.all().map(|set| hex(hmac::sign(&set.forms, text.as_bytes()).as_ref()));
        marks.into_iter().any(|right| crate::secret::equal(right.as_bytes(), mark.as_bytes()))
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("current", &self.current.id).finish_non_exhaustive()
    }
}

impl Set {
    fn derive(secret: &[u8]) -> Result<Self, KeyError> {
        if secret.len() < KEY_BYTES_MIN {
            return Err(KeyError::Short(secret.len()));
        }
        let kinds: std::collections::BTreeSet<u8> = secret.iter().copied().collect();
        if kinds.len() < 8 {
            return Err(KeyError::Dull);
        }
        let root = hmac::Key::new(hmac::HMAC_SHA256, derive(b"landbridge auth", secret).as_ref());
        // One block of HKDF for each use.
        let of = |label: &[u8]| hmac::sign(&root, &[label, &[1]].concat());
        let tokens = of(b"access token");
        let key = |label: &[u8]| hmac::Key::new(hmac::HMAC_SHA256, of(label).as_ref());
        let id = hex(of(b"key id").as_ref()).chars().take(16).collect();
        Ok(Self {
            id,
            encode: EncodingKey::from_secret(tokens.as_ref()),
            decode: DecodingKey::from_secret(tokens.as_ref()),
            refresh: key(b"refresh token"),
            forms: key(b"forms"),
        })
    }
}

fn derive(salt: &[u8], secret: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, salt), secret)
}

fn short(key: &hmac::Key, bytes: &[u8]) -> [u8; 16] {
    let mut mark = [0; 16];
    for (to, from) in mark.iter_mut().zip(hmac::sign(key, bytes).as_ref()) {
        *to = *from;
    }
    mark
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_dull_secrets_are_refused() {
        assert_eq!(Keys::new(b"secret", None).unwrap_err(), KeyError::Short(6));
        assert_eq!(Keys::new(&[b'x'; 64], None).unwrap_err(), KeyError::Dull);
        let good = b"0123456789abcdef0123456789abcdef";
        assert!(Keys::new(good, Some(b"short")).is_err());
        let keys = Keys::new(good, None).unwrap();
        assert!(!format!("{keys:?}").contains("0123456789abcdef"));
    }
}
