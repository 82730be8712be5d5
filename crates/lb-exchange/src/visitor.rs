//! Who sent one request, and what the token of that request may do.

use std::fmt::Debug;
use std::sync::Arc;

use crate::middle::BoxFuture;
use crate::principal::Principal;

/// Who sent a request. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Visitor {
    /// Who it is.
    pub principal: Principal,
    /// The client that speaks for them; `None` where nobody logs in, or a program has a key of its own.
    pub client: Option<Arc<str>>,
    /// The login that the token came of. What is used with it ends with it.
    pub family: Option<Arc<str>>,
    /// What this request may do; `None` where everything is allowed.
    pub rights: Option<Arc<dyn Rights>>,
}

impl Visitor {
    /// Whoever comes to a gateway without a login.
    pub fn local() -> Self {
        Self::of(Principal::local())
    }

    /// This one, who may do everything.
    pub fn of(principal: Principal) -> Self {
        Self { principal, client: None, family: None, rights: None }
    }

    /// Whether a request may be made.
    pub fn decide(&self, method: &str, aim: Aim<'_>) -> Verdict {
        self.rights.as_ref().map_or(Verdict::Allow, |rights| rights.decide(method, aim))
    }
}

/// What the token of one request may do.
pub trait Rights: Send + Sync + Debug {
    /// Whether it may make this request.
    fn decide(&self, method: &str, aim: Aim<'_>) -> Verdict;

    /// Whether it may change the gateway itself.
    fn is_admin(&self) -> bool;
}

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim<'a> {
    /// The gateway itself, or one of its own tools.
    Own {
        /// The tool that is called.
        tool: Option<&'a str>,
    },
    /// A server behind it.
    Server {
        /// Which one.
        server: &'a str,
        /// The tool that is called.
        tool: Option<&'a str>,
    },
}

/// What comes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    Allow,
    /// No token would help.
    Deny,
    /// It needs these scopes, which its token does not have: their names, with spaces between them.
    StepUp(String),
}

impl Verdict {
    /// What comes of several that stand or fall together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Deny, _) | (_, Self::Deny) => Self::Deny,
            (Self::Allow, other) | (other, Self::Allow) => other,
            (Self::StepUp(scopes), Self::StepUp(more)) => Self::StepUp(union(scopes, &more)),
        }
    }
}

fn union(mut scopes: String, more: &str) -> String {
    for scope in more.split(' ') {
        if !scopes.split(' ').any(|known| known == scope) {
            scopes.push(' ');
            scopes.push_str(scope);
        }
    }
    scopes
}

/// Bytes of one word in what is written down of a request.
const WORD_BYTES_MAX: usize = 256;

/// The beginning of a word that is too long to be written down.
pub fn brief(word: &str) -> &str {
    word.get(..word.floor_char_boundary(WORD_BYTES_MAX)).unwrap_or_default()
}

/// Writes down what came of a request: who, by which client, what and where, and never what it was about.
///
/// What only reads is written down when it is refused.
pub fn audit(principal: &Principal, client: Option<&str>, method: &str, aim: Aim<'_>, verdict: &Verdict) {
    let (server, tool) = match aim {
        Aim::Own { tool } => (None, tool),
        Aim::Server { server, tool } => (Some(server), tool),
    };
    let who = principal.as_str();
    // Whoever calls chooses these, and may choose long ones.
    let (method, client, server, tool) = (brief(method), client.map(brief), server.map(brief), tool.map(brief));
    match verdict {
        Verdict::Allow if method == "tools/call" => {
            tracing::info!(target: "audit", event = "call", who, client, method, server, tool, outcome = "allowed");
        }
        Verdict::Allow => {}
        Verdict::Deny => {
            tracing::warn!(target: "audit", event = "call", who, client, method, server, tool, outcome = "denied");
        }
        Verdict::StepUp(scope) => {
            let outcome = "insufficient_scope";
            tracing::warn!(target: "audit", event = "call", who, client, method, server, tool, outcome, scope);
        }
    }
}

/// Tells which logins are over.
pub trait Families: Send + Sync {
    /// Whether a login still counts, and for this server if one is named; `None` while that cannot be known.
    fn lives<'a>(&'a self, family: &'a str, server: Option<&'a str>) -> BoxFuture<'a, Option<bool>>;

    /// Sees to it that what was ended stays so, also where the store has forgotten it. Asked again and again.
    fn tend(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_where_a_letter_ends() {
        assert_eq!(brief("tools/call"), "tools/call");
        assert_eq!(brief(&"ä".repeat(999)).len(), WORD_BYTES_MAX);
        assert_eq!(brief(&format!("a{}", "ä".repeat(999))).len(), WORD_BYTES_MAX - 1);
    }

    #[test]
    fn what_several_requests_need_together_is_asked_for_at_once() {
        let step = |scopes: &str| Verdict::StepUp(scopes.to_owned());
        assert_eq!(Verdict::Allow.and(Verdict::Allow), Verdict::Allow);
        assert_eq!(Verdict::Allow.and(step("a")), step("a"));
        assert_eq!(step("a").and(Verdict::Allow), step("a"));
        assert_eq!(step("a b").and(step("b c")), step("a b c"));
        assert_eq!(step("a").and(Verdict::Deny), Verdict::Deny);
        assert_eq!(Verdict::Deny.and(Verdict::Allow), Verdict::Deny);
    }

    #[test]
    fn where_nobody_logs_in_everything_is_allowed() {
        let aim = Aim::Own { tool: Some("add_server") };
        assert_eq!(Visitor::local().decide("tools/call", aim), Verdict::Allow);
    }
}
