//! Who may do what: one function without state or IO.

use std::borrow::Cow;
use std::sync::Arc;

/// What a request is about.
pub use lb_exchange::Aim as Target;
use lb_exchange::{Principal, Verdict};

use crate::scope::{Scope, Scopes};

/// Who somebody is, as far as rules look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The name that everything of theirs is kept under.
    pub principal: Principal,
    /// The provider's name for them.
    pub subject: Box<str>,
    /// The domain of an e-mail address that the provider has verified.
    pub domain: Option<Box<str>>,
    /// The groups that the provider puts them in.
    pub groups: Vec<Box<str>>,
    /// The client that speaks for them.
    pub client: Arc<str>,
}

/// People, by any of what is known of them. Empty lists name nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct People {
    /// By the provider's name for them, or by the name of an API key.
    pub subjects: Vec<String>,
    /// By the domain of their verified e-mail address.
    pub domains: Vec<String>,
    /// By group.
    pub groups: Vec<String>,
    /// By the client that they use.
    pub clients: Vec<String>,
}

impl People {
    /// Whether they name somebody, or the client that they use.
    pub fn name(&self, who: &Who) -> bool {
        self.name_person(who) || self.clients.iter().any(|client| **client == *who.client)
    }

    /// Whether they name somebody. Everybody can use a client, so that one says nothing of who it is.
    pub fn name_person(&self, who: &Who) -> bool {
        let domain = who.domain.as_deref();
        self.subjects.iter().any(|subject| **subject == *who.subject)
            || self.domains.iter().any(|mine| domain.is_some_and(|domain| domain.eq_ignore_ascii_case(mine)))
            || self.groups.iter().any(|group| who.groups.iter().any(|theirs| **theirs == **group))
    }

    /// Whether they name no person.
    pub fn is_empty(&self) -> bool {
        self.subjects.is_empty() && self.domains.is_empty() && self.groups.is_empty()
    }
}

/// One permission. What no rule permits is denied once there is a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Whom it is for; `None` is everybody who is let in.
    pub who: Option<People>,
    /// The servers, `*` standing for any text.
    pub servers: Vec<String>,
    /// Their tools, in the same way.
    pub tools: Vec<String>,
}

/// All rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Who is let in at all; `None` is everybody whom the provider knows.
    pub allow: Option<People>,
    /// For whom `mcp:admin` counts.
    pub admins: People,
    /// Who may use which servers and tools. None at all permits everything.
    pub permit: Vec<Rule>,
}

impl Rules {
    /// Whether somebody is let in.
    pub fn lets_in(&self, who: &Who) -> bool {
        self.allow.as_ref().is_none_or(|people| people.name_person(who))
    }

    /// Whether somebody may have `mcp:admin`.
    pub fn is_admin(&self, who: &Who) -> bool {
        self.admins.name_person(who)
    }

    /// What must be known of people to judge them.
    pub(crate) fn need(&self) -> Need {
        let all =
            || self.allow.iter().chain([&self.admins]).chain(self.permit.iter().filter_map(|rule| rule.who.as_ref()));
        Need {
            email: all().any(|people| !people.domains.is_empty()),
            groups: all().any(|people| !people.groups.is_empty()),
        }
    }

    fn permits(&self, who: &Who, server: &str, tool: Option<&str>) -> bool {
        let for_them = |rule: &&Rule| rule.who.as_ref().is_none_or(|people| people.name(who));
        let reaches = |rule: &Rule| {
            rule.servers.iter().any(|pattern| matches(pattern, server))
                && tool.is_none_or(|tool| rule.tools.iter().any(|pattern| matches(pattern, tool)))
        };
        self.permit.is_empty() || self.permit.iter().filter(for_them).any(reaches)
    }
}

/// What must be known of people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Need {
    pub email: bool,
    pub groups: bool,
}

/// What comes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It goes on.
    Allow,
    /// No scope would help.
    Deny,
    /// It needs these scopes, which the token does not have.
    StepUp {
        /// All that it needs.
        scopes: Scopes,
    },
}

impl Decision {
    /// What comes of several that stand or fall together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Deny, _) | (_, Self::Deny) => Self::Deny,
            (Self::StepUp { scopes }, Self::StepUp { scopes: more }) => Self::StepUp { scopes: scopes.union(&more) },
            (Self::StepUp { scopes }, Self::Allow) | (Self::Allow, Self::StepUp { scopes }) => Self::StepUp { scopes },
            (Self::Allow, Self::Allow) => Self::Allow,
        }
    }
}

impl From<Decision> for Verdict {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Allow => Self::Allow,
            Decision::Deny => Self::Deny,
            Decision::StepUp { scopes } => Self::StepUp(scopes.to_string()),
        }
    }
}

/// Decides on one request.
pub fn decide(who: &Who, scopes: &Scopes, rules: &Rules, method: &str, target: Target<'_>) -> Decision {
    let admin = rules.is_admin(who);
    // The token may be older than the rules.
    let scopes = if admin { Cow::Borrowed(scopes) } else { scopes.below_admin() };
    let need = need(method, target);
    if need == Scope::Admin && !admin {
        return Decision::Deny;
    }
    if let Target::Server { server, tool } = target
        && !scopes.has(&Scope::Admin)
        && !rules.permits(who, server, tool)
    {
        return Decision::Deny;
    }
    if suffices(&scopes, &need, target) {
        return Decision::Allow;
    }
    let missing = match target {
        Target::Server { server, .. } if scopes.names_servers() => Scope::Server(server.into()),
        Target::Own { .. } | Target::Server { .. } => need,
    };
    Decision::StepUp { scopes: Scopes::default().with(missing) }
}

/// Whether the scopes are enough. Whoever may use one server may also speak to the gateway about it.
fn suffices(scopes: &Scopes, need: &Scope, target: Target<'_>) -> bool {
    let on_server = match target {
        Target::Own { .. } => scopes.names_servers(),
        Target::Server { server, .. } => scopes.has_server(server),
    };
    scopes.has(need) || (on_server && *need != Scope::Admin)
}

/// What a request needs on its own: `mcp:read`, `mcp:call` or `mcp:admin`.
fn need(method: &str, target: Target<'_>) -> Scope {
    match (method, target) {
        ("tools/call", Target::Own { tool: Some(tool) }) => need_of_own(tool),
        ("tools/call" | "tasks/cancel" | "tasks/update", _) => Scope::Call,
        ("initialize" | "ping" | "completion/complete" | "logging/setLevel" | "server/discover", _) => Scope::Read,
        (other, _) => {
            let reads =
                ["notifications/", "resources/", "prompts/", "tools/list", "tasks/", "subscriptions/", "roots/"];
            // A method that nobody knows may do anything.
            if reads.iter().any(|start| other.starts_with(start)) { Scope::Read } else { Scope::Call }
        }
    }
}

/// The same for a tool of the gateway's own.
fn need_of_own(tool: &str) -> Scope {
    let reads = ["list_", "get_", "read_", "subscribe_", "unsubscribe_", "await_activity", "codemode_search"];
    match tool {
        "add_server" | "remove_server" => Scope::Admin,
        other if reads.iter().any(|start| other.starts_with(start)) => Scope::Read,
        _ => Scope::Call,
    }
}

/// Whether a text fits a pattern in which `*` stands for any text. Linear in both for each star.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests;
