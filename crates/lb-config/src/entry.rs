//! One entry of a config file to everything of a [`ServerSpec`](lb_exchange::ServerSpec) but its name.
//!
//! Every key is read before the first problem ends the entry, so that all of them are reported.

mod auth;
mod keeping;
mod target;

use std::path::Path;
use std::time::Duration;

use lb_exchange::{Isolation, Restart, ServerAuth, Target, Transport};

use crate::expand::{ExpandError, Expanded, Lookup, expand};
use crate::fields::{self, Read, Reported};
use crate::json::{Member, Node};
use crate::report::{KeyPath, Report, cut};
use crate::restart;
use crate::suggest::nearest;

pub(crate) use keeping::Keeping;

/// What an entry may refer to outside the file.
pub(crate) struct Scope<'a> {
    pub env: Lookup<'a>,
    /// Folder that a relative `cwd`, and without it a relative path in `command`, starts from.
    pub folder: &'a Path,
}

/// Whose file shape the entry is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// An object keyed by name, as other clients write it: unknown keys may be theirs.
    Foreign,
    /// An array of entries with a name: unknown keys are mistakes.
    Own,
}

impl Shape {
    /// Reports a key that is none of ours; `meant` is the one of ours that looks like it.
    pub(crate) fn unknown_key(
        self,
        report: &mut Report<'_>,
        at: usize,
        path: &KeyPath,
        meant: Option<&str>,
    ) -> Read<()> {
        let (problem, read) = match self {
            Self::Foreign => (report.warn(at, path, "unknown key"), Ok(())),
            Self::Own => (report.error(at, path, "unknown key"), Err(Reported)),
        };
        if let Some(known) = meant {
            problem.hint(format!("did you mean {known:?}?"));
        }
        read
    }
}

/// A server without its name.
#[derive(Debug)]
pub(crate) struct Body {
    pub target: Target,
    pub isolation: Isolation,
    pub timeout: Option<Duration>,
    pub restart: Restart,
    pub disabled: bool,
    pub keeping: Keeping,
    pub auth: ServerAuth,
    pub transport: Transport,
    /// Where its program is named.
    pub command_at: Option<usize>,
}

const KEYS: [&str; 17] = [
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "headers",
    "type",
    "disabled",
    "timeout_ms",
    "restartConfig",
    "isolation",
    "inherit_env",
    "cached",
    "idle_timeout",
    "max_age",
    "pool",
    "auth",
];

/// Keys of servers that mean something to landbridge, but nothing to what reads this entry.
const KEYS_WITHOUT_EFFECT: [&str; 2] = ["prefix", "tools"];

/// What other programs call our keys, where the words are too different to be misspellings.
const OTHER_WORDS: [(&str, &str); 11] = [
    ("arguments", "args"),
    ("environment", "env"),
    ("workingDirectory", "cwd"),
    ("working_directory", "cwd"),
    ("workdir", "cwd"),
    ("httpUrl", "url"),
    ("serverUrl", "url"),
    ("transport", "type"),
    ("transportType", "type"),
    ("timeout", "timeout_ms"),
    ("restart", "restartConfig"),
];

/// Longest `timeout_ms`: no call lives longer.
const TIMEOUT_MS_MAX: u32 = 3_600_000;

/// Reads one entry.
pub(crate) fn read(
    report: &mut Report<'_>,
    scope: &Scope<'_>,
    node: &Node,
    path: &KeyPath,
    shape: Shape,
) -> Read<Body> {
    let members = fields::object(report, node, path)?;
    let mut entry = Entry { report, scope, members, at: node.at, path, disabled: false };
    let keys = entry.check_keys(shape);
    let disabled = entry.disabled();
    let transport = entry.transport();
    let target = entry.target();
    let isolation = entry.isolation();
    let timeout = entry.timeout();
    let restart = entry.restart(shape);
    let keeping = entry.keeping(isolation.as_ref().ok().copied(), target.as_ref().ok());
    let auth = entry.auth(shape);
    let command_at = entry.find("command").map(|member| member.node.at);
    keys?;
    let (auth, target) = entry.joined(auth?, target?)?;
    let (disabled, isolation, transport) = (disabled?, isolation?, transport?);
    let (timeout, restart, keeping) = (timeout?, restart?, keeping?);
    Ok(Body { disabled, target, isolation, timeout, restart, keeping, auth, transport, command_at })
}

struct Entry<'e, 'f> {
    report: &'e mut Report<'f>,
    scope: &'e Scope<'e>,
    members: &'e [Member],
    at: usize,
    path: &'e KeyPath,
    /// A variable that is missing here keeps nothing from running.
    disabled: bool,
}

impl<'e> Entry<'e, '_> {
    fn find(&self, key: &str) -> Option<&'e Member> {
        self.members.iter().find(|member| member.key == key)
    }

    fn check_keys(&mut self, shape: Shape) -> Read<()> {
        let mut read = Ok(());
        for member in self.members {
            let key = member.key.as_str();
            let path = self.path.key(key);
            if KEYS.contains(&key) || (shape == Shape::Own && key == "name") {
                continue;
            }
            if KEYS_WITHOUT_EFFECT.contains(&key) {
                self.report.warn(member.at, &path, "has no effect here");
                continue;
            }
            if key == "enabled" {
                self.report
                    .warn(member.at, &path, "read as the opposite of \"disabled\"")
                    .hint("write \"disabled\": true or leave it out");
                continue;
            }
            let other_word = OTHER_WORDS.iter().find(|(word, _)| *word == key).map(|(_, known)| *known);
            let meant = other_word.or_else(|| nearest(key, &KEYS));
            read = read.and(shape.unknown_key(self.report, member.at, &path, meant));
        }
        read
    }

    fn disabled(&mut self) -> Read<bool> {
        let disabled = self.flag("disabled")?;
        let enabled = self.flag("enabled")?;
        self.disabled = disabled.unwrap_or(false) || enabled == Some(false);
        Ok(self.disabled)
    }

    fn flag(&mut self, key: &str) -> Read<Option<bool>> {
        let path = self.path.key(key);
        self.find(key).map(|member| fields::boolean(self.report, &member.node, &path)).transpose()
    }

    fn isolation(&mut self) -> Read<Isolation> {
        let Some(member) = self.find("isolation") else {
            return Ok(Isolation::default());
        };
        let path = self.path.key("isolation");
        let word = fields::text(self.report, &member.node, &path)?;
        Isolation::parse(word).ok_or_else(|| {
            let words = Isolation::ALL.map(Isolation::as_str);
            self.unknown_word(&member.node, &path, word, &words)
        })
    }

    fn timeout(&mut self) -> Read<Option<Duration>> {
        let Some(member) = self.find("timeout_ms") else {
            return Ok(None);
        };
        let path = self.path.key("timeout_ms");
        let ms = fields::integer(self.report, &member.node, &path, [1, TIMEOUT_MS_MAX])?;
        Ok(Some(Duration::from_millis(u64::from(ms))))
    }

    fn restart(&mut self, shape: Shape) -> Read<Restart> {
        match self.find("restartConfig") {
            Some(member) => restart::read(self.report, &member.node, &self.path.key("restartConfig"), shape),
            None => Ok(Restart::default()),
        }
    }

    fn unknown_word(&mut self, node: &Node, path: &KeyPath, word: &str, known: &[&str]) -> Reported {
        let hint = match nearest(word, known) {
            Some(known) => format!("did you mean {known:?}?"),
            None => format!("one of {}", known.join(", ")),
        };
        self.report.error(node.at, path, format!("unknown value {:?}", cut(word))).hint(hint);
        Reported
    }

    /// A string with its variables replaced.
    fn expanded(&mut self, node: &Node, path: &KeyPath) -> Read<Expanded> {
        let text = fields::text(self.report, node, path)?;
        match expand(text, self.scope.env) {
            // No program, variable, header or path can hold one.
            Ok(expanded) if expanded.text.contains('\0') => {
                self.report.error(node.at, path, "holds a NUL character");
                Err(Reported)
            }
            Ok(expanded) => Ok(expanded),
            Err(error @ ExpandError::Missing(_)) if self.disabled => {
                let message = format!("{error}, so this disabled server is not listed");
                self.report.warn(node.at, path, message).hint(error.hint());
                Err(Reported)
            }
            Err(error) => {
                self.report.error(node.at, path, error.to_string()).hint(error.hint());
                Err(Reported)
            }
        }
    }
}
