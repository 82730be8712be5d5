//! What is kept of a family.

use std::time::SystemTime;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use bytes::Bytes;
use lb_exchange::Principal;
use serde::{Deserialize, Serialize};

use super::{Asked, FAMILY_LIFE, GrantError, Issued, LEEWAY, Proof, REFRESH_LIFE, SKEW};
use crate::policy::Who;
use crate::scope::Scopes;
use crate::secret::{Hash, decode, encode, equal, random};
use crate::token::{ACCESS_LIFE, Claims, seconds};

/// Who has logged in, as the provider said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    /// The name that everything of theirs is kept under: a hash of the provider and its name for them.
    pub principal: String,
    /// The provider's name for them.
    pub subject: String,
    /// The domain of their verified e-mail address.
    pub domain: Option<String>,
    /// Their groups.
    pub groups: Vec<String>,
}

impl Login {
    /// The same for the rules.
    pub fn who(&self, client: &str) -> Who {
        Who {
            principal: Principal::named(&self.principal),
            subject: self.subject.as_str().into(),
            domain: self.domain.as_deref().map(Into::into),
            groups: self.groups.iter().map(|group| group.as_str().into()).collect(),
            client: client.into(),
        }
    }
}

/// What somebody has agreed to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Granted {
    pub login: Login,
    pub client: String,
    pub scopes: Scopes,
    /// Where tokens may be good; the first is taken unless the client says another.
    pub resources: Vec<String>,
    /// Whether the client may refresh.
    pub refreshes: bool,
    pub challenge: String,
    pub redirect_uri: String,
}

/// One family.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub granted: Granted,
    pub made: u64,
    pub state: State,
}

/// How far it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum State {
    /// Nobody has redeemed the code.
    Code { hash: Hash, until: u64 },
    /// There are tokens.
    Live(Live),
}

/// What there is of a family with tokens.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Live {
    /// The code that it began with.
    pub code: Hash,
    /// Grows with each refresh, and beyond what a store may have forgotten: it is the time of the last one in
    /// milliseconds, or one more than before.
    pub epoch: u64,
    /// The access token of this epoch. Another one may have had the same number in a past that the store has lost.
    pub token: String,
    /// The access token of the epoch before.
    pub token_before: Option<String>,
    /// The one refresh token that is good.
    pub refresh: Option<Hash>,
    /// When it was last refreshed.
    pub since: u64,
    /// When it is over unless it is refreshed. Records of old do not say so.
    #[serde(default)]
    pub rests: Option<u64>,
    /// Access tokens that were given back.
    pub revoked: Vec<String>,
    pub leeway: Option<Leeway>,
}

/// The last answer, for whoever has the token that it was given for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Leeway {
    until: u64,
    sealed: String,
}

impl Record {
    pub fn bytes(&self) -> Result<Bytes, lb_store::Error> {
        let written =
            serde_json::to_vec(self).map_err(|_| lb_store::Error::WrongShape("a family could not be written"))?;
        Ok(written.into())
    }

    pub fn with(&self, live: Live) -> Self {
        Self { state: State::Live(live), ..self.clone() }
    }

    /// When it is over unless it is refreshed, in seconds since 1970.
    pub fn ends(&self) -> u64 {
        let last = self.made + FAMILY_LIFE.as_secs();
        match &self.state {
            State::Code { until, .. } => *until,
            State::Live(Live { rests: Some(rests), .. }) => last.min(*rests),
            State::Live(live) if live.refresh.is_some() => last.min(live.since + REFRESH_LIFE.as_secs()),
            State::Live(live) => last.min(live.since + ACCESS_LIFE.as_secs() + SKEW.as_secs()),
        }
    }

    pub fn epoch(&self) -> u64 {
        match &self.state {
            State::Code { .. } => 0,
            State::Live(live) => live.epoch,
        }
    }

    /// Whether a code is redeemed as it should be: by the client, for the address and with the secret that it began with.
    pub fn check_code(&self, proof: Proof<'_>, asked: Asked<'_>) -> Result<(Scopes, String), GrantError> {
        let verifier = proof.verifier.filter(|verifier| is_verifier(verifier)).ok_or(GrantError::Invalid)?;
        let proven = equal(Hash::of(verifier.as_bytes()).base64().as_bytes(), self.granted.challenge.as_bytes());
        let redirect = proof.redirect_uri.is_none_or(|uri| uri == self.granted.redirect_uri);
        if !proven || !redirect || self.granted.client != asked.client {
            return Err(GrantError::Invalid);
        }
        self.narrow(asked)
    }

    /// What of all that was granted the next access token is for.
    pub fn narrow(&self, asked: Asked<'_>) -> Result<(Scopes, String), GrantError> {
        let scopes = asked.scopes.unwrap_or(&self.granted.scopes);
        if scopes.is_empty() || !self.granted.scopes.covers(scopes) {
            return Err(GrantError::Scope);
        }
        let granted = |wanted: &&str| self.granted.resources.iter().any(|resource| resource == wanted);
        if !asked.resources.iter().all(granted) {
            return Err(GrantError::Resource);
        }
        let resource = asked.resources.first().copied().or(self.granted.resources.first().map(String::as_str));
        let resource = resource.ok_or(GrantError::Resource)?;
        Ok((scopes.clone(), resource.to_owned()))
    }

    /// Whether an access token is still good. One of the epoch before is, while its successor may be on its way.
    pub fn takes(&self, claims: &Claims, now: SystemTime) -> bool {
        let State::Live(live) = &self.state else { return false };
        let current = claims.epo == live.epoch && claims.jti == live.token;
        let before = live.token_before.as_ref() == Some(&claims.jti) && claims.epo < live.epoch;
        let late = before && seconds(now) < live.since + LEEWAY.as_secs();
        (current || late)
            && seconds(now) < self.ends()
            && claims.sub == self.granted.login.principal
            && claims.client_id == self.granted.client
            && !live.revoked.contains(&claims.jti)
    }

    /// Whether this token shows that the last answer has arrived.
    pub fn awaits(&self, claims: &Claims, now: SystemTime) -> bool {
        let State::Live(live) = &self.state else { return false };
        claims.jti == live.token && live.leeway.as_ref().is_some_and(|leeway| seconds(now) < leeway.until)
    }
}

/// 43 to 128 characters that need no escape.
pub(crate) fn is_verifier(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    (43..=128).contains(&text.len()) && text.bytes().all(plain)
}

impl Live {
    pub fn first(code: Hash, now: SystemTime) -> Self {
        let (epoch, since) = (millis(now), seconds(now));
        let (token, token_before, refresh, leeway) = (String::new(), None, None, None);
        Self { code, epoch, token, token_before, refresh, since, rests: None, revoked: Vec::new(), leeway }
    }

    pub fn next(&self, now: SystemTime) -> Self {
        let epoch = millis(now).max(self.epoch + 1);
        Self { epoch, token_before: Some(self.token.clone()), since: seconds(now), ..self.clone() }
    }

    /// Without one of its access tokens. Two are good at a time; what is older is over.
    pub fn without(&self, jti: &str) -> Self {
        let mut revoked: Vec<String> = self.revoked.iter().rev().take(3).rev().cloned().collect();
        revoked.push(jti.to_owned());
        Self { revoked, ..self.clone() }
    }
}

impl Leeway {
    /// Seals an answer so that only the token that was spent for it opens it.
    pub fn seal(spent: &str, issued: &Issued, now: SystemTime) -> Option<Self> {
        let mut text = serde_json::to_vec(issued).ok()?;
        let nonce: [u8; 12] = random();
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &seal_key(spent)).ok()?);
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut text).ok()?;
        let sealed = encode(&[&nonce[..], &text].concat());
        Some(Self { until: seconds(now) + LEEWAY.as_secs(), sealed })
    }

    pub fn open(&self, spent: &str, now: SystemTime) -> Option<Issued> {
        if self.until <= seconds(now) {
            return None;
        }
        let kept = decode(&self.sealed)?;
        let (nonce, text) = kept.split_first_chunk::<12>()?;
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &seal_key(spent)).ok()?);
        let mut text = text.to_vec();
        let opened = key.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::empty(), &mut text).ok()?;
        serde_json::from_slice(opened).ok()
    }
}

/// Milliseconds since 1970.
fn millis(now: SystemTime) -> u64 {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn seal_key(spent: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, spent.as_bytes());
    hmac::sign(&key, b"landbridge refresh leeway").as_ref().to_vec()
}
