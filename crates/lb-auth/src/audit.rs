//! What is written down of logins and tokens: who, which client, what came of it. Never a token, a code or a secret.
//!
//! Everything is named by the hash that a principal is; a login alone says whom the provider means by it.

use std::collections::HashSet;
use std::net::IpAddr;
use std::time::SystemTime;

use parking_lot::Mutex;

use crate::auth::{Auth, Grant};
use crate::family::{Granted, Login};
use crate::refusal::Refusal;
use crate::token::seconds;

/// How many different things are written down in a minute of what anybody can cause.
const SEEN_MAX: usize = 600;

/// Somebody came back from the provider.
pub(crate) fn login(login: &Login, client: &str, outcome: &str) {
    let (who, subject, domain) = (&*login.principal, &*login.subject, login.domain.as_deref());
    tracing::info!(target: "audit", event = "login", who, subject, domain, client, outcome);
}

/// Nobody came back from the provider, or not as they should.
pub(crate) fn login_failed(client: &str, outcome: &str) {
    tracing::warn!(target: "audit", event = "login", who = "unknown", client, outcome);
}

/// Somebody agreed, or did not. Who it is, is known after the login.
pub(crate) fn consent(client: &str, outcome: &str) {
    tracing::info!(target: "audit", event = "consent", who = "unknown", client, outcome);
}

/// A client has registered, or could not.
pub(crate) fn registration(client: Option<&str>, from: IpAddr, outcome: &str) {
    tracing::info!(target: "audit", event = "registration", who = "unknown", client, %from, outcome);
}

/// Something became of the tokens of a login.
pub(crate) fn tokens(event: &str, granted: &Granted, outcome: &str) {
    let (who, client) = (&*granted.login.principal, &*granted.client);
    match outcome {
        "ok" => tracing::info!(target: "audit", event, who, client, outcome),
        _ => tracing::warn!(target: "audit", event, who, client, outcome),
    }
}

/// What is told once in a minute, however often it happens.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Mutex<Minute>);

#[derive(Debug, Default)]
struct Minute {
    number: u64,
    seen: HashSet<String>,
    left_out: u64,
}

impl Seldom {
    /// Whether this is to be told: then how much was not since the minute began that was told last.
    fn first(&self, what: String, now: SystemTime) -> Option<u64> {
        let mut minute = self.0.lock();
        let number = seconds(now) / 60;
        if minute.number != number {
            minute.number = number;
            minute.seen.clear();
        }
        if minute.seen.contains(&what) || SEEN_MAX <= minute.seen.len() {
            minute.left_out += 1;
            return None;
        }
        minute.seen.insert(what);
        Some(std::mem::take(&mut minute.left_out))
    }
}

impl Auth {
    /// Writes down that somebody was not let in: once a minute for each address and reason.
    pub fn turned_back(&self, refusal: &Refusal, from: Option<IpAddr>, now: SystemTime) {
        let outcome = match refusal {
            Refusal::NoCredentials => "no_token",
            Refusal::Expired => "token_expired",
            Refusal::Invalid => "token_invalid",
            Refusal::Malformed => "malformed",
            Refusal::Scope { .. } => "insufficient_scope",
            Refusal::Denied => "denied",
            Refusal::TooMany { .. } => "too_many",
            Refusal::StoreAway => "store_away",
        };
        let address = from.map(|from| from.to_string()).unwrap_or_default();
        if let Some(left_out) = self.refusals.first(format!("{address} {outcome}"), now) {
            tracing::warn!(target: "audit", event = "refused", who = "unknown", from = address, outcome, left_out);
        }
    }

    /// Writes down that a key or the operator's token was used: once a minute for each.
    pub(crate) fn key_used(&self, grant: &Grant, now: SystemTime) {
        let who = grant.who.principal.as_str();
        if self.keys_used.first(who.to_owned(), now).is_some() {
            let event = if who == "operator" { "operator_access" } else { "key_used" };
            tracing::info!(target: "audit", event, who, outcome = "ok");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_happens_often_is_told_once_a_minute_with_what_was_left_out() {
        let (seldom, start) = (Seldom::default(), SystemTime::UNIX_EPOCH + Duration::from_secs(600));
        assert_eq!(seldom.first("a".into(), start), Some(0));
        for second in 0..60 {
            assert_eq!(seldom.first("a".into(), start + Duration::from_secs(second)), None);
        }
        assert_eq!(seldom.first("a".into(), start + Duration::from_secs(60)), Some(60));
        let told = (0..10_000).filter_map(|number| seldom.first(number.to_string(), start + Duration::from_secs(61)));
        assert_eq!(told.count(), SEEN_MAX - 1, "however many different ones there are");
    }
}
