//! Who sent a request, as the rest of the gateway sees it: what a token may do goes with each request.

use std::sync::Arc;

use lb_exchange::{Aim, BoxFuture, Families, Principal, Rights, Verdict, Visitor};
use serde::{Deserialize, Serialize};

use crate::auth::{Auth, Grant};
use crate::policy::{Decision, Who};
use crate::scope::Scopes;

/// A grant, and who decides on it. The rules that count are those of the moment in which it is asked.
#[derive(Debug)]
struct Held {
    auth: Arc<Auth>,
    grant: Arc<Grant>,
}

impl Rights for Held {
    fn decide(&self, method: &str, aim: Aim<'_>) -> Verdict {
        match self.auth.decide(&self.grant, method, aim) {
            Decision::Allow => Verdict::Allow,
            Decision::Deny => Verdict::Deny,
            Decision::StepUp { scopes } => Verdict::StepUp(scopes.to_string()),
        }
    }

    fn is_admin(&self) -> bool {
        self.grant.is_admin()
    }
}

impl Auth {
    /// Who sent the request that this was granted to.
    pub fn visitor(self: &Arc<Self>, grant: &Arc<Grant>) -> Visitor {
        Visitor {
            principal: grant.who.principal.clone(),
            // A key has no login, and speaks for itself.
            client: grant.is_login().then(|| grant.who.client.clone()),
            family: grant.family.clone(),
            rights: Some(Arc::new(Held { auth: self.clone(), grant: grant.clone() })),
        }
    }
}

impl Families for Auth {
    fn lives<'a>(&'a self, family: &'a str, server: Option<&'a str>) -> BoxFuture<'a, Option<bool>> {
        Box::pin(async move { self.is_alive(family, server, self.now().await).await.ok() })
    }

    fn tend(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move { self.tend(self.now().await).await })
    }
}

/// A grant as it is written.
#[derive(Serialize, Deserialize)]
pub(crate) struct Carried {
    principal: String,
    subject: Box<str>,
    domain: Option<Box<str>>,
    groups: Vec<Box<str>>,
    client: Box<str>,
    scopes: Scopes,
    family: Option<Box<str>>,
    operator: bool,
}

impl From<Grant> for Carried {
    fn from(grant: Grant) -> Self {
        let Grant { who, scopes, family, operator } = grant;
        let Who { principal, subject, domain, groups, client } = who;
        let (principal, client, family) =
            (principal.as_str().to_owned(), (*client).into(), family.as_deref().map(Into::into));
        Self { principal, subject, domain, groups, client, scopes, family, operator }
    }
}

impl From<Carried> for Grant {
    fn from(carried: Carried) -> Self {
        let Carried { principal, subject, domain, groups, client, scopes, family, operator } = carried;
        let who = Who { principal: Principal::named(&principal), subject, domain, groups, client: client.into() };
        Self { who, scopes, family: family.map(Into::into), operator }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_the_same_after_it_was_carried() {
        let who = Who {
            principal: Principal::named("someone"),
            subject: "alice".into(),
            domain: Some("example.test".into()),
            groups: vec!["staff".into(), "a b".into()],
            client: "https://app.example/client.json".into(),
        };
        let scopes = Scopes::parse("mcp:read server:git").unwrap();
        for (family, operator) in [(Some("fam".into()), false), (None, true)] {
            let grant = Grant { who: who.clone(), scopes: scopes.clone(), family, operator };
            let text = serde_json::to_string(&grant).unwrap();
            assert_eq!(serde_json::from_str::<Grant>(&text).unwrap(), grant, "{text}");
        }
    }
}
