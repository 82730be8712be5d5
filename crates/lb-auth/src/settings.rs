//! What an operator sets.

use std::time::Duration;

use url::Url;

use crate::apikey::ApiKeys;
use crate::endpoint::LOGIN_LIFE;
use crate::family::REFRESH_LIFE;
use crate::policy::Rules;
use crate::redirect;
use crate::secret::{Hash, Secret};
use crate::token::ACCESS_LIFE;

/// Everything about who gets in.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where clients find us, without a slash at its end. It is the name of the issuer, too.
    pub public_url: String,
    /// What people call this gateway.
    pub name: String,
    /// The provider at which people log in; without one there is no OAuth.
    pub provider: Option<Provider>,
    /// Who may do what.
    pub rules: Rules,
    /// Whether everybody whom the provider knows is let in when the rules name nobody.
    pub allow_any_user: bool,
    /// Keys for programs.
    pub api_keys: ApiKeys,
    /// What an operator sends as a bearer token.
    pub operator_token: Option<Secret>,
    /// Clients that are known in advance.
    pub clients: Vec<KnownClient>,
    /// Schemes of applications that people may be sent back to.
    pub redirect_schemes: Vec<String>,
    /// Whether clients may register themselves.
    pub registration: bool,
    /// Whose documents are taken as clients.
    pub documents: DocumentHosts,
    /// Origins of pages that may use `/token`, `/register` and `/revoke`.
    pub origins: Vec<String>,
    /// How long things are good for.
    pub lives: Lives,
}

/// How long things are good for. However often it is refreshed, a login ends after [`FAMILY_LIFE`](crate::FAMILY_LIFE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lives {
    /// An access token.
    pub access: Duration,
    /// A refresh token that is not used.
    pub refresh: Duration,
    /// A login that somebody has begun: to agree, and then again to come back from the provider.
    pub login: Duration,
}

impl Default for Lives {
    fn default() -> Self {
        Self { access: ACCESS_LIFE, refresh: REFRESH_LIFE, login: LOGIN_LIFE }
    }
}

/// A provider of logins: its issuer, and what we are to it.
#[derive(Clone, Debug)]
pub struct Provider {
    /// Its issuer, byte for byte as it writes it; a slash at the end belongs to it.
    pub issuer: String,
    /// What it is called on the page where people agree.
    pub name: String,
    /// Our client id there.
    pub client_id: String,
    /// Our secret there; `None` for a public client.
    pub client_secret: Option<Secret>,
    /// What is asked of it beside `openid`.
    pub scopes: Vec<String>,
    /// Further parameters of the login, such as `audience`.
    pub parameters: Vec<(String, String)>,
    /// The claim that has the groups.
    pub groups_claim: String,
}

/// A client that the operator knows.
#[derive(Clone, Debug)]
pub struct KnownClient {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Where people may be sent back to.
    pub redirect_uris: Vec<String>,
    /// The hash of its secret, if it has one.
    pub secret: Option<Hash>,
}

/// Whose documents are taken as clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DocumentHosts {
    /// Everybody's.
    #[default]
    Any,
    /// Those of these hosts.
    Only(Vec<String>),
    /// Nobody's.
    None,
}

impl DocumentHosts {
    /// Whether documents of a host are taken.
    pub fn allow(&self, host: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Only(hosts) => hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host)),
            Self::None => false,
        }
    }
}

impl Settings {
    /// Settings under which nobody gets in.
    pub fn new(public_url: &str) -> Self {
        Self {
            public_url: public_url.to_owned(),
            name: "landbridge".to_owned(),
            provider: None,
            rules: Rules::default(),
            allow_any_user: false,
            api_keys: ApiKeys::default(),
            operator_token: None,
            clients: Vec::new(),
            redirect_schemes: Vec::new(),
            registration: true,
            documents: DocumentHosts::default(),
            origins: Vec::new(),
            lives: Lives::default(),
        }
    }

    /// Everything that must be changed before anybody can be served.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if let Some(provider) = &self.provider {
            if let Err(why) = base(&self.public_url) {
                problems.push(format!("public_url {}: {why}", self.public_url));
            }
            if self.public_url.ends_with('/') {
                problems.push(format!("public_url {}: leave out the slash at its end", self.public_url));
            }
            if let Err(why) = base(&provider.issuer) {
                problems.push(format!("the issuer {}: {why}", provider.issuer));
            }
            if self.rules.allow.as_ref().is_none_or(crate::policy::People::is_empty) && !self.allow_any_user {
                problems.push(
                    "auth.allow names nobody: set subjects, domains or groups, or say --allow-any-user".to_owned(),
                );
            }
        }
        if self.origins.iter().any(|origin| origin == "*") {
            problems.push("allow_origin is *: with a login, name the pages that may call".to_owned());
        }
        for client in &self.clients {
            for uri in &client.redirect_uris {
                if let Err(why) = redirect::check(uri, &self.redirect_schemes) {
                    problems.push(format!("auth.clients {}: {uri}: {why}", client.id));
                }
            }
        }
        problems
    }

    /// Whether browsers keep cookies of ours for encrypted connections only.
    pub(crate) fn is_secure(&self) -> bool {
        self.public_url.starts_with("https:")
    }
}

/// An address as clients write it: its host in small letters, and without the port that its scheme has anyway.
pub(crate) fn plain(text: &str) -> String {
    let Ok(url) = Url::parse(text) else { return text.to_owned() };
    url.as_str().strip_suffix('/').unwrap_or(url.as_str()).to_owned()
}

/// An address that tokens depend on is encrypted, or on this machine.
fn base(text: &str) -> Result<(), &'static str> {
    let url = Url::parse(text).map_err(|_| "it cannot be read: use https://HOST")?;
    if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() {
        return Err("it has a query, a fragment or a user");
    }
    match url.scheme() {
        "https" => Ok(()),
        "http" if redirect::is_loopback(&url) => Ok(()),
        _ => Err("use https; http is for 127.0.0.1, [::1] and localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::People;

    #[test]
    fn settings_that_would_let_strangers_in_are_refused() {
        let provider = Provider {
            issuer: "https://idp.test/".into(),
            name: "IdP".into(),
            client_id: "gateway".into(),
            client_secret: None,
            scopes: vec![],
            parameters: vec![],
            groups_claim: "groups".into(),
        };
        let good = Settings {
            rules: Rules {
                allow: Some(People { subjects: vec!["a".into()], ..People::default() }),
                ..Rules::default()
            },
            provider: Some(provider.clone()),
            ..Settings::new("https://gw.test")
        };
        assert_eq!(good.problems(), Vec::<String>::new());
        let open = Settings { rules: Rules::default(), ..good.clone() };
        assert_eq!(open.problems().len(), 1);
        assert_eq!(
            Settings { rules: Rules { allow: Some(People::default()), ..Rules::default() }, ..good.clone() }
                .problems()
                .len(),
            1
        );
        assert!(Settings { allow_any_user: true, ..open }.problems().is_empty());
        for url in [
            "http://gw.test",
            "https://gw.test/",
            "gw.test",
            "https://gw.test?x",
            "ftp://gw.test",
            "http://localhost.evil.test",
        ] {
            assert!(!Settings { public_url: url.into(), ..good.clone() }.problems().is_empty(), "{url}");
        }
        assert!(Settings { public_url: "http://127.0.0.1:3000".into(), ..good.clone() }.problems().is_empty());
        assert!(Settings::new("http://10.0.0.1").problems().is_empty(), "without a login the address is not used");
        let plain = Provider { issuer: "http://idp.test".into(), ..provider };
        assert_eq!(Settings { provider: Some(plain), ..good.clone() }.problems().len(), 1);
        let client = KnownClient {
            id: "c".into(),
            name: "C".into(),
            redirect_uris: vec!["http://evil.test/".into()],
            secret: None,
        };
        assert_eq!(Settings { clients: vec![client], ..good }.problems().len(), 1);
    }
}
