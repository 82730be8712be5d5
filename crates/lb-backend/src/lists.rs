//! The lists a server has told us, as ready bytes, until it says that they changed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lb_exchange::List;
use lb_wire::param::ToolParams;
use lb_wire::{Message, Raw};
use parking_lot::Mutex;

/// Pages kept per list; a server that hands out more is asked again.
const PAGES_MAX: usize = 256;

/// List results by method and cursor.
#[derive(Debug, Default)]
pub struct Lists(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    tools: Pages,
    prompts: Pages,
    resources: Pages,
    templates: Pages,
    params: Option<Arc<ToolParams>>,
}

#[derive(Debug, Default)]
struct Pages {
    /// Counts invalidations: an answer that was asked for before one is not kept.
    generation: u64,
    pages: HashMap<Vec<u8>, Page>,
}

#[derive(Debug)]
struct Page {
    result: Raw,
    until: Option<Instant>,
}

/// Where an answer that is on its way may be kept.
#[derive(Clone, Debug)]
pub struct Ticket {
    list: Which,
    key: Vec<u8>,
    generation: u64,
}

impl Ticket {
    /// The capability under which a server announces changes of this list.
    pub fn capability(&self) -> &'static str {
        match self.list {
            Which::Tools => "tools",
            Which::Prompts => "prompts",
            Which::Resources | Which::Templates => "resources",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl Which {
    fn of(method: &str) -> Option<Self> {
        match method {
            "tools/list" => Some(Self::Tools),
            "prompts/list" => Some(Self::Prompts),
            "resources/list" => Some(Self::Resources),
            "resources/templates/list" => Some(Self::Templates),
            _ => None,
        }
    }
}

/// What is known about a list request.
pub enum Lookup {
    /// Not a list request, or one with params that we do not know.
    NoList,
    /// The answer.
    Known(Raw),
    /// Ask the server, then [`Lists::keep`] its answer.
    Ask(Ticket),
}

impl Lists {
    /// Looks a list request up.
    pub fn look_up(&self, message: &Message, now: Instant) -> Lookup {
        let Some(list) = Which::of(message.method()) else { return Lookup::NoList };
        let key = key(message);
        let mut state = self.0.lock();
        let pages = state.pages(list);
        match pages.pages.get(&key) {
            Some(page) if page.until.is_none_or(|until| now < until) => Lookup::Known(page.result.clone()),
            _ => Lookup::Ask(Ticket { list, key, generation: pages.generation }),
        }
    }

    /// Keeps an answer, unless the list changed since it was asked for. `for_time` bounds how long; `None` is until the
    /// server says that it changed.
    pub fn keep(&self, ticket: Ticket, result: &Raw, for_time: Option<Duration>, now: Instant) {
        let mut state = self.0.lock();
        let pages = state.pages(ticket.list);
        if pages.generation == ticket.generation && pages.pages.len() < PAGES_MAX {
            pages.pages.insert(ticket.key, Page { result: result.detached(), until: for_time.map(|time| now + time) });
        }
    }

    /// A list changed: nothing that was known of it counts any more.
    pub fn invalidate(&self, list: List) {
        let mut state = self.0.lock();
        match list {
            List::Tools => {
                state.params = None;
                state.tools.clear();
            }
            List::Prompts => state.prompts.clear(),
            List::Resources => {
                state.resources.clear();
                state.templates.clear();
            }
        }
    }

    /// Everything may have changed, as after a reconnect.
    pub fn invalidate_all(&self) {
        for list in [List::Tools, List::Prompts, List::Resources] {
            self.invalidate(list);
        }
    }

    /// How often the answer to a request was invalidated; `None` for what is no list.
    pub fn generation(&self, method: &str) -> Option<u64> {
        Which::of(method).map(|list| self.0.lock().pages(list).generation)
    }

    /// Which tool arguments are mirrored in headers, if the list of tools has been read.
    pub fn params(&self) -> Option<Arc<ToolParams>> {
        self.0.lock().params.clone()
    }

    /// Remembers which tool arguments are mirrored in headers.
    pub fn set_params(&self, params: Arc<ToolParams>) {
        self.0.lock().params = Some(params);
    }
}

/// What an answer depends on: the cursor, and in the modern era what the client declares with this very request.
fn key(message: &Message) -> Vec<u8> {
    let mut key = message.member_bytes("cursor").unwrap_or_default().to_vec();
    if let Some(capabilities) = message.meta("io.modelcontextprotocol/clientCapabilities") {
        key.push(0);
        key.extend_from_slice(capabilities.as_bytes());
    }
    key
}

impl State {
    fn pages(&mut self, list: Which) -> &mut Pages {
        match list {
            Which::Tools => &mut self.tools,
            Which::Prompts => &mut self.prompts,
            Which::Resources => &mut self.resources,
            Which::Templates => &mut self.templates,
        }
    }
}

impl Pages {
    fn clear(&mut self) {
        self.generation += 1;
        self.pages.clear();
    }
}
