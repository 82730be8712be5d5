//! What each tool of a server was when it was first seen, to notice one that becomes something else later.
//!
//! A tool is known by SHA-256 over its name, description, schemas and annotations, apart for each revision that the
//! server is spoken to in: servers tell more to newer clients. What was seen belongs to a definition, so that a server
//! that is removed, or defined otherwise, is looked at afresh: that is how an operator accepts a change. Where each
//! person logs in, each may be told something else, so that what they saw is remembered for each by itself.

mod kept;
mod passing;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lb_exchange::{Principal, ServerAuth, ServerName, ServerSpec, Target, brief};
use lb_store::Store;
use lb_wire::Raw;
use parking_lot::Mutex;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;

pub(crate) use self::passing::Passing;

/// What happens to a tool that is no longer what it was when it was first seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pin {
    /// Nothing; nothing is remembered either.
    #[default]
    Off,
    /// It is told.
    Warn,
    /// It is told, and the tool is neither listed nor called.
    Hide,
}

/// Tools that are remembered of one server; further ones count as changed.
const TOOLS_MAX: usize = 20_000;
/// Lists that are remembered of servers that people log in to. Beyond them the one that was not asked for longest is
/// forgotten here; where there is a store it is kept on there.
const PERSONAL_MAX: usize = 10_000;
/// Tools of one list that are told of by name when they have changed. A server can change thousands at a time, and again
/// with each list.
const NEWS_MAX: usize = 8;

/// What all servers listed first.
pub(crate) struct Pins {
    mode: Pin,
    /// By the place of the list.
    servers: Mutex<HashMap<String, Page>>,
    /// How often any of them was looked at.
    looks: AtomicU64,
    store: Option<Arc<dyn Store>>,
    /// Lists of which something is to be written.
    marked: Mutex<BTreeSet<String>>,
    bell: Notify,
}

/// What one server listed first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Page {
    /// The definition that it belongs to.
    definition: String,
    /// By revision and name.
    tools: BTreeMap<String, Pinned>,
    /// Grows with each look at any page: when this one was last looked at.
    looked: u64,
}

/// One tool.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pinned {
    /// What it was.
    first: String,
    /// What it is now, if that is something else.
    now: Option<String>,
}

/// What comes of looking at a list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Which rows are not shown, by their place.
    pub(crate) hidden: BTreeSet<usize>,
    /// The names of those that have changed and are shown.
    pub(crate) changed: Vec<String>,
    /// The names of those that are seen to have changed for the first time: so many as are told of.
    pub(crate) news: Vec<String>,
}

impl Seen {
    /// The rows that are shown.
    pub(crate) fn shown(&self, rows: Vec<Raw>) -> Vec<Raw> {
        if self.hidden.is_empty() {
            return rows;
        }
        rows.into_iter().enumerate().filter(|(at, _)| !self.hidden.contains(at)).map(|(_, row)| row).collect()
    }
}

impl Pins {
    pub(crate) fn new(mode: Pin, store: Option<Arc<dyn Store>>) -> Arc<Self> {
        let (servers, looks, marked) = Default::default();
        Arc::new(Self { mode, servers, looks, store, marked, bell: Notify::new() })
    }

    /// Whether anything is remembered.
    pub(crate) fn are_on(&self) -> bool {
        self.mode != Pin::Off
    }

    /// Compares the tools of a list with what they were first, and remembers those that are new.
    pub(crate) fn look(&self, spec: &ServerSpec, whose: &Principal, revision: &str, rows: &[Raw]) -> Seen {
        let mut seen = Seen::default();
        if !self.are_on() {
            return seen;
        }
        let (server, mut wrote, mut news) = (place(spec, whose), false, 0);
        {
            let mut servers = self.servers.lock();
            if !servers.contains_key(&server) {
                make_room(&mut servers, PERSONAL_MAX);
            }
            let page = servers.entry(server.clone()).or_default();
            page.looked = self.looks.fetch_add(1, Ordering::Relaxed) + 1;
            let definition = definition(spec);
            if page.definition != definition {
                *page = Page { definition, tools: BTreeMap::new(), looked: page.looked };
                wrote = true;
            }
            for (at, row) in rows.iter().enumerate() {
                let Some(name) = name_of(row) else { continue };
                let outcome = page.see(format!("{revision} {name}"), print(row));
                wrote |= outcome != Looked::Same && outcome != Looked::StillChanged;
                match outcome {
                    Looked::Same | Looked::New => continue,
                    Looked::Changed => {
                        news += 1;
                        if news <= NEWS_MAX {
                            seen.news.push(brief(&name).to_owned());
                        }
                    }
                    Looked::StillChanged => {}
                }
                match self.mode {
                    Pin::Hide => drop(seen.hidden.insert(at)),
                    Pin::Warn | Pin::Off => seen.changed.push(name),
                }
            }
        }
        if wrote {
            self.mark(server);
        }
        self.tell(spec, &seen.news, news);
        seen
    }

    /// Writes down which tools have changed: some by name, and how many there are in all.
    fn tell(&self, spec: &ServerSpec, tools: &[String], count: usize) {
        let (server, hidden) = (spec.name.as_str(), self.mode == Pin::Hide);
        let outcome = if hidden { "hidden" } else { "warned" };
        for tool in tools {
            tracing::warn!(server, tool, hidden, "tool_changed");
            tracing::warn!(target: "audit", event = "tool_changed", who = server, server, tool, outcome, count);
        }
    }

    /// Whether a tool is not what it was first, in whichever revision.
    pub(crate) fn has_changed(&self, spec: &ServerSpec, whose: &Principal, tool: &str) -> bool {
        let servers = self.servers.lock();
        let Some(page) = servers.get(&place(spec, whose)).filter(|_| self.are_on()) else { return false };
        let is_it = |place: &String| place.split_once(' ').is_some_and(|(_, name)| name == tool);
        page.definition == definition(spec)
            && page.tools.iter().any(|(place, pinned)| pinned.now.is_some() && is_it(place))
    }

    /// Why a tool may not be called, if it may not.
    pub(crate) fn refuses(&self, spec: &ServerSpec, whose: &Principal, tool: &str) -> Option<String> {
        (self.mode == Pin::Hide && self.has_changed(spec, whose, tool)).then(|| {
            format!(
                "tool '{tool}' of server '{server}' is not what it was when it was first seen, so that it is hidden; \
                 the operator accepts it as it is now by removing the server '{server}' and adding it again",
                server = spec.name
            )
        })
    }

    /// A server is removed: whatever has its name later is looked at afresh.
    pub(crate) fn forget(&self, name: &ServerName) {
        let (name, personal) = (name.folded(), personal(name));
        self.servers.lock().retain(|place, _| *place != name && !place.starts_with(&personal));
        self.mark(name);
        self.mark(format!("{personal}{ALL}"));
    }

    fn mark(&self, server: String) {
        if self.store.is_some() && self.are_on() {
            self.marked.lock().insert(server);
            self.bell.notify_one();
        }
    }
}

/// Forgets the lists of people that were not looked at for longest, until another one has room.
fn make_room(servers: &mut HashMap<String, Page>, max: usize) {
    while max <= servers.len() {
        let personal = servers.iter().filter(|(place, _)| place.contains(PERSON));
        let Some(oldest) = personal.min_by_key(|(_, page)| page.looked).map(|(place, _)| place.clone()) else { return };
        servers.remove(&oldest);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looked {
    New,
    Same,
    Changed,
    StillChanged,
}

impl Page {
    fn see(&mut self, place: String, print: String) -> Looked {
        let room = self.tools.len() < TOOLS_MAX;
        match self.tools.get_mut(&place) {
            None if room => {
                self.tools.insert(place, Pinned { first: print, now: None });
                Looked::New
            }
            None => Looked::StillChanged,
            Some(pinned) if pinned.first == print => match pinned.now.take() {
                // It is what it was again, which is worth writing down and nobody's worry.
                Some(_) => Looked::New,
                None => Looked::Same,
            },
            Some(pinned) if pinned.now.as_ref() == Some(&print) => Looked::StillChanged,
            Some(pinned) => {
                pinned.now = Some(print);
                Looked::Changed
            }
        }
    }
}

/// Stands for everybody, where a person would be named.
const ALL: &str = "*";

/// Under what it is remembered what a server listed first.
fn place(spec: &ServerSpec, whose: &Principal) -> String {
    match &spec.auth {
        ServerAuth::None | ServerAuth::Service(_) => spec.name.folded(),
        ServerAuth::User(_) => personal(&spec.name) + &hex(&Sha256::digest(whose.as_str())),
    }
}

/// Stands between a server and a person. No name of a server has that character.
const PERSON: char = '@';

/// What the places of people at a server begin with.
fn personal(name: &ServerName) -> String {
    format!("{}{PERSON}", name.folded())
}

/// What a tool is called.
fn name_of(row: &Raw) -> Option<String> {
    row.member("name")?.to_text().map(std::borrow::Cow::into_owned)
}

/// What counts of a tool, however it is written.
const COUNTS: [&str; 5] = ["name", "description", "inputSchema", "outputSchema", "annotations"];

fn print(row: &Raw) -> String {
    let mut hash = Sha256::new();
    for member in COUNTS {
        hash.update(member.as_bytes());
        match row.member(member) {
            None => hash.update([0]),
            Some(raw) => {
                let mut text = String::from("\u{1}");
                match serde_json::from_slice::<Value>(raw.as_bytes()) {
                    Ok(value) => canonical(&value, &mut text),
                    // Too deep to be taken apart: as it is written.
                    Err(_) => text.push_str(raw.as_str()),
                }
                text.push('\0');
                hash.update(text.as_bytes());
            }
        }
    }
    hex(&hash.finalize())
}

/// The same text for the same value, in whatever order its members stand.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(members) => {
            let sorted: BTreeMap<_, _> = members.iter().collect();
            out.push('{');
            for (name, value) in sorted {
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                canonical(value, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        plain => out.push_str(&plain.to_string()),
    }
}

/// What a server is, without its secrets: those change and leave it what it is.
fn definition(spec: &ServerSpec) -> String {
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update(text.len().to_le_bytes());
        hash.update(text.as_bytes());
    };
    match &spec.target {
        Target::Child { command, args, cwd, .. } => {
            add("child");
            add(command);
            args.iter().for_each(|arg| add(arg));
            add(&cwd.as_ref().map(|cwd| cwd.to_string_lossy()).unwrap_or_default());
        }
        Target::Http { url, .. } => {
            add("http");
            add(url);
        }
        Target::Embedded(name) => {
            add("embedded");
            add(name);
        }
    }
    hex(&hash.finalize())
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

impl std::fmt::Debug for Pins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pins").field("mode", &self.mode).finish_non_exhaustive()
    }
}
