//! The signed statement of who has logged in.

use std::time::SystemTime;

use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, decode, decode_header};
use serde_json::{Map, Value};

use crate::secret::equal;
use crate::token::{plain, seconds};

/// How far the provider's clock may be from ours, in seconds.
const SKEW: u64 = 60;
const BYTES_MAX: usize = 32 * 1_024;
const SUBJECT_BYTES_MAX: usize = 255;

/// The only algorithms that are believed: none without a key, and none whose key is a shared secret.
const ALGORITHMS: &[Algorithm] = &[Algorithm::RS256, Algorithm::PS256, Algorithm::ES256, Algorithm::EdDSA];

/// What a statement must say.
pub(super) struct Expected<'a> {
    pub issuer: &'a str,
    pub client_id: &'a str,
    pub nonce: &'a str,
    pub now: SystemTime,
}

/// Why a statement is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdError {
    /// The key that it names is not among those that are known.
    UnknownKey,
    /// Anything else.
    Wrong(&'static str),
}

impl IdError {
    pub fn why(self) -> &'static str {
        match self {
            Self::UnknownKey => "its id_token is signed with a key that it does not publish",
            Self::Wrong(why) => why,
        }
    }
}

/// Believes a statement, or says why not.
pub(super) fn verify(token: &str, keys: &JwkSet, expected: &Expected<'_>) -> Result<Map<String, Value>, IdError> {
    const UNREADABLE: IdError = IdError::Wrong("its id_token cannot be read");
    if BYTES_MAX < token.len() {
        return Err(UNREADABLE);
    }
    let header = decode_header(token).map_err(|_| UNREADABLE)?;
    if !ALGORITHMS.contains(&header.alg) {
        return Err(IdError::Wrong("its id_token is signed in a way that is not believed"));
    }
    let key = find(keys, header.kid.as_deref(), header.alg).ok_or(IdError::UnknownKey)?;
    let key = DecodingKey::from_jwk(key).map_err(|_| IdError::Wrong("its key cannot be used"))?;
    let signed = decode::<Map<String, Value>>(token, &key, &plain(header.alg));
    let claims = signed.map_err(|_| IdError::Wrong("its id_token is not signed with its key"))?.claims;
    check(&claims, expected)?;
    Ok(claims)
}

/// The key of this name; without a name, the only one that fits.
fn find<'a>(keys: &'a JwkSet, id: Option<&str>, algorithm: Algorithm) -> Option<&'a Jwk> {
    let fits = |key: &&Jwk| {
        let common = &key.common;
        let signs = !matches!(common.public_key_use, Some(PublicKeyUse::Encryption));
        let named = common.key_algorithm.is_none_or(|named| named.to_string() == format!("{algorithm:?}"));
        signs && named && id.is_none_or(|id| common.key_id.as_deref() == Some(id))
    };
    let mut fitting = keys.keys.iter().filter(fits);
    match (fitting.next(), id, fitting.next()) {
        (Some(key), Some(_), _) | (Some(key), None, None) => Some(key),
        _ => None,
    }
}

fn check(claims: &Map<String, Value>, expected: &Expected<'_>) -> Result<(), IdError> {
    let wrong = |why| Err(IdError::Wrong(why));
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let time = |name: &str| claims.get(name).and_then(Value::as_f64).filter(|time| *time >= 0.0).map(whole);
    if text("iss") != Some(expected.issuer) {
        return wrong("its id_token is of another issuer");
    }
    if text("sub").is_none_or(|sub| sub.is_empty() || SUBJECT_BYTES_MAX < sub.len()) {
        return wrong("its id_token names nobody");
    }
    let audience: Vec<&str> = match claims.get("aud") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let party = text("azp");
    if !audience.contains(&expected.client_id)
        || party.is_some_and(|party| party != expected.client_id)
        || (1 < audience.len() && party.is_none())
    {
        return wrong("its id_token is for another client");
    }
    if !text("nonce").is_some_and(|nonce| equal(nonce.as_bytes(), expected.nonce.as_bytes())) {
        return wrong("its id_token belongs to another login");
    }
    let now = seconds(expected.now);
    if time("exp").is_none_or(|exp| exp.saturating_add(SKEW) <= now) {
        return wrong("its id_token is over");
    }
    let early = |name: &str| time(name).is_some_and(|at| now + SKEW < at);
    if time("iat").is_none() || early("iat") || early("nbf") {
        return wrong("its id_token is not good yet");
    }
    Ok(())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times before 1970 were left out, and fractions do not count"
)]
fn whole(time: f64) -> u64 {
    time as u64
}
