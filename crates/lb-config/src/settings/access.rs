//! The section `auth` of the file: who gets in, and who may do what.

use toml::de::{DeTable, DeValue};

use super::file::raw;
use super::kind::Raw;
use crate::report::{KeyPath, Report};
use crate::suggest::nearest;

/// Who gets in, and who may do what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Who is let in; `None` when it is not said.
    pub allow: Option<People>,
    /// For whom `mcp:admin` counts.
    pub admins: People,
    /// What is permitted; none at all permits everything.
    pub rules: Vec<Rule>,
    /// Clients that are known in advance.
    pub clients: Vec<KnownClient>,
    /// Schemes of applications that people may be sent back to.
    pub redirect_schemes: Vec<String>,
    /// Hosts whose documents are taken as clients; `None` for any.
    pub document_hosts: Option<Vec<String>>,
    /// Whether clients may not register themselves.
    pub no_registration: bool,
}

/// People, by any of what is known of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct People {
    /// By the provider's name for them.
    pub subjects: Vec<String>,
    /// By the domain of their verified e-mail address.
    pub domains: Vec<String>,
    /// By group.
    pub groups: Vec<String>,
    /// By the client that they use.
    pub clients: Vec<String>,
}

/// One permission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Whom it is for; `None` for everybody who is let in.
    pub who: Option<People>,
    /// Servers, `*` standing for any text.
    pub servers: Vec<String>,
    /// Tools, in the same way.
    pub tools: Vec<String>,
}

/// A client that is known in advance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownClient {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Where people may be sent back to.
    pub redirect_uris: Vec<String>,
    /// The SHA-256 of its secret, in hexadecimal digits.
    pub secret_sha256: Option<String>,
}

impl People {
    /// Whether they name nobody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn shown(&self) -> String {
        let lists = [
            ("subjects", &self.subjects),
            ("domains", &self.domains),
            ("groups", &self.groups),
            ("clients", &self.clients),
        ];
        let said = lists.iter().filter(|(_, list)| !list.is_empty());
        said.map(|(name, list)| format!("{name} {}", shown(list))).collect::<Vec<_>>().join("; ")
    }
}

impl Access {
    /// What was said, by key, for people.
    pub(super) fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = Vec::new();
        if let Some(allow) = &self.allow {
            rows.push(("auth.allow", allow.shown()));
        }
        if !self.admins.is_empty() {
            rows.push(("auth.admins", self.admins.shown()));
        }
        for rule in &self.rules {
            let who = rule.who.as_ref().map_or_else(|| "everybody".to_owned(), People::shown);
            rows.push(("auth.rules", format!("{who}: servers {}, tools {}", shown(&rule.servers), shown(&rule.tools))));
        }
        for client in &self.clients {
            rows.push(("auth.clients", format!("{} {}", client.id.escape_debug(), shown(&client.redirect_uris))));
        }
        if !self.redirect_schemes.is_empty() {
            rows.push(("auth.redirect_schemes", shown(&self.redirect_schemes)));
        }
        if let Some(hosts) = &self.document_hosts {
            rows.push(("auth.document_hosts", shown(hosts)));
        }
        if self.no_registration {
            rows.push(("auth.registration", "false".to_owned()));
        }
        rows
    }
}

/// What a terminal would obey is shown, not sent.
fn shown(list: &[String]) -> String {
    list.iter().map(|item| item.escape_debug().to_string()).collect::<Vec<_>>().join(",")
}

/// Reads the section; beside it, what its `by` says of the setting `auth`.
pub(super) fn read(section: &DeTable<'_>, report: &mut Report<'_>, path: &KeyPath) -> (Access, Option<Raw>) {
    const KEYS: &[&str] =
        &["by", "allow", "admins", "rules", "clients", "redirect_schemes", "document_hosts", "registration"];
    let (mut access, mut by) = (Access::default(), None);
    for (key, value) in section {
        let (name, path) = (key.get_ref().as_ref(), path.key(key.get_ref().as_ref()));
        let mut reader = Reader { report, at: key.span().start };
        let value = value.get_ref();
        match name {
            "by" => by = Some(raw(value)),
            "allow" => access.allow = Some(reader.persons(value, &path)),
            "admins" => access.admins = reader.persons(value, &path),
            "rules" => access.rules = reader.each(value, &path, Reader::rule),
            "clients" => access.clients = reader.each(value, &path, Reader::client),
            "redirect_schemes" => access.redirect_schemes = reader.texts(value, &path),
            "document_hosts" => access.document_hosts = Some(reader.texts(value, &path)),
            "registration" => match value {
                DeValue::Boolean(value) => access.no_registration = !value,
                _ => reader.wrong(&path, "give true or false"),
            },
            other => reader.unknown(&path, other, KEYS),
        }
    }
    (access, by)
}

/// Reads parts of the section that begins here.
struct Reader<'r, 'f> {
    report: &'r mut Report<'f>,
    at: usize,
}

impl Reader<'_, '_> {
    fn wrong(&mut self, path: &KeyPath, what: &str) {
        self.report.error(self.at, path, what);
    }

    fn unknown(&mut self, path: &KeyPath, name: &str, known: &[&str]) {
        let hint = match nearest(name, known) {
            Some(known) => format!("did you mean {known}?"),
            None => format!("there are {}", known.join(", ")),
        };
        self.report.error(self.at, path, "unknown key").hint(hint);
    }

    /// The members of a table; none of anything else.
    fn members<'t>(&mut self, value: &'t DeValue<'_>, path: &KeyPath) -> Vec<(&'t str, &'t DeValue<'t>, KeyPath)> {
        let DeValue::Table(table) = value else {
            self.wrong(path, "give a section");
            return Vec::new();
        };
        let member = |(key, value): (&'t toml::Spanned<std::borrow::Cow<'_, str>>, &'t toml::Spanned<DeValue<'_>>)| {
            let name = key.get_ref().as_ref();
            (name, value.get_ref(), path.key(name))
        };
        table.iter().map(member).collect()
    }

    fn each<T>(
        &mut self,
        value: &DeValue<'_>,
        path: &KeyPath,
        read: fn(&mut Self, &DeValue<'_>, &KeyPath) -> T,
    ) -> Vec<T> {
        let DeValue::Array(items) = value else {
            self.wrong(path, &format!("give several, as in [[{path}]]"));
            return Vec::new();
        };
        let mut all = Vec::new();
        for (index, item) in items.iter().enumerate() {
            self.at = item.span().start;
            all.push(read(self, item.get_ref(), &path.index(index)));
        }
        all
    }

    fn texts(&mut self, value: &DeValue<'_>, path: &KeyPath) -> Vec<String> {
        match raw(value) {
            Raw::List(list) => list,
            Raw::Text(text) => vec![text],
            Raw::Number(_) | Raw::Bool(_) | Raw::Other(_) => {
                self.wrong(path, "give an array of texts");
                Vec::new()
            }
        }
    }

    fn text(&mut self, value: &DeValue<'_>, path: &KeyPath) -> String {
        match raw(value) {
            Raw::Text(text) if !text.is_empty() => text,
            _ => {
                self.wrong(path, "give a text, in quotes");
                String::new()
            }
        }
    }

    /// People who are let in. Everybody can use a client, so that one says nothing of who it is.
    fn persons(&mut self, value: &DeValue<'_>, path: &KeyPath) -> People {
        let people = self.people(value, path);
        if !people.clients.is_empty() {
            self.wrong(path, "clients stand in auth.rules only: here give subjects, domains or groups");
        }
        people
    }

    fn people(&mut self, value: &DeValue<'_>, path: &KeyPath) -> People {
        let mut people = People::default();
        for (name, value, path) in self.members(value, path) {
            match name {
                "subjects" => people.subjects = self.texts(value, &path),
                "domains" => people.domains = self.texts(value, &path),
                "groups" => people.groups = self.texts(value, &path),
                "clients" => people.clients = self.texts(value, &path),
                other => self.unknown(&path, other, &["subjects", "domains", "groups", "clients"]),
            }
        }
        people
    }

    fn rule(&mut self, value: &DeValue<'_>, path: &KeyPath) -> Rule {
        let any = || vec!["*".to_owned()];
        let mut rule = Rule { who: None, servers: any(), tools: any() };
        for (name, value, path) in self.members(value, path) {
            match name {
                "who" => rule.who = Some(self.people(value, &path)),
                "servers" => rule.servers = self.texts(value, &path),
                "tools" => rule.tools = self.texts(value, &path),
                other => self.unknown(&path, other, &["who", "servers", "tools"]),
            }
        }
        rule
    }

    fn client(&mut self, value: &DeValue<'_>, path: &KeyPath) -> KnownClient {
        let mut client = KnownClient::default();
        for (name, value, path) in self.members(value, path) {
            match name {
                "id" => client.id = self.text(value, &path),
                "name" => client.name = self.text(value, &path),
                "redirect_uris" => client.redirect_uris = self.texts(value, &path),
                "secret_sha256" => {
                    let hex = self.text(value, &path);
                    if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                        self.wrong(&path, "give the SHA-256 of the secret, 64 hexadecimal digits");
                    }
                    client.secret_sha256 = Some(hex.to_ascii_lowercase());
                }
                other => self.unknown(&path, other, &["id", "name", "redirect_uris", "secret_sha256"]),
            }
        }
        if client.id.is_empty() || client.redirect_uris.is_empty() {
            self.wrong(path, "a client has an id and redirect_uris");
        }
        if client.name.is_empty() {
            client.name.clone_from(&client.id);
        }
        client
    }
}
