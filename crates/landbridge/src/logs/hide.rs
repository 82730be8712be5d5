//! Secrets that we know are hidden wherever they turn up: a server may print its own token.

use std::borrow::Cow;
use std::sync::{Arc, RwLock};

use lb_exchange::{ServerSpec, Target};

/// Shorter ones would hide half of every log, and are no secrets.
const BYTES_MIN: usize = 6;
/// More would make every line slow.
const SECRETS_MAX: usize = 1_000;

static KNOWN: RwLock<Option<Arc<[String]>>> = RwLock::new(None);

/// Hides what is secret in these servers, from now on and beside what is hidden already.
pub fn hide(servers: &[ServerSpec]) {
    let mut all: Vec<String> = known().map(|known| known.to_vec()).unwrap_or_default();
    for server in servers {
        let (named, rest): (&[_], Vec<&str>) = match &server.target {
            Target::Http { headers, url } => {
                (headers, url.split_once('?').map(|(_, query)| query).into_iter().collect())
            }
            Target::Child { env, .. } => (env, Vec::new()),
            Target::Embedded(_) => (&[], Vec::new()),
        };
        for (name, secret) in named {
            let value = secret.expose();
            // A variable of a plain name may hold a plain word that logs need.
            if looks_secret(name, &server.target) {
                all.push(value.to_owned());
                all.extend(value.split_once(' ').map(|(_, credential)| credential.to_owned()));
            }
        }
        all.extend(rest.into_iter().map(str::to_owned));
    }
    all.retain(|secret| BYTES_MIN <= secret.len());
    all.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    all.dedup();
    all.truncate(SECRETS_MAX);
    *KNOWN.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(all.into());
}

/// Every header; variables of a telling name.
fn looks_secret(name: &str, target: &Target) -> bool {
    const TELLING: [&str; 8] = ["KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CREDENTIAL", "COOKIE", "PRIVATE"];
    let name = name.to_ascii_uppercase();
    matches!(target, Target::Http { .. }) || TELLING.iter().any(|word| name.contains(word))
}

fn known() -> Option<Arc<[String]>> {
    KNOWN.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
}

/// A text without what we know, or what looks like a credential.
pub fn hidden(text: &str) -> Cow<'_, str> {
    let mut text = lb_gateway::redacted_text(text);
    for secret in known().iter().flat_map(|known| known.iter()) {
        if text.contains(secret.as_str()) {
            text = Cow::Owned(text.replace(secret.as_str(), "***"));
        }
    }
    text
}
