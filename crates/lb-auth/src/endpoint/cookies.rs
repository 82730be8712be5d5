//! Cookies of browsers. Each login has one of its own, so that several at once do not disturb one another.

use http::HeaderMap;
use http::header::{COOKIE, HeaderValue, SET_COOKIE};

use crate::answer::Answer;
use crate::auth::{Auth, same};
use crate::secret::Hash;

/// How many logins may be under way in one browser. Beyond them the one that began first gives way.
pub(crate) const LOGINS_MAX: usize = 8;
/// The hexadecimal digits by which the cookies of several logins are told apart.
const DIGITS: usize = 16;

/// What a cookie binds to a browser.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// A login at the provider, by the state that it comes back with.
    Login,
    /// Who sits in front of it, by the login at a server that it is for.
    Person,
}

impl Auth {
    /// Binds one login to a browser, for so many seconds.
    pub(crate) fn bind(&self, answer: &mut Answer, sent: &HeaderMap, (of, id): (Bound, &str), value: &str, life: u64) {
        let (prefix, own) = (self.prefix(of), self.name_of(of, id));
        let others: Vec<&str> = pairs(sent).map(|(name, _)| name).filter(|name| *name != own).collect();
        let others: Vec<&str> = others.into_iter().filter(|name| is_of(name, prefix)).collect();
        // Browsers send first what they have had longest.
        for oldest in others.iter().take((others.len() + 1).saturating_sub(LOGINS_MAX)) {
            self.set_cookie(answer, oldest, "", "Lax", 0);
        }
        self.set_cookie(answer, &own, value, "Lax", life);
    }

    /// The login is over, and its cookie with it.
    pub(crate) fn unbind(&self, answer: &mut Answer, of: Bound, id: &str) {
        self.set_cookie(answer, &self.name_of(of, id), "", "Lax", 0);
    }

    /// What a browser has for one login.
    pub(crate) fn bound<'a>(&self, sent: &'a HeaderMap, of: Bound, id: &str) -> Option<&'a str> {
        cookie(sent, &self.name_of(of, id))
    }

    /// Whether a login was begun in this browser.
    pub(crate) fn is_begun_in(&self, sent: &HeaderMap, state: &str) -> bool {
        self.bound(sent, Bound::Login, state).is_some_and(|kept| same(kept, state))
    }

    pub(crate) fn set_cookie(&self, answer: &mut Answer, name: &str, value: &str, site: &str, seconds: u64) {
        let secure = if self.settings.is_secure() { "; Secure" } else { "" };
        let text = format!("{name}={value}{secure}; HttpOnly; SameSite={site}; Path=/; Max-Age={seconds}");
        if let Ok(mut header) = HeaderValue::from_str(&text) {
            header.set_sensitive(true);
            answer.headers_mut().append(SET_COOKIE, header);
        }
    }

    fn name_of(&self, of: Bound, id: &str) -> String {
        let digits: String = Hash::of(id.as_bytes()).hex().chars().take(DIGITS).collect();
        format!("{}{digits}", self.prefix(of))
    }

    /// Without encryption, which is for loopback, names have no prefix of the browser's own.
    fn prefix(&self, of: Bound) -> &'static str {
        match (of, self.settings.is_secure()) {
            (Bound::Login, true) => "__Host-lb_tx_",
            (Bound::Login, false) => "lb_tx_",
            (Bound::Person, true) => "__Host-lb_person_",
            (Bound::Person, false) => "lb_person_",
        }
    }
}

/// A cookie that a browser sent; `None` when it sent two of that name.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = pairs(headers).filter(|(known, _)| *known == name).map(|(_, value)| value);
    values.next().filter(|_| values.next().is_none())
}

fn pairs(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='))
}

/// Whether a cookie is one of ours of this kind: what a browser sends is written into an answer only then.
fn is_of(name: &str, prefix: &str) -> bool {
    let digits = name.strip_prefix(prefix);
    digits.is_some_and(|digits| digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
