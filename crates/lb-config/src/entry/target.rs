//! Where the server of an entry is: a command or a URL, and what goes with each.

use std::collections::HashSet;
use std::path::{Path, PathBuf, is_separator};

use lb_exchange::{Secret, Target, Transport};

use super::Entry;
use crate::fields::{self, Read, Reported};
use crate::json::{Member, Node, Value};
use crate::report::{KeyPath, cut};

const CHILD_KEYS: [&str; 5] = ["args", "env", "cwd", "inherit_env", "restartConfig"];
const HTTP_KEYS: [&str; 1] = ["headers"];

const CHILD_TYPES: [&str; 1] = ["stdio"];
const HTTP_TYPES: [&str; 3] = ["http", "streamable-http", "streamableHttp"];
const SSE_TYPE: &str = "sse";

/// Headers that the protocol or the connection sets; a second one would contradict it.
const OUR_HEADERS: [&str; 11] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "transfer-encoding",
];

/// Parts of names whose values are secrets.
const SECRET_WORDS: [&str; 5] = ["TOKEN", "KEY", "SECRET", "PASSWORD", "AUTHORIZATION"];

/// Whether a text can be the name of a header.
pub(super) fn is_header_name(text: &str) -> bool {
    let in_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !text.is_empty() && text.chars().all(in_token)
}

/// Whether the protocol or the connection sets this header.
pub(super) fn is_ours(name: &str) -> bool {
    OUR_HEADERS.iter().any(|ours| ours.eq_ignore_ascii_case(name))
}

/// What a map of names to values is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pairs {
    Variables,
    Headers,
}

impl<'e> Entry<'e, '_> {
    /// Reads all keys of both kinds of target, then decides which one it is.
    pub(super) fn target(&mut self) -> Read<Target> {
        let command = self.find("command").map(|member| self.command(member)).transpose();
        let args = self.args();
        let env = self.pairs("env", Pairs::Variables);
        let cwd = self.cwd();
        let inherit_env = self.flag("inherit_env");
        let url = self.find("url").map(|member| self.url(member)).transpose();
        let headers = self.pairs("headers", Pairs::Headers);
        let which = self.which();
        which?;
        match (command?, url?) {
            (Some(command), None) => Ok(Target::Child {
                command,
                args: args?,
                env: env?,
                cwd: cwd?,
                inherit_env: inherit_env?.unwrap_or(false),
            }),
            (None, Some(url)) => Ok(Target::Http { url, headers: headers? }),
            // `which` has reported both.
            (Some(_), Some(_)) | (None, None) => Err(Reported),
        }
    }

    /// Exactly one of `command` and `url`; what belongs to the other one is warned about.
    fn which(&mut self) -> Read<()> {
        let (idle_keys, why): (&[&str], _) = match (self.find("command"), self.find("url")) {
            (Some(_), None) => (&HTTP_KEYS, "has no effect beside \"command\""),
            (None, Some(_)) => (&CHILD_KEYS, "has no effect beside \"url\""),
            (Some(_), Some(url)) => {
                let path = self.path.key("url");
                self.report.error(url.at, &path, "an entry has either \"command\" or \"url\", not both");
                return Err(Reported);
            }
            (None, None) => {
                self.report
                    .error(self.at, self.path, "neither \"command\" nor \"url\" is given")
                    .hint("\"command\" names a program to start, \"url\" an http server");
                return Err(Reported);
            }
        };
        for member in self.members.iter().filter(|member| idle_keys.contains(&member.key.as_str())) {
            self.report.warn(member.at, &self.path.key(&member.key), why);
        }
        Ok(())
    }

    /// `type` may be left out; where it is given, it must fit.
    pub(super) fn transport(&mut self) -> Read<Transport> {
        let Some(member) = self.find("type") else {
            return Ok(Transport::default());
        };
        let path = self.path.key("type");
        let word = fields::text(self.report, &member.node, &path)?;
        let missing = if CHILD_TYPES.contains(&word) {
            "command"
        } else if word == SSE_TYPE || HTTP_TYPES.contains(&word) {
            "url"
        } else {
            return Err(self.unknown_word(&member.node, &path, word, &["stdio", "http", "streamable-http", SSE_TYPE]));
        };
        let only_other = self.find(missing).is_none() && (self.find("command").is_some() || self.find("url").is_some());
        if only_other {
            let message = format!("{word:?} needs {missing:?}");
            self.report.error(member.node.at, &path, message).hint("leave out \"type\", it follows from the rest");
            return Err(Reported);
        }
        Ok(if word == SSE_TYPE { Transport::Sse } else { Transport::Found })
    }

    fn command(&mut self, member: &Member) -> Read<String> {
        let path = self.path.key("command");
        if matches!(member.node.value, Value::Array(_)) {
            self.report
                .error(member.node.at, &path, "must be a string, not an array")
                .hint("\"command\" is the program, \"args\" takes the rest");
            return Err(Reported);
        }
        let command = self.expanded(&member.node, &path)?.text;
        if command.is_empty() {
            self.report.error(member.node.at, &path, "must not be empty");
            return Err(Reported);
        }
        self.check_home(&command, &member.node, &path)?;
        if self.find("args").is_none() && command.contains(' ') && !command.contains(['/', '\\']) {
            self.report
                .warn(member.node.at, &path, "is taken as one program name, spaces included")
                .hint("put the arguments into \"args\"");
        }
        self.located(command, &member.node, &path)
    }

    /// A relative path to a program starts where `cwd` would: at the folder of the file. With `cwd` given, the system
    /// takes it from there.
    fn located(&mut self, command: String, node: &Node, path: &KeyPath) -> Read<String> {
        let by_path = command.contains(is_separator) && Path::new(&command).is_relative();
        if !by_path || self.find("cwd").is_some() {
            return Ok(command);
        }
        // Without what stands for the folder itself, which nobody reads easily.
        let whole: PathBuf = self.scope.folder.join(command).components().collect();
        whole.into_os_string().into_string().map_err(|_| {
            self.report
                .error(node.at, path, "starts at the folder of this file, whose name is not UTF-8")
                .hint("write the whole path, or give \"cwd\"");
            Reported
        })
    }

    fn args(&mut self) -> Read<Vec<String>> {
        let Some(member) = self.find("args") else {
            return Ok(Vec::new());
        };
        let path = self.path.key("args");
        let elements = fields::array(self.report, &member.node, &path)?;
        let read: Vec<Read<String>> = elements
            .iter()
            .enumerate()
            .map(|(index, node)| Ok(self.expanded(node, &path.index(index))?.text))
            .collect();
        read.into_iter().collect()
    }

    fn cwd(&mut self) -> Read<Option<PathBuf>> {
        let Some(member) = self.find("cwd") else {
            return Ok(None);
        };
        let path = self.path.key("cwd");
        let folder = self.expanded(&member.node, &path)?.text;
        if folder.is_empty() {
            self.report.error(member.node.at, &path, "must not be empty");
            return Err(Reported);
        }
        self.check_home(&folder, &member.node, &path)?;
        Ok(Some(self.scope.folder.join(folder)))
    }

    /// `~` is a shell's word, and no shell is involved.
    fn check_home(&mut self, text: &str, node: &Node, path: &KeyPath) -> Read<()> {
        if text == "~" || text.starts_with("~/") {
            self.report.error(node.at, path, "\"~\" is not expanded").hint("write ${HOME}");
            return Err(Reported);
        }
        Ok(())
    }

    fn url(&mut self, member: &Member) -> Read<String> {
        let path = self.path.key("url");
        let url = self.expanded(&member.node, &path)?.text;
        match lb_exchange::check_url(&url) {
            Ok(()) => Ok(url),
            Err(error) => {
                self.report.error(member.node.at, &path, error.to_string());
                Err(Reported)
            }
        }
    }

    fn pairs(&mut self, key: &str, pairs: Pairs) -> Read<Vec<(String, Secret)>> {
        let Some(member) = self.find(key) else {
            return Ok(Vec::new());
        };
        let path = self.path.key(key);
        let mut names = HashSet::new();
        let mut read = Ok(Vec::new());
        for member in fields::object(self.report, &member.node, &path)? {
            let pair = match pairs {
                Pairs::Variables => self.variable(member, &path),
                Pairs::Headers => self.header(member, &path, &mut names),
            };
            match (pair, &mut read) {
                (Ok(Some(pair)), Ok(list)) => list.push(pair),
                (Ok(_), _) => {}
                (Err(reported), _) => read = Err(reported),
            }
        }
        read
    }

    fn variable(&mut self, member: &Member, path: &KeyPath) -> Read<Option<(String, Secret)>> {
        let path = path.key(&member.key);
        let named = if member.key.is_empty() || member.key.contains(['=', '\0']) {
            self.report.error(member.at, &path, "is no name of a variable");
            Err(Reported)
        } else {
            Ok(())
        };
        let value = self.secret(member, &path);
        named?;
        Ok(Some((member.key.clone(), Secret::new(value?))))
    }

    fn header(
        &mut self,
        member: &Member,
        path: &KeyPath,
        names: &mut HashSet<String>,
    ) -> Read<Option<(String, Secret)>> {
        let path = path.key(&member.key);
        let folded = member.key.to_ascii_lowercase();
        if !is_header_name(&folded) {
            self.report.error(member.at, &path, "is no name of a header");
            return Err(Reported);
        }
        if is_ours(&folded) {
            self.report.warn(member.at, &path, "is set by landbridge itself, this one is left out");
            return Ok(None);
        }
        let value = self.secret(member, &path)?;
        self.check_header_value(&value, &member.node, &path)?;
        if !names.insert(folded) {
            self.report.error(member.at, &path, format!("the header {:?} is given twice", cut(&member.key)));
            return Err(Reported);
        }
        Ok(Some((member.key.clone(), Secret::new(value))))
    }

    /// A line break would start another header.
    pub(super) fn check_header_value(&mut self, value: &str, node: &Node, path: &KeyPath) -> Read<()> {
        if let Some(character) = value.chars().find(|c| !matches!(c, ' '..='~' | '\t')) {
            let kind = if character.is_control() { "a control character" } else { "a character outside ASCII" };
            self.report.error(node.at, path, format!("holds {kind}, which a header cannot"));
            return Err(Reported);
        }
        Ok(())
    }

    /// A value that stays hidden; one that is written out under a telling name is noted.
    fn secret(&mut self, member: &Member, path: &KeyPath) -> Read<String> {
        let value = self.expanded(&member.node, path)?;
        let name = member.key.to_ascii_uppercase();
        if !value.used_variable && !value.text.is_empty() && SECRET_WORDS.iter().any(|word| name.contains(word)) {
            self.report.secret(member.node.at, path);
        }
        Ok(value.text)
    }
}
