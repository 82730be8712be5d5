//! Secrets that we know are hidden wherever they turn up: a server may print its own token.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use lb_exchange::{ServerSpec, Target};

/// Shorter ones would hide half of every log, and are no secrets.
const BYTES_MIN: usize = 6;
/// How many are kept when those of servers that are gone are counted too. Those of the servers at hand are all kept.
const SECRETS_MAX: usize = 10_000;

static KNOWN: RwLock<Option<Arc<Known>>> = RwLock::new(None);

/// Hides what is secret in these servers, from now on and beside what is hidden already.
pub fn hide(servers: &[ServerSpec]) {
    hide_texts(secrets(servers));
}

/// The same for secrets that are known as such.
pub fn hide_texts(secrets: Vec<String>) {
    let before = known();
    let before = before.as_ref().map(|known| known.newest_first.as_slice()).unwrap_or_default();
    let now = Known::new(secrets, before, SECRETS_MAX);
    *KNOWN.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(now));
}

/// A text without what we know, or what looks like a credential.
pub fn hidden(text: &str) -> Cow<'_, str> {
    let text = lb_gateway::redacted_text(text);
    let without = known().and_then(|known| known.without(&text));
    without.map_or(text, Cow::Owned)
}

/// A text without what we know, whatever else it looks like: who did something is a name, and names may look odd.
pub fn hidden_name(text: &str) -> Cow<'_, str> {
    let without = known().and_then(|known| known.without(text));
    without.map_or(Cow::Borrowed(text), Cow::Owned)
}

fn known() -> Option<Arc<Known>> {
    KNOWN.read().unwrap_or_else(PoisonError::into_inner).clone()
}

fn secrets(servers: &[ServerSpec]) -> Vec<String> {
    let mut all = Vec::new();
    for server in servers {
        let (named, rest): (&[_], Option<&str>) = match &server.target {
            Target::Http { headers, url } => (headers, url.split_once('?').map(|(_, query)| query)),
            Target::Child { env, .. } => (env, None),
            Target::Embedded(_) => (&[], None),
        };
        for (name, secret) in named {
            let value = secret.expose();
            // A variable of a plain name may hold a plain word that logs need.
            if looks_secret(name, &server.target) {
                all.push(value.to_owned());
                all.extend(value.split_once(' ').map(|(_, credential)| credential.to_owned()));
            }
        }
        all.extend(rest.map(str::to_owned));
    }
    all
}

/// Every header; variables of a telling name.
fn looks_secret(name: &str, target: &Target) -> bool {
    const TELLING: [&str; 8] = ["KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CREDENTIAL", "COOKIE", "PRIVATE"];
    let name = name.to_ascii_uppercase();
    matches!(target, Target::Http { .. }) || TELLING.iter().any(|word| name.contains(word))
}

/// Secrets, and the way to find any of them in one walk over a text.
struct Known {
    newest_first: Vec<String>,
    /// One bit for every two bytes that a secret may start with, so that most of a text is passed over quickly.
    pairs: Vec<u64>,
    /// By how they start; the longest of a start first.
    starts: HashMap<[u8; BYTES_MIN], Vec<String>>,
}

impl Known {
    /// All that are at hand, and as many of those before, the newest first, as there is room for.
    fn new(at_hand: Vec<String>, before: &[String], max: usize) -> Self {
        let mut seen = HashSet::new();
        let mut newest_first = at_hand;
        newest_first.retain(|secret| BYTES_MIN <= secret.len() && seen.insert(secret.clone()));
        let room = max.saturating_sub(newest_first.len());
        newest_first.extend(before.iter().filter(|secret| !seen.contains(*secret)).take(room).cloned());
        let (mut pairs, mut starts) = (vec![0; (1 << 16) / 64], HashMap::<_, Vec<String>>::new());
        for secret in &newest_first {
            if let Some(start) = secret.as_bytes().first_chunk::<BYTES_MIN>() {
                if let Some((word, bit)) = pair(start).and_then(|(at, bit)| Some((pairs.get_mut(at)?, bit))) {
                    *word |= bit;
                }
                starts.entry(*start).or_default().push(secret.clone());
            }
        }
        for list in starts.values_mut() {
            list.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        }
        Self { newest_first, pairs, starts }
    }

    /// The text with `***` in the place of every secret; `None` when it has none.
    fn without(&self, text: &str) -> Option<String> {
        let found = self.find(text.as_bytes());
        let end = found.last()?.end;
        let (mut out, mut copied) = (String::with_capacity(text.len()), 0);
        for Range { start, end } in found {
            out.push_str(text.get(copied..start).unwrap_or_default());
            out.push_str("***");
            copied = end;
        }
        out.push_str(text.get(end..).unwrap_or_default());
        Some(out)
    }

    /// Where secrets are; those that overlap are one.
    fn find(&self, text: &[u8]) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        for (at, window) in text.windows(BYTES_MIN).enumerate() {
            let Some((word, bit)) = pair(window) else { continue };
            if self.pairs.get(word).is_none_or(|word| word & bit == 0) {
                continue;
            }
            let rest = text.get(at..).unwrap_or_default();
            let list = window.first_chunk::<BYTES_MIN>().and_then(|start| self.starts.get(start));
            let Some(secret) = list.into_iter().flatten().find(|secret| rest.starts_with(secret.as_bytes())) else {
                continue;
            };
            let end = at + secret.len();
            match found.last_mut().filter(|last| at < last.end) {
                Some(last) => last.end = last.end.max(end),
                None => found.push(at..end),
            }
        }
        found
    }
}

/// The place of the bit of the first two bytes.
fn pair(start: &[u8]) -> Option<(usize, u64)> {
    let number = u16::from_be_bytes(*start.first_chunk::<2>()?);
    Some((usize::from(number / 64), 1 << (number % 64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn every_secret_is_hidden_wherever_it_is() {
        let known = Known::new(texts(&["abcdef", "abcdefgh", "fghijk", "gehäim-äö", "short"]), &[], 100);
        for (text, want) in [
            ("", None),
            ("short abcde", None),
            ("abcdef", Some("***")),
            ("xabcdefabcdefx", Some("x******x")),
            ("<abcdefgh>", Some("<***>")),
            ("ab abcdefghijk.", Some("ab ***.")),
            ("ä gehäim-äö ä", Some("ä *** ä")),
        ] {
            assert_eq!(known.without(text).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn many_reloads_forget_nothing_that_is_in_use_and_keep_each_once() {
        let at_hand = ["secret-a", "secret-b", "tiny-1"];
        let mut known = Known::new(texts(&at_hand), &[], 10);
        for round in 0..1_000 {
            let rotating = format!("rotated-token-{round:04}");
            // Of the same length, and in another order each time.
            let mut now = texts(&at_hand);
            now.rotate_left(round % 3);
            now.push(rotating);
            known = Known::new(now, &known.newest_first, 10);
            assert!(known.newest_first.len() <= 10, "{:?}", known.newest_first);
            let distinct: HashSet<_> = known.newest_first.iter().collect();
            assert_eq!(distinct.len(), known.newest_first.len(), "each once");
        }
        for secret in ["secret-a", "secret-b", "tiny-1", "rotated-token-0999", "rotated-token-0994"] {
            assert_eq!(known.without(secret).as_deref(), Some("***"), "{secret}");
        }
        let many: Vec<_> = (0..20).map(|number| format!("secret-{number:02}")).collect();
        assert_eq!(Known::new(many, &known.newest_first, 10).newest_first.len(), 20, "those in use are all kept");
    }
}
