//! The top of a config file: which section holds servers, in which shape, and what they are called.

use std::collections::HashMap;

use lb_exchange::{ServerName, ServerSpec};

use crate::entry::{self, Body, Keeping, Scope, Shape};
use crate::fields;
use crate::json::{Node, Value};
use crate::report::{KeyPath, Report, cut};
use crate::suggest::nearest;

const SECTIONS: [&str; 2] = ["mcpServers", "servers"];

/// What other programs call the section.
const OTHER_WORDS: [&str; 3] = ["context_servers", "mcp_servers", "mcp"];

/// Reads every section of servers, in file order.
pub(crate) fn read(report: &mut Report<'_>, scope: &Scope<'_>, root: &Node) -> Vec<ServerSpec> {
    let top = KeyPath::default();
    let mut servers = Servers { report, scope, list: Vec::new(), places: HashMap::new() };
    let Ok(members) = fields::object(servers.report, root, &top) else {
        return Vec::new();
    };
    let mut found = false;
    for member in members {
        let path = top.key(&member.key);
        match (member.key.as_str(), &member.node.value) {
            ("servers", Value::Array(entries)) => servers.array(entries, &path),
            ("mcpServers" | "servers", _) => servers.object(&member.node, &path),
            ("$schema", _) => continue,
            (key, _) => {
                unknown_key(servers.report, member.at, &path, key);
                continue;
            }
        }
        found = true;
    }
    if !found {
        let is_entry = |node: &Node| match &node.value {
            Value::Object(members) => members.iter().any(|member| matches!(member.key.as_str(), "command" | "url")),
            _ => false,
        };
        let problem = servers.report.error(root.at, &top, "no \"mcpServers\" or \"servers\" is given");
        if members.iter().any(|member| is_entry(&member.node)) {
            problem.hint("put the entries into {\"mcpServers\": {…}}");
        }
    }
    servers.list
}

fn unknown_key(report: &mut Report<'_>, at: usize, path: &KeyPath, key: &str) {
    if key == "inputs" {
        report.warn(at, path, "has no effect here").hint("write ${NAME} and set the variable");
        return;
    }
    let known = if OTHER_WORDS.contains(&key) { Some(SECTIONS[0]) } else { nearest(key, &SECTIONS) };
    let problem = report.warn(at, path, "unknown key");
    if let Some(known) = known {
        problem.hint(format!("did you mean {known:?}?"));
    }
}

struct Servers<'s, 'f> {
    report: &'s mut Report<'f>,
    scope: &'s Scope<'s>,
    list: Vec<ServerSpec>,
    /// Folded name to the path of the entry that has it.
    places: HashMap<String, String>,
}

impl Servers<'_, '_> {
    fn object(&mut self, node: &Node, path: &KeyPath) {
        let Ok(members) = fields::object(self.report, node, path) else {
            return;
        };
        for member in members {
            let path = path.key(&member.key);
            let body = entry::read(self.report, self.scope, &member.node, &path, Shape::Foreign);
            self.add(member.at, &path, &member.key, body.ok());
        }
    }

    fn array(&mut self, entries: &[Node], path: &KeyPath) {
        for (index, node) in entries.iter().enumerate() {
            let path = path.index(index);
            let body = entry::read(self.report, self.scope, node, &path, Shape::Own).ok();
            let Value::Object(members) = &node.value else {
                continue;
            };
            let Some(member) = members.iter().find(|member| member.key == "name") else {
                self.report.error(node.at, &path, "\"name\" is missing");
                continue;
            };
            if let Ok(name) = fields::text(self.report, &member.node, &path.key("name")) {
                self.add(member.node.at, &path, name, body);
            }
        }
    }

    /// Gives a server its name; one that cannot have it is left out, the others are served.
    fn add(&mut self, at: usize, path: &KeyPath, written: &str, body: Option<Body>) {
        let name = match ServerName::map_from(written) {
            Ok(name) => name,
            Err(error) => {
                let hint = format!("rename it: 1 to {} of A-Z a-z 0-9 _ -", ServerName::BYTES_MAX);
                self.report.leave_out(at, path, format!("left out: {error}")).hint(hint);
                return;
            }
        };
        let place = path.to_string();
        match self.places.get(&name.folded()) {
            // The same key twice, which is reported already.
            Some(first) if *first == place => return,
            Some(first) => {
                let message = format!("left out: its name {:?} is taken by {first}", name.as_str());
                self.report.leave_out(at, path, message).hint("rename it: upper and lower case are the same here");
                return;
            }
            None => self.places.insert(name.folded(), place),
        };
        if name.as_str() != written {
            let message = format!("{:?} is served as {:?}", cut(written), name.as_str());
            self.report.warn(at, path, message).hint("a name has only A-Z a-z 0-9 _ -");
        }
        if let Some(Body { target, isolation, timeout, restart, disabled, keeping, auth, transport, command_at }) = body
        {
            if let Some(at) = command_at {
                self.report.command(&name, at, &path.key("command"));
            }
            let Keeping { cached, idle_timeout, max_age, pool } = keeping;
            let plain = ServerSpec::new(name, target);
            let kept = ServerSpec { cached, idle_timeout, max_age, pool, auth, ..plain };
            self.list.push(ServerSpec { isolation, timeout, restart, disabled, transport, ..kept });
        }
    }
}
