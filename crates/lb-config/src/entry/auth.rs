//! Who logs in at the server of an entry: `auth`, a word or an object.
//!
//! A secret that goes with every request is a header like any other: only what a login takes is left for others.

use lb_exchange::{OauthClient, Secret, ServerAuth, Target};

use super::{Entry, Shape};
use crate::fields::{self, Read, Reported};
use crate::json::{Member, Node, Value};
use crate::report::KeyPath;
use crate::suggest::nearest;

const TYPES: [&str; 4] = ["none", "static", "user", "service"];
const KEYS: [&str; 7] = ["type", "header", "value", "client_id", "client_secret", "scopes", "client_id_metadata_url"];

/// Scopes that one server may be asked for.
const SCOPES_MAX: usize = 64;

/// What an entry says, before it is known whether its server can be logged in at.
pub(crate) enum Auth {
    /// A login, or none.
    Login(ServerAuth),
    /// A header and its value.
    Static(String, Secret),
}

/// The object of an entry, and where it is.
struct Object<'e> {
    members: &'e [Member],
    node: &'e Node,
    path: KeyPath,
}

impl<'e> Object<'e> {
    fn find(&self, key: &str) -> Option<&'e Member> {
        self.members.iter().find(|member| member.key == key)
    }
}

impl<'e> Entry<'e, '_> {
    /// Reads `auth`.
    pub(super) fn auth(&mut self, shape: Shape) -> Read<Auth> {
        let Some(member) = self.find("auth") else { return Ok(Auth::Login(ServerAuth::None)) };
        let path = self.path.key("auth");
        if let Value::String(word) = &member.node.value {
            let object = Object { members: &[], node: &member.node, path: path.clone() };
            let word = self.auth_type(word, &member.node, &path)?;
            return self.auth_of(word, &object);
        }
        if !matches!(member.node.value, Value::Object(_)) {
            let kind = member.node.value.kind();
            let problem =
                self.report.error(member.node.at, &path, format!("must be a string or an object, not {kind}"));
            problem.hint("such as \"user\", or {\"type\": \"static\", \"value\": \"Bearer ${TOKEN}\"}");
            return Err(Reported);
        }
        let members = fields::object(self.report, &member.node, &path)?;
        let mut known = Ok(());
        for member in members.iter().filter(|member| !KEYS.contains(&member.key.as_str())) {
            let meant = nearest(&member.key, &KEYS);
            known = known.and(shape.unknown_key(self.report, member.at, &path.key(&member.key), meant));
        }
        let object = Object { members, node: &member.node, path };
        let Some(kind) = object.find("type") else {
            self.report
                .error(member.node.at, &object.path, "has no \"type\"")
                .hint(format!("one of {}", TYPES.join(", ")));
            return Err(Reported);
        };
        let path = object.path.key("type");
        let word = fields::text(self.report, &kind.node, &path)?;
        let word = self.auth_type(word, &kind.node, &path)?;
        let auth = self.auth_of(word, &object);
        known?;
        auth
    }

    /// Never repeats the word: it may be a token that was put in the wrong place.
    fn auth_type(&mut self, word: &str, node: &Node, path: &KeyPath) -> Read<&'static str> {
        if let Some(known) = TYPES.into_iter().find(|known| *known == word) {
            return Ok(known);
        }
        let hint = match nearest(word, &TYPES) {
            Some(known) => format!("did you mean {known:?}?"),
            None => format!(
                "one of {}; a secret is written as {{\"type\": \"static\", \"value\": \"Bearer ${{TOKEN}}\"}}",
                TYPES.join(", ")
            ),
        };
        self.report.error(node.at, path, "unknown type").hint(hint);
        Err(Reported)
    }

    fn auth_of(&mut self, word: &str, object: &Object<'e>) -> Read<Auth> {
        let used: &[&str] = match word {
            "static" => &["header", "value"],
            "user" => &["client_id", "client_secret", "scopes", "client_id_metadata_url"],
            "service" => &["client_id", "client_secret", "scopes"],
            _ => &[],
        };
        let is_idle = |key: &str| KEYS.contains(&key) && key != "type" && !used.contains(&key);
        for member in object.members.iter().filter(|member| is_idle(&member.key)) {
            let message = format!("has no effect beside \"type\": {word:?}");
            self.report.warn(member.at, &object.path.key(&member.key), message);
        }
        match word {
            "static" => self.static_header(object),
            "user" => Ok(Auth::Login(ServerAuth::User(self.user(object)?))),
            "service" => Ok(Auth::Login(ServerAuth::Service(self.service(object)?))),
            _ => Ok(Auth::Login(ServerAuth::None)),
        }
    }

    fn static_header(&mut self, object: &Object<'e>) -> Read<Auth> {
        let name = match object.find("header") {
            Some(member) => {
                let path = object.path.key("header");
                let name = fields::text(self.report, &member.node, &path);
                name.and_then(|name| self.header_name(name, &member.node, &path).map(|()| name.to_owned()))
            }
            None => Ok("Authorization".to_owned()),
        };
        let Some(member) = object.find("value") else {
            self.auth_lacks(
                object,
                "\"static\" needs \"value\"",
                "write {\"type\": \"static\", \"value\": \"Bearer ${TOKEN}\"}",
            );
            return Err(Reported);
        };
        let value = self.hidden(member, &object.path.key("value"))?;
        self.check_header_value(&value, &member.node, &object.path.key("value"))?;
        Ok(Auth::Static(name?, Secret::new(value)))
    }

    /// A header that nobody else sets.
    fn header_name(&mut self, name: &str, node: &Node, path: &KeyPath) -> Read<()> {
        if !super::target::is_header_name(name) {
            self.report.error(node.at, path, "is no name of a header");
            return Err(Reported);
        }
        if super::target::is_ours(name) {
            self.report.error(node.at, path, "is set by landbridge itself").hint("leave it out for Authorization");
            return Err(Reported);
        }
        Ok(())
    }

    fn user(&mut self, object: &Object<'e>) -> Read<OauthClient> {
        let (client_id, client_secret) = (self.word(object, "client_id"), self.client_secret(object));
        let (scopes, metadata) = (self.scopes(object), self.metadata_url(object));
        let client = OauthClient {
            client_id: client_id?,
            client_secret: client_secret?,
            scopes: scopes?,
            client_id_metadata_url: metadata?,
        };
        if client.client_secret.is_some() && client.client_id.is_none() {
            self.auth_lacks(object, "\"client_secret\" needs \"client_id\"", "give both, or neither: then we register");
            return Err(Reported);
        }
        if client.client_id_metadata_url.is_some() && client.client_id.is_some() {
            let message = "has either \"client_id\" or \"client_id_metadata_url\", not both";
            self.auth_lacks(object, message, "the url of the document is the client id");
            return Err(Reported);
        }
        Ok(client)
    }

    fn service(&mut self, object: &Object<'e>) -> Read<OauthClient> {
        let (client_id, client_secret) = (self.word(object, "client_id"), self.client_secret(object));
        let scopes = self.scopes(object);
        let (client_id, client_secret, scopes) = (client_id?, client_secret?, scopes?);
        if client_id.is_none() || client_secret.is_none() {
            let hint = "{\"type\": \"service\", \"client_id\": \"…\", \"client_secret\": \"${SECRET}\"}";
            self.auth_lacks(object, "\"service\" needs \"client_id\" and \"client_secret\"", hint);
            return Err(Reported);
        }
        Ok(OauthClient { client_id, client_secret, scopes, client_id_metadata_url: None })
    }

    fn auth_lacks(&mut self, object: &Object<'_>, message: &str, hint: &str) {
        self.report.error(object.node.at, &object.path, message).hint(hint);
    }

    /// A text that is not empty.
    fn word(&mut self, object: &Object<'e>, key: &str) -> Read<Option<String>> {
        let Some(member) = object.find(key) else { return Ok(None) };
        let path = object.path.key(key);
        let text = self.expanded(&member.node, &path)?.text;
        self.not_empty(&text, &member.node, &path)?;
        Ok(Some(text))
    }

    fn not_empty(&mut self, text: &str, node: &Node, path: &KeyPath) -> Read<()> {
        if text.is_empty() {
            self.report.error(node.at, path, "must not be empty");
            return Err(Reported);
        }
        Ok(())
    }

    fn client_secret(&mut self, object: &Object<'e>) -> Read<Option<Secret>> {
        let Some(member) = object.find("client_secret") else { return Ok(None) };
        Ok(Some(Secret::new(self.hidden(member, &object.path.key("client_secret"))?)))
    }

    /// A value that is a secret, whatever its key says; one that is written out is noted.
    fn hidden(&mut self, member: &Member, path: &KeyPath) -> Read<String> {
        let value = self.expanded(&member.node, path)?;
        self.not_empty(&value.text, &member.node, path)?;
        if !value.used_variable {
            self.report.secret(member.node.at, path);
        }
        Ok(value.text)
    }

    fn scopes(&mut self, object: &Object<'e>) -> Read<Vec<String>> {
        let Some(member) = object.find("scopes") else { return Ok(Vec::new()) };
        let path = object.path.key("scopes");
        let elements = fields::array(self.report, &member.node, &path)?;
        if SCOPES_MAX < elements.len() {
            self.report.error(member.node.at, &path, format!("has more than {SCOPES_MAX} scopes"));
            return Err(Reported);
        }
        let read: Vec<Read<String>> =
            elements.iter().enumerate().map(|(index, node)| self.scope(node, &path.index(index))).collect();
        read.into_iter().collect()
    }

    fn scope(&mut self, node: &Node, path: &KeyPath) -> Read<String> {
        let scope = self.expanded(node, path)?.text;
        let allowed = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\');
        if scope.is_empty() || !scope.chars().all(allowed) {
            let problem = self.report.error(node.at, path, "is no scope");
            problem.hint("one scope for each element, without spaces");
            return Err(Reported);
        }
        Ok(scope)
    }

    fn metadata_url(&mut self, object: &Object<'e>) -> Read<Option<String>> {
        let Some(url) = self.word(object, "client_id_metadata_url")? else { return Ok(None) };
        let is_secure = url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"));
        let has_path = url.get(8..).and_then(|rest| rest.split_once('/')).is_some_and(|(_, path)| !path.is_empty());
        if lb_exchange::check_url(&url).is_err() || !is_secure || !has_path {
            let at = object.find("client_id_metadata_url").map_or(object.node.at, |member| member.node.at);
            let path = object.path.key("client_id_metadata_url");
            self.report.error(at, &path, "must be an https url with a path");
            return Err(Reported);
        }
        Ok(Some(url))
    }

    /// Puts both together: a login is for a server with a URL, and there is one header of a name.
    pub(super) fn joined(&mut self, auth: Auth, target: Target) -> Read<(ServerAuth, Target)> {
        let at = self.find("auth").map_or(self.at, |member| member.at);
        let path = self.path.key("auth");
        let (auth, name) = match auth {
            Auth::Login(ServerAuth::None) => return Ok((ServerAuth::None, target)),
            Auth::Login(login) => (Auth::Login(login), "Authorization".to_owned()),
            Auth::Static(name, value) => (Auth::Static(name.clone(), value), name),
        };
        let Target::Http { url, mut headers } = target else {
            let problem = self.report.error(at, &path, "is for servers with \"url\"");
            problem.hint("a program gets its secrets by \"env\"");
            return Err(Reported);
        };
        if headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(&name)) {
            let problem = self.report.error(at, &path, "sets a header that \"headers\" sets too");
            problem.hint("leave one of them out");
            return Err(Reported);
        }
        let auth = match auth {
            Auth::Login(login) => login,
            Auth::Static(name, value) => {
                headers.push((name, value));
                ServerAuth::None
            }
        };
        Ok((auth, Target::Http { url, headers }))
    }
}
