//! Access tokens: made and read here, and by nobody else.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, Header, Validation, decode, decode_header, encode};
use serde::{Deserialize, Serialize};

use crate::keys::Keys;

/// How long an access token lives.
pub const ACCESS_LIFE: Duration = Duration::from_secs(900);

/// How far the clocks of several nodes may be apart.
pub(crate) const SKEW: Duration = Duration::from_secs(30);

/// The longest token that is looked at, in bytes.
const TOKEN_BYTES_MAX: usize = 8_192;

const TYPE: &str = "at+jwt";

/// What an access token says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Who made it: our public URL.
    pub iss: String,
    /// Whom it is for: the principal.
    pub sub: String,
    /// Where it is good: one resource, and what lies below it.
    pub aud: String,
    /// Who speaks for them.
    pub client_id: String,
    /// What it may do.
    pub scope: String,
    /// When it was made.
    pub iat: u64,
    /// When it ends.
    pub exp: u64,
    /// Its own name.
    pub jti: String,
    /// The family that it belongs to.
    pub fam: String,
    /// The family's count of refreshes when it was made.
    pub epo: u64,
}

/// Why a token is not taken. Which check failed is nobody's business, except that it is too old.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It was good once.
    #[error("the access token expired")]
    Expired,
    /// Anything else.
    #[error("the access token is invalid")]
    Invalid,
}

/// Makes a token.
pub(crate) fn mint(keys: &Keys, claims: &Claims) -> Result<String, TokenError> {
    let key = keys.current();
    let header = Header { typ: Some(TYPE.into()), kid: Some(key.id.clone()), ..Header::new(Algorithm::HS256) };
    encode(&header, claims, &key.encode).map_err(|_| TokenError::Invalid)
}

/// Reads a token that we made. Whether its family still lives is not looked at.
pub(crate) fn verify(keys: &Keys, issuer: &str, token: &str, now: SystemTime) -> Result<Claims, TokenError> {
    let claims = read(keys, token)?;
    claims.hold(issuer, now)?;
    Ok(claims)
}

/// What a token says that we signed. Whether that still holds is not looked at.
pub(crate) fn read(keys: &Keys, token: &str) -> Result<Claims, TokenError> {
    if TOKEN_BYTES_MAX < token.len() {
        return Err(TokenError::Invalid);
    }
    let header = decode_header(token).map_err(|_| TokenError::Invalid)?;
    if header.alg != Algorithm::HS256 || header.typ.as_deref() != Some(TYPE) {
        return Err(TokenError::Invalid);
    }
    let key = header.kid.as_deref().and_then(|id| keys.by_id(id)).ok_or(TokenError::Invalid)?;
    Ok(decode(token, &key.decode, &plain(Algorithm::HS256)).map_err(|_| TokenError::Invalid)?.claims)
}

impl Claims {
    /// Whether they are ours, and hold now.
    pub(crate) fn hold(&self, issuer: &str, now: SystemTime) -> Result<(), TokenError> {
        let (now, skew) = (seconds(now), SKEW.as_secs());
        if self.iss != issuer || now + skew < self.iat {
            return Err(TokenError::Invalid);
        }
        if self.exp + skew <= now { Err(TokenError::Expired) } else { Ok(()) }
    }
}

/// Checks the signature alone; the rest is checked by us, with our clock.
pub(crate) fn plain(algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation
}

/// Seconds since 1970.
pub(crate) fn seconds(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
pub(crate) mod tests;
